"""Where an article's time and processor time go in a worker, by thread and by stage, with each Kafka client.

    python -m benchmarks.stages [--articles N] [--rate R] [--turns T] [--threads T] [--clients NAMES]

A worker runs in a process of its own, with its stages timed: the calls that ``benchmarks.timed_worker`` names. The
processor time of a stage is that of its thread during the call, less that of the stages within it. Threads are rows
too, with all that they take, so the sum of the threads is the processor time of the process; the threads of the Kafka
client are one row. Timing a call takes a microsecond, which is in the stages that are called for each article.

Without ``--rate`` the topic is filled beforehand: full load. With it the articles are fed at so many a second, and
the table of times counts: from the append of an article to its source topic to the end of its transaction, as a mean
over articles. What is committed before ``--warm-up`` articles is not counted. The clients take turns; figures are
medians of the turns. Memory is that at the end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.pipeline import CLIENTS, Bench
from benchmarks.processes import memory_of
from benchmarks.quality.report import table
from benchmarks.texts import articles, as_json
from benchmarks.timed_worker import CLIENT_THREADS, MOMENTS, run_timed
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker

STOP_S = 60


class Taken(NamedTuple):
    """What one turn took."""

    rate: float
    """Articles a second."""
    used_us: float
    """Processor time of an article, µs."""
    tables: Mapping[str, Mapping[str, float]]
    """By what the rows are: processor time of an article by thread and by stage, calls, memory, time until a moment."""


def take_turn(bootstrap: str, client: str, values: list[bytes], given: argparse.Namespace) -> Taken:
    """Run a worker over these articles."""
    bench = Bench(bootstrap, "stages", given.profile)
    if not given.rate:
        bench.feed(values)
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        out = Path(folder) / "stages.json"
        flags = bench.worker_values(Path(folder), given.threads, client)
        arguments = (flags, given.warm_up, len(values), str(out))
        worker = multiprocessing.get_context("spawn").Process(target=run_timed, args=arguments)
        worker.start()
        if given.rate:
            bench.feed(values[: given.warm_up])
            bench.drain(given.warm_up)
            bench.feed(values[given.warm_up :], given.rate)
        bench.drain(len(values))
        memory = memory_of(worker.pid or 0)
        os.kill(worker.pid or 0, signal.SIGTERM)
        worker.join(STOP_S)
        found: dict[str, Any] = json.loads(out.read_text())
    count, used = found["articles"], found["used"]
    threads, stages, calls = defaultdict[str, float](float), dict[str, float](), dict[str, float]()
    for name, value in used.items():
        kind, _, what = name.partition(" ")
        if kind == "thread":
            is_client = any(part in what for part in CLIENT_THREADS)
            threads["of the Kafka client" if is_client else what] += value * 1e6 / count
        elif kind == "stage":
            stages[what] = value * 1e6 / count
        elif kind == "calls":
            calls[what] = value / used["clock"]
    tables = {
        "thread, µs an article": threads,
        "stage, µs an article": stages,
        "calls a second": calls,
        "memory, MiB": {"of its own": memory.anonymous, "of mapped files": memory.files},
        "until, ms": dict(zip(MOMENTS, found["times"], strict=True)),
    }
    return Taken(count / used["clock"], sum(threads.values()), tables)


def print_taken(taken: dict[str, list[Taken]]) -> None:
    """Print the medians, a column for each client."""
    for client, turns in taken.items():
        rate, each_us = (median(turn[at] for turn in turns) for at in (0, 1))
        print(f"{client}: {rate:,.0f} articles/s, {each_us:.0f} µs an article")
    for what in next(iter(taken.values()))[0].tables:
        rows = dict.fromkeys(row for turns in taken.values() for turn in turns for row in turn.tables[what])
        cells = {
            row: [median(turn.tables[what].get(row, 0.0) for turn in turns) for turns in taken.values()] for row in rows
        }
        print(f"\n{table((what, *taken), ([row, *(f'{value:.1f}' for value in each)] for row, each in cells.items()))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=16_000)
    parser.add_argument("--warm-up", type=int, default=4_000, help="articles that are not counted")
    parser.add_argument("--rate", type=float, default=0.0, help="articles a second; 0: full load")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--profile", default=DEFAULT_PROFILE)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="with commas")
    given = parser.parse_args()
    taken: dict[str, list[Taken]] = {client: [] for client in given.clients.split(",")}
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    with find_broker(BrokerSettings()) as broker:
        for number in range(given.turns):
            for client, turns in taken.items():
                turns.append(take_turn(broker.bootstrap, client, values, given))
                print(f"turn {number}, {client}: {turns[-1].rate:,.0f} articles/s", flush=True)
    print()
    print_taken(taken)


if __name__ == "__main__":
    main()
