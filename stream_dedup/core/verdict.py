"""Computes the verdict from an entry and its match. A pure function, defined for every entry."""

from __future__ import annotations

from stream_dedup.core.model import Judgement, Match, Status, Verdict
from stream_dedup.core.reasons import FEATURELESS_REASON


def judge(status: Status, *, match: Match | None, reason: str, featureless: str, update: bool = False) -> Judgement:
    """Return the verdict of one entry.

    Args:
        status: the kind of the entry.
        match: the nearest earlier entry, the earliest of several equally near ones; None if no entry is near.
        reason: why the record was rejected, if it was.
        featureless: the rule for text without features, ``unique`` or ``rejected``.
        update: whether the match is an earlier version of the same article and the rules let such updates pass.
    """
    if status is Status.REJECTED:
        return Judgement(Verdict.REJECTED, reason=reason)
    if status is Status.FEATURELESS:
        if featureless == Verdict.REJECTED:
            return Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)
        return Judgement(Verdict.UNIQUE)
    return Judgement(Verdict.UNIQUE if match is None or update else Verdict.DUPLICATE, match=match)
