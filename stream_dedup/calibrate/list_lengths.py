"""The lists of the block tables as they were when each article came, without tables.

Owns one question: how many entries of a list stand between two places. From it follows what a look-up compares
(the newest entries of the list, as many as the rules allow), and whether a given entry is among them.

Entries are numbered 0, 1, 2, ... in order of place; the list of table t and value v holds the numbers of those
whose block t is v, in that order.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.arrays import I64, U16, U32

_NUMBER_BITS = 40
"""Bits of an entry's number beside its block, both in one sorted int64: far above any file."""


class ListLengths:
    """All lists of all tables."""

    def __init__(self, blocks: U16) -> None:
        """Sort ``blocks`` of shape (entries, tables); block t of an entry is column t."""
        numbers = np.arange(len(blocks), dtype=np.int64)
        self._sorted = [np.sort(_joined(column, numbers)) for column in blocks.T]
        self.longest = max((int(np.bincount(column).max(initial=0)) for column in blocks.T), default=0)
        """Entries of the longest list."""

    def between(self, table: int, values: U16, since: I64, until: I64) -> I64:
        """Entries from number ``since`` on and before number ``until`` in the lists of these values."""
        ordered = self._sorted[table]
        return np.searchsorted(ordered, _joined(values, until)) - np.searchsorted(ordered, _joined(values, since))

    def sizes(self, lookups: U32, until: I64) -> I64:
        """Entries before number ``until`` in the list of each look-up, which is ``table << 16 | value``."""
        tables = lookups >> np.uint32(16)
        values = (lookups & np.uint32(0xFFFF)).astype(np.uint16)
        sizes = np.empty(lookups.shape, np.int64)
        for table in range(len(self._sorted)):
            chosen = tables == table
            ends = np.broadcast_to(until, lookups.shape)[chosen]
            sizes[chosen] = self.between(table, values[chosen], np.zeros_like(ends), ends)
        return sizes


def _joined(values: U16, numbers: I64) -> I64:
    return values.astype(np.int64) << _NUMBER_BITS | numbers
