"""The log on kafka-python: one consumer without a group, one idempotent producer, one admin client that cuts.

Only the index knows up to which offset the log was applied, so reading uses no group. An append is complete when the
broker has acknowledged it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.errors import KafkaError, RetriableError
from kafka.future import Future

from stream_dedup.core.entry import (
    LOG_FORMAT_VERSION,
    Batch,
    LogRecord,
    Payload,
    decode,
    decode_batches,
    encode,
    naming_panics,
)
from stream_dedup.core.model import LogOffset
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError
from stream_dedup.kafka.admin import AdminConnection
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, discard, make_consumer, make_producer
from stream_dedup.kafka.consumer_workarounds import position_of
from stream_dedup.kafka.errors import port_error, port_errors
from stream_dedup.kafka.record import LOG_MESSAGE_BYTES
from stream_dedup.ports import Append, FingerprintLog, PassingError, PortError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka import KafkaProducer
    from kafka.consumer.fetcher import ConsumerRecord

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

READ_RECORDS = 1_000
"""Log records of one poll: some 50,000 entries when batches are full."""
LOG_FETCH_BYTES = 8 << 20
"""Bytes of log in one fetch: with the default of 1 MiB a rebuild would be slower."""


class _KafkaAppend(Append):
    """An append, with a future of the client."""

    def __init__(self, future: Future, is_given_up: Callable[[], bool]) -> None:
        """Fail, where the future has no outcome, once ``is_given_up`` returns true."""
        self._future = future
        self._is_given_up = is_given_up

    def done(self) -> bool:
        return self._future.is_done or self._is_given_up()

    def error(self) -> PortError | None:
        if self._future.is_done:
            return port_error(self._future.exception) if self._future.failed() else None
        return PassingError("given up before it was acknowledged") if self._is_given_up() else None

    def wait(self, timeout_s: float) -> LogOffset:
        failure = self.error()
        if failure is not None:
            raise failure
        with port_errors():
            return LogOffset(self._future.get(timeout=timeout_s).offset)


class KafkaLog(FingerprintLog):
    """The log, by kafka-python."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        """Connect; reading begins after ``seek``, and the first append or cut connects again.

        Raises:
            UnavailableError: no broker can be reached, or it refuses this client.
        """
        self._kafka = kafka
        self._topic = topic
        self._at = TopicPartition(topic, 0)
        self._high_water = LogOffset(0)
        self._producer: KafkaProducer | None = None
        self._renewals = 0
        self._admin = AdminConnection(kafka)
        self._consumer = make_consumer(kafka, max_poll_records=READ_RECORDS, max_partition_fetch_bytes=LOG_FETCH_BYTES)
        self._consumer.assign([self._at])

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return the first offset, and the offset after the last record; blocks up to ``broker_wait_s`` for each."""
        limit_ms = int(self._kafka.broker_wait_s * 1_000)
        with port_errors():
            begin = self._consumer.beginning_offsets([self._at], timeout_ms=limit_ms)
            end = self._consumer.end_offsets([self._at], timeout_ms=limit_ms)
        return LogOffset(begin[self._at]), LogOffset(end[self._at])

    def seek(self, offset: LogOffset) -> None:
        self._consumer.seek(self._at, offset)

    def poll(self, wait_s: float) -> list[LogRecord]:
        try:
            polled = self._consumer.poll(timeout_ms=int(wait_s * 1_000))
        except RetriableError as error:
            log.debug("log: %r", error)
            return []
        except KafkaError as error:
            raise port_error(error) from error
        self._high_water = LogOffset(self._consumer.highwater(self._at) or self._high_water)
        return log_records(self._topic, polled.get(self._at, ()))

    def high_water(self) -> LogOffset:
        return self._high_water

    def position(self) -> LogOffset:
        known = position_of(self._consumer, self._at)
        return LogOffset(0 if known is None else known.offset)

    def append(self, payload: Payload) -> _KafkaAppend:
        """Send one record; the first append connects."""
        renewals = self._renewals
        return _KafkaAppend(self._sent(payload), lambda: self._renewals > renewals)

    def _sent(self, payload: Payload) -> Future:
        try:
            if self._producer is None:
                self._producer = make_producer(self._kafka, acks="all", linger_ms=0, max_request_size=LOG_MESSAGE_BYTES)
            return self._producer.send(self._topic, value=encode(payload), partition=0)
        except KafkaError as error:
            return Future().failure(error)
        except UnavailableError as error:
            return Future().failure(PassingError(str(error)))

    def renew(self) -> None:
        """Give up the producer; the next append connects again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)
        self._renewals += 1

    def cut(self, before: LogOffset) -> None:
        with port_errors():
            self._admin.client().delete_records({self._at: int(before)})

    def close(self) -> None:
        """Close the connections; appends that are not acknowledged in some seconds are given up."""
        self._consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))
        if self._producer is not None:
            try:
                self._producer.close(timeout=CLOSE_TIMEOUT_S)
            except KafkaError as error:
                log.debug("closing the producer of the log: %r", error)
                self.renew()
        self._admin.close()


LOG_APPEND_TIME = 1
"""Kafka's timestamp type of a record whose time was set by the broker."""


def log_records(topic: str, consumed: Sequence[ConsumerRecord]) -> list[LogRecord]:
    """Decode consecutive records of the log.

    Raises:
        RefusedError: the time of one was set by a producer.
        CorruptError: one cannot be read; the first such record is named.
        DefectError: the native core panicked over them; the first and the last are named.
    """
    raws = [one.value or b"" for one in consumed]
    with naming_panics(lambda _: f"decoding topic {topic}, offsets {consumed[0].offset} to {consumed[-1].offset}"):
        batches = decode_batches(raws)
    return [
        _log_record(topic, one.offset, one.timestamp, one.timestamp_type, raw, batch)
        for one, raw, batch in zip(consumed, raws, batches, strict=True)
    ]


def _log_record(
    topic: str, offset: int, timestamp: int, timestamp_type: int, raw: bytes, batch: Batch | None
) -> LogRecord:
    """Return a record of the log; decodes its value where ``batch`` is None."""
    if timestamp_type != LOG_APPEND_TIME:
        raise RefusedError(
            f"topic {topic}, offset {offset}: its time was not set by the broker; "
            "the topic must have message.timestamp.type=LogAppendTime from its first record on"
        )
    try:
        return LogRecord(LogOffset(offset), timestamp, decode(raw) if batch is None else batch, raw)
    except CorruptError as error:
        is_newer = raw[:1] > bytes([LOG_FORMAT_VERSION])
        of_newer = "use the release that wrote it, then start again"
        remedy = of_newer if is_newer else "begin a new log with another --group and other output topics"
        raise CorruptError(f"topic {topic}, offset {offset}: {error}; {remedy}") from error
