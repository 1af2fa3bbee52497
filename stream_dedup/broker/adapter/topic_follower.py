"""Follows partitions without an end, outside any group: a consumer whose partitions are assigned by hand."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from stream_dedup.broker.adapter.port_errors import out_of_range, port_error, port_errors
from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, SourceRecord

if TYPE_CHECKING:
    from kafka import KafkaConsumer

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

FOLLOWED_RECORDS = 2_000
"""Most records of one poll."""
FOLLOWED_POSITION_MS = 1_000
"""One wait for a position, which the client knows without a request."""


class KafkaTopicFollower:
    """Implements ``ports.TopicFollower``."""

    def __init__(self, kafka: KafkaConfig) -> None:
        """Connect at the first use."""
        self._kafka = kafka
        self._consumer: KafkaConsumer | None = None
        self._starts: dict[TopicPartition, int] = {}

    def follow(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others.

        Raises:
            PassingError: no broker can be reached.
        """
        self._starts = {TopicPartition(*at): offset for at, offset in starts.items()}
        with port_errors():
            consumer = self._connected()
            consumer.assign([])
            consumer.assign(list(self._starts))
            for at, offset in self._starts.items():
                consumer.seek(at, offset)

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        """Return the next records."""
        try:
            polled: dict[TopicPartition, list[Any]] = self._connected().poll(timeout_ms=int(wait_s * 1_000))
        except OffsetOutOfRangeError as error:
            raise OffsetGoneError(out_of_range(error)) from error
        except KafkaError as error:
            failure = port_error(error)
            if not isinstance(failure, PassingError):
                raise failure from error
            log.debug("poll of %s: %r", sorted(self._starts), error)
            return {}
        return {Partition(*at): records for at, records in polled.items() if records}

    def positions(self) -> Mapping[Partition, int]:
        """Return the offset of the next record of each partition that is followed."""
        with port_errors():
            return {
                Partition(*at): int(self._connected().position(at, timeout_ms=FOLLOWED_POSITION_MS))
                for at in self._starts
            }

    def close(self) -> None:
        """Close the connections."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))

    def _connected(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = make_consumer(self._kafka, max_poll_records=FOLLOWED_RECORDS)
        return self._consumer
