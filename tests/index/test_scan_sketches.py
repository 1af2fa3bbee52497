"""The check of sketches and forms in the search of the posting lists, compared with the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_dedup.core.model import Status, Verdict, log_position
from stream_dedup.index import LogIndex
from tests.audit.test_plain_directed import A, spread
from tests.index.checks import build
from tests.index.scan_cases import ask, by_definition, make_lists, make_world, numbered, scan, search_rules, under
from tests.logs import START_TIME, Entry, directed_rules, entries_batch, record, scheme_of


@pytest.mark.parametrize("far", [256, 5])
def test_one_form_with_other_numbers_has_a_limit_of_its_own(far: int) -> None:
    """Copies at up to more than the limit, of few frames and numbers: what the reference says, and often by it.

    However many values are equal: beyond ``far`` bits too, where more are asked for.
    """
    rng = np.random.default_rng(4)
    world = make_world(rng, 400, 4, 14, 16, form=True)
    limits = {"min_equal": 0, "short_min_equal": 6, "form_limit": 11, "far": far, "far_min_equal": 4}
    rules, statuses = search_rules(world, 40, form=True, **limits), rng.choice([Status.LONG, Status.SHORT], 400)
    query = replace(ask(world, np.arange(400), rules, statuses=statuses.astype(np.uint8)), best=200)
    lists = make_lists(world, 4)
    found = numbered(scan(query, lists), 400)
    assert found == by_definition(world, lists, query)
    without = by_definition(world, lists, under(query, form_limit=None))
    assert sum(map(len, found)) < 0.9 * sum(map(len, without))


@pytest.mark.slow
@pytest.mark.parametrize("certain", [None, 14])
def test_far_entries_must_have_more_equal_values(certain: int | None) -> None:
    """Copies on both sides of ``far`` bits: what the reference says, of each number of equal values."""
    rng = np.random.default_rng(6)
    world = make_world(rng, 400, 4, 24, 16)
    rules = search_rules(world, 40, min_equal=0, short_min_equal=6, certain=certain, far=12)
    statuses = rng.choice([Status.LONG, Status.SHORT], 400).astype(np.uint8)
    query = replace(ask(world, np.arange(400), rules, statuses=statuses), best=200)
    lists = make_lists(world, 4)
    counts = []
    for far_equal in (0, 8, 9, 10, 11, 12, 32):
        asked = under(query, far_min_equal=far_equal)
        found = numbered(scan(asked, lists), 400)
        assert found == by_definition(world, lists, asked)
        counts.append(sum(map(len, found)))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[1] < counts[0]


@pytest.mark.parametrize(
    ("far", "far_min_equal", "certain", "is_near"),
    [(11, 10, None, False), (11, 9, None, True), (12, 10, None, True), (11, 10, 11, False), (11, 10, 12, True)],
)
@pytest.mark.parametrize("min_equal", [None, 9])
def test_the_borders_of_far(
    tmp_path: Path, far: int, far_min_equal: int, certain: int | None, min_equal: int | None, *, is_near: bool
) -> None:
    """At 12 bits with nine equal values of 16; also where sketches are compared beyond ``far`` bits alone."""
    checks: dict[str, Any] = {"far": far, "far_min_equal": far_min_equal, "certain": certain, "min_equal": min_equal}
    rules = replace(directed_rules(), scheme=scheme_of(4, 8), **checks)
    sketches = (bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7))
    entries = [Entry(at, "0" * 64, sketch=sketch) for at, sketch in zip((A ^ spread(0), A), sketches, strict=True)]
    records = [record(0, START_TIME, rules), record(1, START_TIME, entries_batch(range(2), entries, 4, 8))]
    with build(LogIndex.open(tmp_path, scheme=None), records) as index:
        (judged,) = index.judge(np.array([log_position(1, 1)]))
    assert (judged.verdict is Verdict.DUPLICATE) is is_near
    assert judged.match is None or judged.match.distance == 12
