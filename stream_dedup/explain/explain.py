"""Explains why two texts match, or do not: every step of the verdict as values.

*A* is in the log, and *B* comes later: is *B* a duplicate of *A*? The answer is for these two alone; it ignores the
window, the bucket limit and the bound on candidates. Pure: reads and writes nothing. ``text`` formats an explanation
for a terminal, ``as_json`` for programs.

The verdict follows the definition of near: one group, reached by one of *B*'s look-ups, within the sieve, within the
limit. A test compares it with the reference over a log of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.costs import COSTS
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.fingerprinter import Explained, Feature
from stream_dedup.core.model import (
    BLOCK_BITS,
    BLOCKS_PER_WORD,
    FINGERPRINT_BITS,
    LogOffset,
    Status,
    Verdict,
    group_of,
    signed,
)
from stream_dedup.core.rules import MASK_BITS, MAX_MASKS, Rules

NO_LOOKUP = -1
_SHOWN_RULES = ("search", "distance", "probes", "limit", "short_limit", "copies")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two articles.

    An entry from an index has no ``text``, ``normalised``, ``features`` and ``sums``, because the index keeps no
    bodies. Weights are whole numbers; divided by ``unit`` they are shown to people. ``margins`` are packed as in a
    log entry.
    """

    name: str
    status: Status
    group: int
    signature: bytes
    margins: U8
    scope: str | None = None
    text: str | None = None
    normalised: str | None = None
    features: tuple[Feature, ...] | None = None
    sums: tuple[int, ...] | None = None
    unit: int = 1
    withdrawn_at: LogOffset | None = None
    """Log offset of the withdrawal of an entry from an index, None of one that matches."""

    @property
    def bits(self) -> tuple[int, ...]:
        """The signature's bits."""
        return tuple(np.unpackbits(np.frombuffer(self.signature, np.uint8)).tolist())

    @property
    def bit_margins(self) -> tuple[int, ...]:
        """The margin of each bit of the blocks."""
        return tuple(simhash.unpack_margins(self.margins).tolist())


class Sieve(StrEnum):
    """Whether the sieve of a table passes the pair."""

    PASSED = "passed"
    HELD = "held"
    NONE = "none"
    """Exact search has no sieve."""


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks of A and B in one table, and the look-up of B that reaches A there.

    ``mask`` has the differing bits. ``rank`` is the position of that look-up in B's plan, from 1, whatever the plan's
    length, and ``cost`` its cost; both are ``NO_LOOKUP`` if no look-up flips these bits. ``word`` is the distance of
    the 64 bits around the block, which the sieve checks.
    """

    table: int
    a: int
    b: int
    mask: int
    word: int
    sieve: Sieve
    rank: int
    cost: int

    @property
    def differing(self) -> int:
        """Bits in which the two blocks differ."""
        return self.mask.bit_count()


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The verdict on B, and everything that decides it.

    ``fingerprint_distance`` is over 64 bits, ``distance`` over 256, ``similarity`` the cosine estimated from it;
    ``cosine`` is that of the weights, None where features are not known. ``finder`` is the block whose look-up
    comes first of those that the sieve passes, whether the plan reaches so far or not. ``probes`` is the length of
    the plan.
    """

    rules: Rules
    a: Side
    b: Side
    fingerprint_distance: int
    distance: int
    similarity: float
    cosine: float | None
    blocks: tuple[Block, ...]
    finder: Block | None
    probes: int
    verdict: Verdict
    reason: str

    @property
    def found(self) -> bool:
        """Whether one of the look-ups in the plan meets A."""
        return self.finder is not None and self.finder.rank <= self.probes


def pushes(feature: Feature, bits: int) -> tuple[int, ...]:
    """Return what a feature adds to each of the first ``bits`` sums: its weight, or minus its weight."""
    ones = np.unpackbits(np.frombuffer(feature.hash, np.uint8))[:bits]
    return tuple(feature.weight if one else -feature.weight for one in ones.tolist())


def side_of(name: str, text: str | None, made: Explained, unit: int, scope: str | None = None) -> Side:
    """Return a fingerprinted text as a side; its weights divided by ``unit`` are shown to people."""
    has = bool(signed(np.array([made.status], np.uint8))[0])
    return Side(
        name=name,
        status=made.status,
        group=group_of(made.status, scope) if has else 0,
        signature=made.signature,
        margins=simhash.pack_margins(made.margins),
        scope=scope,
        text=text,
        normalised=made.text,
        features=made.features,
        sums=tuple(made.sums.tolist()),
        unit=unit,
    )


def explain(a: Side, b: Side, rules: Rules) -> Explanation:
    """Say whether B, coming after A, is a duplicate of it, and why."""
    signatures = np.frombuffer(a.signature + b.signature, np.uint8).reshape(2, -1)
    distances = np.cumsum(np.bitwise_count(signatures[0] ^ signatures[1]))
    near, whole = int(distances[FINGERPRINT_BITS // 8 - 1]), int(distances[-1])
    blocks = _blocks(signatures, b, rules)
    reached = [block for block in blocks if block.rank != NO_LOOKUP and block.sieve is not Sieve.HELD]
    finder = min(reached, key=lambda block: block.rank, default=None)
    planned = _planned(rules)
    judge = _Judge(a, b, rules, near if not rules.directed else whole, finder, planned)
    verdict, reason = judge.verdict()
    return Explanation(
        rules=rules,
        a=a,
        b=b,
        fingerprint_distance=near,
        distance=whole,
        similarity=simhash.similarity(whole),
        cosine=_cosine(a.features, b.features),
        blocks=blocks,
        finder=finder,
        probes=planned,
        verdict=verdict,
        reason=reason,
    )


def _planned(rules: Rules) -> int:
    """Return the length of the plan."""
    if rules.directed:
        return rules.probes or 0
    return int(probes.exact_plan(rules.distance or 0).shape[1])


def _blocks(signatures: U8, b: Side, rules: Rules) -> tuple[Block, ...]:
    words = probes.words(signatures)
    tables = rules.scheme.tables
    cut = probes.blocks(words.reshape(-1)).reshape(2, -1)[:, :tables].tolist()
    far = np.bitwise_count(words[0] ^ words[1]).tolist()
    ranks = _ranks(b, rules)
    costs = COSTS[simhash.unpack_margins(b.margins)].reshape(tables, BLOCK_BITS)
    blocks = []
    for table in range(tables):
        one, other = cut[0][table], cut[1][table]
        word = far[table // BLOCKS_PER_WORD]
        rank = ranks.get(table << BLOCK_BITS | one ^ other, NO_LOOKUP)
        sieve = _sieve(rules, word)
        cost = _cost(one ^ other, costs[table]) if rank != NO_LOOKUP and rules.directed else NO_LOOKUP
        blocks.append(Block(table, one, other, one ^ other, word, sieve, rank, cost))
    return tuple(blocks)


def _ranks(b: Side, rules: Rules) -> dict[int, int]:
    """Return the position, from 1, of every look-up in B's longest plan, or in the plan of exact search."""
    if rules.directed:
        plan = probes.directed(b.margins[np.newaxis], MAX_MASKS * rules.scheme.tables)[0]
    else:
        plan = probes.exact_plan(rules.distance or 0)[0]
    return {lookup: rank for rank, lookup in enumerate(plan.tolist(), 1)}


def _sieve(rules: Rules, word: int) -> Sieve:
    if not rules.directed:
        return Sieve.NONE
    return Sieve.PASSED if word <= probes.SIEVE_BITS else Sieve.HELD


def _cost(mask: int, costs: I64) -> int:
    return sum(int(cost) for bit, cost in enumerate(costs) if mask >> (BLOCK_BITS - 1 - bit) & 1)


def _cosine(a: Sequence[Feature] | None, b: Sequence[Feature] | None) -> float | None:
    """Return the cosine of two weight vectors, or None if one is unknown or empty."""
    if not a or not b:
        return None
    weights = {feature.hash: feature.weight for feature in a}
    product = sum(weights.get(feature.hash, 0) * feature.weight for feature in b)
    return product / math.sqrt(_square(a) * _square(b))


def _square(features: Sequence[Feature]) -> int:
    return sum(feature.weight**2 for feature in features)


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """The input of the verdict; ``distance`` is the one that the rules limit."""

    a: Side
    b: Side
    rules: Rules
    distance: int
    finder: Block | None
    planned: int

    def verdict(self) -> tuple[Verdict, str]:
        """Return the verdict on B and the reason in one sentence."""
        verdict, reason = self._if_one_is_enough()
        least = self.rules.copies
        if verdict is Verdict.DUPLICATE and least > 1:
            return Verdict.UNIQUE, f"{reason}; {least} near earlier articles make a duplicate, and {self.a.name} is one"
        return verdict, reason

    def _if_one_is_enough(self) -> tuple[Verdict, str]:
        """Return the verdict under rules by which one near article makes a duplicate."""
        apart = self._apart()
        if apart:
            return Verdict.UNIQUE, apart
        if self.b.status is Status.EXACT:
            return self._by_equality()
        return self._by_limit() if self.rules.directed else self._by_distance()

    def _apart(self) -> str:
        """Return why the two never match, whatever their distance; empty if they may."""
        if self.a.withdrawn_at is not None:
            return f"{self.a.name} was withdrawn at log offset {self.a.withdrawn_at}, and no later article matches it"
        for side in (self.a, self.b):
            if not signed(np.array([side.status], np.uint8))[0]:
                return f"{side.name} has no words, and such a text is near nothing"
        if self.a.status is not self.b.status:
            return f"{self.a.name} is {kind(self.a)} and {self.b.name} is {kind(self.b)}: kinds of text never match"
        if self.a.group != self.b.group:
            return "they are of different scopes, and articles match only within theirs"
        return ""

    def _by_equality(self) -> tuple[Verdict, str]:
        equal = self.a.signature == self.b.signature
        said = "they are so short that only an equal text matches, and they are"
        return (Verdict.DUPLICATE, f"{said} equal") if equal else (Verdict.UNIQUE, f"{said} not equal")

    def _by_distance(self) -> tuple[Verdict, str]:
        said = f"the fingerprints differ in {_bits(self.distance)} of 64, and {self.rules.distance} may differ"
        if self.distance <= (self.rules.distance or 0):
            return Verdict.DUPLICATE, said
        return Verdict.UNIQUE, f"{said} at most"

    def _by_limit(self) -> tuple[Verdict, str]:
        limit = self.rules.reach(self.b.status)
        said = f"the signatures differ in {_bits(self.distance)} of 256, and {limit} may differ"
        if self.distance > limit:
            return Verdict.UNIQUE, f"{said} at most"
        if self.finder is None:
            return Verdict.UNIQUE, f"{said}, but no look-up meets {self.a.name}: {self._obstacle()}"
        if self.finder.rank > self.planned:
            wanted = f"that is look-up {self.finder.rank:,} of the plan, which ends at {self.planned:,}"
            return (
                Verdict.UNIQUE,
                f"{said}, but no look-up meets {self.a.name}: the first that does is too late, {wanted}",
            )
        where = f"look-up {self.finder.rank:,} of {self.planned:,} meets {self.a.name} in table {self.finder.table}"
        return Verdict.DUPLICATE, f"{said}; {where}"

    def _obstacle(self) -> str:
        return (
            f"in every table more than {MASK_BITS} bits of the block differ, "
            f"or more than {probes.SIEVE_BITS} of the 64 around it"
        )


def kind(side: Side) -> str:
    """Return the kind of a text in words."""
    words = {
        Status.LONG: "a long text",
        Status.SHORT: "a short text",
        Status.EXACT: "a text so short that its exact form decides",
        Status.FEATURELESS: "a text without words",
        Status.REJECTED: "unreadable",
    }
    return words[side.status]


def _bits(count: int) -> str:
    return "1 bit" if count == 1 else f"{count} bits"


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON values."""
    rules = explanation.rules
    return {
        "verdict": explanation.verdict.value,
        "reason": explanation.reason,
        "scheme": rules.scheme.id,
        "rules": {name: getattr(rules, name) for name in _SHOWN_RULES},
        "fingerprint_distance": explanation.fingerprint_distance,
        "distance": explanation.distance,
        "similarity": round(explanation.similarity, 4),
        "cosine": None if explanation.cosine is None else round(explanation.cosine, 4),
        "found": explanation.found,
        "lookups": explanation.probes,
        "finder": None if explanation.finder is None else _block_json(explanation.finder),
        "blocks": [_block_json(block) for block in explanation.blocks],
        "a": _side_json(explanation.a),
        "b": _side_json(explanation.b),
    }


def _block_json(block: Block) -> dict[str, Any]:
    return {
        "table": block.table,
        "a": f"{block.a:04x}",
        "b": f"{block.b:04x}",
        "mask": f"{block.mask:04x}",
        "differing": block.differing,
        "word_distance": block.word,
        "sieve": block.sieve.value,
        "lookup": None if block.rank == NO_LOOKUP else block.rank,
        "cost": None if block.cost == NO_LOOKUP else block.cost,
    }


def _side_json(side: Side) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": side.name,
        "kind": side.status.name.lower(),
        "scope": side.scope,
        "text": side.text,
        "normalised": side.normalised,
        "fingerprint": side.signature.hex()[: FINGERPRINT_BITS // 4],
        "signature": side.signature.hex(),
        "margins": list(side.bit_margins),
        "sums": None if side.sums is None else list(side.sums),
        "unit": side.unit,
        "withdrawn_at": side.withdrawn_at,
        "features": None,
    }
    if side.features is not None:
        values["features"] = [
            {"name": one.name, "count": one.count, "weight": one.weight, "hash": one.hash.hex()}
            for one in side.features
        ]
    return values
