"""Hard cases of detection: what must stay unique, what must be caught, and what is a matter of taste.

The tables are ``hard_cases/*.toml``; ``cases`` says how they are read. Verdicts are those of the public index with the
profile as it is: nothing is set for a case, and each case is a scope of its own. A verdict hangs on the hash seed where
a pair stands near the limit: ``make quality`` tells of how many seeds each is right.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stream_dedup import Index
from tests.quality.cases import CASES, SIDES, TEXTS, Edit, made, profile_of
from tests.reference.normalise import normalise

ARTICLE_SIZE = 300


def _named(case: Edit) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=case["known"])] if "known" in case else []
    return pytest.param(case, id=case["name"].replace(" ", "-"), marks=marks)


@pytest.fixture(scope="module")
def indexes() -> Iterator[dict[str, Index]]:
    with ExitStack() as stack:
        yield {profile: stack.enter_context(Index(profile=profile)) for profile in set(map(profile_of, CASES))}


@pytest.mark.parametrize("case", [_named(case) for case in CASES])
def test_case(case: Edit, indexes: dict[str, Index]) -> None:
    """The second text of each case has the verdict that the table says."""
    first, second = (made(case, side) for side in SIDES)
    index = indexes[profile_of(case)]
    index.add("first", first, scope=case["name"])
    found = index.search(second, scope=case["name"])
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
    """No text stands in the tables for nothing, and no case has the name of another."""
    assert len({case["name"] for case in CASES}) == len(CASES)
    used = {case.get(side, {}).get("text", case.get("text")) for case in CASES for side in SIDES}
    assert set(TEXTS) == used - {None}
