"""Source ranges: the log record that covers each offset of a source partition, and what is forgotten of it.

A batch covers every offset from its first to its last. Entries at offsets that an earlier batch covers are copies and
are ignored, and so are entries at offsets that a trim has forgotten; the others are originals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.entry import Batch, Forgotten, Trim
from stream_dedup.core.model import LogOffset, SourceOffset, SourceRange
from stream_dedup.index.layout import (
    Segment,
    SourceKey,
    forgotten_key,
    forgotten_value,
    read_forgotten,
    read_segment,
    segment_key,
)
from stream_dedup.index.records import StoredRecord, StoredRecords
from stream_dedup.index.store import Store, WriteBatch

_NO_OFFSET = SourceOffset(-1)
_LAST_OFFSET = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The part of a batch that is logged for the first time.

    ``ranges`` are its source ranges, ``mask`` names its originals (None: all). ``repeats`` is the least log offset of a
    record that covers an entry of it, None of none; ``late`` is whether it has offsets that are forgotten.
    """

    ranges: list[SourceRange]
    mask: NDArray[np.bool_] | None
    repeats: LogOffset | None
    late: bool


class Coverage:
    """The source ranges of every partition; none of them begins below what is forgotten of it."""

    def __init__(self, store: Store, rows: StoredRecords) -> None:
        self._store = store
        self._rows = rows
        self.last: dict[SourceKey, SourceOffset] = {}
        self.forgotten: dict[SourceKey, SourceOffset] = {}
        """Offsets of a partition below this were logged once and are forgotten."""
        self.load()

    def load(self) -> None:
        """Read what is forgotten, and the last covered offset of each partition, one look-up each."""
        # Other threads read this dictionary: it is replaced whole.
        pairs = list(self._store.scan(b"L", b"M"))
        with self._store.decoding("what is forgotten of its source partitions"):
            self.forgotten = dict(read_forgotten(*pair) for pair in pairs)
        self.last = {}
        cursor = b"S"
        while (first := next(self._store.scan(cursor, b"T"), None)) is not None:
            where, _ = self._segment(*first)
            end = segment_key(*where, _LAST_OFFSET)
            last = self._store.last(first[0], end) or first
            self.last[where] = self._segment(*last)[1].last
            cursor = end + b"\0"

    @property
    def partitions(self) -> dict[SourceKey, SourceOffset]:
        """Every partition with the last of its offsets that is covered or forgotten."""
        return {where: SourceOffset(before - 1) for where, before in self.forgotten.items()} | self.last

    def end_of(self, where: SourceKey) -> SourceOffset:
        """Return the source offset of a partition from which on none is covered or forgotten."""
        return SourceOffset(max(self.last.get(where, _NO_OFFSET) + 1, self.forgotten.get(where, 0)))

    def overlapping(self, where: SourceKey, first: SourceOffset, last: SourceOffset) -> list[Segment]:
        """Return the ranges that have an offset from ``first`` to ``last``, in order."""
        if first > self.last.get(where, _NO_OFFSET):
            return []
        found = []
        before = self._store.last(segment_key(*where, 0), segment_key(*where, first))
        if before is not None and (segment := self._segment(*before)[1]).last >= first:
            found.append(segment)
        later = self._store.scan(segment_key(*where, first + 1), segment_key(*where, last + 1))
        return found + [self._segment(*pair)[1] for pair in later]

    def uncovered(self, batch: Batch) -> Uncovered:
        """Return the part of a new batch that no earlier batch covers."""
        where, last = batch.source, batch.offset(-1)
        forgotten = self.forgotten.get(where, SourceOffset(0))
        first = max(batch.offset(0), forgotten)
        late = first > batch.offset(0)
        covered = self.overlapping(where, first, last)
        if not covered and not late:
            return Uncovered([(first, last)], None, None, late)
        ranges = []
        repeated: list[LogOffset] = []
        mask: NDArray[np.bool_] = batch.offsets >= forgotten
        at = first
        for segment in covered:
            if segment.first > at:
                ranges.append((at, SourceOffset(segment.first - 1)))
            outside = (batch.offsets < segment.first) | (batch.offsets > segment.last)
            if not outside.all():
                repeated.append(segment.log_offset)
            mask &= outside
            at = SourceOffset(segment.last + 1)
        if at <= last:
            ranges.append((at, last))
        return Uncovered(ranges, mask, min(repeated, default=None), late)

    def write_ranges(self, writes: WriteBatch, row: StoredRecord, ranges: list[SourceRange]) -> None:
        """Add the ranges of a log record to a batch of writes; call ``add_ranges`` once it is written."""
        for first, last in ranges:
            segment = Segment(first, last, row.offset, *row.head.time_range)
            writes.put(segment_key(*row.batch.source, first), segment.encode())

    def add_ranges(self, batch: Batch, ranges: list[SourceRange]) -> None:
        """Count ranges of a batch, one or more, that were written."""
        where = batch.source
        self.last[where] = max(self.last.get(where, _NO_OFFSET), ranges[-1][1])

    def write_trim(self, writes: WriteBatch, trim: Trim) -> None:
        """Add the deletion of what a trim drops, and what it forgets, to a batch of writes.

        Call ``load`` once it is written.
        """
        listed = trim.basis.forgotten_before.items()
        raised = {where: before for where, before in listed if before > self.forgotten.get(where, 0)}
        for where, before in raised.items():
            writes.put(forgotten_key(*where), forgotten_value(before))
        forgotten = self.forgotten | raised
        for where, segment in self.all():
            kept = list(self._kept_of(segment, trim, forgotten.get(where, SourceOffset(0))))
            if kept != [segment]:
                writes.delete(segment_key(*where, segment.first))
                for part in kept:
                    writes.put(segment_key(*where, part.first), part.encode())

    def forgotten_after(self, before: LogOffset, horizon: int) -> tuple[Forgotten, ...]:
        """Return what would be forgotten if a trim forgot every offset up to the greatest that it drops."""
        forgotten = dict(self.forgotten)
        for where, segment in self.all():
            dropped = self._dropped_until(segment, before, horizon)
            if dropped is not None:
                forgotten[where] = max(forgotten.get(where, SourceOffset(0)), SourceOffset(dropped + 1))
        return tuple(Forgotten(*where, offset) for where, offset in sorted(forgotten.items()))

    def covers_until(self, log_offset: LogOffset, horizon: int) -> bool:
        """Whether a log record covers coordinates of a log time up to a horizon."""
        batch = self._rows.get(log_offset).batch
        segments = self.overlapping(batch.source, batch.offset(0), batch.offset(-1))
        own = (segment for segment in segments if segment.log_offset == log_offset and segment.time_min <= horizon)
        return any(part.time_min <= horizon for segment in own for part in self._by_time(segment))

    def all(self) -> Iterator[tuple[SourceKey, Segment]]:
        """Yield every range, by partition and offset."""
        for key, value in self._store.scan(b"S", b"T"):
            yield self._segment(key, value)

    def _segment(self, key: bytes, value: bytes) -> tuple[SourceKey, Segment]:
        with self._store.decoding("a source range"):
            return read_segment(key, value)

    def _kept_of(self, segment: Segment, trim: Trim, forgotten: SourceOffset) -> Iterator[Segment]:
        """Yield the parts of a range that a trim keeps."""
        first = max(segment.first, forgotten)
        if segment.log_offset < trim.before or first > segment.last:
            return
        if segment.time_min > trim.horizon and first == segment.first:
            yield segment
            return
        for part in self._by_time(segment):
            if part.time_min > trim.horizon and part.last >= first:
                yield part._replace(first=max(part.first, first))

    def _dropped_until(self, segment: Segment, before: LogOffset, horizon: int) -> SourceOffset | None:
        """Return the last offset of a range that a trim drops by its X or by its horizon; None of none."""
        if segment.log_offset < before or segment.time_max <= horizon:
            return segment.last
        if segment.time_min > horizon:
            return None
        dropped = (part.last for part in self._by_time(segment) if part.time_min <= horizon)
        return max(dropped, default=None)

    def _by_time(self, segment: Segment) -> Iterator[Segment]:
        """Yield a range in parts of one log time each; a gap goes with the entry before it."""
        if segment.time_min == segment.time_max:
            yield segment
            return
        row = self._rows.get(segment.log_offset)
        offsets = row.batch.offsets
        start = int(np.searchsorted(offsets, segment.first, "right")) - 1
        inside = np.arange(start, int(np.searchsorted(offsets, segment.last, "right")))
        ends = [*(offsets[inside[1:]] - 1).tolist(), segment.last]
        for offset, last, time in zip(offsets[inside].tolist(), ends, row.head.times_of(inside).tolist(), strict=True):
            yield Segment(max(offset, segment.first), last, segment.log_offset, time, time)
