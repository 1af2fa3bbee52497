"""What the metrics cost a worker: the processor time of every call of a metric, and of what gauges are read from.

    python -m benchmarks.metrics_cost [--articles N]

One broker, one topic that was filled beforehand, one worker with an empty index, which fingerprints in one thread. The
processor time beside it is that of the worker, from its first poll to its last commit.

Ends with 1 if the calls take more than 1 % of the worker's processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.pipeline import Bench
from benchmarks.texts import articles, as_json, described
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.index import LogIndex
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.worker import Step, app
from stream_dedup.worker.source import BatchSource

USUAL_SCRAPE_S = 15.0
SCRAPES = 50
MOST_SHOWN = 6
LIMIT = 0.01


class Cost(NamedTuple):
    """Of one run: seconds of processor time of the worker, and by what was called; the number of calls."""

    processor_s: float
    calls_s: dict[str, float]
    calls: int


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


def run_child(config: str) -> int:
    """Run a worker until it is stopped; print what it cost."""
    vars(app)["Metrics"] = lambda registry: _Timed("", Metrics(registry))
    _timed_method(LogIndex, "stats")
    _timed_method(BatchSource, "lag")
    marks: list[tuple[float, int]] = []

    def on_step(step: Step) -> None:
        if step is Step.COMMITTED or (step is Step.POLLED and not marks):
            marks.append((time.process_time(), len(_spent)))

    code = app.run_worker(load_config(None, json.loads(config), {}), on_step)
    (began_s, first), (ended_s, last) = marks[0], marks[-1]
    calls_s: dict[str, float] = {}
    for name, seconds in _spent[first:last]:
        calls_s[name] = calls_s.get(name, 0.0) + seconds
    print(json.dumps(Cost(ended_s - began_s, calls_s, last - first)))
    return code


def measure(bench: Bench, folder: Path, expected: int) -> Cost:
    """Run a worker through all articles."""
    config = json.dumps(bench.worker_values(folder, threads=1))
    command = [sys.executable, "-m", "benchmarks.metrics_cost", "--child", config]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    bench.wait_for(expected)
    child.send_signal(signal.SIGTERM)
    return Cost(*json.loads(child.communicate(timeout=60)[0]))


def scrape_s() -> float:
    """Return the processor time of making one page."""
    metrics = Metrics(CollectorRegistry())
    metrics.watch_process()
    began = time.process_time()
    for _ in range(SCRAPES):
        generate_latest(metrics.registry)
    return (time.process_time() - began) / SCRAPES


def _report(cost: Cost) -> float:
    """Print the figures; return the part of the processor time that calls of metrics take."""
    page, in_calls = scrape_s(), sum(cost.calls_s.values())
    print(
        f"\n{cost.calls:,} calls of metrics in a run: {in_calls * 1000:.1f} ms of {cost.processor_s:.2f} s, "
        f"{in_calls / cost.processor_s:.2%} of the processor time; a page takes {page * 1000:.1f} ms: "
        f"{page / USUAL_SCRAPE_S:.3%} of a core where it is asked for every {USUAL_SCRAPE_S:g} s"
    )
    most = sorted(cost.calls_s, key=lambda name: -cost.calls_s[name])[:MOST_SHOWN]
    print("of them " + ", ".join(f"{name} {cost.calls_s[name] / in_calls:.0%}" for name in most))
    return in_calls / cost.processor_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=60_000, help="articles of one run")
    parser.add_argument("--child", metavar="CONFIG", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return run_child(given.child)
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    print(f"{len(values):,} {described()}, {os.cpu_count()} cores", flush=True)
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        bench = Bench(broker.bootstrap, "metrics", DEFAULT_PROFILE)
        bench.feed(values)
        cost = measure(bench, Path(temporary), len(values))
    return 0 if _report(cost) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
