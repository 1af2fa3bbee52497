"""Explains why two texts match, or do not: every step of the verdict as values.

*A* is in the log, and *B* comes later: is *B* a duplicate of *A*? The answer is for these two alone; it ignores the
window, the bucket limit and the bound on candidates. Pure: reads and writes nothing. ``text`` formats an explanation
for a terminal, ``as_json`` for programs.

The verdict follows the definition of near: one group, reached by one of *B*'s look-ups, within the sieve, within the
limit (another one for texts of one form with other numbers), with enough equal values in the sketches. A test compares
it with the reference over a log of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.fingerprinter import Feature
from stream_dedup.core.model import FINGERPRINT_BITS, Verdict
from stream_dedup.core.near import Account, PairCheck
from stream_dedup.core.rules import SEARCH_RULES, Rules
from stream_dedup.explain.blocks import NO_LOOKUP, Block, Sieve, blocks_of
from stream_dedup.explain.reason import PairJudge
from stream_dedup.explain.side import Side

_SHOWN_RULES = ("search", *SEARCH_RULES, "copies")


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The verdict on B, and everything that decides it.

    ``account`` has the distances, and compares the sketches; ``similarity`` is the cosine estimated from the distance
    of the signatures. ``cosine`` is that of the weights, None where features are not known.
    ``finder`` is the block whose look-up comes first of those that the sieve passes, whether the plan reaches so far or
    not. ``probes`` is the length of the plan.
    """

    rules: Rules
    a: Side
    b: Side
    account: Account
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


def explain(a: Side, b: Side, rules: Rules) -> Explanation:
    """Say whether B, coming after A, is a duplicate of it, and why."""
    account = PairCheck(rules).account(b.status, b.margins, (b.signature, b.sketch), (a.signature, a.sketch))
    blocks = blocks_of(a, b, rules)
    reached = [block for block in blocks if block.rank != NO_LOOKUP and block.sieve is not Sieve.HELD]
    finder = min(reached, key=lambda block: block.rank, default=None)
    planned = _planned(rules)
    verdict, reason = PairJudge(a, b, rules, account, finder, planned).verdict()
    return Explanation(
        rules=rules,
        a=a,
        b=b,
        account=account,
        similarity=simhash.similarity(account.signature_distance),
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
    return int(probes.exact_plan(rules.distance or 0, rules.scheme.block_bits).shape[1])


def _cosine(a: Sequence[Feature] | None, b: Sequence[Feature] | None) -> float | None:
    """Return the cosine of two weight vectors, or None if one is unknown or empty."""
    if not a or not b:
        return None
    weights = {feature.hash: feature.weight for feature in a}
    product = sum(weights.get(feature.hash, 0) * feature.weight for feature in b)
    return product / math.sqrt(_square(a) * _square(b))


def _square(features: Sequence[Feature]) -> int:
    return sum(feature.weight**2 for feature in features)


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
        "finder": None if explanation.finder is None else _block_json(explanation.finder),
        "blocks": [_block_json(block) for block in explanation.blocks],
        "a": _side_json(explanation.a),
        "b": _side_json(explanation.b),
    }


def _block_json(block: Block) -> dict[str, Any]:
    return {
        "table": block.table,
        "a": block.digits(block.a),
        "b": block.digits(block.b),
        "mask": block.digits(block.mask),
        "differing": block.differing,
        "word_distance": block.word,
        "sieve_count": block.counted,
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
