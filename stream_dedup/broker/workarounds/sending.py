"""Workarounds for how a producer sends the records of a transaction: when its thread wakes up, and with what.

The thread of a producer shares the interpreter with all threads of the process, and makes some thirty rounds for a
transaction of a hundred records where the client is left to itself: it is woken for the first record of each batch, and
sends what is there by then, often two or three records, while the caller hands over the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.partitioner import DefaultPartitioner

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer
    from kafka.cluster import ClusterMetadata
    from kafka.future import Future

_MOST_FRAME_BYTES = 128
"""More than a batch has beside the keys, values and headers of one record."""
_MOST_FIELD_BYTES, _MOST_BYTES_OF_CHARACTER = 10, 4
"""Of the lengths of a header's name and value, and of a character of the name."""


class OnePartition(DefaultPartitioner):  # type: ignore[misc] # the client has no types
    """Chooses one partition of a topic for all records without a key, until ``forget``.

    The client's default chooses another one for each, and a transaction costs the broker a check and a marker for each
    partition. The client's sticky partitioner adds a partition to the transaction that it then leaves empty.
    """

    def __init__(self) -> None:
        """Choose nothing yet."""
        self._chosen: dict[str, int] = {}

    def forget(self) -> None:
        """Choose again."""
        self._chosen.clear()

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: bytes | None,
        cluster: ClusterMetadata,
    ) -> int:
        """Return the partition of a record; the chosen one as long as it has a leader, or none has."""
        known = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic) or ()
        if serialized_key is None and self._chosen.get(topic) in known:
            return self._chosen[topic]
        found: int = super().partition(topic, key, serialized_key, value, serialized_value, cluster)
        if serialized_key is None:
            self._chosen[topic] = found
        return found


class HeldSender:
    """Hands the records of transactions over to a producer, in few steps, while its thread sleeps.

    The client checks the types of a record, estimates its size header by header, asks for the state of the transaction
    under three locks, and wakes its thread, for each record: that takes longer than all else that a worker does with an
    output. Here the producer is asked once for each partition of a transaction. What would fail later on (a transaction
    in an error, a closed producer) fails at the accumulator, or the records fail, which their futures tell.

    One thread calls.
    """

    def __init__(self, producer: KafkaProducer, partitions: OnePartition) -> None:
        """Hand over to this producer; ``partitions`` chooses again at each ``wake``."""
        self._producer = producer
        self._partitioner = partitions
        self._cluster = private(producer, "_metadata")
        self._append = private(producer, "_accumulator", "append")
        self._add_partition = private(producer, "_transaction_manager", "maybe_add_partition_to_transaction")
        self._wake = private(producer, "_sender", "wakeup")
        self._most_bytes = producer.config["max_request_size"]
        self._added: set[TopicPartition] = set()

    def end(self) -> None:
        """Ask the producer again for each partition: the transaction ends, and a record before the next one fails."""
        self._added.clear()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        timestamp_ms: int,
    ) -> Future:
        """Hand over one record; blocks only where the topic is not known yet, which the producer's thread looks up.

        Raises:
            KafkaError: the producer cannot take records now, or the record is too large for it.
        """
        is_known = self._cluster.partitions_for_topic(topic) is not None
        if not (is_known and _most_bytes_of(key, value, headers) <= self._most_bytes):
            return self._producer.send(topic, value, key, headers, timestamp_ms=timestamp_ms)
        at = TopicPartition(topic, self._partitioner.partition(topic, key, key, value, value, self._cluster))
        if at not in self._added:
            self._add_partition(at)
            self._added.add(at)
        future, *_ = self._append(at, timestamp_ms, key, value, headers)
        return future

    def wake(self) -> None:
        """Let the thread send what was handed over."""
        self._partitioner.forget()
        self._wake()


@contextmanager
def asleep(producer: KafkaProducer, topic: str) -> Iterator[None]:
    """Let the producer's thread sleep while records of a topic are handed over in the block, and send them together.

    The client wakes it for the first record, and again for each one that comes while it sends those before. A record of
    a topic that is not known waits for what this thread looks up, so that it does not sleep then. One thread calls.
    """
    sender, is_asked = private(producer, "_sender"), False

    def note() -> None:
        nonlocal is_asked
        is_asked = True

    if private(producer, "_metadata").partitions_for_topic(topic) is None:
        yield
        return
    wake = private(sender, "wakeup")
    sender.wakeup = note
    try:
        yield
    finally:
        sender.wakeup = wake
        if is_asked:
            wake()


def _most_bytes_of(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """Return a bound on the size of a batch that has this record alone."""
    named = sum([_MOST_FIELD_BYTES + _MOST_BYTES_OF_CHARACTER * len(name) + len(content) for name, content in headers])
    return _MOST_FRAME_BYTES + len(key or b"") + len(value or b"") + named


def send_beside_requests(producer: KafkaProducer) -> None:
    """Send records while a request of the transaction is under way.

    The client sends records only while none is: those of a transaction wait for the requests that add its offsets.
    Records of partitions that are not yet part of the transaction still wait for the request that adds these.
    """
    sender, manager = private(producer, "_sender"), private(producer, "_transaction_manager")
    send_request, send_records = private(sender, "_maybe_send_pending_request"), private(sender, "_send_producer_data")

    def send_request_and_records() -> bool:
        is_under_way = bool(send_request())
        if (
            is_under_way
            and manager.has_producer_id()
            and not (manager.has_error() or manager.is_bumping_epoch() or manager.is_completing())
        ):
            send_records()
        return is_under_way

    sender._maybe_send_pending_request = send_request_and_records  # noqa: SLF001 - no public place to change this


def add_partitions_first(producer: KafkaProducer) -> None:
    """Queue the request that adds the partitions of the records before that which adds offsets.

    The client queues the first when its thread comes to it, behind the second: the records would wait for both.
    """
    manager = private(producer, "_transaction_manager")
    with private(manager, "_lock"):
        if private(manager, "_new_partitions_in_transaction"):
            private(manager, "_enqueue_request")(private(manager, "_add_partitions_to_transaction_handler")())
