"""Copies: how many earlier articles are near, and from how many on an article is a duplicate."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stream_dedup.core.model import Judgement, Verdict
from stream_dedup.core.rules import COPIES_LIMIT, Rules
from tests.logs import SCHEME, Entry, LogOfTest, directed_rules, judged

A = 0x0123_4567_89AB_CDEF << 192
FAR = Entry(~A & (2**256 - 1))

SEARCHES = pytest.mark.parametrize("search", ["exact", "directed"])


def rules_of(search: str, **settings: object) -> Rules:
    return directed_rules(**settings) if search == "directed" else Rules(SCHEME, distance=3, **settings)  # type: ignore[arg-type]


def answers(rules: Rules, entries: Sequence[Entry]) -> list[tuple[str, int, bool]]:
    """Of each entry the first letter of its verdict, its copies, and whether it has a match."""
    log = LogOfTest()
    log.add(rules)
    log.entry(*entries, first=0)
    return [(judgement.verdict[0], judgement.copies, judgement.match is not None) for judgement in judged(log.plain())]


@SEARCHES
def test_every_near_article_is_a_copy_whatever_its_verdict(search: str) -> None:
    """The first is unique, the others count all before them that are near; what is not near does not count."""
    entries = [Entry(A), FAR, Entry(A ^ 1 << 192), FAR, Entry(A)]
    assert answers(rules_of(search), entries) == [
        ("u", 0, False),
        ("u", 0, False),
        ("d", 1, True),
        ("d", 1, True),
        ("d", 2, True),
    ]


@SEARCHES
def test_a_duplicate_from_the_nth_copy_on(search: str) -> None:
    """With three, the fourth article of a kind is the first duplicate; the ones before are unique and have no match."""
    assert answers(rules_of(search, copies=3), [Entry(A)] * 5) == [
        ("u", 0, False),
        ("u", 1, False),
        ("u", 2, False),
        ("d", 3, True),
        ("d", 4, True),
    ]


@SEARCHES
def test_copies_are_counted_up_to_the_limit(search: str) -> None:
    """Beyond it the number stays, and the match is still the earliest of the nearest."""
    log = LogOfTest()
    log.add(rules_of(search))
    log.entry(*[Entry(A)] * (COPIES_LIMIT + 3), first=0)
    found: list[Judgement] = judged(log.plain())
    assert [one.copies for one in found] == [*range(COPIES_LIMIT), *[COPIES_LIMIT] * 3]
    assert all(one.match is not None and one.match.coordinates.offset == 0 for one in found[1:])


@SEARCHES
def test_copies_are_counted_among_the_candidates(search: str) -> None:
    """A bound below the limit bounds the copies, and so may the verdict."""
    assert [copies for _, copies, _ in answers(rules_of(search, candidates=2), [Entry(A)] * 5)] == [0, 1, 2, 2, 2]


@SEARCHES
def test_an_update_is_one_however_many_copies_there_are(search: str) -> None:
    """Earlier versions of an article count as copies, but an update is unique and names its version."""
    mine, theirs = Entry(A, id="mine"), Entry(A, id="theirs")
    entries = [theirs, mine, theirs, mine]
    rules = rules_of(search, recrawl="update", copies=2)
    assert answers(rules, entries) == [("u", 0, False), ("u", 1, False), ("u", 2, True), ("u", 3, True)]


@SEARCHES
def test_what_has_expired_or_was_withdrawn_is_no_copy(search: str) -> None:
    """A count is over the articles that may be the match."""
    log = LogOfTest()
    log.add(rules_of(search, window_ms=2500))
    for number in range(6):
        log.entry(Entry(A), first=number, seconds=1)
    assert [one.copies for one in judged(log.plain())] == [0, 1, 2, 2, 2, 2]
    assert judged(log.plain())[0].verdict is Verdict.UNIQUE
