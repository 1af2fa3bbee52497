"""Shows and sets the committed offsets of a group, beside the offsets that its log holds of each partition.

The metadata of an offset that is set is the topic's id, as in the offsets that a worker commits. After an offset is set
back, the same verdicts are sent again; after it is set forward, the skipped articles are never judged (``audit`` lists
them). With a window, trims forget what was judged: an offset below that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kafka import TopicPartition
from kafka.errors import KafkaError, NoError, RetriableError

from stream_dedup.core.entry import Batch
from stream_dedup.core.model import ReportStage, SourceOffset, SourceRange
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.kafka.admin import committed_offsets, offset_and_metadata, offset_bounds, partitions_of, topic_ids
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.log import ForgottenOffsets
from stream_dedup.kafka.topics import with_matching_topics
from stream_dedup.ports import CommittedOffset, Partition

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, OffsetAndMetadata

    from stream_dedup.config.model import Config

Target = Literal["beginning", "end", "logged"] | int


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition of an input topic."""

    partition: Partition
    topic_id: bytes
    begin: SourceOffset
    end: SourceOffset
    committed: SourceOffset | None
    committed_id: bytes | None
    """The topic id that the committed offset belongs to."""
    logged: SourceRange | None
    """First and last offset in the log."""
    forgotten_before: SourceOffset
    """Every article at a lower offset was logged, judged and trimmed; 0 of none."""

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


@dataclass(frozen=True, slots=True)
class Move:
    """A partition and the committed offset that it gets."""

    row: PartitionOffsets
    to: SourceOffset


def plan_offsets(
    config: Config, to: Target, topic: str | None, partition: int | None, progress: ReportStage
) -> list[Move]:
    """Return what ``set_offsets`` is to set; nothing is set.

    Raises:
        UserError: there is no such partition, or the offset lies outside of it or below what is forgotten.
        UnavailableError: the broker did not answer.
    """
    found = [
        row
        for row in read_offsets(config, progress)
        if topic in (None, row.partition.topic) and partition in (None, row.partition.number)
    ]
    if not found:
        wanted = "no partition" if partition is None else f"no partition {partition}"
        raise UserError(f"{wanted} of {topic or 'the input topics'}: check the names")
    return [Move(row, _target(row, to)) for row in found]


def set_offsets(config: Config, moves: Sequence[Move]) -> None:
    """Set the committed offsets of the group.

    Raises:
        RefusedError: workers of the group are running.
        UnavailableError: the broker did not answer.
    """
    request = {
        TopicPartition(*move.row.partition): offset_and_metadata(CommittedOffset(move.to, move.row.topic_id))
        for move in moves
    }
    group = config.kafka.group
    with closing(make_admin(config.kafka)) as admin:
        answer = patiently(config.kafka, "offsets", lambda: alter_offsets(admin, group, request), "Read of the group")
    failed = {at: kind for at, kind in answer.items() if kind is not NoError}
    if failed:
        at, kind = next(iter(failed.items()))
        raise RefusedError(
            f"group {group}: the offset of {at.topic}-{at.partition} was not set ({kind.__name__}); "
            "stop all workers of the group (one that was killed counts for kafka.session_timeout_s more), and try again"
        )


def alter_offsets(
    admin: KafkaAdminClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Mapping[TopicPartition, type[KafkaError]]:
    """Set committed offsets; return the error of each partition, and raise one that passes."""
    answer: Mapping[TopicPartition, type[KafkaError]] = admin.alter_group_offsets(group, offsets)
    for error in answer.values():
        if issubclass(error, RetriableError):
            raise error(f"offsets of group {group}: {error.__name__}")
    return answer


def _read(admin: KafkaAdminClient, config: Config, progress: ReportStage) -> list[PartitionOffsets]:
    names = list(dict.fromkeys(with_matching_topics(admin, config).topics.input))
    ids = topic_ids(admin, names)
    partitions = partitions_of(admin, names)
    if not partitions:
        raise UserError(f"there is none of the topics {', '.join(config.topics.input)}; name the group's with --input")
    edges = offset_bounds(admin, partitions)
    committed = committed_offsets(admin, config.kafka.group)
    has_log = config.log_topic in topic_ids(admin, [config.log_topic])
    spans, forgotten = _read_logged(config, progress) if has_log else ({}, ForgottenOffsets())
    rows = []
    for at in partitions:
        known = committed.get(at)
        offset, belongs_to = (None, None) if known is None else (known.offset, known.topic_id or ids[at.topic])
        source = (ids[at.topic], at.number)
        begin, end = map(SourceOffset, edges[at])
        logged, below = spans.get(source), forgotten.below(*source)
        rows.append(PartitionOffsets(at, ids[at.topic], begin, end, offset, belongs_to, logged, below))
    return rows


def _read_logged(
    config: Config, progress: ReportStage
) -> tuple[dict[tuple[bytes, int], SourceRange], ForgottenOffsets]:
    """Return first and last logged offset by topic id and partition number, and what the log has forgotten."""
    spans: dict[tuple[bytes, int], SourceRange] = {}
    forgotten = ForgottenOffsets()
    with closing(connect_log(config)) as log:
        for payload in (record.payload for record in log.read_all(progress)):
            forgotten.follow(payload)
            if isinstance(payload, Batch):
                first, last = payload.offset(0), payload.offset(-1)
                low, high = spans.get(payload.source, (first, last))
                spans[payload.source] = min(low, first), max(high, last)
    return spans, forgotten


def _target(row: PartitionOffsets, to: Target) -> SourceOffset:
    if to == "logged":
        logged = row.begin if row.logged is None else SourceOffset(row.logged[1] + 1)
        return max(row.begin, logged, row.forgotten_before)
    offset = {"beginning": row.begin, "end": row.end}[to] if isinstance(to, str) else SourceOffset(to)
    if not row.begin <= offset <= row.end:
        raise UserError(f"offset {offset} lies outside of {row.partition}, which has {row.begin} to {row.end}")
    if offset < row.forgotten_before:
        raise UserError(
            f"offset {offset} of {row.partition}: every article below {row.forgotten_before} was logged, judged and "
            "trimmed: its verdict cannot be given again. Nothing was set. Use --to logged (go on behind what is "
            f"logged), or an offset from {row.forgotten_before} on with --topic and --partition"
        )
    return offset
