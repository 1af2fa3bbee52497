"""Entries held in memory: the end of the lists, sorted by block.

A run is one table's view of some entries: columns sorted by (block, document number). It is the
continuation of the lists on disk, and looked up under the same definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_dedup.core.arrays import I64, U16, U32, U64
from stream_dedup.core.model import BLOCKS_PER_WORD, DocNumber
from stream_dedup.core.probes import blocks as blocks_of
from stream_dedup.index.layout import BLOCKS
from stream_dedup.index.posting_lists import NO_LISTS, Level, Source

_FEW = 8_192
"""Entries up to which a step for each is faster than one for each block: a tenth of the time for a small batch."""


@dataclass(frozen=True, eq=False)
class Run:
    """Entries of one table, sorted by block, then document number."""

    blocks: U16
    keys: U64
    doc_numbers: U32

    def __len__(self) -> int:
        return len(self.doc_numbers)

    @classmethod
    def empty(cls) -> Run:
        """No entries."""
        return cls(np.empty(0, np.uint16), np.empty(0, np.uint64), np.empty(0, np.uint32))

    @classmethod
    def sort(cls, blocks: U16, keys: U64, doc_numbers: U32) -> Run:
        """Sort entries that come in order of document number within each block."""
        order = np.argsort(blocks, kind="stable")
        return cls(blocks[order], keys[order], doc_numbers[order])

    @cached_property
    def level(self) -> Level:
        """The entries as a level of posting lists."""
        if not len(self):
            return NO_LISTS
        return Level((Source(0, _starts(self.blocks), self.keys, self.doc_numbers),))

    def merge(self, later: Run) -> Run:
        """Return this run merged with one whose document numbers are all greater."""
        if not len(self):
            return later
        return Run.sort(
            np.concatenate((self.blocks, later.blocks)),
            np.concatenate((self.keys, later.keys)),
            np.concatenate((self.doc_numbers, later.doc_numbers)),
        )

    def part(self, block: int, after: int) -> slice:
        """Return where the entries of blocks from ``block`` to before ``after`` are."""
        start, end = np.searchsorted(self.blocks, (block, after), "left")
        return slice(int(start), int(end))

    def take(self, part: slice) -> Run:
        """Return these entries as a run."""
        return Run(self.blocks[part], self.keys[part], self.doc_numbers[part])

    def without(self, part: slice) -> Run:
        """Return all other entries as a run."""
        return Run(
            np.concatenate((self.blocks[: part.start], self.blocks[part.stop :])),
            np.concatenate((self.keys[: part.start], self.keys[part.stop :])),
            np.concatenate((self.doc_numbers[: part.start], self.doc_numbers[part.stop :])),
        )

    def not_before(self, least: DocNumber | I64) -> Run:
        """Return the entries from a document number on (one number, or one for each entry)."""
        keep = self.doc_numbers >= least
        return Run(self.blocks[keep], self.keys[keep], self.doc_numbers[keep])


class Memory:
    """The entries in memory of all tables: older ones sorted, young ones sorted when they are read."""

    def __init__(self, tables: int) -> None:
        self.tables = tables
        self.older = [Run.empty() for _ in range(tables)]
        self.older_end = DocNumber(0)
        """Every entry in memory from this document number on is young, and no other."""
        self.young_count = 0
        self._young: list[tuple[U64, U32]] = []
        self._sorted: list[Run] | None = None

    def add_entries(self, keys: U64, doc_numbers: U32) -> None:
        """Append keys (shape (n, 4)) of the next document numbers."""
        if len(doc_numbers):
            self._young.append((keys, doc_numbers))
            self._sorted = None
            self.young_count += len(doc_numbers)

    def young(self) -> list[Run]:
        """Return the young entries of each table."""
        if self._sorted is None:
            keys = np.concatenate([np.empty((0, BLOCKS_PER_WORD), np.uint64), *(part[0] for part in self._young)])
            doc_numbers = np.concatenate([np.empty(0, np.uint32), *(part[1] for part in self._young)])
            self._young = [(keys, doc_numbers)] if len(doc_numbers) else []
            self._sorted = [
                run for word in range(self.tables // BLOCKS_PER_WORD) for run in _runs(keys[:, word], doc_numbers)
            ]
        return self._sorted

    def merge_young(self) -> None:
        """Merge the young entries into the older ones."""
        if not self.young_count:
            return
        young = self.young()
        self.older_end = DocNumber(int(self._young[-1][1][-1]) + 1)
        self.older = [older.merge(run) for older, run in zip(self.older, young, strict=True)]
        self._young, self._sorted, self.young_count = [], None, 0

    def drop_entries_before(self, low_watermark: DocNumber) -> None:
        """Drop entries before a document number."""
        self.merge_young()
        self.older = [run.not_before(low_watermark) for run in self.older]

    def __len__(self) -> int:
        """Entries over all tables."""
        return sum(len(run) for run in self.older) + self.tables * self.young_count


def _starts(blocks: U16) -> U32:
    """Return where the posting list of each block starts among sorted entries, and where the last one ends."""
    if len(blocks) > _FEW:
        starts = np.zeros(BLOCKS + 1, np.uint32)
        np.cumsum(np.bincount(blocks, minlength=BLOCKS).astype(np.uint32), out=starts[1:])
        return starts
    ends = np.concatenate(([-1], blocks.astype(np.int64), [BLOCKS]))
    return np.repeat(np.arange(len(blocks) + 1, dtype=np.uint32), ends[1:] - ends[:-1])


def _runs(keys: U64, doc_numbers: U32) -> list[Run]:
    """Return the runs of the four tables of one key word."""
    values = blocks_of(keys)
    return [Run.sort(values[:, table], keys, doc_numbers) for table in range(BLOCKS_PER_WORD)]
