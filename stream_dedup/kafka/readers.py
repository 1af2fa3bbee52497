"""Reads topics outside any group: from offset to offset for the audit, and without an end for followers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from stream_dedup.kafka.admin import AdminConnection, offset_bounds, partitions_of
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.kafka.errors import out_of_range, port_error, port_errors
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, SourceRecord

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

READ_POLL_MS = 50
"""One wait for records. After it the positions are checked, because transaction markers arrive as no record."""
POSITION_MS = 5_000
"""One wait for a position, which the client knows without a request."""
SHORT_RANGE = 64
"""Most offsets of a range that is read with small fetches."""
SHORT_FETCH_BYTES = 64 << 10
"""Bytes of one small fetch; the broker sends a larger record all the same."""


class KafkaTopicReader:
    """Implements ``ports.TopicReader`` by two consumers, each of which connects at its first use.

    One fetches much at once; it reads the long ranges. The other one fetches little; it reads ranges of a few offsets,
    for each of which the broker would otherwise send a megabyte.
    """

    def __init__(self, kafka: KafkaConfig) -> None:
        """Connect at the first request."""
        self._kafka = kafka
        self._admin = AdminConnection(kafka)
        self._consumers: dict[bool, KafkaConsumer] = {}

    def partitions(self, names: Iterable[str]) -> list[Partition]:
        """Return every partition of those topics that exist."""
        with port_errors():
            return [Partition(*at) for at in partitions_of(self._admin.client(), list(names))]

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the first offset and the offset after the last record of each, open transactions included."""
        with port_errors():
            found = offset_bounds(self._admin.client(), [TopicPartition(*at) for at in partitions])
        return {Partition(*at): bounds for at, bounds in found.items()}

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[SourceRecord]:
        """Yield the committed records of each range; waits for transactions that are open in a range."""
        limit_s = self._kafka.transaction_timeout_s + self._kafka.broker_wait_s
        wanted = {TopicPartition(*at): bounds for at, bounds in ranges.items() if bounds[0] < bounds[1]}
        consumer = self._consumer(wanted)
        left = dict(wanted)
        moved_at, before = time.monotonic(), dict[TopicPartition, int]()
        while left:
            for at, records in self._poll(consumer).items():
                yield from (record for record in records if record.offset < wanted[at][1])
            positions = self._positions(consumer, left)
            if positions != before:
                moved_at, before = time.monotonic(), positions
            elif time.monotonic() - moved_at > limit_s:
                raise _stuck(positions, left, limit_s)
            for at in [at for at, (_, end) in left.items() if positions[at] >= end]:
                del left[at]
                consumer.pause(at)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()
        for consumer in self._consumers.values():
            consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))
        self._consumers.clear()

    def _consumer(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> KafkaConsumer:
        """Return a consumer at the beginning of each range; what an earlier read left over is dropped."""
        short = all(end - begin <= SHORT_RANGE for begin, end in wanted.values())
        with port_errors():
            if short not in self._consumers:
                small = {"max_partition_fetch_bytes": SHORT_FETCH_BYTES, "fetch_max_wait_ms": READ_POLL_MS}
                self._consumers[short] = make_consumer(self._kafka, **(small if short else {}))
            consumer = self._consumers[short]
            consumer.assign([])
            consumer.assign(list(wanted))
            for at, (begin, _) in wanted.items():
                consumer.seek(at, begin)
        return consumer

    def _poll(self, consumer: KafkaConsumer) -> dict[TopicPartition, list[Any]]:
        try:
            with port_errors():
                polled: dict[TopicPartition, list[Any]] = consumer.poll(timeout_ms=READ_POLL_MS)
        except PassingError:
            return {}
        return polled

    def _positions(self, consumer: KafkaConsumer, left: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with port_errors():
            return {at: int(consumer.position(at, timeout_ms=POSITION_MS)) for at in left}


def _stuck(
    positions: Mapping[TopicPartition, int], left: Mapping[TopicPartition, tuple[int, int]], limit_s: float
) -> PassingError:
    at, (_, end) = next(iter(left.items()))
    return PassingError(
        f"{Partition(*at)}: nothing came from offset {positions[at]} of {end} on for {limit_s:g} s: is the broker up, "
        "or does a transaction hang (kafka-transactions.sh find-hanging)?"
    )


log = logging.getLogger(__name__)

FOLLOWED_RECORDS = 2_000
"""Most records of one poll."""
FOLLOWED_POSITION_MS = 1_000
"""One wait for a position, which the client knows without a request."""


class KafkaTopicFollower:
    """Implements ``ports.TopicFollower`` by a consumer whose partitions are assigned by hand."""

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
