"""From an entry and its match to the verdict."""

import pytest

from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Status, Verdict
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.core.verdict import judge

MATCH = Match(LogPosition(5), "a", "articles", Coordinates(b"0" * 16, 0, SourceOffset(5)), 1000, 2, 0.99)


@pytest.mark.parametrize(
    ("status", "match", "featureless", "expected"),
    [
        (Status.LONG, None, "unique", Judgement(Verdict.UNIQUE)),
        (Status.LONG, MATCH, "unique", Judgement(Verdict.DUPLICATE, match=MATCH)),
        (Status.FEATURELESS, None, "unique", Judgement(Verdict.UNIQUE)),
        (Status.FEATURELESS, None, "rejected", Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)),
        (Status.REJECTED, None, "unique", Judgement(Verdict.REJECTED, reason="why")),
    ],
)
def test_verdict(status: Status, match: Match | None, featureless: str, expected: Judgement) -> None:
    """Every status has its verdict, with and without a match, under both rules."""
    assert judge(status, match=match, reason="why", featureless=featureless) == expected


def test_an_update_is_unique_with_its_match() -> None:
    """An update is unique, and its match is the earlier version."""
    judged = judge(Status.SHORT, match=MATCH, reason="", featureless="unique", update=True)
    assert judged == Judgement(Verdict.UNIQUE, match=MATCH)
