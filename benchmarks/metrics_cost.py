"""What the metrics cost a worker: with and without them in turns, and the time that is spent in their calls.

    python -m benchmarks.metrics_cost [--articles N]

One broker, one topic that was filled beforehand, one worker with an empty index, which fingerprints in one thread.
Two runs:

* **turns**: metrics are on for ``TURN_S``, then off for as long, and so on until every article is committed. While they
  are on, the page is asked for once, more often than is usual; while they are off each metric does nothing, no
  gauge is read and no page is asked for. Turns of one run share the processes, what is compiled and the index as it is,
  so that a turn is compared with the turns beside it and not with another start.
* **calls**: adds up the processor time of every call of a metric and of what gauges are read from.

The processor time is that of the worker, with its fingerprinting. What else runs on the machine adds to single turns;
the median bears it.

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

from kafka import TopicPartition
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.pipeline import LOOK_S, PARTITIONS, PATIENCE_S, Bench
from benchmarks.texts import articles, as_json, described
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.index import LogIndex
from stream_dedup.kafka.connection import make_consumer
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.worker import Step, app
from stream_dedup.worker.engine import Engine
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.worker import Worker

TURN_S = 3.0
USUAL_SCRAPE_S = 15.0
SCRAPES = 50
MOST_SHOWN = 6
LIMIT = 0.01
TURNS, CALLS = "turns", "calls"


class Commit(NamedTuple):
    """What the worker had used and done when it committed."""

    wall_s: float
    processor_s: float
    articles: int


@dataclass
class Cost:
    """One run: its commits, and seconds of processor time by what was called."""

    commits: list[Commit] = field(default_factory=list)
    calls_s: dict[str, float] = field(default_factory=dict)
    calls: int = 0


class Turn(NamedTuple):
    """An article's share of one turn, in seconds."""

    processor_s: float
    wall_s: float


def turn_at(wall_s: float) -> int:
    """Return the number of the turn at a monotonic time, which all processes of a machine share; even: metrics on."""
    return int(wall_s / TURN_S)


def _is_on() -> bool:
    return turn_at(time.monotonic()) % 2 == 0


class _Nothing:
    """Does nothing, whatever is asked of it."""

    def __getattr__(self, name: str) -> _Nothing:
        return self

    def __call__(self, *_arguments: object) -> _Nothing:
        return self

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""


class _InTurns:
    """Metrics in the turns in which they are on and until the first poll, else nothing. Counts the verdicts always."""

    def __init__(self, inner: Metrics) -> None:
        self._inner, self._nothing, self.verdicts, self.polled = inner, _Nothing(), 0, False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any metric
        return getattr(self._inner if _is_on() or not self.polled else self._nothing, name)

    def count_verdicts(self, judgements: Sequence[Any]) -> None:
        """Count the articles of a transaction."""
        self.verdicts += len(judgements)
        if _is_on():
            self._inner.count_verdicts(judgements)


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


def _method_in_turns(owner: type[object], name: str) -> None:
    method = getattr(owner, name)
    setattr(owner, name, lambda self: method(self) if _is_on() else None)


def _set_up(kind: str) -> list[_InTurns]:
    """Give the worker of this process the metrics of a kind of run; return those that it gets, if in turns."""
    made: list[_InTurns] = []

    def in_turns(registry: CollectorRegistry) -> _InTurns:
        made.append(_InTurns(Metrics(registry)))
        return made[-1]

    if kind == TURNS:
        vars(app)["Metrics"] = in_turns
        _method_in_turns(Engine, "_set_gauges")
        _method_in_turns(Worker, "_set_gauges")
    else:
        vars(app)["Metrics"] = lambda registry: _Timed("", Metrics(registry))
        _timed_method(LogIndex, "stats")
        _timed_method(BatchSource, "lag")
    return made


def run_child(config: str, kind: str) -> int:
    """Run a worker until it is stopped; print what it cost."""
    made = _set_up(kind)
    cost = Cost()
    first = 0

    def on_step(step: Step) -> None:
        nonlocal first
        if step is Step.COMMITTED or (step is Step.POLLED and not cost.commits):
            first = first or len(_spent)
            for metrics in made:
                metrics.polled = True
            articles = made[0].verdicts if made else 0
            cost.commits.append(Commit(time.monotonic(), time.process_time(), articles))

    code = app.run_worker(load_config(None, json.loads(config), {}), on_step)
    for name, seconds in _spent[first:]:
        cost.calls_s[name] = cost.calls_s.get(name, 0.0) + seconds
    cost.calls = len(_spent) - first
    print(json.dumps(asdict(cost)))
    return code


def measure(bench: Bench, folder: Path, kind: str, expected: int) -> Cost:
    """Run a worker of a group of its own through all articles."""
    group = f"{bench.config.kafka.group}-{kind}"
    address = f"127.0.0.1:{_free_port()}" if kind == TURNS else "off"
    config = {
        "kafka": {"brokers": bench.config.kafka.brokers, "group": group},
        "topics": bench.config.topics.model_dump(),
        "match": {"profile": DEFAULT_PROFILE},
        "index": {"path": str(folder / group)},
        "worker": {"threads": 1},
        "metrics": {"address": address},
    }
    command = [sys.executable, "-m", "benchmarks.metrics_cost", "--child", json.dumps(config), kind]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    _wait(bench, group, child, expected, address)
    child.send_signal(signal.SIGTERM)
    said = json.loads(child.communicate(timeout=60)[0])
    return Cost([Commit(*one) for one in said["commits"]], said["calls_s"], said["calls"])


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(bench: Bench, group: str, child: subprocess.Popen[bytes], expected: int, address: str) -> None:
    """Wait until a group has committed every article; ask for the page once in each turn with metrics."""
    consumer = make_consumer(bench.config.kafka, group_id=group)
    partitions = [TopicPartition(bench.source, number) for number in range(PARTITIONS)]
    deadline, scraped = time.monotonic() + PATIENCE_S, -1
    while sum(consumer.committed(at) or 0 for at in partitions) < expected:
        if time.monotonic() > deadline or child.poll() is not None:
            sys.exit(f"{group}: not done within {PATIENCE_S:g} s")
        if address != "off" and _is_on() and turn_at(time.monotonic()) > scraped:
            scraped = turn_at(time.monotonic())
            with suppress(OSError), urlopen(f"http://{address}/metrics", timeout=5) as page:
                page.read()
        time.sleep(LOOK_S)
    consumer.close()


def turns_of(commits: list[Commit]) -> dict[int, Turn]:
    """Return the cost of an article in each whole turn.

    From one commit to the next both times and articles are known; what began in one turn and ended in another counts
    for neither. The first turn (of a worker that meets every word for the first time) and the last one are left out.
    """
    sums: dict[int, list[float]] = {}
    for one, later in pairwise(commits):
        turn = turn_at(one.wall_s)
        if turn == turn_at(later.wall_s):
            differences = (after - before for after, before in zip(later, one, strict=True))
            sums[turn] = [sum(pair) for pair in zip(sums.get(turn, [0.0] * 3), differences, strict=True)]
    inner = sorted(sums)[1:-1]
    return {turn: Turn(sums[turn][1] / sums[turn][2], sums[turn][0] / sums[turn][2]) for turn in inner}


def compared(turns: dict[int, Turn], what: str) -> list[float]:
    """Return, for each turn with metrics between two without, what it costs more than the mean of the two."""
    cost = {turn: getattr(one, what) for turn, one in turns.items()}
    between = [turn for turn in cost if turn % 2 == 0 and turn - 1 in cost and turn + 1 in cost]
    return sorted(2 * cost[turn] / (cost[turn - 1] + cost[turn + 1]) - 1 for turn in between)


def scrape_s() -> float:
    """Return the processor time of making one page."""
    metrics = Metrics(CollectorRegistry())
    metrics.watch_process()
    began = time.process_time()
    for _ in range(SCRAPES):
        generate_latest(metrics.registry)
    return (time.process_time() - began) / SCRAPES


def _report_turns(turns: dict[int, Turn]) -> None:
    print("\n| metrics | µs of processor time an article | articles/s |\n| --- | ---: | ---: |")
    for name, rest in (("on", 0), ("off", 1)):
        chosen = [one for turn, one in turns.items() if turn % 2 == rest]
        processor, wall = median(one.processor_s for one in chosen), median(one.wall_s for one in chosen)
        print(f"| {name} | {processor * 1e6:.1f} | {1 / wall:,.0f} |")
    for what, field_name in (("processor time", "processor_s"), ("time", "wall_s")):
        more = compared(turns, field_name)
        quarter = len(more) // 4
        print(
            f"\n{what} of a turn with metrics, to the two turns beside it: median {median(more):+.2%} of {len(more)}, "
            f"half of them from {more[quarter]:+.2%} to {more[-1 - quarter]:+.2%}"
        )


def _report_calls(cost: Cost) -> float:
    """Print the figures; return the part of the processor time that calls of metrics take."""
    page, in_calls = scrape_s(), sum(cost.calls_s.values())
    processor = cost.commits[-1].processor_s - cost.commits[0].processor_s
    print(
        f"\n{cost.calls:,} calls of metrics in a run: {in_calls * 1000:.1f} ms of {processor:.2f} s, "
        f"{in_calls / processor:.2%} of the processor time; a page takes {page * 1000:.1f} ms: "
        f"{page / USUAL_SCRAPE_S:.3%} of a core where it is asked for every {USUAL_SCRAPE_S:g} s"
    )
    most = sorted(cost.calls_s, key=lambda name: -cost.calls_s[name])[:MOST_SHOWN]
    print("of them " + ", ".join(f"{name} {cost.calls_s[name] / in_calls:.0%}" for name in most))
    return in_calls / processor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=60_000, help="articles of one run")
    parser.add_argument("--child", nargs=2, metavar=("CONFIG", "KIND"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return run_child(*given.child)
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    print(f"{len(values):,} {described()}, turns of {TURN_S:g} s, {os.cpu_count()} cores", flush=True)
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        bench = Bench(broker.bootstrap, "metrics", DEFAULT_PROFILE)
        bench.feed(values)
        turns = turns_of(measure(bench, Path(temporary), TURNS, len(values)).commits)
        _report_turns(turns)
        calls = measure(bench, Path(temporary), CALLS, len(values))
    return 0 if _report_calls(calls) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
