"""How far a group has read its partitions, and how far these go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.protocol.consumer import OffsetSpec

from stream_dedup.broker.topics import partition_counts
from stream_dedup.core.headers import topic_id_of_metadata

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

Bounds = dict[TopicPartition, tuple[int, int]]
"""First offset and the offset after the last one."""


def committed_offsets(admin: KafkaAdminClient, group: str) -> dict[TopicPartition, tuple[int, bytes | None]]:
    """Committed offsets of a group, and the topic id that each names as its own, None where it names none."""
    offsets = admin.list_group_offsets({group: None})[group]
    return {
        partition: (int(found.offset), topic_id_of_metadata(found.metadata))
        for partition, found in offsets.items()
        if found.offset >= 0
    }


def offset_bounds(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> Bounds:
    """First offsets and ends, open transactions included."""
    if not partitions:
        return {}
    begin = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    end = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: (begin[partition].offset, end[partition].offset) for partition in partitions}


def partitions_of(admin: KafkaAdminClient, names: list[str]) -> list[TopicPartition]:
    """Every partition of the topics that exist."""
    counts = partition_counts(admin, names)
    return [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
