"""The log on confluent-kafka: one consumer that joins no group; kafka-python appends and cuts.

* A seek is another assignment of the one partition: it starts again a partition whose position was gone, too.
* The end of the partition is an event. With it the position moves over gaps.
* The client fetches in a thread of its own, every record of a slow log as soon as it is there. A pause stops it until
  the next poll, so that a follower takes many records at once: fetching one by one took more than all else.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition

from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import LogOffset
from stream_dedup.kafka.confluent.client import (
    ConsumedRecord,
    PartitionEnd,
    PositionGone,
    client_errors,
    make_member,
    next_events,
)
from stream_dedup.kafka.fingerprint_log import LOG_FETCH_BYTES, READ_RECORDS, AppendedLog
from stream_dedup.kafka.log import log_records
from stream_dedup.ports import OffsetGoneError, PassingError, SourceChangedError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)


class ConfluentLog(AppendedLog):
    """Implements ``ports.FingerprintLog``."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        """Connect; reading begins after ``seek``."""
        super().__init__(kafka, topic)
        self._consumer: Consumer = make_member(kafka, max_partition_fetch_bytes=LOG_FETCH_BYTES)
        self._position = LogOffset(0)
        self._gone: PositionGone | None = None
        self._is_paused = False

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

    def close(self) -> None:
        """Close the connections; as the base."""
        self._consumer.close()
        super().close()

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
