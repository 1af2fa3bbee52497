"""End to end through a real broker, and through files, beside a copy loop and a plain consumer.

    python -m benchmarks.pipeline [--articles N] [--plain N] [--threads T] [--profile NAME]

In one run, on the same broker and the same articles:

* **copy**: the floor. One process that polls, sends on and commits in transactions, with the same
  client and settings; no fingerprint, no log, no index.
* **stream-dedup**: one worker with T threads, with the ``article`` profile or the one named.
* **plain**: what one writes without this program: T processes, each a consumer that cuts with jieba,
  fingerprints and looks up with the simhash package (k=3), and sends on.

Throughput is articles over the time from the first output's append to the last one's, of a topic that was
filled beforehand: start-up does not count. Latency is append time of the output minus append time of the source, the
first seconds of a worker left out. It is taken at half load: half of what the worker does while the producer works
beside it on the same machine (fed at the throughput measured before, which is more than both together can do).
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from confluent_kafka import Producer
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic

from benchmarks.texts import articles, as_json
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.extras import need_packages
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer

PARTITIONS = multiprocessing.cpu_count()
BATCH = 500
PATIENCE_S = 300.0
LOOK_S = 0.2
FILTER_RUNS = 3
FILTER_ARTICLES = 40_000
"""Enough that the start-up, which is taken off, is small beside them."""
WARM_UP_S = 5
"""A worker that has just started meets every word for the first time, and the backlog of that."""
OUTPUT_SETTINGS = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"}
SOURCE_SETTINGS = {"message.timestamp.type": "LogAppendTime"}


class Bench:
    """Topics and configuration of one way through the broker."""

    def __init__(self, bootstrap: str, way: str, profile: str, partitions: int = PARTITIONS) -> None:
        self._partitions = partitions
        name = f"bench-{way}-{uuid.uuid4().hex[:8]}"
        self.source = f"{name}-articles"
        self.outputs = [f"{name}-unique", f"{name}-duplicate", f"{name}-rejected"]
        self.config: Config = load_config(
            None,
            {
                "kafka": {"brokers": bootstrap, "group": name},
                "topics": dict(zip(("unique", "duplicate", "rejected"), self.outputs, strict=True))
                | {"input": [self.source], "partitions": partitions},
                "match": {"profile": profile},
            },
            {},
        )
        admin = make_admin(self.config.kafka)
        admin.create_topics([NewTopic(self.source, partitions, 1, topic_configs=SOURCE_SETTINGS)])
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=OUTPUT_SETTINGS) for topic in self.outputs])
        admin.close()

    def feed(self, values: Iterable[bytes], rate: float = 0.0) -> None:
        """Produce the values, at so many a second where a rate is given.

        By librdkafka: what the producer takes of the machine is taken from what is measured on it.
        """
        producer = Producer({"bootstrap.servers": self.config.kafka.brokers, "batch.size": 256 << 10})
        begun = time.monotonic()
        for number, value in enumerate(values):
            if rate:
                ahead = number / rate - (time.monotonic() - begun)
                if ahead > 0:
                    time.sleep(ahead)
            while True:
                try:
                    producer.produce(self.source, value, partition=number % self._partitions)
                    break
                except BufferError:
                    producer.poll(LOOK_S)
            producer.poll(0)
        if left := producer.flush(120):
            msg = f"{left} articles were not acknowledged"
            raise TimeoutError(msg)

    def wait_for(self, expected: int) -> None:
        """Return when so many outputs are there, or after ``PATIENCE_S``."""
        deadline = time.monotonic() + PATIENCE_S
        with closing(make_consumer(self.config.kafka)) as consumer:
            while sum(consumer.end_offsets(self._outputs()).values()) < expected and time.monotonic() < deadline:
                time.sleep(LOOK_S)

    def drain(self, expected: int) -> list[Any]:
        """Read the outputs once so many are there: reading them earlier would take time from what is measured."""
        self.wait_for(expected)
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        with closing(make_consumer(self.config.kafka)) as consumer:
            consumer.assign(self._outputs())
            consumer.seek_to_beginning(*self._outputs())
            while len(records) < expected and time.monotonic() < deadline:
                for batch in consumer.poll(500).values():
                    records += batch
        return records

    def _outputs(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in self.outputs for number in range(self._partitions)]


def rate_of(records: list[Any]) -> float:
    """Articles a second between the first and the last append."""
    times = sorted(record.timestamp for record in records)
    return float((len(times) - 1) * 1000 / max(times[-1] - times[0], 1))


def copy_loop(config: Config, source: str, _number: int, target: str) -> None:
    """The floor: poll, send on, commit in a transaction."""
    consumer = make_consumer(
        config.kafka, group_id=f"{config.kafka.group}-copy", max_poll_records=BATCH, auto_offset_reset="earliest"
    )
    consumer.subscribe([source])
    producer = make_producer(config.kafka, transactional_id=f"{config.kafka.group}-copy", batch_size=256 << 10)
    producer.init_transactions()
    while True:
        polled = consumer.poll(100)
        if not polled:
            continue
        producer.begin_transaction()
        offsets = {}
        for partition, records in polled.items():
            for record in records:
                producer.send(target, value=record.value, key=record.key, headers=list(record.headers))
            offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()


def plain_consumer(config: Config, source: str, number: int, unique: str, duplicate: str) -> None:
    """What one writes without this program: jieba, the simhash package, its index, at least once."""
    import json  # noqa: PLC0415 - in the child alone

    import jieba  # noqa: PLC0415
    from simhash import Simhash, SimhashIndex  # noqa: PLC0415

    logging.getLogger("simhash").setLevel(logging.ERROR)
    index = SimhashIndex([], k=3)
    consumer = make_consumer(
        config.kafka, group_id=f"{config.kafka.group}-plain", max_poll_records=50, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(source, number)])  # its own partition at once: no rebalance counts against it
    producer = make_producer(config.kafka, linger_ms=5)
    while True:
        for records in consumer.poll(100).values():
            for record in records:
                article = json.loads(record.value)
                counts: dict[str, float] = {}
                for word in jieba.cut(article["text"]):
                    counts[word] = counts.get(word, 0.0) + 1.0
                fingerprint = Simhash(counts)
                near = index.get_near_dups(fingerprint)
                index.add(article["id"], fingerprint)
                producer.send(duplicate if near else unique, value=record.value, key=record.key)
        consumer.commit_async()


def measure_children(bench: Bench, target: Callable[..., None], processes: int, expected: int, *topics: str) -> float:
    """Rate of some processes that run a loop for ever."""
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=target, args=(bench.config, bench.source, number, *topics), daemon=True)
        for number in range(processes)
    ]
    for child in children:
        child.start()
    records = bench.drain(expected)
    for child in children:
        child.kill()
        child.join()
    return rate_of(records)


def start_worker(bench: Bench, folder: Path, threads: int, client: str = "kafka-python") -> subprocess.Popen[bytes]:
    """Start a worker with this Kafka client."""
    topics, kafka = bench.config.topics, bench.config.kafka
    flags = {
        "brokers": kafka.brokers,
        "group": kafka.group,
        "input": bench.source,
        "unique": topics.unique,
        "duplicate": topics.duplicate,
        "rejected": topics.rejected,
        "index": str(folder / kafka.group),
        "profile": bench.config.match.profile.name,
        "metrics": "off",
        "threads": str(threads),
        "log-level": "warning",
    }
    given = [part for name, value in flags.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", "stream_dedup", "run", *given]
    return subprocess.Popen(command, env=os.environ | {"STREAM_DEDUP_KAFKA__CLIENT": client})


def end_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)


def measure_ours(bench: Bench, folder: Path, threads: int, expected: int) -> float:
    worker = start_worker(bench, folder, threads)
    records = bench.drain(expected)
    end_worker(worker)
    assert len(records) == expected
    return rate_of(records)


def measure_live(bench: Bench, folder: Path, threads: int, values: list[bytes], rate: float) -> float:
    """Articles a second of a worker while a producer, on the same machine, sends more than it can do."""
    worker = start_worker(bench, folder, threads)
    bench.feed(values[:50])
    bench.drain(50)
    bench.feed(values, rate)
    fed_ms = time.time_ns() / 1e6
    records = bench.drain(50 + len(values))
    end_worker(worker)
    return rate_of([record for record in records[50:] if record.timestamp < fed_ms])


def measure_latency(bench: Bench, folder: Path, threads: int, values: list[bytes], rate: float) -> tuple[float, float]:
    """Median and 99th percentile, ms, of a running worker fed at a rate; its first ``WARM_UP_S`` are not counted."""
    worker = start_worker(bench, folder, threads)
    bench.feed(values[:50])
    bench.drain(50)
    bench.feed(values, rate)
    records = bench.drain(50 + len(values))
    end_worker(worker)
    begun = min(source_time(record) for record in records[50:])
    delays = [
        record.timestamp - source_time(record) for record in records if source_time(record) > begun + WARM_UP_S * 1000
    ]
    return float(np.percentile(delays, 50)), float(np.percentile(delays, 99))


def source_time(record: Any) -> int:  # noqa: ANN401 - the client's record
    """Append time, ms, of the article of an output."""
    return int(dict(record.headers)["dedup.source.timestamp"])


def measure_filter(folder: Path, values: list[bytes], threads: int, profile: str) -> float:
    """Articles a second of ``filter``, its start-up (a call with one line) set aside."""

    def timed(name: str, part: list[bytes]) -> float:
        path = folder / name
        path.write_bytes(b"\n".join(part) + b"\n")
        flags = ["--profile", profile, "--threads", str(threads)]
        command = [sys.executable, "-m", "stream_dedup", "filter", *flags, str(path)]
        times = []
        for _ in range(FILTER_RUNS):
            begun = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            times.append(time.monotonic() - begun)
        return median(times)

    return len(values) / (timed("all.jsonl", values) - timed("one.jsonl", values[:1]))


def main() -> None:
    given = _options()
    need_packages("benchmarks.pipeline", "bench", "simhash")
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    filtered = delays = None
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ways = {
            way: Bench(broker.bootstrap, way, given.profile) for way in ("copy", "ours", "plain", "live", "latency")
        }
        for way in ("copy", "ours"):
            ways[way].feed(values)
        ways["plain"].feed(values[:: max(1, len(values) // given.plain)][: given.plain])  # of the same kind
        copy = measure_children(ways["copy"], copy_loop, 1, len(values), ways["copy"].outputs[0])
        ours = measure_ours(ways["ours"], folder, given.threads, len(values))
        plain = measure_children(ways["plain"], plain_consumer, given.threads, given.plain, *ways["plain"].outputs[:2])
        if given.latency_s:
            live = measure_live(ways["live"], folder, given.threads, values, ours)
            some = [as_json(number, text) for number, text in enumerate(articles(int(live * given.latency_s / 2)))]
            delays = measure_latency(ways["latency"], folder, given.threads, some, live / 2)
        if given.filtered:
            lines = [as_json(number, text) for number, text in enumerate(articles(given.filtered))]
            filtered = measure_filter(folder, lines, given.threads, given.profile)
    mean_kb = sum(map(len, values)) / len(values) / 1000
    print(f"{len(values)} articles of {mean_kb:.1f} kB, {given.threads} threads, profile {given.profile}\n")
    print("| way | articles/s | beside the plain consumer | beside the copy loop |")
    print("| --- | --- | --- | --- |")
    for name, rate in (
        ("copy loop", copy),
        ("stream-dedup run", ours),
        ("stream-dedup filter", filtered),
        ("plain consumer", plain),
    ):
        if rate:
            print(f"| {name} | {rate:,.0f} | {rate / plain:.1f} × | {rate / copy:.2f} × |")
    if delays:
        print(f"\nwith the producer beside it: {live:,.0f} articles/s; at half of that, append time to append time:")
        print(f"p50 {delays[0]:.0f} ms, p99 {delays[1]:.0f} ms")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=12_000, help="articles through ours and the copy loop")
    parser.add_argument("--plain", type=int, default=1_500, help="articles through the plain consumer")
    parser.add_argument("--filtered", type=int, default=FILTER_ARTICLES, help="articles through filter, 0 for none")
    parser.add_argument(
        "--threads",
        type=int,
        default=multiprocessing.cpu_count(),
        help="of a worker and filter; processes of the plain consumer",
    )
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="article (default), comment or simhash")
    parser.add_argument("--latency-s", type=float, default=30.0, help="how long latency is measured, 0 for not at all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
