"""Shows and sets the committed offsets of a group, beside the offsets that its log holds of each partition.

The metadata of an offset that is set is the topic's id, as in the offsets that a worker commits. After an offset is set
back, the same verdicts are sent again; after it is set forward, the skipped articles are never judged (``audit`` lists
them).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import NoError

from stream_dedup.broker.adapter import connect_log
from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_offsets import committed_offsets, offset_bounds, partitions_of
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.topics import topic_ids
from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import offset_metadata
from stream_dedup.core.progress import ReportStage
from stream_dedup.errors import RefusedError, UserError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import Config

Target = Literal["beginning", "end", "logged"] | int


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition of an input topic."""

    partition: TopicPartition
    topic_id: bytes
    begin: int
    end: int
    committed: int | None
    committed_id: bytes | None
    """The topic id that the committed offset belongs to."""
    logged: tuple[int, int] | None
    """First and last offset in the log."""

    @property
    def stale(self) -> bool:
        """Whether the committed offset belongs to a topic of this name that was deleted."""
        return self.committed_id is not None and self.committed_id != self.topic_id


def read_offsets(config: Config, progress: ReportStage) -> list[PartitionOffsets]:
    """Return the offsets of every partition of the input topics that exist.

    Raises:
        UserError: no input topic exists.
        UnavailableError: the broker did not answer.
    """
    with closing(make_admin(config.kafka)) as admin:
        return patiently(config.kafka, "offsets", lambda: _read(admin, config, progress))


def set_offsets(
    config: Config, to: Target, topic: str | None, partition: int | None, progress: ReportStage
) -> list[tuple[TopicPartition, int]]:
    """Set the committed offsets of the named partitions; return the new offset of each.

    Raises:
        UserError: there is no such partition, or the offset lies outside of it.
        RefusedError: workers of the group are running.
        UnavailableError: the broker did not answer.
    """
    found = [row for row in read_offsets(config, progress) if _chosen(row, topic, partition)]
    if not found:
        msg = f"no partition {'' if partition is None else partition} of {topic or 'the input topics'}: check the names"
        raise UserError(msg)
    targets = {row.partition: _target(row, to) for row in found}
    metadata = {row.partition: offset_metadata(row.topic_id) for row in found}
    request = {at: OffsetAndMetadata(offset, metadata[at], -1) for at, offset in targets.items()}
    group = config.kafka.group
    with closing(make_admin(config.kafka)) as admin:
        answer = patiently(
            config.kafka, "offsets", lambda: admin.alter_group_offsets(group, request), "Read of the group"
        )
    failed = {at: kind for at, kind in answer.items() if kind is not NoError}
    if failed:
        at, kind = next(iter(failed.items()))
        msg = (
            f"group {group}: the offset of {at.topic}-{at.partition} was not set ({kind.__name__}); "
            "stop all workers of the group (one that was killed counts for kafka.session_timeout_s more), and try again"
        )
        raise RefusedError(msg)
    return list(targets.items())


def _read(admin: KafkaAdminClient, config: Config, progress: ReportStage) -> list[PartitionOffsets]:
    names = list(dict.fromkeys(config.topics.input))
    ids = topic_ids(admin, names)
    partitions = partitions_of(admin, names)
    if not partitions:
        msg = f"there is none of the topics {', '.join(names)}; name the group's with --input"
        raise UserError(msg)
    edges = offset_bounds(admin, partitions)
    committed = committed_offsets(admin, config.kafka.group)
    logged = _logged(config, progress) if config.log_topic in topic_ids(admin, [config.log_topic]) else {}
    rows = []
    for at in partitions:
        offset, named = committed.get(at, (None, None))
        belongs_to = None if offset is None else named or ids[at.topic]
        source = (ids[at.topic], at.partition)
        rows.append(PartitionOffsets(at, ids[at.topic], *edges[at], offset, belongs_to, logged.get(source)))
    return rows


def _logged(config: Config, progress: ReportStage) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Return the first and the last logged offset of each source partition, by topic id and partition number."""
    ranges: dict[tuple[bytes, int], tuple[int, int]] = {}
    with closing(connect_log(config)) as log:
        for batch in (record.payload for record in log.read_all(progress) if isinstance(record.payload, Batch)):
            source, first, last = (batch.topic_id, batch.partition), int(batch.offsets[0]), int(batch.offsets[-1])
            low, high = ranges.get(source, (first, last))
            ranges[source] = min(low, first), max(high, last)
    return ranges


def _chosen(row: PartitionOffsets, topic: str | None, partition: int | None) -> bool:
    return topic in (None, row.partition.topic) and partition in (None, row.partition.partition)


def _target(row: PartitionOffsets, to: Target) -> int:
    name = f"{row.partition.topic}-{row.partition.partition}"
    if to == "beginning":
        return row.begin
    if to == "end":
        return row.end
    if to == "logged":
        return row.begin if row.logged is None else max(row.begin, row.logged[1] + 1)
    if not row.begin <= to <= row.end:
        msg = f"offset {to} lies outside of {name}, which has {row.begin} to {row.end}"
        raise UserError(msg)
    return to
