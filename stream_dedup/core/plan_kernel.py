"""Plans of directed search, compiled. Importing this file loads the compiler.

The cheapest look-ups are taken one by one from a heap (Lv et al., VLDB 2007). In each table the bits of the block are
ordered by (cost, bit). Every subset of bits with last index j yields two more: one with j replaced by j + 1, and one
with j + 1 added. Neither costs less, and at equal cost its mask is higher; every subset but the first is made in
exactly one way. So nodes leave the heap in order of rank.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint8, uint32

from stream_dedup.core.arrays import I64, U8, U32
from stream_dedup.core.costs import COST_SHIFT, COSTS, LOOKUP_MASK
from stream_dedup.core.fingerprint.simhash import MAX_MARGIN
from stream_dedup.core.kernel import compiled, inlined, read, written
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, FINGERPRINT_BITS, TABLE_MARGIN_BYTES
from stream_dedup.core.rules import mask_bits

LAST_BITS, SIZE_BITS = 5, 3
"""Bits of a node below its rank: the last index of the subset, and the number of its bits."""
NODE_SHIFT = LAST_BITS + SIZE_BITS
LAST_MASK, SIZE_MASK = (1 << LAST_BITS) - 1, (1 << SIZE_BITS) - 1


def directed(margins: U8, probes: int, block_bits: int) -> U32:
    """Return the plans; see ``probes.directed``."""
    plans = np.empty((len(margins), probes), np.uint32)
    tables = margins.shape[1] // TABLE_MARGIN_BYTES
    singles = np.empty((tables, block_bits), np.int64)
    heap = np.empty(tables + probes, np.int64)  # a probe replaces one node by at most two
    _directed(np.ascontiguousarray(margins), COSTS, mask_bits(block_bits), singles, heap, plans)
    return plans


@inlined
def _sink(heap: I64, size: int) -> None:
    """Restore the heap if its first node may be too great."""
    node, at = heap[0], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= node:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = node


@inlined
def _rise(heap: I64, size: int, node: int) -> None:
    """Add a node to a heap of this size."""
    at = size
    while at and heap[(at - 1) // 2] > node:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = node


@compiled(int64, read(uint8), read(int64), written(int64, 2))
def _order(margins: U8, costs: I64, singles: I64) -> int:
    """Fill in, for each table, what flipping each bit adds to a rank, in the order of (cost, bit)."""
    tables, block_bits = singles.shape
    for table in range(tables):
        of_table = singles[table]
        word = table // BLOCKS_PER_WORD * FINGERPRINT_BITS
        for bit in range(block_bits):
            margin_at = word + (table % BLOCKS_PER_WORD * BLOCK_BITS + bit) % FINGERPRINT_BITS
            packed = np.int64(margins[margin_at // 2])
            margin = packed & MAX_MARGIN if margin_at % 2 else packed >> 4
            single = costs[margin] << COST_SHIFT | 1 << (block_bits - 1 - bit)
            at = bit
            while at and of_table[at - 1] > single:
                of_table[at] = of_table[at - 1]
                at -= 1
            of_table[at] = single
    return len(singles)


@compiled(int64, written(int64), int64, read(int64), int64)
def _replace(heap: I64, size: int, singles: I64, most: int) -> int:
    """Replace the first node by the nodes made from it; return the new size of the heap."""
    node = heap[0]
    rank, last, bits = node >> NODE_SHIFT, node >> SIZE_BITS & LAST_MASK, node & SIZE_MASK
    after = 0 if bits == 0 else last + 1
    if after == len(singles):
        heap[0] = heap[size - 1]
        _sink(heap, size - 1)
        return size - 1
    added = (rank + singles[after]) << NODE_SHIFT | after << SIZE_BITS
    if bits == 0:
        heap[0] = added | 1
        _sink(heap, size)
        return size
    heap[0] = added - (singles[last] << NODE_SHIFT) | bits
    _sink(heap, size)
    if bits == most:
        return size
    _rise(heap, size, added | bits + 1)
    return size + 1


@compiled(int64, read(uint8, 2), read(int64), int64, written(int64, 2), written(int64), written(uint32, 2))
def _directed(margins: U8, costs: I64, most: int, singles: I64, heap: I64, plans: U32) -> int:
    """Fill in the plans."""
    block_bits = singles.shape[1]
    for article in range(len(plans)):
        size = _order(margins[article], costs, singles)
        for table in range(size):
            heap[table] = table << block_bits << NODE_SHIFT
        for probe in range(plans.shape[1]):
            node = heap[0]
            lookup = node >> NODE_SHIFT & LOOKUP_MASK
            plans[article, probe] = lookup
            size = _replace(heap, size, singles[lookup >> block_bits], most)
    return len(plans)
