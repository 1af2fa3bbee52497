"""What several workers of a group take, beside what the costs of one worker say.

    python -m benchmarks.workers [--articles N] [--workers 1,2,3] [--turns T] [--clients NAMES]

So many workers of one thread each are started on topics of as many partitions; when all are members, the articles are
fed as fast as they can be. The figures are processor time of an article of the group, of all workers together. Each
worker fingerprints, judges and sends its own articles, and applies the entries of all: *W* workers take the cost of one
worker, and *W* - 1 times what following takes, which two workers show. The table says how far three and more are from
that. The workers, the broker and the producer share the cores of this machine, so the articles a second say nothing
about workers on machines of their own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.copy_loop import CLIENTS
from benchmarks.pipeline import Bench, end_worker, start_worker
from benchmarks.processes import processor_s_of
from benchmarks.texts import articles, as_json
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.kafka.admin import described_group
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import patiently
from tests.waiting import wait_until

JOIN_S = 60.0
WARM_UP = 3_000
"""Articles that are not counted: each worker learns the words that it meets for the first time."""


def measure(bootstrap: str, client: str, workers: int, values: Sequence[bytes]) -> float:
    """Run so many workers; return the processor time of an article of the group, µs."""
    bench = Bench(bootstrap, f"workers-{workers}", DEFAULT_PROFILE, partitions=2 * workers)
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        running = [start_worker(bench, Path(folder) / str(number), 1, client) for number in range(workers)]
        try:
            _wait_for_members(bench, workers)
            bench.feed(values[:WARM_UP])
            bench.wait_for(WARM_UP)
            before = sum(processor_s_of(worker.pid) for worker in running)
            bench.feed(values[WARM_UP:])
            bench.wait_for(len(values))
            after = sum(processor_s_of(worker.pid) for worker in running)
        finally:
            for worker in running:
                end_worker(worker)
    return (after - before) * 1e6 / (len(values) - WARM_UP)


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
    costs: dict[tuple[str, int], list[float]] = {
        (client, number): [] for client in given.clients.split(",") for number in numbers
    }
    with find_broker(BrokerSettings()) as broker:
        for turn in range(given.turns):
            for (client, number), found in costs.items():
                found.append(measure(broker.bootstrap, client, number, values))
                print(f"turn {turn}, {client}, {number} workers: {found[-1]:.0f} µs", flush=True)
    print("\n| client | workers | µs of an article of the group | by one and two |\n| --- | ---: | ---: | ---: |")
    for (client, number), found in costs.items():
        one, two = (median(costs[client, some]) for some in (1, 2))
        print(f"| {client} | {number} | {median(found):.0f} | {one + (number - 1) * (two - one):.0f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--workers", default="1,2,3", help="with commas, 1 and 2 among them")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="with commas")
    return parser.parse_args()


if __name__ == "__main__":
    main()
