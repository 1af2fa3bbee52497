"""What the clusters of articles cost: an output stored, the questions, and following the topics beside reading them.

    python -m benchmarks.clusters [--sizes 10000,100000,1000000] [--shapes lone,flood,chain,mixed] [--batch 1000]
                                [--hours 1] [--broker] [--outputs 40000]

The shapes of a log:

* **lone**: every article is unique, and a cluster of its own.
* **flood**: every article is a copy of the first one: one cluster.
* **chain**: every article is a copy of the one before: one cluster.
* **mixed**: six of ten are unique; the others match any earlier article. The outputs come in random order, so that
  clusters begin with matches that have not arrived, and are merged.

Each shape has a process and a store of its own; the outputs were written evenly over ``--hours``. Columns:

* processor time of an output, for reading its headers and its id and for storing it, over the last tenth of the outputs
* the longest batch until then, which waits for the disk
* memory of the process, of which up to 64 MiB are SQLite's pages, and bytes on disk
* the question for the 20 largest clusters of each window
* the questions for a cluster, and for a page of 50 of its members

With ``--broker``, outputs of 3 KB lie in topics of a real broker: the processor time an output of a follower that only
reads them, of the clusters, and of the clusters that are also published, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from prometheus_client import CollectorRegistry

from benchmarks.processes import memory_of
from stream_dedup.clusters.follow import ClusterFollower, ClusterMetrics
from stream_dedup.clusters.model import HOUR_MS, OutputReading, Window, cluster_id_of
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.model import Coordinates, Verdict
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.kafka.admin import KafkaOffsets
from stream_dedup.kafka.clients import kafka_follow_ports
from stream_dedup.kafka.connection import make_admin, make_producer
from stream_dedup.kafka.readers import KafkaTopicFollower, KafkaTopicReader
from stream_dedup.kafka.topics import ensure_topics
from stream_dedup.registry.values import RecordReader
from tests.clusters.outputs import LOG_ID, TIME_MS, LoggedArticle, at, output_record

SHAPES = ("lone", "flood", "chain", "mixed")
STEP = 1_618_033
"""A prime: its multiples, by any size below it, come in an order without a pattern."""
UNIQUE_OF_TEN = 6
PARTITIONS = 4
TEXT = "The ferry left this morning. " * 100
TURNS = 3
CAUGHT_UP_S = 300.0


def main() -> None:
    options = _options()
    print("| shape | outputs | reading, us | storing, us | longest batch, ms | memory, MiB | bytes on disk | "
          "hour, ms | day, ms | week, ms | all, ms | cluster, ms | members, ms |")  # fmt: skip
    print("| --- |" + " ---: |" * 12)
    for shape, size in itertools.product(options.shapes.split(","), map(int, options.sizes.split(","))):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures = pool.apply(measured, (shape, size, options.batch, options.hours))
        print(f"| {shape} | {size} | " + " | ".join(f"{value:.1f}" for value in figures) + " |", flush=True)
    if options.broker:
        with find_broker(BrokerSettings()) as broker:
            _beside_reading(broker.bootstrap, options.outputs)


def measured(shape: str, size: int, batch: int, hours: float) -> list[float]:
    """Store the outputs of a log of this shape, and return the figures of its row; in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, closing(ClusterStore.open(Path(folder), LOG_ID)) as store:
        reading_s = storing_s = longest_s = 0.0
        reader = OutputReading(RecordReader(Config(), InputFormat()))
        counted = 0
        for begin in range(0, size, batch):
            numbers = range(begin, min(size, begin + batch))
            articles = [article_of(shape, number, size, hours) for number in numbers]
            records = [output_record(article, begin + row) for row, article in enumerate(articles)]
            started, clock = time.process_time(), time.perf_counter()
            outputs = reader.read(records)
            read = time.process_time()
            store.apply(outputs, {})
            longest_s = max(longest_s, time.perf_counter() - clock)
            if begin >= size * 9 // 10:
                counted += len(records)
                reading_s += read - started
                storing_s += time.process_time() - read
        now_ms = TIME_MS + int(hours * HOUR_MS)
        cluster = cluster_id_of(store.latest(1)[0].coordinates)
        disk = sum(file.stat().st_size for file in Path(folder).iterdir())
        return [
            reading_s / counted * 1e6,
            storing_s / counted * 1e6,
            longest_s * 1e3,
            sum(memory_of(os.getpid())),
            disk / size,
            *(_milliseconds(partial(store.largest, window, 20, now_ms)) for window in Window),
            _milliseconds(lambda: store.cluster(cluster, now_ms)),
            _milliseconds(lambda: store.members(cluster, 50)),
        ]


def article_of(shape: str, number: int, size: int, hours: float = 1.0) -> LoggedArticle:
    """The n-th article whose output arrives."""
    if shape == "mixed":
        number = number * STEP % size
        matched = _scattered(number) % number if number and _scattered(number) % 10 >= UNIQUE_OF_TEN else None
    else:
        matched = {"lone": None, "flood": 0, "chain": number - 1}[shape] if number else None
    written_ms = TIME_MS + int(hours * HOUR_MS) * number // size
    if matched is None:
        return LoggedArticle(_source(number), None, Verdict.UNIQUE, written_ms)
    return LoggedArticle(_source(number), _source(matched), Verdict.DUPLICATE, written_ms)


def _source(number: int) -> Coordinates:
    return at(number // PARTITIONS, number % PARTITIONS)


def _scattered(number: int) -> int:
    """A number that looks random, the same in every process."""
    return (number + 1) * 0x9E3779B97F4A7C15 % (1 << 64) >> 20


def _milliseconds(ask: Callable[[], object]) -> float:
    """Median of some calls."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        ask()
        times.append(time.perf_counter() - begin)
    return median(times) * 1e3


# Beside reading the topics.


def _beside_reading(bootstrap: str, count: int) -> None:
    name = f"clusters-{uuid.uuid4().hex[:8]}"
    topics = {role: f"{name}-{role}" for role in ("unique", "duplicate", "rejected", "clusters")}
    values = {"kafka": {"brokers": bootstrap, "group": name}, "topics": {**topics, "partitions": PARTITIONS}}
    config = load_config(None, values, {})
    with closing(make_admin(config.kafka)) as admin:
        ensure_topics(admin, config)
    _write(config, count)
    silent = config.model_copy(update={"topics": config.topics.model_copy(update={"clusters": None})})
    ways: dict[str, Callable[[], float]] = {
        "read alone": lambda: _read_alone(config, count),
        "clusters": lambda: _follow(silent),
        "clusters, published": lambda: _follow(config),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _, (way, run) in itertools.product(range(TURNS), ways.items()):
        times[way].append(run() / count * 1e6)
    print(
        f"\n{count} outputs of {len(TEXT)} bytes in {PARTITIONS} partitions a topic, microseconds of processor time:\n"
    )
    print("| way | an output, us | each turn |")
    print("| --- | ---: | --- |")
    for way, found in times.items():
        print(f"| {way} | {median(found):.1f} | {', '.join(f'{one:.1f}' for one in found)} |")


def _write(config: Config, count: int) -> None:
    """Write outputs of the shape ``mixed``; their time is now."""
    now_ms = time.time_ns() // 1_000_000
    with closing(make_producer(config.kafka, acks="all", linger_ms=20)) as producer:
        for number in range(count):
            article = article_of("mixed", number, count)
            value = f'{{"id": "{article.id}", "text": "{TEXT}"}}'.encode()
            headers = output_record(article, 0).headers
            topic = config.topics.unique if article.match is None else config.topics.duplicate
            producer.send(
                topic,
                value=value,
                headers=headers,
                partition=number % PARTITIONS,
                timestamp_ms=now_ms + number // 1_000,
            )
        producer.flush()


def _read_alone(config: Config, count: int) -> float:
    """Processor time of polling every output."""
    begin = time.process_time()
    with closing(KafkaTopicReader(config.kafka)) as reader, closing(KafkaTopicFollower(config.kafka)) as follower:
        partitions = reader.partitions([config.topics.unique, config.topics.duplicate])
        follower.follow(dict.fromkeys(partitions, 0))
        left = count
        while left > 0:
            left -= sum(map(len, follower.poll(0.5).values()))
    return time.process_time() - begin


def _follow(config: Config) -> float:
    """Processor time of following every output into a new store, and of publishing."""
    with closing(KafkaOffsets(config.kafka)) as offsets:
        log_id = offsets.topic_ids([config.log_topic])[config.log_topic]
    begin = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        kafka_follow_ports(config) as ports,
        closing(ClusterStore.open(Path(folder), log_id, publishes=config.topics.clusters is not None)) as store,
    ):
        follower = ClusterFollower(config, store, ports, log_id, ClusterMetrics(CollectorRegistry()))
        deadline = time.monotonic() + CAUGHT_UP_S
        while time.monotonic() < deadline:
            follower.step()
            state = follower.state()
            if state.has_caught_up and not state.unpublished and (state.unpublished == 0 or not config.topics.clusters):
                return time.process_time() - begin
    raise SystemExit(f"the outputs were not followed within {CAUGHT_UP_S:g} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--broker", action="store_true")
    parser.add_argument("--outputs", type=int, default=40_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
