"""Does the harm of each alert for real, and sees the alert fire and stop; asks every query of every board for data.

    make alerts              (ARGS="--factor 20 --only StreamDedupLate StreamDedupStuck")

A development broker, a schema registry, three workers, the HTTP service with clients, and Prometheus (Debian's package
``prometheus``) that scrapes them every second. All ranges and delays of the alerts are divided by the factor in a copy
of the rules, so that an hour is a minute; on a machine that is too busy to answer a scrape within a second take a
smaller factor, which scrapes less often. A worker gets stuck at a step of its engine while a file is there; the disk
that gets full is a small one of its own.
``NOT_DONE`` names the alerts whose harm takes too long for it; deploy/prometheus/alerts_test.yml has their cases.

Prints a table: alert, seconds until it fired, seconds until it stopped. Ends with 1 if one did neither, if one fired
about another worker, or if a query of a board is empty while articles are judged, or 0 all the time in a whole run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from benchmarks.alert_stage import (
    COSTLY,
    FACTOR,
    FLOOD_PER_SECOND,
    LOOK_S,
    PER_SECOND,
    Stage,
    Worker,
    staged,
    wait_until,
    wait_while,
)
from boards.contents import BOARDS
from boards.grafana import Query
from stream_dedup.errors import UserError
from stream_dedup.extras import SERVE_PACKAGES, need_packages, not_installed

BURST = 30_000
"""Articles that wait: three times what StreamDedupLagGrows tells from a short delay, less what is in flight."""
LEFT_BYTES = 4 << 20
"""Free space on the disk of 64 MiB when it is nearly full."""
CRASHES = 4

NOT_DONE = {
    "StreamDedupLogLag": "half a million articles would have to enter the log faster than a worker applies them",
    "StreamDedupIndexFull": "an index of 3.7 billion articles",
}
ALWAYS_0 = {
    "stream_dedup_index_cache_bytes": "the index is smaller than RocksDB's write buffers",
    "stream_dedup_serve_log_lag": "the service applies what a second brings before it is scraped again",
    "stream_dedup_clusters_unpublished": "fewer clusters change within a second than one transaction publishes",
}
"""Queries that may stay 0, by what they contain."""


@dataclass(frozen=True, slots=True)
class Harm:
    """What makes some alerts fire, and what stops them.

    Each alert is about one worker, or the service (its name), or about all of them ('').
    """

    alerts: Mapping[str, str]
    do: Callable[[Stage], None]
    heal: Callable[[Stage], None]


def _each(stage: Stage, act: Callable[[Worker], None]) -> None:
    for worker in stage.workers.values():
        act(worker)


def _stop_consuming(stage: Stage) -> None:
    _each(stage, lambda worker: worker.stuck.touch())
    stage.feeder.burst(BURST)


def _lose_registry(stage: Stage) -> None:
    """A schema that no worker has read is needed, and the registry does not answer."""
    stage.feeder.renew_schema(f"written at {time.time()}")
    stage.registry.freeze()


def _reject(stage: Stage) -> None:
    """Do as the runbook says."""
    config = stage.workers["a"].config
    command = [sys.executable, "-m", "stream_dedup", "reject", "--config", str(config), *stage.unknown]
    subprocess.run(command, check=True)
    stage.unknown.clear()


def _lose_broker(stage: Stage) -> None:
    stage.broker.kill()


def _give_broker_back(stage: Stage) -> None:
    stage.broker.restart()
    _each(stage, Worker.start)


def _crash(stage: Stage) -> None:
    """Kill a worker as soon as it answers, again and again, each time until Prometheus has seen it."""
    worker = stage.workers["a"]
    mine = f'up{{instance="{worker.instance}"}}'
    for _ in range(CRASHES):
        wait_until(lambda: stage.prometheus.total(mine) == 1, "the worker answers")
        worker.kill()
        wait_until(lambda: stage.prometheus.total(mine) == 0, "the worker does not answer")
        worker.start()


def _harm_articles(stage: Stage) -> None:
    stage.feeder.broken_each, stage.feeder.age_s = 2, 3600
    stage.feeder.send_panic()
    stage.disk.fill(LEFT_BYTES)
    stage.workers["c"].restart("0.0.0")


def _heal_articles(stage: Stage) -> None:
    stage.feeder.broken_each, stage.feeder.age_s = 50, 0
    stage.disk.free()
    stage.workers["c"].restart()


def _flood(stage: Stage) -> None:
    stage.feeder.is_flood, stage.feeder.per_second = True, FLOOD_PER_SECOND


def _end_flood(stage: Stage) -> None:
    stage.feeder.is_flood, stage.feeder.per_second = False, PER_SECOND


SERVICE = "service"

HARMS = (
    # A worker that commits nothing also holds back the trims of the log.
    Harm(
        {"StreamDedupWorkerStuck": "c", "StreamDedupLogGrows": ""},
        lambda stage: stage.workers["c"].stuck.touch(),
        lambda stage: stage.workers["c"].stuck.unlink(),
    ),
    Harm(
        {"StreamDedupStuck": "", "StreamDedupLagGrows": ""},
        _stop_consuming,
        lambda stage: _each(stage, lambda worker: worker.stuck.unlink()),
    ),
    Harm(
        {"StreamDedupWorkerDown": "b"},
        lambda stage: stage.workers["b"].kill(),
        lambda stage: stage.workers["b"].start(),
    ),
    Harm(
        {"StreamDedupNoWorker": ""},
        lambda stage: _each(stage, Worker.kill),
        lambda stage: _each(stage, Worker.start),
    ),
    Harm({"StreamDedupNotReady": "", "StreamDedupServeBehind": SERVICE}, _lose_broker, _give_broker_back),
    Harm(
        {"StreamDedupServeDown": ""},
        lambda stage: stage.service.kill(),
        lambda stage: stage.service.start(),
    ),
    Harm({"StreamDedupRegistryAway": ""}, _lose_registry, lambda stage: stage.registry.thaw()),
    Harm({"StreamDedupUnknownSchema": ""}, lambda stage: stage.unknown.append(stage.feeder.send_unknown()), _reject),
    # Two large requests do not fit the queue; one of them takes long.
    Harm(
        {"StreamDedupServeRefuses": ""},
        lambda stage: stage.clients.load(4, ""),
        lambda stage: stage.clients.relax(),
    ),
    Harm(
        {"StreamDedupServeSlow": ""},
        lambda stage: stage.clients.load(1, COSTLY),
        lambda stage: stage.clients.relax(),
    ),
    Harm(
        {"StreamDedupClustersBehind": SERVICE},
        lambda stage: stage.service.damage_clusters(),
        lambda stage: stage.service.make_clusters_again(),
    ),
    Harm(
        {"StreamDedupTransactionsFail": ""},
        lambda stage: _each(stage, lambda worker: worker.slow.touch()),
        lambda stage: _each(stage, lambda worker: worker.slow.unlink()),
    ),
    Harm({"StreamDedupCandidates": ""}, _flood, _end_flood),
    Harm({"StreamDedupCrashLoop": "a"}, _crash, lambda stage: None),  # noqa: ARG005 - it ends by itself
    # These have nothing to do with each other, and are seen together.
    Harm(
        {
            "StreamDedupRejects": "",
            "StreamDedupLate": "",
            "StreamDedupPanics": "",
            "StreamDedupDiskFull": "b",
            "StreamDedupVersionsDiffer": "",
        },
        _harm_articles,
        _heal_articles,
    ),
)


HARMED = tuple(alert for harm in HARMS for alert in harm.alerts)


def see(stage: Stage, harm: Harm) -> bool:
    """Do a harm; wait until its alerts fire; end it; wait until they stop; return whether they did."""
    wait_while(lambda: [f"before the harm {trouble}" for trouble in stage.troubles(harm.alerts)])
    fired = _times(stage, harm, harm.do, firing=True)
    stopped = _times(stage, harm, harm.heal, firing=False)
    for alert in harm.alerts:
        print(f"{alert:32} {_shown(fired.get(alert)):>12} {_shown(stopped.get(alert)):>12}", flush=True)
    return fired.keys() == stopped.keys() == harm.alerts.keys()


def _times(stage: Stage, harm: Harm, act: Callable[[Stage], None], *, firing: bool) -> dict[str, float]:
    """Act; return after how many seconds each alert fired, or stopped."""
    began = time.monotonic()
    act(stage)
    seen: dict[str, float] = {}
    while len(seen) < len(harm.alerts) and time.monotonic() - began < stage.limit_s:
        now = stage.prometheus.firing()
        for alert, name in harm.alerts.items():
            about = {stage.instance_of(name)} if name else now.get(alert, set())
            if (now.get(alert) == about) if firing else alert not in now:
                seen.setdefault(alert, time.monotonic() - began)
        time.sleep(LOOK_S)
    return seen


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def _asked(query: Query) -> str:
    """Return what Grafana would send of a query."""
    return query.expr.replace("$__rate_interval", "20s").replace("$instance", ".*")


QUERIES = tuple(_asked(query) for board in BOARDS for panel in board.panels for query in panel.queries)


def empty_queries(stage: Stage) -> list[str]:
    """Return the queries that have no data or no number, once all kinds of verdicts are there."""
    verdicts = 'count(stream_dedup_articles_total{verdict!="unique"} > 5)'
    wait_until(lambda: stage.prometheus.total(verdicts) > 1, "duplicates and rejected articles are there")
    time.sleep(20)  # the range of a rate
    return [expr for expr in QUERIES if all(one["value"][1] == "NaN" for one in stage.prometheus.query(expr))]


def unmoved_queries(stage: Stage) -> list[str]:
    """Return the queries that were 0 all the time, without those that may be."""
    asked = [expr for expr in QUERIES if not any(known in expr for known in ALWAYS_0)]
    return [expr for expr in asked if not _moved(stage, expr)]


def _moved(stage: Stage, expr: str) -> bool:
    history = stage.prometheus.history(expr, stage.began)
    return any(float(value) > 0 for one in history for _, value in one["values"])


def run(stage: Stage, only: Collection[str]) -> bool:
    """Ask the boards' queries and do the harms, all of them or those of some alerts; return whether all was right."""
    empty = empty_queries(stage)
    print(f"{len(QUERIES)} queries of the boards, {len(empty)} of them empty", *empty, sep="\n")
    print(f"{'alert':32} {'fired after':>12} {'stopped after':>12}", flush=True)
    seen = [see(stage, harm) for harm in HARMS if not only or harm.alerts.keys() & set(only)]
    if only:  # most of the others need another harm to move
        return all(seen) and not empty
    unmoved = unmoved_queries(stage)
    print(f"{len(unmoved)} queries of the boards were 0 all the time", *unmoved, sep="\n")
    return all(seen) and not empty and not unmoved


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--factor", type=float, default=FACTOR, help="what ranges and delays are divided by")
    parser.add_argument("--only", default=(), nargs="+", choices=HARMED, metavar="ALERT", help="only their harm")
    options = parser.parse_args()
    need_packages("benchmarks.alerts", "serve", *SERVE_PACKAGES)
    need_packages("benchmarks.alerts", "registry", "fastavro")
    if shutil.which("prometheus") is None:
        raise UserError(not_installed("benchmarks.alerts", ["prometheus"], "apt install prometheus"))
    with staged(options.factor) as stage:
        return 0 if run(stage, options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
