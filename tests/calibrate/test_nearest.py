"""Nearest earlier entries, compared with the reference."""

from dataclasses import replace

import numpy as np
import pytest

from stream_dedup.calibrate.figures import Measured, figures
from stream_dedup.calibrate.nearest import (
    NOWHERE,
    MeasuredSearch,
    Nearest,
    measure,
    work,
)
from stream_dedup.calibrate.text import equal_values
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import Status
from stream_dedup.core.near import NO_PLACE
from stream_dedup.core.rules import greatest_distance
from tests.amount import FULL, sampled
from tests.calibrate.entries import directed_rules, exact_rules, plain_matches, some_entries

LENGTHS = (1, 4, 16, 64)
CHECKS: list[dict[str, int]] = [
    {},
    {"min_equal": 12},
    {"min_equal": 6, "certain": 5, "form_limit": 9},
    {"min_equal": 6, "certain": 5, "far": 20, "far_min_equal": 20},
    {"far": 8, "far_min_equal": 12, "certain": 15},
    {"min_equal": 16, "far": 50, "far_min_equal": 24, "certain": 40, "dominated": 32},
]
"""Checks of a directed search."""
SEARCHES = [
    *((tables, 16, checks) for tables in sampled([4, 8, 16], 2) for checks in CHECKS),
    # The checks do not depend on the bits of a block; seconds, for tables of 2**24 buckets.
    (4, 20, CHECKS[0]),
    pytest.param(8, 24, CHECKS[-1], marks=pytest.mark.slow),
]


def measured(entries: Columns, search: MeasuredSearch, ceiling: int) -> Nearest:
    return measure(entries, search, np.arange(len(entries)), ceiling, lambda _done, _whole: None)


def match_in(near: Nearest, article: int, step: int, limit: int) -> tuple[int, int] | None:
    """The match of an article under one setting, as measured."""
    distance = int(near.distances[article, step])
    return (distance, int(near.matches[article, step])) if distance <= limit else None


@pytest.mark.parametrize(("tables", "block_bits", "checks"), SEARCHES)
def test_every_setting_matches_what_the_definition_matches(
    tables: int, block_bits: int, checks: dict[str, int]
) -> None:
    """For each length of plan and each limit the match and its distance are those of the reference."""
    entries = some_entries(tables, 90 if FULL else 45, tables=tables)
    rules = directed_rules(tables, block_bits, **checks)
    near = measured(entries, MeasuredSearch(entries, rules, LENGTHS), 96)
    found = 0
    for step, probes in enumerate(LENGTHS):
        for limit in sampled((10, 40, 96), 2):
            setting = replace(rules, probes=probes, limit=limit)
            expected = plain_matches(entries, setting)
            assert [match_in(near, article, step, limit) for article in range(len(entries))] == expected
            found += sum(one is not None for one in expected)
    assert found


@pytest.mark.parametrize(
    ("block_bits", "lookups"),
    [(16, (4, 68, 548)), (20, (1, 2, 22, 42, 232, 422, 1562)), (24, (1, 2, 26, 50, 326, 602))],
)
def test_every_distance_of_exact_search_matches_too(block_bits: int, lookups: tuple[int, ...]) -> None:
    """For each k that exact search takes, the match is that of the reference; a step has the look-ups of its plan."""
    entries = some_entries(7, 90, flips=30)
    most = greatest_distance(block_bits)
    search = MeasuredSearch(entries, exact_rules(0, block_bits))
    near = measured(entries, search, most)
    assert search.lengths == lookups
    found = 0
    for k in range(most + 1):
        rules = exact_rules(k, block_bits)
        step = Measured(rules, search, near, None).step_of(k)
        expected = plain_matches(entries, rules)
        assert [match_in(near, article, step, k) for article in range(len(entries))] == expected
        found += sum(one is not None for one in expected)
    assert found


def test_the_nearest_of_all_needs_no_look_up() -> None:
    """The last column has the nearest earlier entry of the scope, and ``ranks`` the length of plan that reaches it."""
    entries = some_entries(3, 60)
    near = measured(entries, MeasuredSearch(entries, directed_rules(), LENGTHS), 96)
    for article in range(len(entries)):
        others = [other for other in range(article) if entries.scope_hashes[other] == entries.scope_hashes[article]]
        distances = [int(np.bitwise_count(entries.signatures[article] ^ entries.signatures[o]).sum()) for o in others]
        if not others:
            assert (near.distances[article, -1], near.matches[article, -1]) == (NOWHERE, -1)
            continue
        assert near.distances[article, -1] == min(distances)
        assert near.matches[article, -1] == others[distances.index(min(distances))]
        reached = [near.matches[article, step] == near.matches[article, -1] for step in range(len(LENGTHS))]
        assert reached == [near.ranks[article] < length for length in LENGTHS]
    assert (near.ranks == NO_PLACE).any()


def test_an_entry_with_too_few_equal_values_is_near_at_no_distance() -> None:
    """The nearest entry is the nearest of the others, and the equal values with the one left out are known."""
    entries = some_entries(3, 3, flips=1)
    signatures = np.repeat(entries.signatures[:1], 3, axis=0)
    signatures[0, 0] ^= 1
    sketches = np.array([[0x11] * 16, [0x12] * 16, [0x11] * 16], np.uint8)
    entries = replace(entries, signatures=signatures, sketches=sketches, scope_hashes=np.zeros(3, np.uint64))
    search = MeasuredSearch(entries, directed_rules(min_equal=17), LENGTHS)
    near = measured(entries, search, 96)
    assert [(near.distances[2, step], near.matches[2, step]) for step in (1, -1)] == [(1, 0), (1, 0)]
    assert near.closest.tolist() == [NOWHERE, 1, 0]
    assert near.equal.tolist() == [0, 16, 16]
    assert near.distances[1].tolist() == [NOWHERE] * 5


@pytest.mark.parametrize(
    ("far", "far_min_equal", "certain", "distance"),
    [
        (2, 17, None, 2),
        (1, 17, None, 3),
        (1, 16, None, 2),
        (1, 17, 1, 3),
        (1, 17, 2, 2),
    ],
)
def test_far_entries_need_other_numbers_of_equal_values(
    far: int, far_min_equal: int, certain: int | None, distance: int
) -> None:
    """Of an entry at 2 bits with 16 equal values and one at 3 bits with all the borders decide which is the nearest."""
    entries = some_entries(3, 3, flips=1)
    signatures = np.repeat(entries.signatures[:1], 3, axis=0)
    signatures[0, 0] ^= 0b111
    signatures[1, 0] ^= 0b11
    sketches = np.array([[0x11] * 16, [0x12] * 16, [0x11] * 16], np.uint8)
    entries = replace(entries, signatures=signatures, sketches=sketches, scope_hashes=np.zeros(3, np.uint64))
    rules = directed_rules(min_equal=10, far=far, far_min_equal=far_min_equal, certain=certain)
    near = measured(entries, MeasuredSearch(entries, rules, LENGTHS), 96)
    assert near.distances[2, -1] == distance


def test_equal_values_are_shown_with_the_least_that_is_enough() -> None:
    """Of the articles within the limit of their nearest one, whether that has enough equal values or not."""
    entries = some_entries(4, 80)
    rules = directed_rules(min_equal=20)
    near = measured(entries, MeasuredSearch(entries, rules, LENGTHS), 96)
    measurements = Measured(rules, MeasuredSearch(entries, rules, LENGTHS), near, None)
    found = figures(measurements, np.arange(80), Status.LONG, 80)
    assert sum(found.equal_values) == (near.closest <= 60).sum() > sum(found.equal_values[20:]) > 0
    told = list(equal_values(found))
    assert told[0] == "Equal values, of 32, in the sketches of articles within the limit of 60"
    assert [line.split()[-1] for line in told[1:] if "█" in line or "▏" in line]
    assert sum(line.endswith(" 20: the least that is enough beyond search.certain bits") for line in told) == 1


def test_equal_values_beyond_far_are_shown_where_they_are_more() -> None:
    """A second line for the greater number; none where no greater one is asked for."""
    entries = some_entries(4, 80)
    for far_min_equal, shown in ((26, 1), (20, 0)):
        rules = directed_rules(min_equal=20, far=30, far_min_equal=far_min_equal)
        search = MeasuredSearch(entries, rules, LENGTHS)
        found = figures(Measured(rules, search, measured(entries, search, 96), None), np.arange(80), Status.LONG, 80)
        told = list(equal_values(found))
        assert sum(line.endswith(" 20: the least that is enough beyond search.certain bits") for line in told) == 1
        assert sum(line.endswith(" 26: the least that is enough beyond search.far bits") for line in told) == shown


def test_a_sample_says_of_its_articles_what_all_say() -> None:
    """The figures of an article do not depend on which other articles are measured."""
    entries = some_entries(5, 80)
    search = MeasuredSearch(entries, directed_rules(), LENGTHS)
    whole = measured(entries, search, 96)
    some = np.array([3, 17, 18, 60, 79])
    part = measure(entries, search, some, 96, lambda _done, _whole: None)
    for name in ("distances", "matches", "ranks", "compared"):
        assert (getattr(part, name) == getattr(whole, name)[some]).all()


@pytest.mark.parametrize("block_bits", [16, 20, 24])
def test_the_entries_of_the_lists_that_are_read_are_counted(block_bits: int) -> None:
    """For each length of plan, of all entries, and of each list as many as the bucket limit allows."""
    entries = some_entries(11, 60)
    rules = directed_rules(4, block_bits, bucket_limit=2)
    near = measured(entries, MeasuredSearch(entries, rules, LENGTHS), 96)
    from stream_dedup.core import probes  # noqa: PLC0415 - used here alone

    keys = probes.keys(entries.signatures, entries.scope_hashes)
    blocks = probes.blocks(keys.reshape(-1), block_bits).reshape(len(entries), -1)
    for article in (0, 30, 59):
        plan = probes.directed(entries.margins[article : article + 1], LENGTHS[-1], block_bits)[0].tolist()
        sizes = [
            min(
                2,
                sum(
                    blocks[other, look >> block_bits]
                    == blocks[article, look >> block_bits] ^ (look & (1 << block_bits) - 1)
                    for other in range(len(entries))
                ),
            )
            for look in plan
        ]
        assert near.compared[article].tolist() == [sum(sizes[:length]) for length in LENGTHS]


def test_work_is_the_number_of_pairs_of_one_scope() -> None:
    """The number of comparisons is known before they are made."""
    scope_hashes = np.array([1, 2, 1, 1, 2], np.uint64)
    assert work(scope_hashes, np.arange(5)) == 4
    assert work(scope_hashes, np.array([3])) == 2


def test_progress_ends_with_all_the_work_done() -> None:
    """The last progress report says that all work is done."""
    entries = some_entries(2, 40)
    reports: list[tuple[int, int]] = []
    measure(
        entries,
        MeasuredSearch(entries, exact_rules()),
        np.arange(40),
        11,
        lambda done, whole: reports.append((done, whole)),
    )
    assert reports[-1] == (work(entries.scope_hashes, np.arange(40)),) * 2
