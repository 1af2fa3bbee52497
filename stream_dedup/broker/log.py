"""The fingerprint log on Kafka: reading it in order, appending to it.

The log is one partition, so its offsets are one total order. Reading uses no consumer group: only the index knows up
to which offset the log was applied.

An append is complete when the broker has acknowledged it. The record of an append that failed, or whose outcome is
unknown, may or may not be in the log. The append is made again: coordinates that are logged twice are one article.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError, OffsetOutOfRangeError, RetriableError

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, discard, make_consumer, make_producer
from stream_dedup.broker.topics import LOG_MESSAGE_BYTES
from stream_dedup.core.entry import LogRecord, Payload, decode, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.core.progress import ReportStage
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError
from stream_dedup.ports import OffsetGoneError, Partition

if TYPE_CHECKING:
    from kafka.future import Future

    from stream_dedup.broker.record import ConsumerRecord
    from stream_dedup.config.model import Config, KafkaConfig

log = logging.getLogger(__name__)

READ_RECORDS = 1_000
"""Log records of one poll: some 50,000 entries when batches are full."""
FETCH_BYTES = 8 << 20
"""Bytes of log in one fetch: with the default of 1 MiB a rebuild would be slower."""
LOG_APPEND_TIME = 1
"""Kafka's timestamp type of a record whose time was set by the broker."""
READ_BACK_S = 1.0
"""One wait, in seconds, for a record that is known to be in the log."""


class RecordReader(Protocol):
    """The part of ``FingerprintLog`` that reads."""

    def seek(self, offset: int) -> None:
        """Read from this offset on."""

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return the next records."""

    def position(self) -> LogOffset:
        """Return the offset of the next record that ``poll`` looks for."""


def read_range(reader: RecordReader, topic: str, start: int, end: int, wait_s: float) -> Iterator[list[LogRecord]]:
    """Yield the records from ``start`` up to, not including, ``end``.

    Raises:
        RefusedError: the log was cut past ``start``.
        UnavailableError: no record came for ``wait_s`` although the log has more.
    """
    reader.seek(start)
    idle_s = 0.0
    while start < end:
        try:
            records = reader.poll(READ_BACK_S)
        except OffsetGoneError as error:
            raise cut_away(topic) from error
        if records:
            start = records[-1].offset + 1
            idle_s = 0.0
            yield [record for record in records if record.offset < end]
            continue
        if reader.position() >= end:
            return
        idle_s += READ_BACK_S
        if idle_s > wait_s:
            msg = f"topic {topic}: offset {start} of {end} was not delivered within {wait_s:g} s"
            raise UnavailableError(msg)


def cut_away(topic: str) -> RefusedError:
    """Return the error for a log that was cut past the offset to read from."""
    return RefusedError(
        f"topic {topic}: the offset to read from is no longer there; another worker has trimmed the log "
        "while this one did not run. Start this worker again: it rebuilds its index from the log."
    )


class LogReader:
    """Reads the log from any offset, in order."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        """Connect; reading begins after ``seek``."""
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._consumer = make_consumer(
            kafka,
            max_poll_records=READ_RECORDS,
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        self._consumer.assign([self._partition])

    def bounds(self, timeout_s: float) -> tuple[LogOffset, LogOffset]:
        """Return the first offset and the offset after the last record.

        Raises:
            UnavailableError: the broker did not answer in time.
        """
        try:
            begin = self._consumer.beginning_offsets([self._partition], timeout_ms=int(timeout_s * 1000))
            end = self._consumer.end_offsets([self._partition], timeout_ms=int(timeout_s * 1000))
        except KafkaError as error:
            msg = f"topic {self._topic}: its offsets cannot be read within {timeout_s:g} s: {error}"
            raise UnavailableError(msg) from error
        return LogOffset(begin[self._partition]), LogOffset(end[self._partition])

    def seek(self, offset: int) -> None:
        """Read from this offset on."""
        self._consumer.seek(self._partition, offset)

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return the next records; none if no record came within the time-out.

        Raises:
            OffsetGoneError: the log was cut past the offset to read from.
            RefusedError: a record's time was not set by the broker.
            CorruptError: a record cannot be read.
        """
        try:
            polled = self._consumer.poll(timeout_ms=int(wait_s * 1000))
        except OffsetOutOfRangeError as error:
            raise OffsetGoneError([Partition(self._topic, 0)]) from error
        except (RetriableError, KafkaConnectionError) as error:
            log.debug("log: %r", error)
            return []
        return [self._record(message) for message in polled.get(self._partition, ())]

    def high_water(self) -> LogOffset:
        """Return the offset after the log's last record, as of the last fetch; 0 before the first fetch."""
        return LogOffset(self._consumer.highwater(self._partition) or 0)

    def read(self, start: int, end: int, timeout_s: float) -> Iterator[list[LogRecord]]:
        """Yield the records from ``start`` up to, not including, ``end``: see ``read_range``."""
        return read_range(self, self._topic, start, end, timeout_s)

    def position(self) -> LogOffset:
        """Return the offset of the next record; it moves over gaps, too."""
        position = self._consumer.position(self._partition, timeout_ms=int(READ_BACK_S * 1000))
        return LogOffset(-1 if position is None else int(position))

    def _record(self, message: ConsumerRecord) -> LogRecord:
        if message.timestamp_type != LOG_APPEND_TIME:
            msg = (
                f"topic {self._topic}, offset {message.offset}: its time was not set by the broker; "
                "the topic must have message.timestamp.type=LogAppendTime from its first record on"
            )
            raise RefusedError(msg)
        raw = message.value or b""
        try:
            return LogRecord(message.offset, message.timestamp, decode(raw), raw)
        except CorruptError as error:
            msg = f"topic {self._topic}, offset {message.offset}: {error}"
            raise CorruptError(msg) from error

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1000))


def read_whole_log(config: Config, progress: ReportStage) -> Iterator[LogRecord]:
    """Read every record that the log holds now, in order.

    Raises:
        UnavailableError: the broker did not answer in time.
        RefusedError: the log was cut while it was read.
        CorruptError: a record cannot be read.
    """
    with closing(LogReader(config.kafka, config.log_topic)) as reader:
        first, end = reader.bounds(config.kafka.broker_wait_s)
        for records in reader.read(first, end, config.kafka.broker_wait_s):
            yield from records
            progress("log records read", records[-1].offset + 1 - first, end - first)


class LogAppender:
    """Appends to the log with an idempotent producer, in the order of the calls.

    ``append`` does not wait: its future has the outcome. After a failed append call ``renew``, which makes a new
    producer: the client would go on with the records after the failed one.
    """

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        """Connect."""
        self._kafka = kafka
        self._topic = topic
        self._producer = self._connect()

    def _connect(self) -> KafkaProducer:
        return make_producer(self._kafka, acks="all", linger_ms=0, max_request_size=LOG_MESSAGE_BYTES)

    def append(self, payload: Payload) -> Future:
        """Send one record; return the future of its metadata."""
        return self._producer.send(self._topic, value=encode(payload), partition=0)

    def append_now(self, payload: Payload) -> LogOffset:
        """Append one record, wait for the acknowledgement, and return its offset.

        Raises:
            UnavailableError: no acknowledgement within ``broker_wait_s``; the record may or may not be in the log.
        """
        try:
            return LogOffset(self.append(payload).get(timeout=self._kafka.broker_wait_s).offset)
        except KafkaError as error:
            msg = f"topic {self._topic}: an append was not acknowledged within {self._kafka.broker_wait_s} s: {error}"
            raise UnavailableError(msg) from error

    def renew(self) -> None:
        """Replace the producer, and give up what the old one has not sent."""
        discard(self._producer)
        self._producer = self._connect()

    def close(self) -> None:
        """Close the connection to the broker."""
        self._producer.close(timeout=CLOSE_TIMEOUT_S)
