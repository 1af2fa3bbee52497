"""From an entry and what is near it to the verdict."""

from dataclasses import replace

import pytest

from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Status, Verdict
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.core.rules import REJECTED, UNIQUE, Rules
from stream_dedup.core.verdict import NearEntries, judge
from tests.logs import SCHEME

MATCH = Match(LogPosition(5), "a", "articles", Coordinates(b"0" * 16, 0, SourceOffset(5)), 1000, 2, 0.99)
ONE = NearEntries(MATCH)
RULES = Rules(SCHEME)


@pytest.mark.parametrize(
    ("status", "near", "featureless", "expected"),
    [
        (Status.LONG, None, UNIQUE, Judgement(Verdict.UNIQUE)),
        (Status.LONG, ONE, UNIQUE, Judgement(Verdict.DUPLICATE, match=MATCH, copies=1)),
        (Status.FEATURELESS, None, UNIQUE, Judgement(Verdict.UNIQUE)),
        (Status.FEATURELESS, None, REJECTED, Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)),
        (Status.REJECTED, None, UNIQUE, Judgement(Verdict.REJECTED, reason="why")),
        (Status.DELETE, None, REJECTED, Judgement(Verdict.DELETE)),
    ],
)
def test_verdict(status: Status, near: NearEntries | None, featureless: str, expected: Judgement) -> None:
    """Every status has its verdict, with and without a match, under both rules."""
    assert judge(status, replace(RULES, featureless=featureless), near, "why") == expected


@pytest.mark.parametrize(("copies", "verdict"), [(3, Verdict.UNIQUE), (4, Verdict.DUPLICATE), (5, Verdict.DUPLICATE)])
def test_an_article_is_a_duplicate_from_so_many_copies_on(copies: int, verdict: Verdict) -> None:
    """Below the number it is unique and has no match; the copies are counted in both."""
    judged = judge(Status.LONG, replace(RULES, copies=4), NearEntries(MATCH, copies), "")
    assert judged == Judgement(verdict, match=MATCH if verdict is Verdict.DUPLICATE else None, copies=copies)


@pytest.mark.parametrize("least", [1, 9])
def test_an_update_is_unique_with_its_match(least: int) -> None:
    """An update is unique, however many copies there are, and its match is the earlier version."""
    judged = judge(Status.SHORT, replace(RULES, copies=least), NearEntries(MATCH, 2, update=True), "")
    assert judged == Judgement(Verdict.UNIQUE, match=MATCH, copies=2)
