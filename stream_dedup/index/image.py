"""The image: what of the index is also held in memory, as sorted arrays, within a budget.

It mirrors what stands on disk, stripe by stripe, and changes nothing but the time that a look-up takes.

Rules of the budget: the rows come first, for without them every entry that passes the sieve is a read; then the
stripes, the first ones first. What grows beyond the budget lets go of the last stripe that is held, one after the
other, and of the rows when no stripe is left (then stripes come back into their room). A stripe comes into the image
when it is folded and there is room twice its size; rows that were let go come back at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_dedup.index.layout import STRIPE_BLOCKS
from stream_dedup.index.pages import merge_places
from stream_dedup.index.posting_lists import Level, Source
from stream_dedup.index.row_column import HeldRows, RowColumn
from stream_dedup.index.runs import Run
from stream_dedup.index.settings import RANGES

MIB = 1 << 20


class Image:
    """Rows and stripes in memory."""

    def __init__(self, rows: RowColumn, tables: int, budget_mib: int) -> None:
        self._rows = rows
        self._budget = budget_mib * MIB
        self._stripes: list[Source | None] = [None] * (tables * RANGES)
        self._bytes = 0
        self.stripes = 0
        """Stripes held."""
        self._levels: list[Level | None] = [None] * tables

    @property
    def bytes(self) -> int:
        """Memory taken."""
        return self._bytes + (self._rows.held.bytes if self._rows.held is not None else 0)

    def holds(self, stripe: int) -> bool:
        """Whether a stripe is held."""
        return self._stripes[stripe] is not None

    def source(self, stripe: int) -> Source | None:
        """A stripe as it is held."""
        return self._stripes[stripe]

    def level(self, table: int) -> Level:
        """The stripes of a table that are held."""
        level = self._levels[table]
        if level is None:
            held = self._stripes[table * RANGES : (table + 1) * RANGES]
            level = self._levels[table] = Level(tuple(source for source in held if source is not None))
        return level

    def has_room_for_rows(self) -> bool:
        """Whether the rows there are fit."""
        return HeldRows.size(self._rows.first, self._rows.after) <= self._budget

    def offer(self, stripe: int, load: Callable[[], Source], *, spare: int = 1) -> bool:
        """Take a stripe in if there is room for it ``spare`` times."""
        if self.bytes >= self._budget:
            return False
        source = load()
        if self.bytes + spare * _size(source) > self._budget:
            return False
        self._set(stripe, source)
        return True

    def merge(self, stripe: int, run: Run) -> None:
        """These entries were folded into a stripe that is held."""
        source = self._stripes[stripe]
        if source is not None and len(run):
            self._set(stripe, _merged(source, run))

    def forget(self, stripe: int, floor: int) -> None:
        """Entries before an ordinal were taken off a stripe that is held."""
        source = self._stripes[stripe]
        if source is not None:
            self._set(stripe, _live(source, floor))

    def shrink(self) -> None:
        """Let go until the budget is kept."""
        for stripe in reversed(range(len(self._stripes))):
            if self.bytes <= self._budget:
                return
            self._set(stripe, None)
        if self.bytes > self._budget:
            self._rows.held = None

    def _set(self, stripe: int, source: Source | None) -> None:
        held = self._stripes[stripe]
        self._bytes += _size(source) - _size(held)
        self.stripes += (source is not None) - (held is not None)
        self._stripes[stripe] = source
        self._levels[stripe // RANGES] = None


def _size(source: Source | None) -> int:
    return 0 if source is None else source.starts.nbytes + source.keys.nbytes + source.ordinals.nbytes


def _merged(source: Source, run: Run) -> Source:
    old = np.diff(source.starts).astype(np.int64)
    new = np.bincount(run.blocks - source.first, minlength=STRIPE_BLOCKS)
    place_old, place_new = merge_places(old, new)
    keys = np.empty(len(place_old) + len(place_new), np.uint64)
    ordinals = np.empty(len(keys), np.uint32)
    keys[place_old], keys[place_new] = source.keys, run.keys
    ordinals[place_old], ordinals[place_new] = source.ordinals, run.ordinals
    return Source(source.first, starts_of(old + new), keys, ordinals)


def _live(source: Source, floor: int) -> Source:
    live = source.ordinals >= floor
    lists = np.repeat(np.arange(STRIPE_BLOCKS), np.diff(source.starts))
    counts = np.bincount(lists[live], minlength=STRIPE_BLOCKS)
    return Source(source.first, starts_of(counts), source.keys[live], source.ordinals[live])


def starts_of(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Where lists of these lengths start, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts.astype(np.uint32), out=starts[1:])
    return starts
