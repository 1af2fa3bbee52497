"""Which source offsets stand in which log record: ranges of one source beside each other.

Pure, and for the plain loop alone: the index keeps its own. A range that overlaps what
stands already covers only the offsets outside it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class LoggedRange(NamedTuple):
    """Offsets from ``first`` to ``last``, logged at ``log_offset`` at the log time ``time`` (ms)."""

    first: int
    last: int
    log_offset: int
    time: int


class LoggedRanges:
    """Disjoint pieces of each source, in the order of their offsets."""

    def __init__(self) -> None:
        """Nothing is covered."""
        self._pieces: dict[tuple[bytes, int], list[LoggedRange]] = {}

    def logged_at(self, source: tuple[bytes, int], offset: int) -> int | None:
        """Log offset of the record that covers this source offset."""
        pieces = self._pieces.get(source, [])
        at = bisect_right(pieces, offset, key=_first) - 1
        return pieces[at].log_offset if at >= 0 and offset <= pieces[at].last else None

    def cover(self, source: tuple[bytes, int], first: int, last: int, log_offset: int, time: int) -> None:
        """Cover what is not covered yet of a range."""
        pieces = self._pieces.setdefault(source, [])
        fresh = [LoggedRange(low, high, log_offset, time) for low, high in self.gaps(source, first, last + 1)]
        for piece in fresh:
            pieces.insert(bisect_right(pieces, piece.first, key=_first), piece)

    def gaps(self, source: tuple[bytes, int], start: int, stop: int) -> list[tuple[int, int]]:
        """Ranges (first, last) from ``start`` to before ``stop`` that are not covered."""
        pieces = self._pieces.get(source, [])
        found = []
        for piece in pieces[max(bisect_right(pieces, start, key=_first) - 1, 0) :]:
            if piece.first >= stop:
                break
            if piece.first > start:
                found.append((start, piece.first - 1))
            start = max(start, piece.last + 1)
        if start < stop:
            found.append((start, stop - 1))
        return found

    def forget(self, before: int, horizon: int) -> None:
        """Uncover what was logged before a log offset, or at a log time up to ``horizon``."""
        for source, pieces in self._pieces.items():
            self._pieces[source] = [piece for piece in pieces if piece.log_offset >= before and piece.time > horizon]

    def first_since(self, source: tuple[bytes, int], time: int, log_offset: int) -> int | None:
        """First offset that was logged at a log time and by a log record not before these."""
        pieces = self._pieces.get(source, [])
        return next((piece.first for piece in pieces if piece.time >= time and piece.log_offset >= log_offset), None)


def _first(piece: LoggedRange) -> int:
    return piece.first
