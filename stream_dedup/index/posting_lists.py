"""The posting lists of the block tables, as a look-up reads them.

A posting list holds the entries of one table that have one block value, in rising order of document number. Its parts
lie in **levels**, oldest first; within a level each block has at most one **source**, which holds the lists of a range
of blocks.

The compiled loop reads these arrays by address: their types and ends are checked here, when they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U32, U64
from stream_dedup.core.model import BLOCK_BITS

LISTS = 1 << BLOCK_BITS
"""Posting lists of one table."""
PART_LISTS = 4096
"""A source holds one or more whole parts of this many lists: sixteen of them are a table."""
PARTS = LISTS // PART_LISTS

ADDRESSES = np.dtype([("starts", np.int64), ("keys", np.int64), ("doc_numbers", np.int64)])
"""Where a source's arrays are in memory: where block 0's start would be, keys, document numbers; 0 for no source."""


@dataclass(frozen=True, eq=False)
class Source:
    """The lists of blocks ``first`` to ``first + len(starts) - 2`` of one table, one after the other.

    ``starts`` uint32[blocks + 1]: the list of block ``first + i`` is ``starts[i]:starts[i + 1]``. ``keys``
    uint64[m]: the word of the entry's key to which the table belongs. ``doc_numbers`` uint32[m], rising in each list.
    ``first`` and the number of blocks are multiples of ``PART_LISTS``. The arrays must not change afterwards.

    Raises:
        ValueError: arrays of another type, or that do not fit together.
    """

    first: int
    starts: U32
    keys: U64
    doc_numbers: U32

    def __post_init__(self) -> None:
        if self.first % PART_LISTS or self.blocks % PART_LISTS or not 0 <= self.first <= LISTS - self.blocks:
            msg = f"source of {self.blocks} blocks from {self.first} on: not whole parts of {PART_LISTS}"
            raise ValueError(msg)
        typed = ((self.starts, np.uint32), (self.keys, np.uint64), (self.doc_numbers, np.uint32))
        if any(array.dtype != kind or not array.flags.c_contiguous for array, kind in typed):
            msg = "source: starts and document numbers must be uint32, keys uint64, all contiguous"
            raise ValueError(msg)
        if not int(self.starts[-1]) <= len(self.keys) == len(self.doc_numbers):
            msg = f"source: lists end at {self.starts[-1]}, {len(self.keys)} keys, {len(self.doc_numbers)} numbers"
            raise ValueError(msg)

    @property
    def blocks(self) -> int:
        """Posting lists in this source."""
        return len(self.starts) - 1

    @cached_property
    def addresses(self) -> tuple[int, int, int]:
        """As ``ADDRESSES`` names them; good as long as this source lives."""
        starts, keys, doc_numbers = (
            array.__array_interface__["data"][0] for array in (self.starts, self.keys, self.doc_numbers)
        )
        return starts - self.first * self.starts.itemsize, keys, doc_numbers


@dataclass(frozen=True, eq=False)
class Level:
    """Sources of one table that do not overlap; blocks that none of them covers have no entry in this level.

    Raises:
        ValueError: two sources hold lists of the same block.
    """

    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        covered = [part for source in self.sources for part in _parts(source)]
        if len(set(covered)) < len(covered):
            msg = "level: two sources hold lists of the same block"
            raise ValueError(msg)

    @cached_property
    def directory(self) -> NDArray[Any]:
        """``ADDRESSES`` of the source of each part."""
        directory = np.zeros(PARTS, ADDRESSES)
        for source in self.sources:
            directory[_parts(source)] = source.addresses
        return directory


NO_LISTS = Level()
"""The level of a table that has no entries in it."""


@dataclass(frozen=True, eq=False)
class PostingLists:
    """All lists: of each table its levels, oldest first. Document numbers of a later level are greater, list by list.

    Raises:
        ValueError: tables with different numbers of levels (an empty ``Level`` fills up).
    """

    tables: Sequence[Sequence[Level]]

    def __post_init__(self) -> None:
        if len({len(levels) for levels in self.tables}) > 1:
            msg = f"lists: tables of {[len(levels) for levels in self.tables]} levels, must all have as many"
            raise ValueError(msg)

    @cached_property
    def directory(self) -> NDArray[Any]:
        """``ADDRESSES``, shape (tables, levels, PARTS)."""
        levels = [level for levels in self.tables for level in levels]
        directory = np.empty((len(levels), PARTS), ADDRESSES)
        for row, level in enumerate(levels):
            directory[row] = level.directory
        return directory.reshape(len(self.tables), -1, PARTS)


def _parts(source: Source) -> range:
    return range(source.first // PART_LISTS, (source.first + source.blocks) // PART_LISTS)
