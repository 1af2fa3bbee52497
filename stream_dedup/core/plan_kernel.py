"""Plans of directed search and the masks of sure bits, compiled. Importing this file loads the compiler.

The look-ups of an article up to a bound of the cost are listed by table, then mask, and a counting sort by cost leaves
those of equal cost in this order. Bit by bit, from the lowest on, a table's masks are those without the bit, then the
same masks with it as far as they cost no more than the bound. So masks rise, and no mask beyond the bound is continued.

The bound: let m be the least margin of which the bits of margins up to m alone, at most so many in a mask, make as many
look-ups as the plan has. Then no look-up of the plan costs more than so many bits of margin m. ``LIKELY_BITS`` bits of
margin m are mostly enough, and then a third of the work; the look-ups of the other articles are listed twice.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import int64, uint8, uint32, uint64, void

from stream_dedup.core.arrays import I64, U8, U32, U64
from stream_dedup.core.costs import COST_SHIFT, COSTS, LOOKUP_MASK
from stream_dedup.core.fingerprint.simhash import MAX_MARGIN
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, FINGERPRINT_BITS, TABLE_MARGIN_BYTES
from stream_dedup.core.rules import mask_bits, masks_within, most_probes

SIZE_BITS = 3
"""Bits of a node below its rank: the number of bits of its mask."""
SIZE_MASK = (1 << SIZE_BITS) - 1
NODE_SHIFT = COST_SHIFT + SIZE_BITS
"""Bits of a node below its cost."""
LIKELY_BITS = 2
"""Bits of margin m whose cost is the bound that is tried first: enough for 19 of 20 plans of 64 to 1,500 look-ups."""

Scratch = tuple[I64, I64, I64, I64, I64, U32]


def directed(margins: U8, probes: int, block_bits: int) -> U32:
    """Return the plans; see ``probes.directed``."""
    plans = np.empty((len(margins), probes), np.uint32)
    tables, most = margins.shape[1] // TABLE_MARGIN_BYTES, mask_bits(block_bits)
    every = most_probes(tables, block_bits)
    scratch = (
        np.empty((tables, block_bits), np.int64),
        np.empty((tables, MAX_MARGIN + 1), np.int64),
        np.empty(every + 1, np.int64),  # one more: a node that is not kept is overwritten by the next one
        np.empty(masks_within(most - 1, block_bits) + 1, np.int64),
        np.empty(most * int(COSTS[-1]) + 2, np.int64),
        np.empty(every, np.uint32),
    )
    _directed(np.ascontiguousarray(margins), COSTS, _masks_of_bits(most, block_bits), most, scratch, plans)
    return plans


def sure_masks(margins: U8, counts: I64) -> U64:
    """Return for each word the masks of its so many surest bits; see ``probes.sure_masks``."""
    words = margins.shape[1] // (TABLE_MARGIN_BYTES * BLOCKS_PER_WORD)
    masks = np.empty((len(margins), words, len(counts)), np.uint64)
    _sure_masks(np.ascontiguousarray(margins), counts, masks)
    return masks


@cache
def _masks_of_bits(most: int, block_bits: int) -> I64:
    """Return how many masks of at most this many bits there are of 0, 1, ... bits."""
    masks: I64 = np.array([masks_within(most, bits) for bits in range(block_bits + 1)], np.int64)
    masks.setflags(write=False)
    return masks


@inlined
def _margin(margins: U8, bit: int) -> int:
    """Return the margin of a bit of the signature."""
    packed = whole(margins[bit >> 1])
    return packed & MAX_MARGIN if bit & 1 else packed >> 4


@compiled(void, read(uint8), read(int64), written(int64, 2), written(int64, 2))
def _read(margins: U8, costs: I64, bits: I64, up_to: I64) -> None:
    """Fill in of each table what each bit adds to a node, and how many bits have margins up to each."""
    tables, block_bits = bits.shape
    up_to[:] = 0
    for table in range(tables):
        word, start = table // BLOCKS_PER_WORD * FINGERPRINT_BITS, table % BLOCKS_PER_WORD * BLOCK_BITS
        for bit in range(block_bits):
            margin = _margin(margins, word + (start + block_bits - 1 - bit) % FINGERPRINT_BITS)
            bits[table, bit] = costs[margin] << NODE_SHIFT | 1 << bit << SIZE_BITS | 1
            up_to[table, margin] += 1
        for margin in range(MAX_MARGIN):
            up_to[table, margin + 1] += up_to[table, margin]


@compiled(int64, read(int64, 2), read(int64), int64)
def _bounding_margin(up_to: I64, masks: I64, probes: int) -> int:
    """Return the least margin such that the bits of margins up to it make so many look-ups."""
    for margin in range(MAX_MARGIN):
        lookups = 0
        for table in range(len(up_to)):
            lookups += masks[up_to[table, margin]]
        if lookups >= probes:
            return margin
    return MAX_MARGIN


@compiled(int64, read(int64), int64, int64, int64, written(int64), written(int64))
def _list_table(bits: I64, table: int, most: int, bound: int, nodes: I64, shorter: I64) -> int:
    """Fill in the nodes of a table up to a bound of the cost, in rising order of masks; returns how many they are.

    ``bits`` is what each bit adds to a node, from the lowest of a mask on. ``shorter`` has the nodes whose masks may
    have one more bit.
    """
    beyond = (bound + 1) << NODE_SHIFT
    nodes[0] = shorter[0] = table << len(bits) << SIZE_BITS
    count, short = 1, 1
    for bit in range(len(bits)):
        if shorter[0] + bits[bit] >= beyond:
            continue  # alone too expensive
        for before in range(short):
            node = shorter[before] + bits[bit]
            kept = whole(node < beyond)  # added: a branch would often be foreseen wrongly
            nodes[count] = shorter[short] = node
            count += kept
            short += kept & whole(node & SIZE_MASK < most)
    return count


@compiled(void, read(int64), int64, written(int64), written(uint32))
def _sort(nodes: I64, bound: int, counts: I64, ordered: U32) -> None:
    """Fill in the look-ups of nodes by cost, in their order among equals."""
    counts[: bound + 2] = 0
    for at in range(len(nodes)):
        counts[(nodes[at] >> NODE_SHIFT) + 1] += 1
    for cost in range(1, bound + 1):
        counts[cost] += counts[cost - 1]
    for at in range(len(nodes)):
        cost = nodes[at] >> NODE_SHIFT
        ordered[counts[cost]] = nodes[at] >> SIZE_BITS & LOOKUP_MASK
        counts[cost] += 1


_BY_TABLE, _ROOM = written(int64, 2), written(int64)
_SCRATCH = several(_BY_TABLE, _BY_TABLE, _ROOM, _ROOM, _ROOM, written(uint32))


@compiled(void, read(uint8, 2), read(int64), read(int64), int64, _SCRATCH, written(uint32, 2))
def _directed(margins: U8, costs: I64, masks: I64, most: int, scratch: Scratch, plans: U32) -> None:
    """Fill in the plans."""
    bits, up_to, nodes, shorter, counts, ordered = scratch
    tables, probes = len(bits), plans.shape[1]
    for article in range(len(plans)):
        _read(margins[article], costs, bits, up_to)
        margin = _bounding_margin(up_to, masks, probes)
        listed, bound = 0, LIKELY_BITS * costs[margin]
        while listed < probes:
            listed = 0
            for table in range(tables):
                listed += _list_table(bits[table], table, most, bound, nodes[listed:], shorter)
            if listed < probes:
                bound = most * costs[margin]
        _sort(nodes[:listed], bound, counts, ordered)
        for at in range(probes):  # not the row: numba would check its shape, and compile the text of the error
            plans[article, at] = ordered[at]


@compiled(void, read(uint8, 2), read(int64), written(uint64, 3))
def _sure_masks(margins: U8, counts: I64, masks: U64) -> None:
    """Fill in the masks: of each word the bits above a margin, and the first ones of this margin."""
    least = np.empty(MAX_MARGIN + 2, np.int64)
    for article in range(len(masks)):
        for word in range(masks.shape[1]):
            first = word * FINGERPRINT_BITS
            least[:] = 0
            for bit in range(FINGERPRINT_BITS):
                least[_margin(margins[article], first + bit)] += 1
            for margin in range(MAX_MARGIN, -1, -1):
                least[margin] += least[margin + 1]
            for which in range(len(counts)):
                margin = MAX_MARGIN
                while least[margin] < counts[which]:
                    margin -= 1
                left = counts[which] - least[margin + 1]
                mask = np.uint64(0)
                for bit in range(FINGERPRINT_BITS):
                    own = _margin(margins[article], first + bit)
                    equal = whole(own == margin) & whole(left > 0)
                    left -= equal
                    mask = mask << np.uint64(1) | np.uint64(whole(own > margin) | equal)
                masks[article, word, which] = mask
