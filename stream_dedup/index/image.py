"""The image: a copy of rows and shards in memory, as sorted arrays, within a budget.

It mirrors the stored shards and changes only the time of a look-up.

Rules of the budget: the rows come first, for without them every candidate that passes the sieve is a read from disk;
then the shards, the first ones first. Where the image outgrows the budget it drops the last shard held, one after the
other, and the rows when no shard is left (shards then take their room). A shard joins the image when entries are merged
into it and the budget has room for twice its size; dropped rows come back at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_dedup.core.model import DocNumber
from stream_dedup.index.layout import SHARD_BLOCKS
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
        """Bytes of memory in use."""
        return self._bytes + (self._rows.held.bytes if self._rows.held is not None else 0)

    def holds(self, shard: int) -> bool:
        """Whether a shard is held."""
        return self._shards[shard] is not None

    def source(self, shard: int) -> Source | None:
        """Return the copy of a shard, None where it is not held."""
        return self._shards[shard]

    def level(self, table: int) -> Level:
        """Return the shards of a table that are held."""
        level = self._levels[table]
        if level is None:
            held = self._shards[table * RANGES : (table + 1) * RANGES]
            level = self._levels[table] = Level(tuple(source for source in held if source is not None))
        return level

    def has_room_for_rows(self) -> bool:
        """Whether all rows fit into the budget."""
        return HeldRows.size(self._rows.first, self._rows.after, self._rows.kind) <= self._budget

    def hold_shard(self, shard: int, load: Callable[[], Source], *, spare: int = 1) -> bool:
        """Hold a shard if the budget has room for it ``spare`` times."""
        if self.bytes >= self._budget:
            return False
        source = load()
        if self.bytes + spare * _size(source) > self._budget:
            return False
        self._set(shard, source)
        return True

    def merge(self, shard: int, run: Run) -> None:
        """Merge entries into the copy of a shard, if it is held."""
        source = self._shards[shard]
        if source is not None and len(run):
            self._set(shard, _merged(source, run))

    def drop_entries_before(self, shard: int, low_watermark: DocNumber) -> None:
        """Drop entries before a document number from the copy of a shard, if it is held."""
        source = self._shards[shard]
        if source is not None:
            self._set(shard, _live(source, low_watermark))

    def shrink(self) -> None:
        """Drop shards, then the rows, until the budget is kept."""
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
    lists = run.blocks - source.first
    # Each new entry goes behind the old ones of its list.
    ends = source.starts[lists + 1].astype(np.int64)
    return Source(
        source.first,
        source.starts + starts_of(np.bincount(lists, minlength=SHARD_BLOCKS)),
        np.insert(source.keys, ends, run.keys),
        np.insert(source.doc_numbers, ends, run.doc_numbers),
    )


def _live(source: Source, low_watermark: DocNumber) -> Source:
    live = source.doc_numbers >= low_watermark
    lists = np.repeat(np.arange(SHARD_BLOCKS), np.diff(source.starts))
    counts = np.bincount(lists[live], minlength=SHARD_BLOCKS)
    return Source(source.first, starts_of(counts), source.keys[live], source.doc_numbers[live])


def starts_of(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return where posting lists of these lengths start, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts.astype(np.uint32), out=starts[1:])
    return starts
