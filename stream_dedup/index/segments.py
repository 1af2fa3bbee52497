"""Source ranges: the log record that covers each offset of a source partition.

A batch covers every offset from its first to its last. Entries at offsets that an earlier batch covers are copies and
are ignored; the others are originals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64
from stream_dedup.core.entry import Batch
from stream_dedup.index.layout import Head, Segment, read_segment, segment_key
from stream_dedup.index.store import Store, WriteBatch

SourceKey = tuple[bytes, int]

_LAST_OFFSET = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Ranges of a batch that are not covered yet, a mask of its originals (None: all), the least offset repeated."""

    ranges: list[tuple[int, int]]
    mask: NDArray[np.bool_] | None
    repeats: int | None


class Coverage:
    """The source ranges of every partition."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.last: dict[SourceKey, int] = {}
        self.load()

    def load(self) -> None:
        """Read the last covered offset of each partition, one look-up each."""
        self.last = {}
        cursor = b"S"
        while (first := next(self._store.scan(cursor, b"T"), None)) is not None:
            topic_id, partition, _ = read_segment(*first)
            end = segment_key(topic_id, partition, _LAST_OFFSET)
            last = self._store.last(first[0], end) or first
            self.last[topic_id, partition] = read_segment(*last)[2].last
            cursor = end + b"\0"

    def overlapping(self, where: SourceKey, first: int, last: int) -> list[Segment]:
        """Return the ranges that have an offset from ``first`` to ``last``, in order."""
        if first > self.last.get(where, -1):
            return []
        found = []
        before = self._store.last(segment_key(*where, 0), segment_key(*where, first))
        if before is not None and (segment := read_segment(*before)[2]).last >= first:
            found.append(segment)
        later = self._store.scan(segment_key(*where, first + 1), segment_key(*where, last + 1))
        return found + [read_segment(*pair)[2] for pair in later]

    def uncovered(self, batch: Batch) -> Uncovered:
        """Return the part of a new batch that no earlier batch covers."""
        first, last = int(batch.offsets[0]), int(batch.offsets[-1])
        covered = self.overlapping((batch.topic_id, batch.partition), first, last)
        if not covered:
            return Uncovered([(first, last)], None, None)
        ranges = []
        repeated: list[int] = []
        mask = np.ones(len(batch), bool)
        at = first
        for segment in covered:
            if segment.first > at:
                ranges.append((at, segment.first - 1))
            outside = (batch.offsets < segment.first) | (batch.offsets > segment.last)
            if not outside.all():
                repeated.append(segment.log_offset)
            mask &= outside
            at = segment.last + 1
        if at <= last:
            ranges.append((at, last))
        return Uncovered(ranges, mask, min(repeated, default=None))

    def write_ranges(
        self, writes: WriteBatch, batch: Batch, log_offset: int, ranges: list[tuple[int, int]], head: Head
    ) -> None:
        """Add the ranges of a batch to a batch of writes; call ``add_ranges`` once it is written."""
        for first, last in ranges:
            segment = Segment(first, last, log_offset, *head.time_range)
            writes.put(segment_key(batch.topic_id, batch.partition, first), segment.encode())

    def add_ranges(self, batch: Batch, ranges: list[tuple[int, int]]) -> None:
        """Count ranges of a batch that were written."""
        if ranges:
            where = (batch.topic_id, batch.partition)
            self.last[where] = max(self.last.get(where, -1), ranges[-1][1])

    def delete_trimmed(
        self, writes: WriteBatch, low_watermark: int, horizon: int, read: Callable[[int], tuple[Batch, Head]]
    ) -> None:
        """Add the deletion of ranges before ``low_watermark``, or of log times up to ``horizon``, to a batch of writes.

        Call ``load`` once it is written.
        """
        for key, value in self._store.scan(b"S", b"T"):
            topic_id, partition, segment = read_segment(key, value)
            if segment.log_offset >= low_watermark and segment.time_min > horizon:
                continue
            writes.delete(key)
            if segment.log_offset >= low_watermark and segment.time_max > horizon:
                for rest in _later_than(segment, horizon, *read(segment.log_offset)):
                    writes.put(segment_key(topic_id, partition, rest.first), rest.encode())

    def all(self) -> Iterator[tuple[SourceKey, Segment]]:
        """Yield every range, by partition and offset."""
        for key, value in self._store.scan(b"S", b"T"):
            topic_id, partition, segment = read_segment(key, value)
            yield (topic_id, partition), segment


def _later_than(segment: Segment, horizon: int, batch: Batch, head: Head) -> Iterator[Segment]:
    """Yield the parts of a range whose log times are after the horizon; a gap goes with the entry before it."""
    inside = np.flatnonzero((batch.offsets >= segment.first) & (batch.offsets <= segment.last))
    times = head.times_of(inside)
    ends: I64 = np.append(batch.offsets[inside][1:] - 1, segment.last)
    for row, (time, last) in enumerate(zip(times.tolist(), ends.tolist(), strict=True)):
        if time > horizon:
            yield Segment(int(batch.offsets[inside[row]]), last, segment.log_offset, time, time)
