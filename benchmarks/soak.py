"""Kills of workers and of brokers at random, on a cluster of three nodes with real text, for as long as is asked for.

    make soak ARGS="--minutes 30 --write"

STREAM_DEDUP_DATA names a folder with real text (``tests/worker/mixture.py`` reads it); without it the texts are made.
Three workers judge a stream while one of them is killed every few seconds and one of the nodes every minute and a half:
200 workers and 20 nodes in 30 minutes. Every moment and every victim is drawn from the seed; the kills of workers go on
while a node is away. A node that was killed comes back after the stream has got on without it, and must be in sync
before the next is killed: what comes too late for that is done as soon as it can be.

At the end every article must have exactly one output, and ``stream-dedup audit`` no fault. The report says what was
done, what was audited, the longest pause and the memory; with ``--write`` it replaces that of the client in
benchmarks/reliability.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.pipeline import CLIENTS
from stream_dedup.audit.report import FAULT_KINDS, AuditReport
from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.dev.broker import BrokerSettings, DevCluster, find_broker
from stream_dedup.dev.broker.base import KAFKA_VERSION
from stream_dedup.kafka.clients import kafka_audit_ports
from tests.worker.drill import WORKERS, Drill, drill
from tests.worker.mixture import records

T = TypeVar("T")

REPORT = Path(__file__).with_name("reliability.md")
WORKER_KILLS_PER_MINUTE = 200 / 30
NODE_KILLS_PER_MINUTE = 20 / 30
NODES = 3
ARTICLES = 20_000
"""Different articles of the stream; after them it begins again, and what follows are duplicates."""
RECOMPUTED = 20_000
"""Verdicts that the audit recomputes at most: each is compared with every article before it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run was, and what came of it."""

    took_min: float
    seed: int
    per_second: float
    client: str
    done: Drill
    audit: AuditReport

    @property
    def clean(self) -> bool:
        """Whether every article left once and the audit found nothing."""
        return not self.audit.faults and self.audit.outputs == self.done.feeder.acknowledged


def run(minutes: float, seed: int, per_second: float, client: str) -> Outcome:
    stream = records(ARTICLES, seed)
    settings = BrokerSettings(nodes=NODES)
    with find_broker(settings, own=True) as cluster, tempfile.TemporaryDirectory() as folder:
        assert isinstance(cluster, DevCluster)
        with drill(cluster, Path(folder), f"soak-{seed}", stream, per_second, client) as under_load:
            began = time.monotonic()
            _kill_at_random(under_load, random.Random(seed), minutes)
            took_min = (time.monotonic() - began) / 60
            under_load.finish()
            return Outcome(took_min, seed, per_second, client, under_load, _audit(under_load, seed))


def _kill_at_random(under_load: Drill, rng: random.Random, minutes: float) -> None:
    """Draw the moments and the victims, those of workers first; kill both kinds side by side."""
    began = time.monotonic()
    of_workers = _draw(rng, WORKERS, round(minutes * WORKER_KILLS_PER_MINUTE), minutes)
    of_nodes = _draw(rng, range(1, NODES + 1), round(minutes * NODE_KILLS_PER_MINUTE), minutes)
    ended = threading.Event()

    def kill_each(kills: list[tuple[float, T]], kill: Callable[[T], None]) -> None:
        try:
            for moment_s, victim in kills:
                if ended.wait(max(0.0, began + moment_s - time.monotonic())):
                    return
                kill(victim)
                _say(under_load)
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(2) as threads:
        both = [
            threads.submit(kill_each, of_workers, under_load.kill_worker),
            threads.submit(kill_each, of_nodes, under_load.kill_node),
        ]
    for one in both:
        one.result()


def _draw(rng: random.Random, victims: Sequence[T], kills: int, minutes: float) -> list[tuple[float, T]]:
    """Draw so many victims, and the moment of each in seconds, in order."""
    moments = sorted(rng.uniform(0, minutes * 60) for _ in range(kills))
    return [(moment, rng.choice(victims)) for moment in moments]


def _say(under_load: Drill) -> None:
    watch = under_load.watch
    print(
        f"{under_load.worker_kills} workers and {under_load.node_kills} nodes killed; {watch.committed} of "
        f"{under_load.feeder.acknowledged} articles judged; longest pause {watch.longest_s:.1f} s "
        f"({watch.longest_during}); {under_load.peak_mib} MiB",
        file=sys.stderr,
        flush=True,
    )


def _audit(under_load: Drill, seed: int) -> AuditReport:
    acknowledged = under_load.feeder.acknowledged
    sample = RECOMPUTED if acknowledged > RECOMPUTED else None
    print(f"auditing {acknowledged} articles", file=sys.stderr, flush=True)
    config = under_load.made.config()
    with kafka_audit_ports(config) as ports:
        return run_audit(config, AuditOptions(sample=sample, seed=seed), ports, lambda *_: None)


def table_of(outcome: Outcome) -> str:
    """Return the report, in Markdown."""
    done, audit, pause = outcome.done, outcome.audit, outcome.done.watch
    kills = f"{done.worker_kills} kills of workers, {done.node_kills} of nodes"
    faults = ", ".join(f"{kind} {audit.found[kind]}" for kind in FAULT_KINDS if audit.found[kind]) or "none"
    rows = [
        ("date", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"),
        ("cluster", f"Apache Kafka {KAFKA_VERSION}"),
        ("length", f"{outcome.took_min:.0f} minutes, seed {outcome.seed}, {outcome.per_second:g} articles a second"),
        ("done", kills),
        ("articles", f"{done.feeder.acknowledged} acknowledged by two nodes, {audit.outputs} outputs"),
        ("audit", f"{audit.recomputed} verdicts recomputed; faults: {faults}"),
        ("longest pause", f"{pause.longest_s:.1f} s without a commit though articles waited ({pause.longest_during})"),
        ("memory", f"{done.peak_mib} MiB, the most that a worker had resident"),
        ("result", "clean" if outcome.clean else "NOT CLEAN"),
    ]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows), ""])


def write(client: str, table: str) -> None:
    """Replace the report of a client on the page."""
    head, *sections = REPORT.read_text("utf-8").split("\n## ")
    tables = {name: text for name, _, text in (section.partition("\n\n") for section in sections)} | {client: table}
    parts = [head, *(f"## {name}\n\n{text}" for name, text in sorted(tables.items(), reverse=True))]
    REPORT.write_text("\n".join(parts), "utf-8")


def main() -> int:
    """Run, print the report, and return 0 if it is clean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-second", type=float, default=40, help="articles produced in a second")
    parser.add_argument("--client", choices=CLIENTS, default=CLIENTS[0], help="of the workers")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    given = parser.parse_args()
    outcome = run(given.minutes, given.seed, given.per_second, given.client)
    table = table_of(outcome)
    print(table)
    for kind, examples in outcome.audit.examples.items():
        print(kind, *examples, sep="\n  ", file=sys.stderr)
    if given.write:
        write(given.client, table)
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main())
