"""The committed offsets of a group, and the first and last offsets of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from stream_dedup.broker.topics import partition_counts
from stream_dedup.core.headers import topic_id_of_metadata
from stream_dedup.core.model import SourceOffset

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

Bounds = dict[TopicPartition, tuple[int, int]]
"""First offset and the offset after the last one."""


def committed_offsets(admin: KafkaAdminClient, group: str) -> dict[TopicPartition, tuple[SourceOffset, bytes | None]]:
    """Return the committed offsets of a group, each with the topic id in its metadata, or None.

    Raises:
        CorruptError: one has metadata of another form.
    """
    offsets = admin.list_group_offsets({group: None})[group]
    return {
        partition: (SourceOffset(int(found.offset)), topic_id_of_metadata(found.metadata, partition))
        for partition, found in offsets.items()
        if found.offset >= 0
    }


def offset_bounds(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> Bounds:
    """Return the first and the end offset of each partition, open transactions included."""
    if not partitions:
        return {}
    begin = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    end = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: (begin[partition].offset, end[partition].offset) for partition in partitions}


def first_times(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the time of the first record of each partition that has one, ms since 1970; 0 where it has no time."""
    if not partitions:
        return {}
    found = admin.list_partition_offsets(dict.fromkeys(partitions, 0))  # the first record that is not before 1970
    return {partition: max(0, found[partition].timestamp) for partition in partitions}


def last_stable_offsets(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset of each partition that readers of committed records get to, before open transactions."""
    if not partitions:
        return {}
    latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
    found = admin.list_partition_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    return {partition: found[partition].offset for partition in partitions}


def partitions_of(admin: KafkaAdminClient, names: list[str]) -> list[TopicPartition]:
    """Return every partition of those topics that exist."""
    counts = partition_counts(admin, names)
    return [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
