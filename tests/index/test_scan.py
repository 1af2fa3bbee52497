"""The search of the posting lists, compared with the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from stream_dedup.core.probes import directed, exact_plan, sure_masks
from tests.amount import examples
from tests.index.scan_cases import (
    BUDGETS,
    Case,
    Lists,
    World,
    ask,
    by_definition,
    candidates,
    cases,
    make_lists,
    make_world,
    numbered,
    rules_for,
    scan,
)


@examples(300)
@given(case=cases())
def test_gives_what_the_reference_gives(case: Case) -> None:
    """Near entries are those of the definition, whatever the runs, the plan, the limits and the budget."""
    near = scan(case.query, case.lists)
    assert by_definition(case) == numbered(near, len(case.query))


@pytest.mark.slow
@examples(100)
@given(case=cases())
def test_candidates_and_look_ups_are_counted(case: Case) -> None:
    """Every entry compared is counted; those at or after the article's own only where a posting list is short.

    Those that are trimmed are counted as long as they are in their runs.
    """
    query, world = replace(case.query, candidates=None), case.world
    near = scan(query, case.lists)
    assert near.lists == len(query) * query.plan.shape[1]
    everything = replace(query, before=np.full(len(query), len(world.rows)))
    assert candidates(query, world, case.lists.low_watermark) <= near.candidates <= candidates(everything, world)


@pytest.mark.parametrize(
    ("tables", "bits", "query_bits"),
    [(4, 16, 20), (4, 16, 24), (4, 20, 16), (4, 20, 24), (4, 24, 16), (4, 24, 20), (2, 16, 16), (2, 24, 24)],
)
def test_a_plan_of_other_blocks_is_refused(tables: int, bits: int, query_bits: int) -> None:
    """Of another width, or of tables that are not there: it would read other lists, or beyond a directory."""
    world = make_world(np.random.default_rng(1), 300, 4, 3)
    lists = make_lists(world, tables, 100, bits=bits)
    query = ask(world, np.arange(200, 300), exact_plan(3, query_bits), block_bits=query_bits, directed=False)
    with pytest.raises(ValueError, match=f"query of blocks of {query_bits} bits in tables 0 to [23]: the index has"):
        scan(query, lists)


def whole_case(world: World, stored: int, young: int, probes: int) -> Case:
    """Every entry of a world is queried as of its own document number."""
    articles = np.arange(len(world.rows))
    query = ask(world, articles, directed(world.margins, probes))
    lists = make_lists(world, 4, stored, young)
    return Case(world, lists, query, articles, rules_for(query, 4, probes, 0))


def test_each_word_has_sure_bits_of_its_own() -> None:
    """Copies far apart, margins of two kinds: of each word the sieve passes what the reference says."""
    rng = np.random.default_rng(1)
    world = make_world(rng, 400, 8, 60, 8)
    margins = rng.choice(np.array([0x00, 0x0F, 0xF0, 0xFF], np.uint8), world.margins.shape)
    world = replace(world, margins=margins)
    articles = np.arange(400)
    query = ask(
        world,
        articles,
        directed(margins, 40),
        reach=np.full(400, 90),
        sketches=np.ascontiguousarray(world.rows["sketch"]),
        least_equal=np.zeros(400, np.int64),
        sure=sure_masks(margins),
    )
    lists = make_lists(world, 8)
    case = Case(world, lists, query, articles, rules_for(query, 8, 40, 0))
    found = numbered(scan(query, lists), 400)
    assert found == by_definition(case)
    assert sum(map(len, found)) > 400
    assert numbered(scan(query.part(articles[::2]), lists), 200) == found[::2]


def test_the_cases_find_something() -> None:
    """Clustered entries: some queries have more near entries than are kept, some have none."""
    found = by_definition(whole_case(make_world(np.random.default_rng(1), 200, 4, 30), 100, 150, 64))
    kept = [len(near) for near in found]
    assert (min(kept), max(kept)) == (0, 8)
    assert sum(map(bool, found)) > 50


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("fold", [40, 10_000])
def test_a_search_goes_on_where_it_stopped(fold: int, budget: int) -> None:
    """For each group of look-ups, and for the rows of what passes, chunks are fetched; the answer is the same."""
    world = make_world(np.random.default_rng(3), 400, 4, 40)
    articles = np.arange(400)
    query = ask(world, articles, directed(world.margins, 200))
    lists = make_lists(world, 4, 150, 300, fold=fold, budget=budget)
    case = Case(world, lists, query, articles, rules_for(query, 4, 200, 0))
    near = scan(case.query, case.lists)
    assert numbered(near, len(case.query)) == by_definition(case)
    assert near.lists == len(case.query) * case.query.plan.shape[1]


def flood(size: int, budget: int = 1 << 30) -> tuple[World, Lists]:
    """Equal entries: one list in each table."""
    world = make_world(np.random.default_rng(2), 1, 4, 0)
    many = World(
        np.repeat(world.signatures, size, 0),
        np.repeat(world.margins, size, 0),
        np.repeat(world.rows, size, 0),
        np.repeat(world.keys, size, 0),
    )
    return many, make_lists(many, 4, size // 2, max(size - 100, size // 2), budget=budget)


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize(("limit", "first"), [(10**6, 0), (1000, 48_999)])
def test_a_flood_gives_the_earliest_within_the_bucket_limit(limit: int, first: int, *, is_directed: bool) -> None:
    """Of the newest entries as of the query, not those that are newest now."""
    world, lists = flood(60_000)
    queries = np.array([49_999, 3])
    plan = directed(world.margins[queries], 64) if is_directed else exact_plan(3)
    query = ask(world, queries, plan, directed=is_directed, bucket_limit=limit)
    expected = [[(0, first + at) for at in range(8)], [(0, at) for at in range(3)]]
    assert expected == numbered(scan(query, lists), 2)


@pytest.mark.parametrize(("ends", "limit"), [((40, 80), 50), ((), 200), ((40, 80), 200)])
def test_a_list_is_limited_and_cut_as_a_whole(ends: tuple[int, ...], limit: int) -> None:
    """Each of its parts is within the limit, and the newest run has entries that are later than the article."""
    world, _ = flood(120)
    query = ask(world, np.array([110]), directed(world.margins[[110]], 64), bucket_limit=limit, best=200)
    near = scan(query, make_lists(world, 4, *ends))
    assert numbered(near, 1) == [[(0, at) for at in range(max(110 - limit, 0), 110)]]


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_of_a_flood_the_newest_candidates_are_checked(budget: int, *, is_directed: bool) -> None:
    """So many as the bound says, across all runs and before the article; most of the others are not even compared."""
    world, lists = flood(20_000, budget)
    queries = np.array([19_990, 10_050])
    plan = directed(world.margins[queries], 64) if is_directed else exact_plan(3)
    query = ask(world, queries, plan, directed=is_directed, bucket_limit=10**6, candidates=120)
    near = scan(query, lists)
    assert numbered(near, 2) == [[(0, low + at) for at in range(8)] for low in (19_870, 9_930)]
    later = 10 + 9_950
    assert near.candidates < later + 8_000


def test_candidates_of_an_article_are_counted_once_and_not_in_each_list() -> None:
    """The bound is one for all posting lists, and an entry that lies in several of them takes one place."""
    world, lists = flood(40)
    query = ask(world, np.array([39]), directed(world.margins[[39]], 64), best=64, candidates=20)
    assert numbered(scan(query, lists), 1) == [[(0, at) for at in range(19, 39)]]
    every = replace(query, candidates=39)
    assert numbered(scan(every, lists), 1) == [[(0, at) for at in range(39)]]


@pytest.mark.parametrize("is_directed", [True, False])
def test_candidates_that_cannot_be_among_the_best_any_more_are_counted_too(*, is_directed: bool) -> None:
    """The nearest entries come first, then more further ones than are collected at once; an equal one is too old."""
    size, near, further, equal = 16_000, 12_000, 6_000, 2_000
    world, _ = flood(size)
    apart = np.where(np.arange(size) < near, np.uint64(0b111), np.uint64(0))
    apart[equal] = 0
    world.rows["signature"][:, 0] ^= apart
    world.keys[:, 0] ^= apart
    lists = make_lists(world, 4, size // 2, size - 100)
    article = np.array([size - 1])
    plan = directed(world.margins[article], 1) if is_directed else exact_plan(3)
    query = ask(world, article, plan, directed=is_directed, bucket_limit=10**6, candidates=further)
    assert size - 1 - further > equal
    assert numbered(scan(query, lists), 1) == [[(0, near + at) for at in range(8)]]
    everything = replace(query, candidates=None)
    assert numbered(scan(everything, lists), 1)[0][0] == (0, equal)


def test_the_bound_goes_on_in_the_next_posting_list() -> None:
    """Entries that only a later look-up finds are candidates as far as the bound leaves room for them."""
    world = make_world(np.random.default_rng(8), 400, 4, 30)
    articles = np.arange(300, 400)
    lists = make_lists(world, 4, 150, 350)
    found = []
    for bound in (1, 2, 4, 8, 16, None):
        query = ask(world, articles, directed(world.margins[articles], 200), best=64, candidates=bound)
        case = Case(world, lists, query, articles, rules_for(query, 4, 200, 0))
        near = numbered(scan(query, lists), len(articles))
        assert by_definition(case) == near
        found.append(sum(map(len, near)))
    assert found == sorted(found)
    assert found[0] < found[2] < found[-1]


@pytest.mark.parametrize("sketch_bytes", [0, 8])
def test_rows_without_the_sketches_of_the_query_are_refused(sketch_bytes: int) -> None:
    """Else the search would compare sketches with what stands behind a row."""
    world = make_world(np.random.default_rng(7), 10, 4, 0, sketch_bytes)
    query = ask(world, np.array([9]), directed(world.margins[[9]], 8))
    wide = replace(query, sketches=np.zeros((1, 2), np.uint64), least_equal=np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="have no sketches of 2 words"):
        scan(wide, make_lists(world, 4))


def test_arrays_of_any_layout_are_taken() -> None:
    """Columns of larger arrays, and arrays that may not be written."""
    world = make_world(np.random.default_rng(4), 50, 4, 10)
    lists = make_lists(world, 4, 25, 40)
    query = ask(world, np.arange(50), directed(world.margins, 8), own_ids=world.rows["id_hash"])
    wide = np.repeat(query.keys, 2, axis=1)
    wide.setflags(write=False)
    plan = np.asfortranarray(query.plan)
    strided = replace(query, keys=wide[:, ::2], plan=plan, reach=np.broadcast_to(np.int64(60), 50))
    assert numbered(scan(query, lists), 50) == numbered(scan(strided, lists), 50)


def test_an_empty_index_has_nothing() -> None:
    """No run and no row."""
    world = make_world(np.random.default_rng(5), 3, 4, 0)
    query = ask(world, np.zeros(3, np.int64), exact_plan(3), directed=False)
    nobody = replace(world, rows=world.rows[:0])
    assert numbered(scan(query, make_lists(nobody, 4)), 3) == [[], [], []]
