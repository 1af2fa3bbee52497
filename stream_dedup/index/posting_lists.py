"""The posting lists of the block tables, as a look-up reads them.

A posting list holds the entries of one table that have one block value, in rising order of document number. The entries
of a table lie in **runs**, oldest first. A run is sorted by block, then document number, so it has a part of each list,
and the parts of one list in all runs, one after the other, are the list. A run's directory divides its blocks into
**buckets** by their highest bits; where buckets hold several lists, the list is found among the entries by their keys.

The compiled loop reads these arrays by address: their types and ends are checked here, when they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U32, U64
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD

ADDRESSES = np.dtype(
    [
        ("starts", "<i8"),
        ("keys", "<i8"),
        ("doc_numbers", "<i8"),
        ("shift", "<i8"),
        ("filter", "<i8"),
        ("filter_shift", "<i8"),
    ]
)
"""Where a run's arrays are in memory, and by how many bits a block is longer than the number of its bucket, and of its
bit in the filter; starts 0: no run; filter 0: no filter."""
FILTERED_ENTRIES, FILTER_BITS = 1 << 17, 3
"""Most entries of a run that has a filter, and by how many bits a filter is longer than the number of entries, where
blocks have enough: one bit in eight is 1 at most."""
LARGE_RUN = 1 << 20
LARGE_RUN_BITS, SMALL_RUN_BITS = -2, 1
"""By how many bits a directory is longer than the number of entries, where blocks have enough. A large run has some
four entries in a bucket, so that the directory takes a byte an entry. In a small one most buckets are empty: most
look-ups find nothing there, and see it at once."""
LEAST_BITS = 6
"""Bits of the smallest directory, 64 buckets, and of the smallest filter, one word."""


@cache
def load_run_kernel() -> ModuleType:
    """Compile the kernel of the runs, or load its kept machine code."""
    from stream_dedup.index import run_kernel  # noqa: PLC0415 - loads the compiler

    return run_kernel


class Blocks(NamedTuple):
    """Which blocks a table is sorted by: its number, and the bits of a block."""

    table: int
    bits: int = BLOCK_BITS

    @property
    def word(self) -> int:
        """Key word that has the blocks."""
        return self.table // BLOCKS_PER_WORD

    @property
    def rotation(self) -> int:
        """First bit of the block in the word, counted from the highest."""
        return self.table % BLOCKS_PER_WORD * BLOCK_BITS

    def directory_bits(self, entries: int) -> int:
        """Bits of the number of a bucket in a run of so many entries."""
        more = LARGE_RUN_BITS if entries >= LARGE_RUN else SMALL_RUN_BITS
        return min(self.bits, max(entries.bit_length() + more, LEAST_BITS))


@dataclass(frozen=True, eq=False)
class Run:
    """Entries of one table, sorted by block, then document number.

    ``starts`` uint32[buckets + 1], where the number of buckets is a power of two up to that of the blocks: the entries
    of bucket i are ``starts[i]:starts[i + 1]``. ``keys`` uint64[m]: the word of the entry's key that has the block.
    ``doc_numbers`` uint32[m]. The arrays must not change afterwards.

    Raises:
        ValueError: arrays of another type, or that do not fit together.
    """

    blocks: Blocks
    starts: U32
    keys: U64
    doc_numbers: U32

    def __post_init__(self) -> None:
        typed = ((self.starts, np.uint32), (self.keys, np.uint64), (self.doc_numbers, np.uint32))
        if any(array.dtype != kind or not array.flags.c_contiguous for array, kind in typed):
            msg = "run: starts and document numbers must be uint32, keys uint64, all contiguous"
            raise ValueError(msg)
        buckets = len(self.starts) - 1
        if buckets < 1 or buckets & (buckets - 1) or buckets > 1 << self.blocks.bits:
            msg = f"run of {buckets} buckets: must be a power of two up to 2**{self.blocks.bits}"
            raise ValueError(msg)
        if not int(self.starts[-1]) == len(self.keys) == len(self.doc_numbers):
            msg = f"run: lists end at {self.starts[-1]}, {len(self.keys)} keys, {len(self.doc_numbers)} numbers"
            raise ValueError(msg)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def bytes(self) -> int:
        """Bytes of its arrays."""
        return self.starts.nbytes + self.keys.nbytes + self.doc_numbers.nbytes

    @property
    def shift(self) -> int:
        """By how many bits a block is longer than the number of its bucket."""
        return self.blocks.bits - (len(self.starts) - 1).bit_length() + 1

    @cached_property
    def filter(self) -> U64 | None:
        """Which blocks have entries: a bit for each value of a block's highest bits. None of a large run."""
        if len(self) > FILTERED_ENTRIES:
            return None
        bits = min(self.blocks.bits, max(len(self).bit_length() + FILTER_BITS, LEAST_BITS))
        noted = np.zeros(1 << (bits - LEAST_BITS), np.uint64)
        load_run_kernel().note_blocks(self.keys, self.blocks.rotation, bits, noted)
        return noted

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """As ``ADDRESSES`` names them; good as long as this run lives."""
        arrays = (self.starts, self.keys, self.doc_numbers)
        addresses = (*(array.__array_interface__["data"][0] for array in arrays), self.shift)
        if self.filter is None:
            return (*addresses, 0, 0)
        bits = len(self.filter).bit_length() - 1 + LEAST_BITS
        return (*addresses, self.filter.__array_interface__["data"][0], self.blocks.bits - bits)


@dataclass(frozen=True, eq=False)
class PostingLists:
    """All lists: of each table its runs, oldest first. Document numbers of a later run are greater, list by list.

    Raises:
        ValueError: a table is not where its number says, or tables have blocks of different widths.
    """

    tables: Sequence[Sequence[Run]]

    def __post_init__(self) -> None:
        wrong = [run.blocks for table, runs in enumerate(self.tables) for run in runs if run.blocks.table != table]
        if wrong or len({run.blocks.bits for runs in self.tables for run in runs}) > 1:
            msg = f"lists: runs of other tables ({wrong}), or blocks of several widths"
            raise ValueError(msg)

    @cached_property
    def block_bits(self) -> int | None:
        """Bits of a block; None where there is no run."""
        return next((run.blocks.bits for runs in self.tables for run in runs), None)

    @property
    def runs(self) -> int:
        """Runs of the table that has most."""
        return max((len(runs) for runs in self.tables), default=0)

    @cached_property
    def directory(self) -> NDArray[Any]:
        """``ADDRESSES``, shape (tables, runs); each table's newest run is last, after those that are not there."""
        directory = np.zeros((len(self.tables), self.runs), ADDRESSES)
        for table, runs in enumerate(self.tables):
            for at, run in enumerate(runs, self.runs - len(runs)):
                directory[table, at] = run.addresses
        return directory
