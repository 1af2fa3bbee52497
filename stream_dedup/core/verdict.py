"""From an entry and its match to the verdict: total, and a function of the arguments alone."""

from __future__ import annotations

from stream_dedup.core.model import Judgement, Match, Status, Verdict

FEATURELESS_REASON = "text without words"
"""Why text without features was rejected, where a rule rejects it."""


def judge(status: Status, *, match: Match | None, reason: str, featureless: str, update: bool = False) -> Judgement:
    """The verdict of one entry.

    Args:
        status: what its entry says.
        match: the nearest entry near it, among equals the earliest.
        reason: its entry's reason, if it was rejected.
        featureless: the rule for text without features, ``unique`` or ``rejected``.
        update: whether the match is an earlier version of the same article, which the rules let pass.
    """
    if status is Status.REJECTED:
        return Judgement(Verdict.REJECTED, reason=reason)
    if status is Status.FEATURELESS:
        if featureless == Verdict.REJECTED:
            return Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)
        return Judgement(Verdict.UNIQUE)
    return Judgement(Verdict.UNIQUE if match is None or update else Verdict.DUPLICATE, match=match)
