"""Does the harm of each alert for real, and sees the alert fire and stop; asks every query of every board for data.

    make alerts              (ARGS="--factor 60")

A development broker, three workers, and Prometheus (Debian's package ``prometheus``) that scrapes them every second.
All ranges and waiting times of the alerts are divided by the factor in a copy of the rules, so that an hour is a
minute. A worker gets stuck at a step of its engine while a file is there; the disk that gets full is a small one of its
own. Alerts that need hours or billions of articles have their cases in deploy/prometheus/alerts_test.yml alone.

Prints a table: alert, seconds until it fired, seconds until it stopped. Ends with 1 if one did neither, or if a query
is empty.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from kafka import KafkaProducer

from boards.contents import BOARDS
from stream_dedup.dev.broker import BrokerSettings, find_broker
from tests.small_disk import SmallDisk, small_disk

RULES = Path(__file__).parents[1] / "deploy" / "alerts.yml"
GROUP = "alerts"
WORKERS = ("a", "b", "c")
LIMIT_S = 240.0
"""Longest wait for an alert to fire or to stop."""
LOOK_S = 0.5
PER_SECOND = 20
DISK_MIB = 64
LEFT_BYTES = 4 << 20
_UNITS = {"s": 1, "m": 60, "h": 3600}

CODE = """
import sys, time
from pathlib import Path
import stream_dedup
from stream_dedup.config.load import load_config
from stream_dedup.worker.app import run_worker
from stream_dedup.worker.steps import Step
config, stuck, version = sys.argv[1:]
stream_dedup.__version__ = version or stream_dedup.__version__
def on_step(step):
    while step is Step.JUDGED and Path(stuck).exists():
        time.sleep(0.2)
sys.exit(run_worker(load_config(Path(config), {}, {}), on_step))
"""
"""A worker that waits at a step while a file is there, and may say that it is of another version."""


def quickened(rules: str, factor: float) -> str:
    """Return the rules with every range and every waiting time divided by a factor."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, round(int(found[2]) * _UNITS[found[3]] / factor))}s{found[4]}"

    rules = re.sub(r"(\[)(\d+)([smh])(\])", shorter, rules)
    return re.sub(r"(for: )(\d+)([smh])($)", shorter, rules, flags=re.MULTILINE)


@dataclass(slots=True)
class Worker:
    """A worker that is killed and started again with the same index and address."""

    folder: Path
    port: int
    config: Path
    version: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def stuck(self) -> Path:
        """While this file is there the worker waits."""
        return self.folder / "stuck"

    def start(self) -> None:
        command = [sys.executable, "-c", CODE, str(self.config), str(self.stuck), self.version]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Feeder:
    """Sends articles all the time, each text twice; some cannot be read."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._ending = threading.Event()
        self.broken_each = 50
        self.age_s = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(1 / PER_SECOND):
            number += 1
            text = " ".join(f"word{number // 2 * 7919 % (90 + at)} {at}" for at in range(40))
            value = b"{" if number % self.broken_each == 0 else json.dumps({"id": str(number), "text": text}).encode()
            at_ms = int((time.time() - self.age_s) * 1000)
            self._producer.send(f"{GROUP}-in", value, partition=number % 6, timestamp_ms=at_ms)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._producer.close()


@dataclass(slots=True)
class Prometheus:
    """Prometheus' HTTP interface."""

    port: int

    def query(self, expr: str) -> list[dict[str, Any]]:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?query={quote(expr)}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def firing(self) -> set[str]:
        return {one["metric"]["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}


@dataclass(slots=True)
class Stage:
    """Everything that runs."""

    workers: dict[str, Worker]
    feeder: Feeder
    prometheus: Prometheus
    disk: SmallDisk
    rows: list[tuple[str, float | None, float | None]] = field(default_factory=list)

    def see(self, alerts: Sequence[str], harm: Callable[[], None], remedy: Callable[[], None]) -> None:
        """Do a harm; wait until these alerts fire; end it; wait until they stop."""
        fired = self._wait(alerts, harm, firing=True)
        stopped = self._wait(alerts, remedy, firing=False)
        for alert in alerts:
            self.rows.append((alert, fired.get(alert), stopped.get(alert)))
            print(f"{alert:32} {_shown(fired.get(alert)):>12} {_shown(stopped.get(alert)):>12}", flush=True)

    def _wait(self, alerts: Sequence[str], act: Callable[[], None], *, firing: bool) -> dict[str, float]:
        began = time.monotonic()
        act()
        seen: dict[str, float] = {}
        while len(seen) < len(alerts) and time.monotonic() - began < LIMIT_S:
            now = self.prometheus.firing()
            for alert in alerts:
                if (alert in now) is firing:
                    seen.setdefault(alert, time.monotonic() - began)
            time.sleep(LOOK_S)
        return seen


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _worker(folder: Path, index: Path, bootstrap: str) -> Worker:
    folder.mkdir(exist_ok=True)
    worker = Worker(folder, _free_port(), folder / "worker.toml")
    worker.config.write_text(
        f'[kafka]\nbrokers = "{bootstrap}"\ngroup = "{GROUP}"\n'
        f'[topics]\ninput = ["{GROUP}-in"]\nunique = "{GROUP}-u"\nduplicate = "{GROUP}-d"\nrejected = "{GROUP}-r"\n'
        f'partitions = 6\n[index]\npath = "{index}"\n[worker]\nprocesses = 1\n'
        f'[metrics]\naddress = "127.0.0.1:{worker.port}"\n',
        "utf-8",
    )
    return worker


@contextmanager
def _prometheus(folder: Path, ports: Sequence[int], factor: float) -> Iterator[Prometheus]:
    (folder / "rules.yml").write_text(quickened(RULES.read_text("utf-8"), factor), "utf-8")
    targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: stream-dedup, static_configs: [{{targets: [{targets}]}}]}}]\n",
        "utf-8",
    )
    served = Prometheus(_free_port())
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as out:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{served.port}"], stdout=out, stderr=out)
    try:
        yield served
    finally:
        process.terminate()
        process.wait()


@contextmanager
def staged(factor: float) -> Iterator[Stage]:
    """Start everything, and wait until articles are judged."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-dedup-alerts-")))
        (folder / "disk").mkdir()
        disk = stack.enter_context(small_disk(folder / "disk", DISK_MIB))
        bootstrap = stack.enter_context(find_broker(BrokerSettings(), own=True)).bootstrap
        workers = {}
        for name in WORKERS:
            index = disk.folder / "index" if name == "b" else folder / name / "index"
            workers[name] = _worker(folder / name, index, bootstrap)
            stack.callback(workers[name].kill)
            workers[name].start()
        (folder / "prometheus").mkdir()
        ports = [worker.port for worker in workers.values()]
        prometheus = stack.enter_context(_prometheus(folder / "prometheus", ports, factor))
        _wait_until(lambda: _count(prometheus, "sum(stream_dedup_up_to_date)") == len(WORKERS), "workers are ready")
        feeder = Feeder(bootstrap)
        stack.callback(feeder.close)
        yield Stage(workers, feeder, prometheus, disk)


def _count(prometheus: Prometheus, expr: str) -> float:
    try:
        return sum(float(one["value"][1]) for one in prometheus.query(expr))
    except OSError:
        return 0.0


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"not within {LIMIT_S:g} s: {what}")
        time.sleep(LOOK_S)


def _empty_queries(stage: Stage) -> list[str]:
    """Return the queries of the boards that have no data or no number, once all kinds of verdicts are there."""
    verdicts = 'count(stream_dedup_articles_total{verdict!="unique"} > 5)'
    _wait_until(lambda: _count(stage.prometheus, verdicts) > 1, "duplicates and rejected articles are there")
    time.sleep(20)  # the range of a rate
    asked = [query.expr for board in BOARDS for panel in board.panels for query in panel.queries]
    print(f"{len(asked)} queries of the boards")
    return [expr for expr in asked if not _has_data(stage.prometheus, expr)]


def _has_data(prometheus: Prometheus, expr: str) -> bool:
    found = prometheus.query(expr.replace("$__rate_interval", "20s").replace("$instance", ".*"))
    return any(one["value"][1] != "NaN" for one in found)


def run(stage: Stage) -> None:
    """Do every harm. Alerts that have nothing in common are seen together."""
    a, b, c = (stage.workers[name] for name in WORKERS)
    print(f"{'alert':32} {'fired after':>12} {'stopped after':>12}")

    def harm_articles() -> None:
        stage.feeder.broken_each, stage.feeder.age_s = 2, 3600
        stage.disk.fill(LEFT_BYTES)
        _restart(c, "0.0.0")

    def heal_articles() -> None:
        stage.feeder.broken_each, stage.feeder.age_s = 50, 0
        stage.disk.free()
        _restart(c, "")

    together = ("StreamDedupRejects", "StreamDedupLate", "StreamDedupDiskFull", "StreamDedupVersionsDiffer")
    stage.see(["StreamDedupWorkerStuck"], b.stuck.touch, b.stuck.unlink)
    stage.see(["StreamDedupStuck"], lambda: _each(stage, Path.touch), lambda: _each(stage, Path.unlink))
    stage.see(["StreamDedupWorkerDown"], b.kill, b.start)
    stage.see(["StreamDedupNoWorker"], lambda: _all(stage, Worker.kill), lambda: _all(stage, Worker.start))
    stage.see(["StreamDedupCrashLoop"], lambda: _crash(stage, a), lambda: None)
    stage.see(together, harm_articles, heal_articles)


def _each(stage: Stage, act: Callable[[Path], None]) -> None:
    _all(stage, lambda worker: act(worker.stuck))


def _all(stage: Stage, act: Callable[[Worker], None]) -> None:
    for worker in stage.workers.values():
        act(worker)


def _restart(worker: Worker, version: str) -> None:
    worker.kill()
    worker.version = version
    worker.start()


def _crash(stage: Stage, worker: Worker) -> None:
    """Kill a worker as soon as it answers, four times."""
    mine = f'up{{instance="127.0.0.1:{worker.port}"}}'
    for _ in range(4):
        _wait_until(lambda: _count(stage.prometheus, mine) == 1, "the worker answers")
        _restart(worker, "")
        _wait_until(lambda: _count(stage.prometheus, mine) == 0, "the worker does not answer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--factor", type=float, default=60.0, help="what ranges and waiting times are divided by")
    with staged(parser.parse_args().factor) as stage:
        empty = _empty_queries(stage)
        print(*(f"empty: {expr}" for expr in empty), sep="\n")
        run(stage)
        missed = [row for row in stage.rows if None in row]
    return 1 if empty or missed else 0


if __name__ == "__main__":
    sys.exit(main())
