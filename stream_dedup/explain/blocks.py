"""The blocks of two articles in each table, and the look-ups of the later one that meet the earlier one there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.costs import COSTS
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.model import BLOCKS_PER_WORD
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


def blocks_of(signatures: U8, b: Side, rules: Rules) -> tuple[Block, ...]:
    """Return the blocks of A and B, whose signatures these are, in each table."""
    words = probes.words(signatures)
    tables = rules.scheme.tables
    block_bits = rules.scheme.block_bits
    cut = probes.blocks(words.reshape(-1), block_bits).reshape(2, -1)[:, :tables].tolist()
    far = np.bitwise_count(words[0] ^ words[1]).tolist()
    counts = _counts(words[0] ^ words[1], b, rules)
    ranks = _ranks(b, rules)
    costs = COSTS[simhash.unpack_margins(b.margins)].ravel()[probes.bits_of_blocks(tables, block_bits)]
    blocks = []
    for table in range(tables):
        one, other = cut[0][table], cut[1][table]
        word = far[table // BLOCKS_PER_WORD]
        rank = ranks.get(table << block_bits | one ^ other, NO_LOOKUP)
        counted = counts[table // BLOCKS_PER_WORD]
        cost = _cost(one ^ other, costs[table]) if rank != NO_LOOKUP and rules.directed else NO_LOOKUP
        sieve = _sieve(rules, counted)
        blocks.append(Block(table, block_bits, one, other, one ^ other, word, counted, sieve, rank, cost))
    return tuple(blocks)


def _ranks(b: Side, rules: Rules) -> dict[int, int]:
    """Return the position, from 1, of every look-up in B's longest plan, or in the plan of exact search."""
    if rules.directed:
        rules = replace(rules, probes=most_probes(rules.scheme.tables, rules.scheme.block_bits))
    plan = probes.plan_of(rules, b.margins[np.newaxis])[0]
    return {lookup: rank for rank, lookup in enumerate(plan.tolist(), 1)}


def sieve_limit(rules: Rules) -> int:
    """Return how much the sieve of directed search may count at most."""
    return probes.SURE_SIEVE_BITS if rules.sieves_sure_bits else probes.WORD_SIEVE_BITS


def _counts(differing: U64, b: Side, rules: Rules) -> list[int]:
    """Return what the sieve counts of each word that has tables."""
    words = rules.scheme.tables // BLOCKS_PER_WORD
    masks = probes.sure_masks(b.margins[np.newaxis])[0] if rules.sieves_sure_bits else probes.ALL_BITS
    counts: list[int] = np.bitwise_count(differing[:words, np.newaxis] & masks).sum(axis=1).tolist()
    return counts


def _sieve(rules: Rules, counted: int) -> Sieve:
    if not rules.directed:
        return Sieve.NONE
    return Sieve.PASSED if counted <= sieve_limit(rules) else Sieve.HELD


def _cost(mask: int, costs: I64) -> int:
    return sum(int(cost) for bit, cost in enumerate(reversed(costs.tolist())) if mask >> bit & 1)
