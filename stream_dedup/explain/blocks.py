"""The blocks of two articles in each table, and the look-ups of the later one that meet the earlier one there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.arrays import I64, U8, U32
from stream_dedup.core.costs import COSTS
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.model import BLOCKS_PER_WORD
from stream_dedup.core.near import NO_PLACE, PairCheck
from stream_dedup.core.rules import Rules, most_probes
from stream_dedup.explain.side import Side

NO_LOOKUP = -1


class Sieve(StrEnum):
    """Whether the sieve of a table passes the pair."""

    PASSED = "passed"
    HELD = "held"
    NONE = "none"
    """Exact search has no sieve."""


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks of A and B in one table, of so many ``bits``, and the look-up of B that reaches A there.

    ``mask`` has the differing bits. ``rank`` is the position of that look-up in B's plan, from 1, whatever the plan's
    length, and ``cost`` its cost; both are ``NO_LOOKUP`` if no look-up flips these bits. ``word`` is the distance of
    the 64 bits around the block, ``counted`` what the sieve counts of it: the same, or the differing bits among B's
    surest.
    """

    table: int
    bits: int
    a: int
    b: int
    mask: int
    word: int
    counted: int
    sieve: Sieve
    rank: int
    cost: int

    def digits(self, value: int) -> str:
        """Return a value or mask of the block in hexadecimal digits."""
        return f"{value:0{self.bits // 4}x}"

    @property
    def differing(self) -> int:
        """Bits in which the two blocks differ."""
        return self.mask.bit_count()


def blocks_of(a: Side, b: Side, rules: Rules) -> tuple[Block, ...]:
    """Return the blocks of A and B in each table."""
    tables, block_bits = rules.scheme.tables, rules.scheme.block_bits
    words = probes.words(np.frombuffer(a.signature + b.signature, np.uint8).reshape(2, -1))
    words = words[:, : tables // BLOCKS_PER_WORD]
    cut = probes.blocks(words.reshape(-1), block_bits).reshape(2, -1).tolist()
    far = np.bitwise_count(words[0] ^ words[1]).tolist()
    margins = b.margins[np.newaxis]
    met = PairCheck(rules).meetings(
        np.array([b.status], np.uint8), words[1:], words[:1], probes.sieve_masks(rules, margins), _plan(rules, margins)
    )
    costs = COSTS[simhash.unpack_margins(b.margins)].ravel()[probes.bits_of_blocks(tables, block_bits)]
    blocks = []
    for table in range(tables):
        one, other = cut[0][table], cut[1][table]
        word, place = table // BLOCKS_PER_WORD, int(met.places[0, table])
        rank = NO_LOOKUP if place == NO_PLACE else place + 1
        cost = _cost(one ^ other, costs[table]) if rank != NO_LOOKUP and rules.directed else NO_LOOKUP
        passed = Sieve.PASSED if met.passed[0, word] else Sieve.HELD
        sieve, counted = passed if rules.directed else Sieve.NONE, int(met.counts[0, word])
        blocks.append(Block(table, block_bits, one, other, one ^ other, far[word], counted, sieve, rank, cost))
    return tuple(blocks)


def _plan(rules: Rules, margins: U8) -> U32:
    """Return B's longest plan, or the plan of exact search."""
    if rules.directed:
        rules = replace(rules, probes=most_probes(rules.scheme.tables, rules.scheme.block_bits))
    return probes.plan_of(rules, margins)


def _cost(mask: int, costs: I64) -> int:
    return sum(int(cost) for bit, cost in enumerate(reversed(costs.tolist())) if mask >> bit & 1)
