"""Which source offsets each log record covers, as ranges.

Pure, and used by the audit alone: the index has its own code for it. A range that overlaps covered offsets
covers only those of its offsets that are not covered yet. Offsets that are forgotten count as covered, by no record.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from stream_dedup.core.model import LogOffset, SourceOffset, SourceRange


class LoggedRange(NamedTuple):
    """Source offsets from ``first`` to ``last``, covered by the record at ``log_offset`` of the log time ``time`` (ms).

    Without Kafka each entry has its own log time: then a range begins at each entry.
    """

    first: SourceOffset
    last: SourceOffset
    log_offset: LogOffset
    time: int


class LoggedRanges:
    """Disjoint ranges of each source partition, in the order of their source offsets."""

    def __init__(self) -> None:
        """Start with no offset covered."""
        self._ranges: dict[tuple[bytes, int], list[LoggedRange]] = {}
        self.forgotten: dict[tuple[bytes, int], SourceOffset] = {}
        """Of each source partition the offset below which everything is forgotten."""

    def logged_at(self, source: tuple[bytes, int], offset: SourceOffset) -> LogOffset | None:
        """Return the offset of the log record that covers this source offset, or None."""
        ranges = self._ranges.get(source, [])
        at = bisect_right(ranges, offset, key=_first) - 1
        return ranges[at].log_offset if at >= 0 and offset <= ranges[at].last else None

    def cover(self, source: tuple[bytes, int], logged: LoggedRange) -> None:
        """Add those offsets of a range that are not covered yet."""
        ranges = self._ranges.setdefault(source, [])
        for first, last in self.gaps(source, logged.first, SourceOffset(logged.last + 1)):
            ranges.insert(bisect_right(ranges, first, key=_first), logged._replace(first=first, last=last))

    def forget(self, source: tuple[bytes, int], before: SourceOffset) -> None:
        """Forget every offset below ``before``: it counts as covered, and its record is not known any more."""
        self.forgotten[source] = max(before, self.forgotten.get(source, SourceOffset(0)))
        ranges = self._ranges.get(source, [])
        self._ranges[source] = [kept._replace(first=max(kept.first, before)) for kept in ranges if kept.last >= before]

    def logged_since(self, log_offset: LogOffset) -> list[tuple[tuple[bytes, int], LoggedRange]]:
        """Return the ranges that are covered by log records from a log offset on, each with its source partition."""
        pairs = ((source, kept) for source, ranges in self._ranges.items() for kept in ranges)
        return [(source, kept) for source, kept in pairs if kept.log_offset >= log_offset]

    def gaps(self, source: tuple[bytes, int], start: SourceOffset, stop: SourceOffset) -> list[SourceRange]:
        """Return the ranges (first, last) from ``start`` to before ``stop`` that are not covered."""
        start = max(start, self.forgotten.get(source, SourceOffset(0)))
        ranges = self._ranges.get(source, [])
        found = []
        for logged in ranges[max(bisect_right(ranges, start, key=_first) - 1, 0) :]:
            if logged.first >= stop:
                break
            if logged.first > start:
                found.append((start, SourceOffset(logged.first - 1)))
            start = max(start, SourceOffset(logged.last + 1))
        if start < stop:
            found.append((start, SourceOffset(stop - 1)))
        return found

    def drop_ranges(self, before: LogOffset, horizon: int) -> None:
        """Drop the ranges of log records before ``before``, and those of a log time up to ``horizon``."""
        for source, ranges in self._ranges.items():
            self._ranges[source] = [kept for kept in ranges if kept.log_offset >= before and kept.time > horizon]

    def first_since(self, source: tuple[bytes, int], time: int, log_offset: LogOffset) -> SourceOffset | None:
        """Return the first source offset covered at or after both this log time and this log offset, or None."""
        ranges = self._ranges.get(source, [])
        return next((kept.first for kept in ranges if kept.time >= time and kept.log_offset >= log_offset), None)


def _first(logged: LoggedRange) -> SourceOffset:
    return logged.first
