"""The Kafka side of the demonstration: feeds a topic at a reading pace, and reads the verdicts as they come.

Only committed records are read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_admin, make_consumer, make_producer
from stream_dedup.broker.topics import ensure_topics, partition_counts
from stream_dedup.core.headers import Stamp, parse_headers
from stream_dedup.errors import UnavailableError

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

SHOWING_POLL_MS = 100
"""One wait for outputs, milliseconds; a person does not see a shorter delay."""
TOMBSTONE_LINE = b"null"
"""The line of a file that stands for a record without a value."""


@dataclass(frozen=True, slots=True)
class CommittedOutput:
    """An output record: its value, its headers, and when the broker received it (ms since 1970)."""

    value: bytes | None
    stamp: Stamp
    time: int


class Showing:
    """The topics of one demonstration; the constructor makes them, ``close`` removes them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stopped = threading.Event()
        self._feeder: threading.Thread | None = None
        self._failed: KafkaError | None = None
        with closing(make_admin(config.kafka)) as admin:
            ensure_topics(admin, config)

    def feed(self, lines: Iterable[bytes], pause_s: float) -> None:
        """Start to send the lines, however many, one record each, with a pause between them; returns at once."""
        self._feeder = threading.Thread(target=self._send, args=(lines, pause_s), name="feeder")
        self._feeder.start()

    def outputs(self, count: int, limit_s: float, running: Callable[[], bool]) -> Iterator[CommittedOutput]:
        """Yield so many outputs as they come.

        Raises:
            UnavailableError: no output came within ``limit_s``, or ``running`` returned false: the worker ended.
        """
        names = [self._config.topics.unique, self._config.topics.duplicate, self._config.topics.rejected]
        with closing(make_consumer(self._config.kafka, auto_offset_reset="earliest", group_id=None)) as consumer:
            with closing(make_admin(self._config.kafka)) as admin:
                counts = partition_counts(admin, names)
            consumer.assign([TopicPartition(name, number) for name in names for number in range(counts[name])])
            deadline = time.monotonic() + limit_s
            while count > 0:
                records = [record for batch in consumer.poll(SHOWING_POLL_MS).values() for record in batch]
                for record in sorted(records, key=lambda record: int(record.timestamp)):
                    yield CommittedOutput(record.value, parse_headers(record.headers), record.timestamp)
                    count -= 1
                    deadline = time.monotonic() + limit_s
                if count and (self._failed is not None or not running() or time.monotonic() > deadline):
                    why = self._failed or (f"none within {limit_s:g} s" if running() else "the worker has ended")
                    msg = f"{count} verdicts are missing: {why}"
                    raise UnavailableError(msg)

    def close(self) -> None:
        """Stop feeding, and delete the topics and the group if the broker answers."""
        self._stopped.set()
        if self._feeder is not None:
            self._feeder.join()
        topics = self._config.topics
        names = [*topics.input, topics.unique, topics.duplicate, topics.rejected, self._config.log_topic]
        with contextlib.suppress(KafkaError, UnavailableError), closing(make_admin(self._config.kafka)) as admin:
            admin.delete_topics(names)
            admin.delete_groups([self._config.kafka.group])

    def _send(self, lines: Iterable[bytes], pause_s: float) -> None:
        try:
            producer = make_producer(self._config.kafka)
            for line in lines:
                value = None if line == TOMBSTONE_LINE else line
                producer.send(self._config.topics.input[0], value=value, key=b"deleted" if value is None else None)
                if self._stopped.wait(pause_s):
                    break
            producer.close(timeout=CLOSE_TIMEOUT_S)
        except KafkaError as error:
            self._failed = error
