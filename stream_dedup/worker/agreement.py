"""Whether an index is one of the log that is there now, or why it is not.

An index that does not agree with its log is built from it again. Where ``lost`` is set the index has a history that
the log has not: it is no cache then, but the last copy.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from stream_dedup.core.entry import Trim
from stream_dedup.core.model import LogOffset

if TYPE_CHECKING:
    from stream_dedup.index import LogIndex
    from stream_dedup.kafka.log import WaitingLog
    from stream_dedup.worker.log_topic import LogTopic


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Why an index does not agree with its log."""

    reason: str
    lost: bool
    """Whether the index has a history that the log has not: it is no cache then."""


def disagreement_of(index: LogIndex, log_id: bytes, log: WaitingLog, topic: LogTopic, name: str) -> Disagreement | None:
    """Return why the index does not agree with the log of this id and name; None if it does. May block.

    Raises:
        UnavailableError: the broker did not answer in time.
    """
    if index.log_id is None:
        return None
    if index.log_id != str(uuid.UUID(bytes=log_id)):
        lost = is_last_copy(index, log_id, topic)
        return Disagreement(f"{name} is another log{' and that one is gone' * lost}", lost)
    first, end = log.bounds()
    if index.next_offset > end:
        return Disagreement(f"the log ends at {end}", lost=True)
    if index.next_offset < first:
        return _behind(is_last_copy(index, log_id, topic), log, first, end)
    if index.state.last_checksum is None or index.next_offset == first or _has_last_record(index, log):
        return None
    return Disagreement(f"the log has another record at offset {index.next_offset - 1}", lost=True)


def is_last_copy(index: LogIndex, log_id: bytes | None, topic: LogTopic) -> bool:
    """Return whether the index has articles of a log that cannot be read any more; ``log_id`` is the present log."""
    if index.log_id is None or not (index.partitions() or index.low_watermark):
        return False
    its_log = uuid.UUID(index.log_id)
    return its_log.bytes == log_id or not topic.exists(its_log)


def _behind(last_copy: bool, log: WaitingLog, first: LogOffset, end: LogOffset) -> Disagreement:  # noqa: FBT001 - asked once
    """Return whether a log that begins behind what the index has read was trimmed, or lost its history.

    A trim that names the log's first offset follows within the part that the log still has.
    """
    trimmed = any(
        isinstance(record.payload, Trim) and record.payload.before == first
        for records in log.read(first, end)
        for record in records
    )
    if trimmed or not last_copy:
        return Disagreement(f"the log begins at {first} now", lost=False)
    reason = f"the log begins at {first} now, and none of its trims permits that: something else deleted records"
    return Disagreement(reason, lost=True)


def _has_last_record(index: LogIndex, log: WaitingLog) -> bool:
    end = index.next_offset
    read = [record.raw for records in log.read(LogOffset(end - 1), end) for record in records]
    return [xxhash.xxh3_64_intdigest(raw) for raw in read] == [index.state.last_checksum]
