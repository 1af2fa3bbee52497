"""Reads again what the source topics still have: records that should have been logged, and those that were.

A record should have been logged if its offset is below the committed one, or inside the span of a logged batch. Most
offsets without an entry hold no record for consumers, but a transaction marker or an aborted record; so the source is
read at these offsets, and what is there is lost. Ranges that lie close together are read in one go.

A source record whose article was logged is fingerprinted again, and its entry is compared with the logged one. Its key,
headers and time are compared with those of its output; ``audit`` has compared the value already, by its checksum.

A rejection by a limit (its size, a defect of the core) depends on more than the record, and its entry is not compared;
nor is that of one whose schema the registry did not know, or does not know any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import xxhash

from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.core.arrays import I64, U64, Bools
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.headers import SOURCE_TIMESTAMP, VALUE_LENGTH, Stamp, without_ours
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset, Status, Verdict
from stream_dedup.core.reasons import DEFECT, RECORD_TOO_LARGE, UNKNOWN_SCHEMA
from stream_dedup.ports import OffsetGoneError, Partition, SourceRecord, TopicReader, raw_of
from stream_dedup.threads import FingerprintThreads

JOIN_OFFSETS = 500
"""Ranges of source offsets with at most so many others between them are read together: a new read costs more."""

Range = tuple[SourceOffset, SourceOffset]
"""First offset, and the one after the last."""


class AuditedSource(NamedTuple):
    """A source partition: the id of its topic, its first and its end offset."""

    topic_id: bytes
    begin: SourceOffset
    end: SourceOffset


@dataclass(frozen=True, slots=True)
class AuditedTopics:
    """What Kafka said of the topics of a group.

    ``outputs`` names the output topic of each verdict. ``committed`` has the committed offset of each source partition
    for which it is known; trims before the log offset ``settled`` were appended before it was read. ``current`` holds
    the ids of the topics that exist now. ``output_bounds`` has the first and the end offset of each output partition,
    ``log`` those of the log. ``allowance_ms`` is the difference that the clocks of a broker and of a worker may have,
    and the time between the steps that they measure. All of the log had been written at ``read_ms``, by the clock of
    the audit.
    """

    outputs: Mapping[Verdict, str]
    committed: Mapping[SourcePartition, SourceOffset]
    current: frozenset[bytes]
    output_bounds: Mapping[Partition, tuple[int, int]]
    sources: Mapping[Partition, AuditedSource]
    log: tuple[LogOffset, LogOffset]
    settled: LogOffset
    read_ms: int
    allowance_ms: int


def lost_records(
    log: PlainLog,
    topics: AuditedTopics,
    audited: Bools | None,
    earlier: Mapping[SourcePartition, SourceOffset],
    reader: TopicReader,
) -> Iterator[tuple[str, Coordinates]]:
    """Yield topic and coordinates of the records that should have been logged and were not.

    ``audited`` says which articles of the log are audited, None: all. Records below the offsets ``earlier`` were in an
    earlier log of the group.
    """
    wanted: dict[Partition, list[Range]] = {}
    for partition, source in topics.sources.items():
        known = (source.topic_id, partition.number)
        begin = max(source.begin, earlier.get(known, SourceOffset(0)))
        committed = topics.committed.get(known, SourceOffset(0))
        start = _first_audited(log, known, begin, audited)
        wanted[partition] = [] if start is None else list(_unlogged(log, known, start, committed, source.end))
    for record in read_ranges(reader, wanted):
        topic_id = topics.sources[Partition(record.topic, record.partition)].topic_id
        yield record.topic, Coordinates(topic_id, record.partition, SourceOffset(record.offset))


def read_ranges(reader: TopicReader, wanted: Mapping[Partition, Iterable[Range]]) -> Iterator[SourceRecord]:
    """Yield the records in these ranges, which rise in each partition, if they are still there."""
    ranges = {partition: list(found) for partition, found in wanted.items()}
    joined = {partition: _joined(found) for partition, found in ranges.items()}
    for number in range(max(map(len, joined.values()), default=0)):
        together = {partition: found[number] for partition, found in joined.items() if number < len(found)}
        for record in _read_kept(reader, together):
            if _within(ranges[Partition(record.topic, record.partition)], SourceOffset(record.offset)):
                yield record


def _unlogged(
    log: PlainLog, source: SourcePartition, start: SourceOffset, committed: SourceOffset, end: SourceOffset
) -> Iterator[Range]:
    """Yield the offsets from ``start`` on that have no entry: below the committed one, and those inside a batch."""
    offsets, articles = log.articles_of(source)
    records = log.entries.records[articles]
    is_inside = np.concatenate([[False], records[1:] == records[:-1], [False]])[: len(offsets) + 1]
    firsts = np.maximum(np.append(start, offsets + 1), start)
    stops = np.append(offsets, committed)
    stops = np.minimum(np.where(is_inside, stops, np.minimum(stops, committed)), end)
    for at in np.flatnonzero(firsts < stops).tolist():
        yield SourceOffset(int(firsts[at])), SourceOffset(int(stops[at]))


def _first_audited(
    log: PlainLog, source: SourcePartition, begin: SourceOffset, audited: Bools | None
) -> SourceOffset | None:
    """Return the source offset from which on every record must have been logged, None of none.

    If the log was cut, this is where the trims say that nothing is forgotten any more. If they do not say it, or
    if only a newer part of the log is audited, this is where the audited part begins.
    """
    offsets, articles = log.articles_of(source)
    if audited is not None:
        offsets = offsets[audited[articles]]
    else:
        known = log.forgotten_before(source) if log.first_offset else begin
        if known is not None:
            return max(begin, known)
    return max(begin, SourceOffset(int(offsets[0]))) if len(offsets) else None


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges that contain these, and that lie further apart."""
    joined: list[Range] = []
    for first, stop in ranges:
        if joined and first - joined[-1][1] <= JOIN_OFFSETS:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((first, stop))
    return joined


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
                reached[partition] = (SourceOffset(record.offset + 1), left[partition][1])
                yield record
        except OffsetGoneError:
            left = _kept(reader, reached)
        else:
            return


def _kept(reader: TopicReader, ranges: Mapping[Partition, Range]) -> dict[Partition, Range]:
    """Return the parts of ranges that the partitions still have."""
    bounds = reader.bounds(ranges)
    kept = {
        at: (max(begin, SourceOffset(bounds[at][0])), min(end, SourceOffset(bounds[at][1])))
        for at, (begin, end) in ranges.items()
    }
    return {at: (begin, end) for at, (begin, end) in kept.items() if begin < end}


CHUNK = 1024
"""Records that are given to the threads at once: bounds the records in memory."""
LIMIT_REASONS = tuple(reason.partition("{")[0] for reason in (RECORD_TOO_LARGE, DEFECT, UNKNOWN_SCHEMA))
"""How the reasons begin that depend on more than the record."""


class CopiedParts:
    """Hashes of what each output copies from its source record: key, headers and time."""

    NAMES = ("key", "headers", SOURCE_TIMESTAMP, VALUE_LENGTH)

    def __init__(self, articles: int) -> None:
        """Start without an output; 0 stands for a part that is not compared."""
        self._hashes: U64 = np.zeros((articles, len(self.NAMES)), np.uint64)

    def add(self, index: int, output: SourceRecord, stamp: Stamp) -> None:
        """Take the output of an article."""
        length = 0 if stamp.omitted is None else stamp.omitted.length
        key, headers, time, omitted = _hashes(output, stamp.timestamp, length)
        self._hashes[index] = (key, headers, time, 0) if stamp.omitted is None else (0, 0, time, omitted)

    def differing(self, index: int, record: SourceRecord) -> list[str]:
        """Return the names of the parts in which the output of an article differs from its source record."""
        hashes = _hashes(record, record.timestamp, len(record.value or b""))
        pairs = zip(self.NAMES, self._hashes[index].tolist(), hashes, strict=True)
        return [name for name, copied, should in pairs if copied not in {0, should}]


class Compared(NamedTuple):
    """An article that was compared with its source record, and the differences."""

    article: int
    """Its index in the log."""
    entry: list[str] | None
    """Differences of the log entry; None where it is not compared."""
    output: list[str]
    """Parts of the output that differ."""


def compare_texts(
    log: PlainLog,
    wanted: I64,
    source_records: Iterable[tuple[Coordinates, SourceRecord]],
    fingerprinter: FingerprintThreads[RawRecord],
    copied: CopiedParts,
) -> Iterator[Compared]:
    """Yield what the comparison of these articles with their source records shows; those without one are left out."""
    chosen = np.zeros(len(log.entries), bool)
    chosen[wanted] = True
    limited: list[Compared] = []

    def comparable() -> Iterator[tuple[int, SourceRecord]]:
        for coordinates, record in source_records:
            for index in log.find(coordinates):
                if chosen[index] and not _limited(log, index):
                    yield index, record
                elif chosen[index] and (differing := copied.differing(index, record)):
                    limited.append(Compared(index, None, differing))

    for (index, record), columns, row in _fingerprinted(comparable(), fingerprinter):
        entry = None
        if not columns.reasons[row].startswith(LIMIT_REASONS):
            entry = _entry_differences(log, index, columns, row)
        yield Compared(index, entry, copied.differing(index, record))
    yield from limited


def records_of(
    log: PlainLog, wanted: I64, sources: Mapping[Partition, AuditedSource], reader: TopicReader
) -> Iterator[tuple[Coordinates, SourceRecord]]:
    """Yield the source records of these articles that are still there, with their coordinates."""
    ranges = {partition: list(_offsets(log, wanted, partition, source)) for partition, source in sources.items()}
    for record in read_ranges(reader, ranges):
        topic_id = sources[Partition(record.topic, record.partition)].topic_id
        yield Coordinates(topic_id, record.partition, SourceOffset(record.offset)), record


def _offsets(log: PlainLog, wanted: I64, partition: Partition, source: AuditedSource) -> Iterator[Range]:
    """Yield the ranges of adjacent offsets that these articles have in a source partition."""
    offsets, articles = log.articles_of((source.topic_id, partition.number))
    offsets = np.unique(offsets[np.isin(articles, wanted) & (offsets >= source.begin) & (offsets < source.end)])
    for run in np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1):
        if len(run):
            yield SourceOffset(int(run[0])), SourceOffset(int(run[-1]) + 1)


def _fingerprinted(
    records: Iterable[tuple[int, SourceRecord]], fingerprinter: FingerprintThreads[RawRecord]
) -> Iterator[tuple[tuple[int, SourceRecord], Columns, int]]:
    """Yield each record with columns that hold its entry, and the row of it."""
    remaining = iter(records)
    while chunk := list(islice(remaining, CHUNK)):
        columns = fingerprinter.submit([raw_of(record) for _, record in chunk]).result()
        for row, one in enumerate(chunk):
            yield one, columns, row


def _limited(log: PlainLog, index: int) -> bool:
    batch = log.record(index).batch
    return batch.reason(log.entries.row(index)).startswith(LIMIT_REASONS)


def _entry_differences(log: PlainLog, index: int, columns: Columns, row: int) -> list[str]:
    """Return the differences of a logged entry from the entry that its source record gives, each as text."""
    entries, batch, logged_row = log.entries, log.record(index).batch, log.entries.row(index)
    signature = int.from_bytes(columns.signatures[row].tobytes(), "big")
    rows: list[tuple[str, object, object]] = [
        ("status", Status(int(entries.statuses[index])).name, Status(int(columns.statuses[row])).name),
        ("checksum", int(entries.checksums[index]), int(columns.checksums[row])),
        ("scope hash", int(entries.scope_hashes[index]), int(columns.scope_hashes[row])),
        ("signature", f"{_signature(log, index):064x}", f"{signature:064x}"),
        ("sketch", entries.sketches[:, index].tobytes().hex(), columns.sketches[row].tobytes().hex()),
        ("article id", batch.id(logged_row), columns.ids[row]),
        ("reason", batch.reason(logged_row), columns.reasons[row]),
    ]
    if len(batch.margins):
        rows.append(("margins", batch.margins[logged_row].tobytes().hex(), columns.margins[row].tobytes().hex()))
    return [f"{name} {said!s}, should be {should!s}" for name, said, should in rows if said != should]


def _signature(log: PlainLog, index: int) -> int:
    return int.from_bytes(log.entries.words[:, index].astype(">u8").tobytes(), "big")


def _hashes(record: SourceRecord, time: int, length: int) -> tuple[int, int, int, int]:
    headers = without_ours((name, value or b"") for name, value in record.headers)
    parts = (repr(record.key).encode(), repr(headers).encode(), repr(time).encode(), repr(length).encode())
    key, own, stamped, omitted = (xxhash.xxh3_64_intdigest(part) or 1 for part in parts)
    return key, own, stamped, omitted
