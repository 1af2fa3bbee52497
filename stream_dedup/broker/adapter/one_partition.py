"""The partitions of the outputs: few of them for each transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.partitioner import DefaultPartitioner

if TYPE_CHECKING:
    from kafka.cluster import ClusterMetadata


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
