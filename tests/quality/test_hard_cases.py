"""Hard cases of detection: what must stay unique, what must be caught, and what is a matter of taste.

The table is ``hard_cases.toml``; ``cases`` says how it is read. Verdicts are those of the public index with the profile
as it is: nothing is set for a case. A verdict hangs on the hash seed where a pair stands near the limit:
``make quality`` tells of how many seeds each is right.
"""

import pytest

from stream_dedup import Index
from stream_dedup.core.text.normalise import normalise
from tests.quality.cases import CASES, SIDES, TEXTS, Edit, made, profile_of

ARTICLE_SIZE = 300


def _named(case: Edit) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=case["known"])] if "known" in case else []
    return pytest.param(case, id=case["name"].replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("case", [_named(case) for case in CASES])
def test_case(case: Edit) -> None:
    """The second text of each case has the verdict that the table says."""
    first, second = (made(case, side) for side in SIDES)
    with Index(profile=profile_of(case)) as index:
        index.add("first", first)
        found = index.search(second)
    assert case["want"] == ("duplicate" if found else "unique"), f"{case['why']} Found: {found}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].replace(" ", "-"))
def test_case_is_what_it_says(case: Edit) -> None:
    """Both texts of a case differ, have no name left to fill in, and its articles have the length of articles."""
    first, second = (made(case, side) for side in SIDES)
    assert first != second
    assert "{" not in first + second
    if "say" not in case.get("first", {}):
        assert max(len(normalise(first)), len(normalise(second))) >= ARTICLE_SIZE


def test_every_text_serves() -> None:
    """No text stands in the file for nothing."""
    used = {case.get(side, {}).get("text", case.get("text")) for case in CASES for side in SIDES}
    assert set(TEXTS) == used - {None}
