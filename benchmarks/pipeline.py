"""What a worker on a real broker is measured with: topics of its own, a producer, its process, its outputs, a log."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import NewTopic

from benchmarks.stream import Stream
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin, make_consumer
from tests.worker.pipeline import toml_of

CLIENTS = ("kafka-python", "confluent")
PARTITIONS = multiprocessing.cpu_count()
PATIENCE_S = 300.0
LOOK_S = 0.2
LOG_BATCH = 500
"""Made articles a log record."""
TELL_S = 60.0
OUTPUT_SETTINGS = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"}
SOURCE_SETTINGS = {"message.timestamp.type": "LogAppendTime"}


class Bench:
    """Topics and configuration of one way through the broker."""

    def __init__(self, bootstrap: str, way: str, profile: str, partitions: int = PARTITIONS) -> None:
        self._partitions = partitions
        name = f"bench-{way}-{uuid.uuid4().hex[:8]}"
        self.source = f"{name}-articles"
        self.outputs = [f"{name}-unique", f"{name}-duplicate", f"{name}-rejected"]
        self._values: dict[str, dict[str, Any]] = {
            "kafka": {"brokers": bootstrap, "group": name},
            "topics": dict(zip(("unique", "duplicate", "rejected"), self.outputs, strict=True))
            | {"input": [self.source], "partitions": partitions},
            "match": {"profile": profile},
        }
        self.config: Config = load_config(None, self._values, {})
        admin = make_admin(self.config.kafka)
        admin.create_topics([NewTopic(self.source, partitions, 1, topic_configs=SOURCE_SETTINGS)])
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=OUTPUT_SETTINGS) for topic in self.outputs])
        admin.close()

    def worker_values(self, folder: Path, threads: int, client: str = CLIENTS[0]) -> dict[str, dict[str, Any]]:
        """Return the configuration of a worker with this Kafka client, whose index is in a folder."""
        return self._values | {
            "kafka": self._values["kafka"] | {"client": client},
            "index": {"path": str(folder / self.config.kafka.group)},
            "worker": {"threads": threads},
            "metrics": {"address": "off"},
        }

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
            raise TimeoutError(f"{left} articles were not acknowledged")

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


def start_worker(bench: Bench, folder: Path, threads: int, client: str = CLIENTS[0]) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own."""
    path = folder / "worker.toml"
    path.write_text(toml_of(bench.worker_values(folder, threads, client)))
    return subprocess.Popen([sys.executable, "-m", "stream_dedup", "run", "--config", str(path), "--log-level=warning"])


def end_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)


def source_time(record: Any) -> int:  # noqa: ANN401 - the client's record
    """Append time, ms, of the article of an output."""
    return int(dict(record.headers)["dedup.source.timestamp"])


class MadeLog:
    """The log of a configuration's group, with articles of ``benchmarks.stream`` under its rules."""

    def __init__(self, config: Config, batch: int = LOG_BATCH) -> None:
        """The topic of the log is there, and empty; ``batch``: articles a log record."""
        self._batch = batch
        self._config = config
        self._rules = rules_of(config)
        scheme = self._rules.scheme
        self._stream = Stream(batch, scheme.tables, scheme.sketch_bytes)

    def begin(self) -> None:
        """Append the rules."""
        with closing(connect_log(self._config)) as log:
            log.append_now(replace(self._rules, revision=1))

    def append(self, articles: int, rate: float = 0.0) -> None:
        """Append articles, at so many a second where a rate is given; what is done is told now and then."""
        began = told = time.monotonic()
        with closing(connect_log(self._config)) as log:
            for done in range(0, articles, self._batch):
                if rate:
                    time.sleep(max(0.0, began + done / rate - time.monotonic()))
                log.append_soon(self._stream.batch())
                if time.monotonic() - told > TELL_S:
                    told = time.monotonic()
                    print(f"log: {done:,} of {articles:,} articles, {told - began:.0f} s", file=sys.stderr, flush=True)
            log.wait_for_appends()
