"""What several workers of a group take, beside what the costs of one worker say.

    python -m benchmarks.workers [--articles N] [--workers 1,2,3] [--turns T] [--clients NAMES]

So many workers of one process each are started on topics of as many partitions; when all are members, the articles are
fed as fast as they can be. The figures are processor time of an article of the group: of the main processes of all
workers together, and of their fingerprinting processes. Each worker judges and sends its own articles, and applies the
entries of all: with *W* workers the main processes take the cost of one worker, and *W* - 1 times what following takes,
which two workers show. The table says how far three and more are from that. The workers, the broker and the producer
share the cores of this machine, so the articles a second say nothing about workers on machines of their own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.copy_loop import CLIENTS
from benchmarks.pipeline import Bench, end_worker, start_worker
from benchmarks.processes import children_of, own_processor_s_of
from benchmarks.texts import articles, as_json
from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_state import described_group
from stream_dedup.broker.retry import patiently
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from tests.waiting import wait_until

JOIN_S = 60.0
WARM_UP = 3_000
"""Articles that are not counted: each process learns the words that it meets for the first time."""


class GroupCost(NamedTuple):
    """Processor time of an article of the group, µs."""

    main: float
    """Of all main processes together."""
    processes: float
    """Of all fingerprinting processes."""


def measure(bootstrap: str, client: str, workers: int, values: Sequence[bytes]) -> GroupCost:
    """Run so many workers."""
    bench = Bench(bootstrap, f"workers-{workers}", DEFAULT_PROFILE, partitions=2 * workers)
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        running = [start_worker(bench, Path(folder) / str(number), 1, client) for number in range(workers)]
        try:
            _wait_for_members(bench, workers)
            bench.feed(values[:WARM_UP])
            bench.wait_for(WARM_UP)
            before = _used(worker.pid for worker in running)
            bench.feed(values[WARM_UP:])
            bench.wait_for(len(values))
            after = _used(worker.pid for worker in running)
        finally:
            for worker in running:
                end_worker(worker)
    count = len(values) - WARM_UP
    return GroupCost(*((late - early) * 1e6 / count for late, early in zip(after, before, strict=True)))


def _used(pids: Iterable[int]) -> GroupCost:
    """Return the processor time so far, s."""
    found = list(pids)
    return GroupCost(
        sum(map(own_processor_s_of, found)),
        sum(own_processor_s_of(child) for pid in found for child in children_of(pid)),
    )


def _wait_for_members(bench: Bench, workers: int) -> None:
    kafka = bench.config.kafka
    with closing(make_admin(kafka)) as admin:

        def complete() -> bool:
            state, members = patiently(kafka, "the group", lambda: described_group(admin, kafka.group))
            return state == "Stable" and len(members) == workers

        wait_until(complete, JOIN_S, f"{workers} members of {kafka.group}")


def main() -> None:
    given = _options()
    numbers = [int(number) for number in given.workers.split(",")]
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles + WARM_UP))]
    costs: dict[tuple[str, int], list[GroupCost]] = {
        (client, number): [] for client in given.clients.split(",") for number in numbers
    }
    with find_broker(BrokerSettings()) as broker:
        for turn in range(given.turns):
            for (client, number), found in costs.items():
                found.append(measure(broker.bootstrap, client, number, values))
                main, processes = found[-1]
                print(f"turn {turn}, {client}, {number} workers: {main:.0f} and {processes:.0f} µs", flush=True)
    print("\n| client | workers | main processes, µs of an article of the group | by one and two | processes |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for (client, number), found in costs.items():
        one, two = (median(cost.main for cost in costs[client, some]) for some in (1, 2))
        main, processes = median(cost.main for cost in found), median(cost.processes for cost in found)
        print(f"| {client} | {number} | {main:.0f} | {one + (number - 1) * (two - one):.0f} | {processes:.0f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--workers", default="1,2,3", help="with commas, 1 and 2 among them")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="with commas")
    return parser.parse_args()


if __name__ == "__main__":
    main()
