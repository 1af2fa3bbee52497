"""Reads again what the source topics still have: records that should have been logged.

A record should have been logged if its offset is below the committed one, or inside the span of a logged batch. Most
offsets without an entry hold no record for consumers, but a transaction marker or an aborted record; so the source is
read at these offsets, and what is there is lost. Ranges that lie close together are read in one go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset
from stream_dedup.ports import OffsetGoneError, Partition, SourceRecord, TopicReader

JOIN_OFFSETS = 500
"""Ranges of source offsets with at most so many others between them are read together: a new read costs more."""

Range = tuple[SourceOffset, SourceOffset]
"""First offset, and the one after the last."""


class AuditedSource(NamedTuple):
    """A source partition: the id of its topic, its first and its end offset, and the group's committed offset."""

    topic_id: bytes
    begin: SourceOffset
    end: SourceOffset
    committed: SourceOffset | None


class Since(NamedTuple):
    """The part of the log that is audited: records of at least this log time and log offset."""

    time: int
    log_offset: LogOffset


def lost_records(
    log: PlainLog,
    sources: Mapping[Partition, AuditedSource],
    since: Since,
    earlier: Mapping[SourcePartition, SourceOffset],
    reader: TopicReader,
) -> Iterator[tuple[str, Coordinates]]:
    """Yield topic and coordinates of the records that should have been logged and were not.

    Records below the offsets ``earlier`` were in an earlier log of the group.
    """
    wanted = {
        partition: list(_unlogged(log, partition, source._replace(begin=max(source.begin, known)), since))
        for partition, source in sources.items()
        for known in [earlier.get((source.topic_id, partition.number), SourceOffset(0))]
    }
    for record in read_ranges(reader, wanted):
        topic_id = sources[Partition(record.topic, record.partition)].topic_id
        yield record.topic, Coordinates(topic_id, record.partition, SourceOffset(record.offset))


def read_ranges(reader: TopicReader, wanted: Mapping[Partition, Iterable[Range]]) -> Iterator[SourceRecord]:
    """Yield the records in these ranges, which rise in each partition, if they are still there."""
    ranges = {partition: list(found) for partition, found in wanted.items()}
    joined = {partition: list(_joined(found)) for partition, found in ranges.items()}
    for number in range(max(map(len, joined.values()), default=0)):
        together = {partition: found[number] for partition, found in joined.items() if number < len(found)}
        for record in _read_kept(reader, together):
            if _within(ranges[Partition(record.topic, record.partition)], SourceOffset(record.offset)):
                yield record


def _unlogged(log: PlainLog, partition: Partition, source: AuditedSource, since: Since) -> Iterator[Range]:
    """Yield the offsets without an entry: those that no batch covers and, below the last of them, those inside one."""
    known: SourcePartition = (source.topic_id, partition.number)
    start = _first_audited(log, known, source.begin, since)
    if start is None:
        return
    stop = min(source.committed or SourceOffset(0), source.end)
    gaps = [(first, _after(last)) for first, last in log.ever_logged.gaps(known, start, stop)] if start < stop else []
    holes = [(first, _after(last)) for first, last in log.holes.get(known, []) if first >= start and last < source.end]
    yield from sorted(gaps + holes)


def _first_audited(log: PlainLog, source: SourcePartition, begin: SourceOffset, since: Since) -> SourceOffset | None:
    """Return the source offset from which on every record must have been logged, None of none.

    If the log was cut, this is where the trims say that nothing is forgotten any more. If they do not say it, or
    if only a newer part of the log is audited, this is where the audited part begins.
    """
    if since == Since(0, LogOffset(0)):
        known = log.logged.forgotten.get(source) if log.first_offset else begin
        if known is not None:
            return max(begin, known)
    first = log.ever_logged.first_since(source, since.time, since.log_offset)
    return None if first is None else max(begin, first)


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield ranges that contain these, and that lie further apart."""
    begin = end = None
    for first, stop in ranges:
        if begin is None or end is None:
            begin, end = first, stop
        elif first - end <= JOIN_OFFSETS:
            end = max(end, stop)
        else:
            yield begin, end
            begin, end = first, stop
    if begin is not None and end is not None:
        yield begin, end


def _after(offset: int) -> SourceOffset:
    return SourceOffset(offset + 1)


def _within(ranges: list[Range], offset: SourceOffset) -> bool:
    at = bisect_right(ranges, offset, key=lambda one: one[0]) - 1
    return at >= 0 and offset < ranges[at][1]


def _read_kept(reader: TopicReader, ranges: Mapping[Partition, Range]) -> Iterator[SourceRecord]:
    """Yield the records of ranges; those that are deleted meanwhile are left out."""
    left = dict(ranges)
    while left:
        reached = dict(left)
        try:
            for record in reader.read(left):
                partition = Partition(record.topic, record.partition)
                reached[partition] = (_after(record.offset), left[partition][1])
                yield record
        except OffsetGoneError:
            left = _kept(reader, reached)
        else:
            return


def _kept(reader: TopicReader, ranges: Mapping[Partition, Range]) -> dict[Partition, Range]:
    """Return the parts of ranges that the partitions still have."""
    bounds = reader.bounds(ranges)
    kept = {}
    for at, (begin, end) in ranges.items():
        first, stop = map(SourceOffset, bounds[at])
        if max(begin, first) < min(end, stop):
            kept[at] = max(begin, first), min(end, stop)
    return kept
