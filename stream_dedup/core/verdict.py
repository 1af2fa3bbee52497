"""Computes the verdict from an entry and its match. A pure function, defined for every entry."""

from __future__ import annotations

from typing import NamedTuple

from stream_dedup.core.model import Judgement, Match, Status, Verdict
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.core.rules import REJECTED, Rules


class NearEntries(NamedTuple):
    """The earlier entries that are near an entry.

    ``match`` is the nearest, among equally near ones the earliest. With ``update`` it is the nearest earlier version of
    the same article, and the rules let updates pass. ``copies`` is how many there are, up to ``rules.COPIES_LIMIT``.
    """

    match: Match
    copies: int = 1
    update: bool = False


def judge(status: Status, rules: Rules, near: NearEntries | None, reason: str) -> Judgement:
    """Return the verdict of one entry.

    Args:
        status: the kind of the entry.
        rules: the rules in force at its log position.
        near: the earlier entries that are near it; None if no entry is.
        reason: why the record was rejected, if it was.
    """
    if status is Status.DELETE:
        return Judgement(Verdict.DELETE)
    if status is Status.REJECTED:
        return Judgement(Verdict.REJECTED, reason=reason)
    if status is Status.FEATURELESS:
        if rules.featureless == REJECTED:
            return Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)
        return Judgement(Verdict.UNIQUE)
    return Judgement(Verdict.UNIQUE) if near is None else _beside(near, rules)


def _beside(near: NearEntries, rules: Rules) -> Judgement:
    """Return the verdict of an entry that is near others."""
    if near.update:
        return Judgement(Verdict.UNIQUE, match=near.match, copies=near.copies)
    if near.copies < rules.copies:
        return Judgement(Verdict.UNIQUE, copies=near.copies)
    return Judgement(Verdict.DUPLICATE, match=near.match, copies=near.copies)
