"""Workarounds for how a producer sends the records of a transaction: when its thread wakes up, and with what.

The thread of a producer shares the interpreter with all threads of the process, and makes some thirty rounds for a
transaction of a hundred records where the client is left to itself: it is woken for the first record of each batch, and
sends what is there by then, often two or three records, while the caller hands over the others.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from kafka.partitioner import DefaultPartitioner

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from kafka import KafkaProducer
    from kafka.cluster import ClusterMetadata
    from kafka.future import Future


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
    """Hands records over to a producer while its thread sleeps; ``wake`` lets it send them, together.

    One thread calls. Whoever else wakes the producer's thread (its end, a look-up of metadata) still does.
    """

    def __init__(self, producer: KafkaProducer, partitions: OnePartition) -> None:
        """Take over the wake-ups of the producer; ``partitions``: its partitioner, which chooses again at each."""
        self._producer = producer
        self._partitioner = partitions
        self._cluster = private(producer, "_metadata")
        sender = private(producer, "_sender")
        self._wake = private(sender, "wakeup")
        self._held_by: int | None = None
        self._topic = ""
        sender.wakeup = self._wake_unless_held

    def send(self, topic: str, **record: Any) -> Future:  # noqa: ANN401 - the client's own
        """Hand over one record; blocks only where the topic is not known yet, which its thread looks up."""
        if self._cluster.partitions_for_topic(topic) is None:
            return self._producer.send(topic, **record)
        self._topic, self._held_by = topic, get_ident()
        try:
            return self._producer.send(topic, **record)
        finally:
            self._held_by = None

    def wake(self) -> None:
        """Let the thread send what was handed over."""
        self._partitioner.forget()
        self._wake()

    def _wake_unless_held(self) -> None:
        # A topic that is gone since the first look is waited for, and its thread looks it up.
        if self._held_by != get_ident() or self._cluster.partitions_for_topic(self._topic) is None:
            self._wake()


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
