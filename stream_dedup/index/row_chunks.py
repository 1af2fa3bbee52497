"""Rows held in memory, as a look-up reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import SKETCH_SIZES
from stream_dedup.index.layout import ROW, RowArray, RowType, row_type


@dataclass(frozen=True, eq=False)
class RowChunks:
    """Rows held in memory, in chunks of ``2**chunk_bits`` rows each but the last, which may be shorter or longer.

    A row is of a ``layout.row_type``, the same in all chunks; its signature is not XORed with the group.
    ``base`` is the document number of the first row; entries before it must be trimmed.

    Raises:
        ValueError: a chunk of another type or size.
    """

    chunks: Sequence[RowArray]
    chunk_bits: int = 62
    base: int = 0

    def __post_init__(self) -> None:
        known = self.kind in map(row_type, SKETCH_SIZES)
        for chunk in self.chunks:
            if not known or chunk.dtype != self.kind or chunk.ndim != 1 or not chunk.flags.c_contiguous:
                msg = "rows: chunks must be contiguous arrays of one layout.row_type"
                raise ValueError(msg)
        if any(len(chunk) != 1 << self.chunk_bits for chunk in self.chunks[:-1]):
            msg = f"rows: chunks of {[len(chunk) for chunk in self.chunks]} rows, must have {1 << self.chunk_bits}"
            raise ValueError(msg)

    @classmethod
    def of(cls, rows: RowArray) -> RowChunks:
        """Hold all rows in one array."""
        return cls((rows,))

    @property
    def kind(self) -> RowType:
        """Type of the rows."""
        return self.chunks[0].dtype if self.chunks else ROW

    @property
    def end(self) -> int:
        """First document number that has no row."""
        if not self.chunks:
            return self.base
        return self.base + ((len(self.chunks) - 1) << self.chunk_bits) + len(self.chunks[-1])

    @cached_property
    def addresses(self) -> I64:
        """Address of each chunk, valid as long as these rows live."""
        return np.array([chunk.__array_interface__["data"][0] for chunk in self.chunks], np.int64)

    def rows_of(self, doc_numbers: I64) -> RowArray:
        """Return the rows of these document numbers."""
        if len(self.chunks) == 1:
            return self.chunks[0].take(doc_numbers - self.base)
        taken = np.empty(len(doc_numbers), self.kind)
        numbers = np.minimum((doc_numbers - self.base) >> self.chunk_bits, len(self.chunks) - 1)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            taken[here] = self.chunks[number][doc_numbers[here] - self.base - (number << self.chunk_bits)]
        return taken


Fetch = Callable[[I64], RowArray]
"""Returns the rows of distinct document numbers, which rise."""
