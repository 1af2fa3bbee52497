"""Latency and processor time of one worker over the number of partitions of its input, and over the rate.

    python -m benchmarks.partitions [--partitions 2,8,32] [--rates 300,1200,2225] [--seconds S] [--turns T]
                                    [--client NAME] [--threads P]

A worker for each number of partitions; each rate is fed for so many seconds, the first of which is not counted. Latency
is append time of the output minus append time of the source. Processor time is that of the worker.
Figures are medians of the turns. Broker, producer and worker share the machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.pipeline import Bench, end_worker, source_time, start_worker
from benchmarks.processes import processor_s_of
from benchmarks.texts import articles, as_json
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker

FIRST_ARTICLES, FIRST_RATE = 4_000, 1_500.0
"""Fed beforehand: the worker has met common words then, and the broker has compiled most of its code."""
UNCOUNTED_MS = 1_000

Figures = tuple[float, float, float]
"""Median and 99 % of the latency, ms, and processor time of an article, µs."""


def measure(bootstrap: str, partitions: int, rates: list[float], given: argparse.Namespace) -> list[Figures]:
    """Return the figures of one worker at each of the rates."""
    bench = Bench(bootstrap, "partitions", DEFAULT_PROFILE, partitions)
    sizes = [int(rate * given.seconds) for rate in rates]
    values = (as_json(number, text) for number, text in enumerate(articles(FIRST_ARTICLES + sum(sizes))))
    spans, fed = [], FIRST_ARTICLES
    with tempfile.TemporaryDirectory() as folder:
        worker = start_worker(bench, Path(folder), given.threads, given.client)
        bench.feed(list(islice(values, FIRST_ARTICLES)), FIRST_RATE)
        bench.drain(fed)
        for rate, size in zip(rates, sizes, strict=True):
            some = list(islice(values, size))
            before_s = processor_s_of(worker.pid)
            bench.feed(some, rate)
            fed += size
            bench.wait_for(fed)
            spans.append((fed - size, fed, (processor_s_of(worker.pid) - before_s) * 1e6 / size))
        records = bench.drain(fed)
        end_worker(worker)
    times = np.array(sorted((source_time(record), record.timestamp) for record in records), np.int64)
    return [_figures(times[first:after], used_us) for first, after, used_us in spans]


def _figures(times: np.ndarray, used_us: float) -> Figures:
    counted = times[times[:, 0] >= times[0, 0] + UNCOUNTED_MS]
    middle, high = np.percentile(counted[:, 1] - counted[:, 0], [50, 99])
    return float(middle), float(high), used_us


def main() -> None:
    given = _options()
    rates = [float(rate) for rate in given.rates.split(",")]
    taken: dict[tuple[int, float], list[Figures]] = defaultdict(list)
    with find_broker(BrokerSettings()) as broker:
        for _ in range(given.turns):
            for partitions in map(int, given.partitions.split(",")):
                for rate, figures in zip(rates, measure(broker.bootstrap, partitions, rates, given), strict=True):
                    taken[partitions, rate].append(figures)
    print(f"{given.client}, {given.threads} threads\n")
    print("| partitions, articles a second | median latency, ms | 99 % | processor time of an article, µs |")
    print("| --- | ---: | ---: | ---: |")
    for (partitions, rate), turns in taken.items():
        middle, high, used_us = np.median(turns, axis=0)
        print(f"| {partitions}, {rate:,.0f} | {middle:.0f} | {high:.0f} | {used_us:,.0f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", default="2,8,32")
    parser.add_argument("--rates", default="300,1200,2225")
    parser.add_argument("--seconds", type=float, default=9)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--client", default="kafka-python")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
