"""What the metrics cost a worker: with and without them in turns, and the time that is spent in their calls.

    python -m benchmarks.metrics_cost [--articles N] [--turns T]

One broker, one topic that was filled beforehand; each run is a new worker of a new group with an empty index, which
fingerprints in one process of a pool. What is measured is the processor time of the worker itself, without the pool,
which spends none on metrics: the share of the metrics is the highest there. The time of the wall is the machine's as
much as the worker's. Both begin with the first poll that has articles, and end with the last commit. What else runs on
the machine only adds to them, so the least of several runs says most.

* **with**: as ``stream-dedup run``, scraped every ``SCRAPE_S``.
* **without**: each metric does nothing, and no gauge is read.
* **calls**: a run that adds up the processor time of every call of a metric and of what gauges are read from. That
  figure is steady where the difference of two runs is lost in the noise of the machine.

Ends with 1 if the calls take more than 1 % of the worker's processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from kafka import TopicPartition
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.pipeline import LOOK_S, PARTITIONS, PATIENCE_S, Bench
from benchmarks.texts import articles, as_json, described
from stream_dedup.broker.client import make_consumer
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.index import LogIndex
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.worker import app, engine, worker
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.steps import Step, TrimStep

SCRAPE_S = 5.0
"""A third of what is usual."""
USUAL_SCRAPE_S = 15.0
SCRAPES = 50
MOST_SHOWN = 6
LIMIT = 0.01
WITH, WITHOUT, CALLS = "with", "without", "calls"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one run."""

    processor_s: float
    wall_s: float
    calls_s: dict[str, float]
    """By what was called."""
    calls: int


class _Nothing:
    """Metrics that do nothing, whatever is asked of them."""

    def __getattr__(self, name: str) -> _Nothing:
        return self

    def __call__(self, *_arguments: object) -> _Nothing:
        return self

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""


class _Timed:
    """Passes every call on, and notes its processor time."""

    def __init__(self, name: str, inner: Any) -> None:  # noqa: ANN401 - a metric, or a method of one
        self._name, self._inner = name, inner

    def __getattr__(self, name: str) -> _Timed:
        return _Timed(self._name or name, getattr(self._inner, name))

    def __call__(self, *arguments: object) -> _Timed:
        return _Timed(self._name, _timed(self._name, self._inner, *arguments))

    def __enter__(self) -> None:
        _timed(self._name, self._inner.__enter__)

    def __exit__(self, *error: object) -> None:
        _timed(self._name, self._inner.__exit__, *error)


_spent: list[tuple[str, float]] = []
"""Calls: what was called, and its processor time. Threads append to it."""


def _timed(name: str, call: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - whatever it returns
    """Call, and note the processor time of this thread."""
    began = time.thread_time()
    try:
        return call(*arguments)
    finally:
        _spent.append((name, time.thread_time() - began))


def _timed_method(owner: type[object], name: str) -> None:
    method = getattr(owner, name)
    setattr(owner, name, lambda self: _timed(f"{owner.__name__}.{name}", method, self))


def _set_up(kind: str) -> None:
    """Give the workers of this process the metrics of a kind of run."""
    if kind == WITHOUT:
        vars(app)["Metrics"] = lambda _registry: _Nothing()
        engine.INDEX_GAUGES_S = worker.WORKER_GAUGES_S = float("inf")
    elif kind == CALLS:
        vars(app)["Metrics"] = lambda registry: _Timed("", Metrics(registry))
        _timed_method(LogIndex, "stats")
        _timed_method(BatchSource, "lag")


def run_child(config: str, kind: str) -> int:
    """Run a worker until it is stopped; print what it cost."""
    _set_up(kind)
    marks: dict[Step | TrimStep, tuple[float, float, int]] = {}

    def on_step(step: Step | TrimStep) -> None:
        if step is Step.COMMITTED or (step is Step.POLLED and step not in marks):
            marks[step] = (time.process_time(), time.monotonic(), len(_spent))

    code = app.run_worker(load_config(None, json.loads(config), {}), on_step)
    (cpu, wall, first), (cpu_end, wall_end, end) = marks[Step.POLLED], marks[Step.COMMITTED]
    spent: dict[str, float] = {}
    for name, seconds in _spent[first:end]:
        spent[name] = spent.get(name, 0.0) + seconds
    print(json.dumps(asdict(Cost(cpu_end - cpu, wall_end - wall, spent, end - first))))
    return code


def measure(bench: Bench, folder: Path, kind: str, turn: int, expected: int) -> Cost:
    """Run a worker of a group of its own through all articles."""
    group = f"{bench.config.kafka.group}-{kind}-{turn}"
    address = f"127.0.0.1:{_free_port()}" if kind == WITH else "off"
    config = {
        "kafka": {"brokers": bench.config.kafka.brokers, "group": group},
        "topics": bench.config.topics.model_dump(),
        "match": {"profile": DEFAULT_PROFILE},
        "index": {"path": str(folder / group)},
        "worker": {"processes": 1},
        "metrics": {"address": address},
    }
    command = [sys.executable, "-m", "benchmarks.metrics_cost", "--child", json.dumps(config), kind]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    _wait(bench, group, child, expected, address)
    child.send_signal(signal.SIGTERM)
    said, _ = child.communicate(timeout=60)
    return Cost(**json.loads(said))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(bench: Bench, group: str, child: subprocess.Popen[bytes], expected: int, address: str) -> None:
    """Wait until a group has committed every article; scrape its worker meanwhile."""
    consumer = make_consumer(bench.config.kafka, group_id=group)
    partitions = [TopicPartition(bench.source, number) for number in range(PARTITIONS)]
    deadline, scrape_at = time.monotonic() + PATIENCE_S, 0.0
    while sum(consumer.committed(at) or 0 for at in partitions) < expected:
        if time.monotonic() > deadline or child.poll() is not None:
            sys.exit(f"{group}: not done within {PATIENCE_S:g} s")
        if address != "off" and time.monotonic() > scrape_at:
            scrape_at = time.monotonic() + SCRAPE_S
            with suppress(OSError), urlopen(f"http://{address}/metrics", timeout=5) as page:
                page.read()
        time.sleep(LOOK_S)
    consumer.close()


def scrape_s() -> float:
    """Return the processor time of making one page."""
    metrics = Metrics(CollectorRegistry())
    metrics.watch_process()
    began = time.process_time()
    for _ in range(SCRAPES):
        generate_latest(metrics.registry)
    return (time.process_time() - began) / SCRAPES


def _report(costs: dict[str, list[Cost]], number: int) -> float:
    """Print the figures; return the part of the processor time that calls of metrics take."""
    print("\n| | µs of processor time an article | articles/s |\n| --- | ---: | ---: |")
    for kind in (WITH, WITHOUT):
        processor = median(cost.processor_s for cost in costs[kind])
        wall = median(cost.wall_s for cost in costs[kind])
        print(f"| {kind} metrics | {processor / number * 1e6:.1f} | {number / wall:,.0f} |")
    pairs = list(zip(costs[WITH], costs[WITHOUT], strict=True))
    for what, name in (("processor time", "processor_s"), ("time", "wall_s")):
        ratios = sorted(getattr(one, name) / getattr(other, name) - 1 for one, other in pairs)
        least = min(getattr(one, name) for one, _ in pairs) / min(getattr(other, name) for _, other in pairs) - 1
        print(
            f"\n{what}, with to without: {least:+.2%} of the least of each; in turns "
            f"median {median(ratios):+.2%}, from {ratios[0]:+.2%} to {ratios[-1]:+.2%}"
        )
    calls, page = costs[CALLS][0], scrape_s()
    in_calls = sum(calls.calls_s.values())
    share = in_calls / calls.processor_s
    print(
        f"\n{calls.calls:,} calls of metrics in a run: {in_calls * 1000:.1f} ms of {calls.processor_s:.2f} s, "
        f"{share:.2%} of the processor time; a page takes {page * 1000:.1f} ms: {page / USUAL_SCRAPE_S:.3%} of a core "
        f"where it is asked for every {USUAL_SCRAPE_S:g} s"
    )
    most = sorted(calls.calls_s, key=lambda name: -calls.calls_s[name])[:MOST_SHOWN]
    print("of them " + ", ".join(f"{name} {calls.calls_s[name] / in_calls:.0%}" for name in most))
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=20_000, help="articles of one run")
    parser.add_argument("--turns", type=int, default=6, help="runs with and runs without metrics")
    parser.add_argument("--child", nargs=2, metavar=("CONFIG", "KIND"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return run_child(*given.child)
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    print(f"{len(values):,} {described()}, {given.turns} turns, {os.cpu_count()} cores")
    costs: dict[str, list[Cost]] = {WITH: [], WITHOUT: [], CALLS: []}
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        bench, folder = Bench(broker.bootstrap, "metrics", DEFAULT_PROFILE), Path(temporary)
        bench.feed(values)
        for kind in (CALLS, *(kind for turn in range(given.turns) for kind in _order(turn))):
            cost = measure(bench, folder, kind, len(costs[kind]), len(values))
            costs[kind].append(cost)
            print(f"{kind:8} {cost.processor_s:.2f} s of processor time, {cost.wall_s:.2f} s", flush=True)
    return 0 if _report(costs, len(values)) <= LIMIT else 1


def _order(turn: int) -> tuple[str, str]:
    """Return the two runs of a turn: each comes first in half of the turns."""
    return (WITH, WITHOUT) if turn % 2 else (WITHOUT, WITH)


if __name__ == "__main__":
    sys.exit(main())
