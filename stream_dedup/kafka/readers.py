"""Reads topics outside any group: without an end for followers, and from offset to offset for the audit."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition

from stream_dedup.kafka.admin import AdminConnection, offset_bounds, partitions_of
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.kafka.consumer_workarounds import position_of
from stream_dedup.kafka.errors import port_errors
from stream_dedup.ports import Partition, PassingError, SourceRecord, TopicFollower, TopicReader

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

READ_POLL_S = 0.05
"""One wait for records of a range. After it the positions are checked: transaction markers arrive as no record."""
SHORT_RANGE = 64
"""Most offsets of a range that is read with small fetches."""
SHORT_FETCH_BYTES = 64 << 10
"""Bytes of one small fetch; the broker sends a larger record all the same."""
FOLLOWED_RECORDS = 2_000
"""Most records of one poll."""


class KafkaTopicFollower(TopicFollower):
    """A consumer whose partitions are assigned by hand."""

    def __init__(self, kafka: KafkaConfig, **settings: int) -> None:
        """Connect at the first use; ``settings`` are the client's."""
        self._kafka = kafka
        self._settings = {"max_poll_records": FOLLOWED_RECORDS, **settings}
        self._consumer: KafkaConsumer | None = None
        self._followed: set[TopicPartition] = set()

    def follow(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others.

        Raises:
            PassingError: no broker can be reached.
        """
        self._followed = {TopicPartition(*at) for at in starts}
        with port_errors():
            consumer = self._connected()
            consumer.assign([])
            consumer.assign(list(self._followed))
            for at, offset in starts.items():
                consumer.seek(TopicPartition(*at), offset)

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        try:
            with port_errors():
                polled: dict[TopicPartition, list[Any]] = self._connected().poll(timeout_ms=int(wait_s * 1_000))
        except PassingError as error:
            log.debug("poll of %s: %r", sorted(self._followed), error)
            return {}
        return {Partition(*at): records for at, records in polled.items() if records}

    def positions(self) -> Mapping[Partition, int]:
        with port_errors():
            found = {Partition(*at): position_of(self._connected(), at) for at in self._followed}
        return {at: int(position.offset) for at, position in found.items() if position is not None}

    def leave(self, partition: Partition) -> None:
        """Read nothing more of a partition, and go on with the others."""
        at = TopicPartition(*partition)
        self._followed.remove(at)
        self._connected().pause(at)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))

    def _connected(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = make_consumer(self._kafka, **self._settings)
        return self._consumer


class KafkaTopicReader(TopicReader):
    """Two followers, each of which connects at its first use.

    One fetches much at once; it reads the long ranges. The other one fetches little; it reads ranges of a few offsets,
    for each of which the broker would otherwise send a megabyte.
    """

    def __init__(self, kafka: KafkaConfig) -> None:
        self._limit_s = kafka.transaction_timeout_s + kafka.broker_wait_s
        self._admin = AdminConnection(kafka)
        self._long = KafkaTopicFollower(kafka)
        self._short = KafkaTopicFollower(
            kafka, max_partition_fetch_bytes=SHORT_FETCH_BYTES, fetch_max_wait_ms=int(READ_POLL_S * 1_000)
        )

    def partitions(self, names: Iterable[str]) -> list[Partition]:
        with port_errors():
            return partitions_of(self._admin.client(), names)

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        with port_errors():
            return offset_bounds(self._admin.client(), [*partitions])

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[SourceRecord]:
        wanted = {at: bounds for at, bounds in ranges.items() if bounds[0] < bounds[1]}
        follower = self._short if all(end - begin <= SHORT_RANGE for begin, end in wanted.values()) else self._long
        follower.follow({at: begin for at, (begin, _) in wanted.items()})
        left = {at: end for at, (_, end) in wanted.items()}
        moved_at, before = time.monotonic(), dict[Partition, int]()
        while left:
            for at, records in follower.poll(READ_POLL_S).items():
                yield from (record for record in records if record.offset < wanted[at][1])
            positions = dict(follower.positions())
            if positions != before:
                moved_at, before = time.monotonic(), positions
            elif time.monotonic() - moved_at > self._limit_s:
                raise _stuck(positions, left, self._limit_s)
            for at in [at for at, end in left.items() if positions[at] >= end]:
                del left[at]
                follower.leave(at)

    def close(self) -> None:
        for one in (self._admin, self._long, self._short):
            one.close()


def _stuck(positions: Mapping[Partition, int], left: Mapping[Partition, int], limit_s: float) -> PassingError:
    at, end = next(iter(left.items()))
    return PassingError(
        f"{at}: nothing came from offset {positions[at]} of {end} on for {limit_s:g} s: is the broker up, "
        "or does a transaction hang (kafka-transactions.sh find-hanging)?"
    )
