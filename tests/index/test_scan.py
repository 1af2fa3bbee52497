"""The search of the posting lists, compared with the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from tests.amount import examples
from tests.index.scan_cases import (
    BUDGETS,
    QUERY_TIME,
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
    scan,
    search_rules,
    under,
)


@examples(300)
@given(case=cases())
def test_gives_what_the_reference_gives(case: Case) -> None:
    """Near entries are those of the definition, whatever the runs, the plan, the limits and the budget."""
    near = scan(case.query, case.lists)
    assert by_definition(case.world, case.lists, case.query) == numbered(near, len(case.query))


@pytest.mark.slow
@examples(100)
@given(case=cases())
def test_candidates_are_counted(case: Case) -> None:
    """Every entry compared is counted; those at or after the article's own only where a posting list is short.

    Those that are trimmed are counted as long as they are in their runs.
    """
    query, world = under(case.query, candidates=None), case.world
    near = scan(query, case.lists)
    at_the_end = np.full(len(query), len(world.rows))
    everything = replace(query, articles=replace(query.articles, before=at_the_end))
    assert candidates(query, world, case.lists.low_watermark) <= near.candidates <= candidates(everything, world)


def test_each_word_has_sure_bits_of_its_own() -> None:
    """Copies far apart, margins of two kinds: of each word the sieve passes what the reference says."""
    rng = np.random.default_rng(1)
    world = make_world(rng, 400, 8, 60, 8)
    margins = rng.choice(np.array([0x00, 0x0F, 0xF0, 0xFF], np.uint8), world.margins.shape)
    world = replace(world, margins=margins)
    articles = np.arange(400)
    query, lists = ask(world, articles, search_rules(world, 40, limit=90)), make_lists(world, 8)
    found = numbered(scan(query, lists), 400)
    assert found == by_definition(world, lists, query)
    assert sum(map(len, found)) > 400
    assert numbered(scan(query.part(articles[::2]), lists), 200) == found[::2]


def test_the_cases_find_something() -> None:
    """Clustered entries: some queries have more near entries than are kept, some have none."""
    world = make_world(np.random.default_rng(1), 200, 4, 30)
    found = by_definition(world, make_lists(world, 4), ask(world, np.arange(200), search_rules(world, 64)))
    kept = [len(near) for near in found]
    assert (min(kept), max(kept)) == (0, 8)
    assert sum(map(bool, found)) > 50


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("fold", [40, 10_000])
def test_a_search_goes_on_where_it_stopped(fold: int, budget: int) -> None:
    """For each group of look-ups, and for the rows of what passes, chunks are fetched; the answer is the same."""
    world = make_world(np.random.default_rng(3), 400, 4, 40)
    query = ask(world, np.arange(400), search_rules(world, 200))
    lists = make_lists(world, 4, 150, 300, fold=fold, budget=budget)
    near = scan(query, lists)
    assert numbered(near, len(query)) == by_definition(world, lists, query)


def flood(size: int, budget: int = 1 << 30, fold: int = 1000) -> tuple[World, Lists]:
    """Equal entries: one list in each table."""
    world = make_world(np.random.default_rng(2), 1, 4, 0)
    many = World(
        np.repeat(world.signatures, size, 0),
        np.repeat(world.margins, size, 0),
        np.repeat(world.rows, size, 0),
        np.repeat(world.keys, size, 0),
    )
    return many, make_lists(many, 4, size // 2, max(size - 100, size // 2), budget=budget, fold=fold)


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize(("limit", "first"), [(10**6, 0), (1000, 48_999)])
def test_a_flood_gives_the_earliest_within_the_bucket_limit(limit: int, first: int, *, is_directed: bool) -> None:
    """Of the newest entries as of the query, not those that are newest now."""
    world, lists = flood(60_000)
    queries = np.array([49_999, 3])
    query = ask(world, queries, search_rules(world, 64 if is_directed else None, bucket_limit=limit))
    expected = [[(0, first + at) for at in range(8)], [(0, at) for at in range(3)]]
    assert expected == numbered(scan(query, lists), 2)


@pytest.mark.parametrize(("ends", "limit"), [((40, 80), 50), ((), 200), ((40, 80), 200)])
def test_a_list_is_limited_and_cut_as_a_whole(ends: tuple[int, ...], limit: int) -> None:
    """Each of its parts is within the limit, and the newest run has entries that are later than the article."""
    world, _ = flood(120)
    query = ask(world, np.array([110]), search_rules(world, 64, bucket_limit=limit))
    near = scan(replace(query, best=200), make_lists(world, 4, *ends))
    assert numbered(near, 1) == [[(0, at) for at in range(max(110 - limit, 0), 110)]]


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("fold", [1000, 1 << 20])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_of_a_flood_the_newest_candidates_are_checked(budget: int, fold: int, *, is_directed: bool) -> None:
    """So many as the bound says, across all runs and before the article; most of the others are not even compared.

    However many entries a run has: those of a flood are not left unfolded.
    """
    world, lists = flood(20_000, budget, fold)
    queries = np.array([19_990, 10_050])
    rules = search_rules(world, 64 if is_directed else None, bucket_limit=10**6, candidates=120)
    query = ask(world, queries, rules)
    near = scan(query, lists)
    assert numbered(near, 2) == [[(0, low + at) for at in range(8)] for low in (19_870, 9_930)]
    later = 10 + 9_950
    assert near.candidates < later + 8_000


def test_candidates_of_an_article_are_counted_once_and_not_in_each_list() -> None:
    """The bound is one for all posting lists, and an entry that lies in several of them takes one place."""
    world, lists = flood(40)
    query = replace(ask(world, np.array([39]), search_rules(world, 64, candidates=20)), best=64)
    assert numbered(scan(query, lists), 1) == [[(0, at) for at in range(19, 39)]]
    every = under(query, candidates=39)
    assert numbered(scan(every, lists), 1) == [[(0, at) for at in range(39)]]


@pytest.mark.parametrize("is_directed", [True, False])
def test_candidates_that_cannot_be_among_the_best_any_more_are_counted_too(*, is_directed: bool) -> None:
    """The nearest entries come first, then more further ones than are collected at once; an equal one is too old."""
    size, near, further, equal = 16_000, 12_000, 6_000, 2_000
    world, _ = flood(size)
    apart = np.where(np.arange(size) < near, np.uint64(0b111), np.uint64(0))
    apart[equal] = 0
    world.rows["signature"][:, 0] ^= apart
    world.signatures[:, :8] ^= apart.astype(">u8")[:, np.newaxis].view(np.uint8)
    world.keys[:, 0] ^= apart
    lists = make_lists(world, 4, size // 2, size - 100)
    article = np.array([size - 1])
    rules = search_rules(world, 1 if is_directed else None, bucket_limit=10**6, candidates=further)
    query = ask(world, article, rules)
    assert size - 1 - further > equal
    assert numbered(scan(query, lists), 1) == [[(0, near + at) for at in range(8)]]
    everything = under(query, candidates=None)
    assert numbered(scan(everything, lists), 1)[0][0] == (0, equal)


def test_the_bound_goes_on_in_the_next_posting_list() -> None:
    """Entries that only a later look-up finds are candidates as far as the bound leaves room for them."""
    world = make_world(np.random.default_rng(8), 400, 4, 30)
    articles = np.arange(300, 400)
    lists = make_lists(world, 4, 150, 350)
    found = []
    for bound in (1, 2, 4, 8, 16, None):
        query = replace(ask(world, articles, search_rules(world, 200, candidates=bound)), best=64)
        near = numbered(scan(query, lists), len(articles))
        assert by_definition(world, lists, query) == near
        found.append(sum(map(len, near)))
    assert found == sorted(found)
    assert found[0] < found[2] < found[-1]


def test_arrays_of_any_layout_are_taken() -> None:
    """Columns of larger arrays, and arrays that may not be written."""
    world = make_world(np.random.default_rng(4), 50, 4, 10)
    lists = make_lists(world, 4, 25, 40)
    query = replace(ask(world, np.arange(50), search_rules(world, 8)), own_ids=world.rows["id_hash"])
    wide = np.repeat(query.articles.signatures, 2, axis=1)
    wide.setflags(write=False)
    times = np.broadcast_to(np.int64(QUERY_TIME), 50)
    articles = replace(query.articles, signatures=wide[:, ::2], times=times)
    strided = replace(query, articles=articles, plan=np.asfortranarray(query.plan))
    assert numbered(scan(query, lists), 50) == numbered(scan(strided, lists), 50)


def test_an_empty_index_has_nothing() -> None:
    """No run and no row."""
    world = make_world(np.random.default_rng(5), 3, 4, 0)
    query = ask(world, np.zeros(3, np.int64), search_rules(world, None))
    nobody = replace(world, rows=world.rows[:0])
    assert numbered(scan(query, make_lists(nobody, 4)), 3) == [[], [], []]
