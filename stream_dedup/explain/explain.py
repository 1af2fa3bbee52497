"""Explains why two texts match, or do not: every step of the verdict as values.

*A* is in the log, and *B* comes later: is *B* a duplicate of *A*? The answer is for these two alone; it ignores the
window, the bucket limit and the bound on candidates. Pure: reads and writes nothing. ``text`` formats an explanation
for a terminal, ``as_json`` for programs.

The verdict follows the definition of near: one scope hash, reached by one of *B*'s look-ups, within the sieve, within
the limit (another one for texts of one form with other numbers), with enough equal values in the sketches. A test
compares it with the reference over a log of the two.

In each table the blocks of the two articles are compared, and the look-ups of *B* that meet *A* there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.arrays import U8, U32
from stream_dedup.core.fingerprinter import Feature
from stream_dedup.core.model import BLOCKS_PER_WORD, FINGERPRINT_BITS, Status, Verdict, signed, similarity
from stream_dedup.core.near import NO_PLACE, Account, PairCheck
from stream_dedup.core.probes import COSTS
from stream_dedup.core.rules import SEARCH_RULES, UPDATE, Rules, judgement_of, mask_bits, most_probes
from stream_dedup.explain.side import Side, kind


class Sieve(StrEnum):
    """Whether the sieve of a table passes the pair."""

    PASSED = "passed"
    HELD = "held"
    NONE = "none"
    """Exact search has no sieve."""


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks of A and B in one table, in hexadecimal digits, and the look-up of B that reaches A there."""

    table: int
    a: str
    b: str
    mask: str
    """The differing bits."""
    differing: int
    """How many differ."""
    word_distance: int
    """Distance of the 64 bits around the block."""
    sieve_count: int
    """What the sieve counts of it: the same, or the differing bits among B's surest."""
    sieve: Sieve
    lookup: int | None
    """Position of that look-up in B's plan, from 1, whatever the plan's length; None if no look-up flips these bits."""
    cost: int | None
    """Cost of that look-up in directed search."""


def _blocks_of(a: Side, b: Side, rules: Rules) -> tuple[Block, ...]:
    """Return the blocks of A and B in each table."""
    tables, block_bits = rules.scheme.tables, rules.scheme.block_bits
    words = probes.words(np.frombuffer(a.signature + b.signature, np.uint8).reshape(2, -1))
    words = words[:, : tables // BLOCKS_PER_WORD]
    cut = probes.blocks(words.reshape(-1), block_bits).reshape(2, -1).tolist()
    far = np.bitwise_count(words[0] ^ words[1]).tolist()
    margins = b.margins[np.newaxis]
    check, status = PairCheck(rules), np.array([b.status], np.uint8)
    met = check.meetings(status, words[1:], words[:1], check.masks(margins), _plan(rules, margins))
    costs = COSTS[probes.unpack_margins(b.margins)].ravel()[probes.bits_of_blocks(tables, block_bits)]
    blocks = []
    for table in range(tables):
        one, other = cut[0][table], cut[1][table]
        mask, word, place = one ^ other, table // BLOCKS_PER_WORD, int(met.places[0, table])
        lookup = None if place == NO_PLACE else place + 1
        cost = None
        if lookup is not None and rules.directed:
            cost = sum(bit_cost for at, bit_cost in enumerate(reversed(costs[table].tolist())) if mask >> at & 1)
        passed = Sieve.PASSED if met.passed[0, word] else Sieve.HELD
        sieve, counted = passed if rules.directed else Sieve.NONE, int(met.counts[0, word])
        shown = [f"{value:0{block_bits // 4}x}" for value in (one, other, mask)]
        blocks.append(
            Block(table, shown[0], shown[1], shown[2], mask.bit_count(), far[word], counted, sieve, lookup, cost)
        )
    return tuple(blocks)


def _plan(rules: Rules, margins: U8) -> U32:
    """Return B's longest plan, or the plan of exact search."""
    if rules.directed:
        rules = replace(rules, probes=most_probes(rules.scheme.tables, rules.scheme.block_bits))
    return probes.plan_of(rules, margins)


def _bits(count: int) -> str:
    return "1 bit" if count == 1 else f"{count} bits"


_SHOWN_RULES = ("search", *SEARCH_RULES, "copies")


@dataclass(frozen=True, eq=False)
class Explanation:
    """The verdict on B, and everything that decides it.

    ``account`` has the distances, compares the sketches, and decides where a look-up has found A. ``finder`` is the
    block whose look-up comes first of those that the sieve passes, whether the plan reaches so far or not. ``probes``
    is the length of the plan.
    """

    rules: Rules
    a: Side
    b: Side
    account: Account
    blocks: tuple[Block, ...]
    finder: Block | None
    probes: int

    @property
    def verdict(self) -> Verdict:
        """The verdict on B."""
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        return self._judged[1]

    @property
    def similarity(self) -> float:
        """The cosine that is estimated from the distance of the signatures."""
        return similarity(self.account.signature_distance)

    @cached_property
    def cosine(self) -> float | None:
        """The cosine of the weights; None where features are not known."""
        return _cosine(self.a.features, self.b.features)

    @property
    def found(self) -> bool:
        """Whether one of the look-ups in the plan meets A."""
        return self.finder is not None and (self.finder.lookup or 0) <= self.probes

    @cached_property
    def _judged(self) -> tuple[Verdict, str]:
        """The verdict and the reason, with the rules in force named in it."""
        verdict, reason = self._if_one_is_enough()
        least, own = self.rules.copies, self.b.id
        if verdict is Verdict.DUPLICATE and self.rules.recrawl == UPDATE and own is not None and own == self.a.id:
            said = f"{reason}; but both have the id {own}, so {self.b.name} is an update of {self.a.name}"
            return Verdict.UNIQUE, said
        if verdict is Verdict.DUPLICATE and least > 1:
            return Verdict.UNIQUE, f"{reason}; {least} near earlier articles make a duplicate, and {self.a.name} is one"
        return verdict, reason

    def _if_one_is_enough(self) -> tuple[Verdict, str]:
        """Return the verdict under rules by which one near article makes a duplicate."""
        alone = judgement_of(self.b.status, self.rules, None, "").verdict
        if alone is not Verdict.UNIQUE:
            return alone, self._without_a_past()
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
            if side.status is Status.FEATURELESS:
                return f"{side.name} has no words, and such a text is near nothing"
            if not signed(np.array([side.status], np.uint8))[0]:
                return f"{side.name} is {kind(side)}, and nothing is near it"
        if self.a.scope_hash == self.b.scope_hash:
            return ""
        if self.a.status is not self.b.status:
            return f"{self.a.name} is {kind(self.a)} and {self.b.name} is {kind(self.b)}: these kinds never match"
        return "they are of different scopes, and articles match only within theirs"

    def _without_a_past(self) -> str:
        """Return why B's verdict is the same whatever was before it."""
        if self.b.status is Status.FEATURELESS:
            return f"{self.b.name} has no words, and the rules reject such a text"
        withdraws = ": it withdraws an article" if self.b.status is Status.DELETE else ""
        return f"{self.b.name} is {kind(self.b)}{withdraws}"

    def _near(self) -> Verdict:
        """Return the verdict of the check, where a look-up has found A."""
        return Verdict.DUPLICATE if self.account.near else Verdict.UNIQUE

    def _by_equality(self) -> tuple[Verdict, str]:
        said = "they are so short that only an equal text matches, and they are"
        return self._near(), f"{said} {'equal' if self.account.within else 'not equal'}"

    def _by_distance(self) -> tuple[Verdict, str]:
        said = f"the fingerprints differ in {_bits(self.account.distance)} of 64, and {self.rules.distance} may differ"
        return self._near(), said if self.account.within else f"{said} at most"

    def _by_limit(self) -> tuple[Verdict, str]:
        limit = self.rules.reach(self.b.status)
        said = f"the signatures differ in {_bits(self.account.distance)} of 256, and {limit} may differ"
        if not self.account.within:
            return Verdict.UNIQUE, f"{said} at most"
        if self.finder is None:
            return Verdict.UNIQUE, f"{said}, but no look-up meets {self.a.name}: {self._obstacle()}"
        if not self.found:
            wanted = f"that is look-up {self.finder.lookup:,} of the plan, which ends at {self.probes:,}"
            return (
                Verdict.UNIQUE,
                f"{said}, but no look-up meets {self.a.name}: the first that does is too late, {wanted}",
            )
        where = f"look-up {self.finder.lookup:,} of {self.probes:,} meets {self.a.name} in table {self.finder.table}"
        return self._near(), self._sketches(f"{said}; {where}")

    def _sketches(self, said: str) -> str:
        """Return the reason of the verdict on texts that are near by their signatures."""
        account, rules = self.account, self.rules
        if not account.form_holds:
            limit = f"{_bits(rules.form_bits)} may differ at most"
            return f"{said}; but the texts have the same form with other numbers: of these {limit}"
        if not account.least_equal or account.certain:
            return said
        counted = f"of the {rules.scheme.sketch_values} values of their sketches {account.equal} are equal"
        if not account.enough:
            return f"{said}; but {counted}, and at least {account.least_equal} must be"
        return f"{said}; {counted}, {account.least_equal} are enough"

    def _obstacle(self) -> str:
        most = mask_bits(self.rules.scheme.block_bits)
        return f"in every table more than {most} bits of the block differ, or the sieve holds it"


def pushes(feature: Feature, bits: int) -> tuple[int, ...]:
    """Return what a feature adds to each of the first ``bits`` sums: its weight, or minus its weight."""
    ones = np.unpackbits(np.frombuffer(feature.hash, np.uint8))[:bits]
    return tuple(feature.weight if one else -feature.weight for one in ones.tolist())


def explain(a: Side, b: Side, rules: Rules) -> Explanation:
    """Say whether B, coming after A, is a duplicate of it, and why."""
    account = PairCheck(rules).account(b.status, b.margins, (b.signature, b.sketch), (a.signature, a.sketch))
    blocks = _blocks_of(a, b, rules)
    reached = [block for block in blocks if block.lookup is not None and block.sieve is not Sieve.HELD]
    finder = min(reached, key=lambda block: block.lookup or 0, default=None)
    planned = probes.plan_of(rules, b.margins[np.newaxis]).shape[1]
    return Explanation(rules, a, b, account, blocks, finder, planned)


def _cosine(a: Sequence[Feature] | None, b: Sequence[Feature] | None) -> float | None:
    """Return the cosine of two weight vectors, or None if one is unknown or empty."""
    if not a or not b:
        return None
    weights = {feature.hash: feature.weight for feature in a}
    product = sum(weights.get(feature.hash, 0) * feature.weight for feature in b)
    return product / math.sqrt(math.prod(sum(feature.weight**2 for feature in side) for side in (a, b)))


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON values."""
    rules, account = explanation.rules, explanation.account
    return {
        "verdict": explanation.verdict.value,
        "reason": explanation.reason,
        "scheme": rules.scheme.id,
        "rules": {name: getattr(rules, name) for name in _SHOWN_RULES},
        "fingerprint_distance": account.fingerprint_distance,
        "distance": account.signature_distance,
        "similarity": round(explanation.similarity, 4),
        "equal_values": account.equal if explanation.b.sketch else None,
        "least_equal": account.least_equal if explanation.b.sketch else None,
        "form": account.form.value if rules.scheme.form_bytes else None,
        "cosine": None if explanation.cosine is None else round(explanation.cosine, 4),
        "found": explanation.found,
        "lookups": explanation.probes,
        "finder": None if explanation.finder is None else asdict(explanation.finder),
        "blocks": [asdict(block) for block in explanation.blocks],
        "a": _side_json(explanation.a),
        "b": _side_json(explanation.b),
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
        "sketch": side.sketch.hex(),
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
