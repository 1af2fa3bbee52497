"""The log on confluent-kafka: one consumer that joins no group, one idempotent producer; kafka-python cuts.

* The reports of appends wait in the client until somebody asks: whoever asks whether an append is done collects them.
* A seek is another assignment of the one partition: it starts again a partition whose position was gone, too.
* The end of the partition is an event. With it the position moves over gaps.
* The client fetches in a thread of its own, every record of a slow log as soon as it is there. A pause stops it until
  the next poll, so that a follower takes many records at once: fetching one by one took more than all else.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message, TopicPartition
from kafka import TopicPartition as KafkaPartition

from stream_dedup.core.entry import LogRecord, Payload, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.kafka.admin import AdminConnection
from stream_dedup.kafka.confluent.client import (
    CLIENT_EXCEPTIONS,
    ConsumedRecord,
    PartitionEnd,
    PositionGone,
    client_errors,
    drop_unsent,
    error_of,
    make_member,
    make_sender,
    next_events,
    port_error_of,
)
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S
from stream_dedup.kafka.errors import port_errors
from stream_dedup.kafka.fingerprint_log import LOG_FETCH_BYTES, READ_RECORDS
from stream_dedup.kafka.log import log_records
from stream_dedup.kafka.record import LOG_MESSAGE_BYTES
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, PortError, SourceChangedError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

REPORT_WAIT_S = 0.1
"""One wait for the report of an append: another thread may have collected it."""


class _Appender:
    """One producer of the log; what it has not sent when it is given up has failed."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self.client: Producer = make_sender(kafka, linger_ms=0, message_max_bytes=LOG_MESSAGE_BYTES)
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True
        drop_unsent(self.client)


class _ReportedAppend:
    """Implements ``ports.Append`` with the client's report of a delivery."""

    def __init__(self, appender: _Appender | None, failure: PortError | None = None) -> None:
        """With a ``failure`` the client did not take the record."""
        self._appender = appender
        self._failure = failure
        self._offset: int | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Take the client's report."""
        if error is not None:
            self._failure = port_error_of(error)
        else:
            self._offset = message.offset()
        self._appender = None

    def done(self) -> bool:
        self._collect(0)
        return self._appender is None or self._appender.given_up

    def error(self) -> PortError | None:
        self._collect(0)
        if self._failure is not None:
            return self._failure
        given_up = self._appender is not None and self._appender.given_up
        return PassingError("given up before it was acknowledged") if given_up else None

    def wait(self, timeout_s: float) -> LogOffset:
        deadline = time.monotonic() + timeout_s
        while not self.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                msg = f"not acknowledged within {timeout_s:g} s"
                raise PassingError(msg)
            self._collect(min(left_s, REPORT_WAIT_S))
        failure = self.error()
        if failure is not None:
            raise failure
        return LogOffset(-1 if self._offset is None else self._offset)

    def _collect(self, wait_s: float) -> None:
        """Let the client hand out the reports that it has, of this append and of others."""
        if (appender := self._appender) is not None and not appender.given_up:
            try:
                appender.client.poll(wait_s)
            except CLIENT_EXCEPTIONS as error:
                self._failure, self._appender = port_error_of(error_of(error)), None


class ConfluentLog:
    """Implements ``ports.FingerprintLog``."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        """Connect; reading begins after ``seek``."""
        self._kafka = kafka
        self._topic = topic
        self._partition = Partition(topic, 0)
        self._consumer: Consumer = make_member(kafka, max_partition_fetch_bytes=LOG_FETCH_BYTES)
        self._position = self._high_water = LogOffset(0)
        self._gone: PositionGone | None = None
        self._is_paused = False
        self._appender: _Appender | None = None
        self._admin = AdminConnection(kafka)

    # One thread reads.

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return the first offset, and the offset after the last record; blocks up to ``broker_wait_s``."""
        at = TopicPartition(*self._partition)
        with client_errors():
            first, end = self._consumer.get_watermark_offsets(at, timeout=self._kafka.broker_wait_s)
        return LogOffset(first), LogOffset(end)

    def seek(self, offset: LogOffset) -> None:
        """Read from this offset on."""
        self._resume()
        self._gone = None
        self._position = LogOffset(offset)
        with client_errors():
            self._consumer.assign([TopicPartition(*self._partition, int(offset))])

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return the next records in order."""
        self._resume()
        self._say_what_is_gone()
        found: list[ConsumedRecord] = []
        for event in self._events(wait_s):
            if isinstance(event, ConsumedRecord):
                found.append(event)
                self._position = LogOffset(event.offset + 1)
            elif isinstance(event, PartitionEnd):
                self._position = LogOffset(max(event.offset, self._position))
            else:
                self._gone = event
        with client_errors():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*self._partition), cached=True)
        self._high_water = LogOffset(max(end, self._high_water))
        if not found:
            self._say_what_is_gone()
        return log_records(self._topic, found)

    def pause(self) -> None:
        """Fetch nothing until the next ``poll``, which goes on at the same position."""
        if not self._is_paused:
            with client_errors():
                self._consumer.pause([TopicPartition(*self._partition)])
            self._is_paused = True

    def position(self) -> LogOffset:
        """Return the offset of the next record that ``poll`` looks for."""
        return self._position

    def high_water(self) -> LogOffset:
        """Return the offset after the last record, as of the last fetch."""
        return self._high_water

    # One thread appends.

    def append(self, payload: Payload) -> _ReportedAppend:
        """Send one record; the first append connects."""
        try:
            if self._appender is None:
                self._appender = _Appender(self._kafka)
            append = _ReportedAppend(self._appender)
            client = self._appender.client
            client.produce(self._topic, encode(payload), partition=0, on_delivery=append.report)
            client.poll(0)
        except CLIENT_EXCEPTIONS as error:
            return _ReportedAppend(None, port_error_of(error_of(error)))
        except BufferError as error:
            return _ReportedAppend(None, PassingError(str(error)))
        return append

    def renew(self) -> None:
        """Give up the producer; the next append connects again."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.give_up()

    # One thread cuts.

    def cut(self, before: LogOffset) -> None:
        """Delete the records before an offset."""
        # kafka-python's admin client is used for what is asked seldom.
        with port_errors():
            self._admin.client().delete_records({KafkaPartition(*self._partition): int(before)})

    def close(self) -> None:
        """Close the connections; appends that are not acknowledged in some seconds are given up."""
        self._consumer.close()
        if self._appender is not None:
            try:
                self._appender.client.flush(CLOSE_TIMEOUT_S)
            except CLIENT_EXCEPTIONS as error:
                log.debug("closing the producer of the log: %r", error)
            self.renew()
        self._admin.close()

    def _resume(self) -> None:
        """Let the client fetch again, from the position of the pause on; one that is not paused is never resumed."""
        if self._is_paused:
            with client_errors():
                self._consumer.resume([TopicPartition(*self._partition)])
            self._is_paused = False

    def _events(self, wait_s: float) -> list[ConsumedRecord | PartitionEnd | PositionGone]:
        try:
            return next_events(self._consumer, wait_s, READ_RECORDS)
        except PassingError as error:
            log.debug("log: %r", error)
            return []

    def _say_what_is_gone(self) -> None:
        """Raise if the client has stopped at the position, or start it again if the position is there after all.

        Raises:
            OffsetGoneError, SourceChangedError: as ``poll``.
        """
        gone = self._gone
        if gone is None:
            return
        if gone.is_truncated:
            raise SourceChangedError(gone.reason)
        try:
            first, end = self.bounds()
        except PassingError as error:
            log.debug("bounds of the log: %r", error)  # asked again by the next poll
            return
        if not first <= self._position <= end:
            raise OffsetGoneError([self._partition])
        self.seek(self._position)
