"""The lengths of posting lists as of each article.

Counts the entries of a posting list between two entry numbers. This gives the candidates of a look-up (the
newest entries of the list, as many as the bucket limit), and whether a given entry is among them.

Entries are numbered 0, 1, 2, ... in their order; the posting list of table t and value v holds the numbers of the
entries whose block t is v.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.arrays import I64, U32

_NUMBER_BITS = 40
"""Bits of an entry's number below its block in one int64: more than any file has lines."""


class ListLengths:
    """The posting lists of all tables."""

    def __init__(self, blocks: U32, block_bits: int) -> None:
        """Sort ``blocks`` of shape (entries, tables), of so many bits each; block t of an entry is column t."""
        self._block_bits = block_bits
        numbers = np.arange(len(blocks), dtype=np.int64)
        self._sorted = [np.sort(_joined(column, numbers)) for column in blocks.T]
        self.longest = max(
            (int(np.bincount(np.unique_inverse(column)[1]).max(initial=0)) for column in blocks.T), default=0
        )
        """Length of the longest posting list."""

    def between(self, table: int, values: U32, since: I64, until: I64) -> I64:
        """Return how many entries from ``since`` to before ``until`` are in the posting lists of these values."""
        ordered = self._sorted[table]
        return np.searchsorted(ordered, _joined(values, until)) - np.searchsorted(ordered, _joined(values, since))

    def sizes(self, lookups: U32, until: I64) -> I64:
        """Return how many entries before ``until`` are in each list, given as ``table << block_bits | value``."""
        tables = lookups >> self._block_bits
        values = lookups & (1 << self._block_bits) - 1
        sizes = np.empty(lookups.shape, np.int64)
        for table in range(len(self._sorted)):
            chosen = tables == table
            ends = np.broadcast_to(until, lookups.shape)[chosen]
            sizes[chosen] = self.between(table, values[chosen], np.zeros_like(ends), ends)
        return sizes


def _joined(values: U32, numbers: I64) -> I64:
    return values.astype(np.int64) << _NUMBER_BITS | numbers
