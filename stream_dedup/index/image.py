"""The image: what of the index is also held in memory, as sorted arrays, within a budget.

It mirrors what stands on disk, shard by shard, and changes nothing but the time that a look-up takes.

Rules of the budget: the rows come first, for without them every entry that passes the sieve is a read; then the
shards, the first ones first. What grows beyond the budget lets go of the last shard that is held, one after the
other, and of the rows when no shard is left (then shards come back into their room). A shard comes into the image
when it is folded and there is room twice its size; rows that were let go come back at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_dedup.index.layout import SHARD_BLOCKS
from stream_dedup.index.pages import merge_places
from stream_dedup.index.posting_lists import Level, Source
from stream_dedup.index.row_column import HeldRows, RowColumn
from stream_dedup.index.runs import Run
from stream_dedup.index.settings import RANGES

MIB = 1 << 20


class Image:
    """Rows and shards in memory."""

    def __init__(self, rows: RowColumn, tables: int, budget_mib: int) -> None:
        self._rows = rows
        self._budget = budget_mib * MIB
        self._shards: list[Source | None] = [None] * (tables * RANGES)
        self._bytes = 0
        self.shards = 0
        """Shards held."""
        self._levels: list[Level | None] = [None] * tables

    @property
    def bytes(self) -> int:
        """Memory taken."""
        return self._bytes + (self._rows.held.bytes if self._rows.held is not None else 0)

    def holds(self, shard: int) -> bool:
        """Whether a shard is held."""
        return self._shards[shard] is not None

    def source(self, shard: int) -> Source | None:
        """A shard as it is held."""
        return self._shards[shard]

    def level(self, table: int) -> Level:
        """The shards of a table that are held."""
        level = self._levels[table]
        if level is None:
            held = self._shards[table * RANGES : (table + 1) * RANGES]
            level = self._levels[table] = Level(tuple(source for source in held if source is not None))
        return level

    def has_room_for_rows(self) -> bool:
        """Whether the rows there are fit."""
        return HeldRows.size(self._rows.first, self._rows.after) <= self._budget

    def hold_shard(self, shard: int, load: Callable[[], Source], *, spare: int = 1) -> bool:
        """Take a shard in if there is room for it ``spare`` times."""
        if self.bytes >= self._budget:
            return False
        source = load()
        if self.bytes + spare * _size(source) > self._budget:
            return False
        self._set(shard, source)
        return True

    def merge(self, shard: int, run: Run) -> None:
        """These entries were folded into a shard that is held."""
        source = self._shards[shard]
        if source is not None and len(run):
            self._set(shard, _merged(source, run))

    def drop_entries_before(self, shard: int, low_watermark: int) -> None:
        """Entries before a document number were taken off a shard that is held."""
        source = self._shards[shard]
        if source is not None:
            self._set(shard, _live(source, low_watermark))

    def shrink(self) -> None:
        """Let go until the budget is kept."""
        for shard in reversed(range(len(self._shards))):
            if self.bytes <= self._budget:
                return
            self._set(shard, None)
        if self.bytes > self._budget:
            self._rows.held = None

    def _set(self, shard: int, source: Source | None) -> None:
        held = self._shards[shard]
        self._bytes += _size(source) - _size(held)
        self.shards += (source is not None) - (held is not None)
        self._shards[shard] = source
        self._levels[shard // RANGES] = None


def _size(source: Source | None) -> int:
    return 0 if source is None else source.starts.nbytes + source.keys.nbytes + source.doc_numbers.nbytes


def _merged(source: Source, run: Run) -> Source:
    old = np.diff(source.starts).astype(np.int64)
    new = np.bincount(run.blocks - source.first, minlength=SHARD_BLOCKS)
    place_old, place_new = merge_places(old, new)
    keys = np.empty(len(place_old) + len(place_new), np.uint64)
    doc_numbers = np.empty(len(keys), np.uint32)
    keys[place_old], keys[place_new] = source.keys, run.keys
    doc_numbers[place_old], doc_numbers[place_new] = source.doc_numbers, run.doc_numbers
    return Source(source.first, starts_of(old + new), keys, doc_numbers)


def _live(source: Source, low_watermark: int) -> Source:
    live = source.doc_numbers >= low_watermark
    lists = np.repeat(np.arange(SHARD_BLOCKS), np.diff(source.starts))
    counts = np.bincount(lists[live], minlength=SHARD_BLOCKS)
    return Source(source.first, starts_of(counts), source.keys[live], source.doc_numbers[live])


def starts_of(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Where lists of these lengths start, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts.astype(np.uint32), out=starts[1:])
    return starts
