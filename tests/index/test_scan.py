"""The search of the posting lists, compared with the reference."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.arrays import I64
from stream_dedup.core.probes import directed, exact_plan, sure_masks
from stream_dedup.index.layout import ROW, RowArray, row_type
from stream_dedup.index.posting_lists import Blocks, PostingLists, Run
from stream_dedup.index.row_chunks import RowChunks
from stream_dedup.index.scan import FETCH_ROWS, WAITING_ROWS, scan, warm
from stream_dedup.index.scan_kernel import LEAST_AT_ONCE
from stream_dedup.index.scan_records import LOOKUPS_AT_ONCE, WAITING
from tests.amount import FULL, examples
from tests.index.scan_cases import (
    Case,
    World,
    ask,
    by_definition,
    candidates,
    cases,
    make_lists,
    make_world,
    numbered,
    rows_of,
    rules_for,
)


@examples(300)
@given(case=cases(), kind=st.sampled_from(["array", "chunks", "fetched"]))
def test_gives_what_the_reference_gives(case: Case, kind: str) -> None:
    """Near entries are those of the definition, whatever the runs, the plan and the limits; rows held or fetched."""
    near = scan(case.query, case.lists, rows_of(case.world, kind, case.query.low_watermark))
    assert by_definition(case) == numbered(near, len(case.query))


@examples(100)
@given(case=cases())
def test_candidates_and_look_ups_are_counted(case: Case) -> None:
    """Every entry compared is counted; those at or after the article's own only where a posting list is short."""
    query, world = replace(case.query, candidates=None), case.world
    near = scan(query, case.lists, RowChunks.of(world.rows))
    assert near.lists == len(query) * query.plan.shape[1]
    everything = replace(query, before=np.full(len(query), len(world.rows)))
    assert candidates(query, world) <= near.candidates <= candidates(everything, world)


@pytest.mark.parametrize(
    ("tables", "bits", "query_bits"),
    [(4, 16, 20), (4, 16, 24), (4, 20, 16), (4, 20, 24), (4, 24, 16), (4, 24, 20), (2, 16, 16), (2, 24, 24)],
)
def test_a_plan_of_other_blocks_is_refused(tables: int, bits: int, query_bits: int) -> None:
    """Of another width, or of tables that are not there: it would read other lists, or beyond a directory."""
    world = make_world(np.random.default_rng(1), 300, 4, 3)
    lists = make_lists(world, tables, 100, bits=bits)
    query = ask(world, np.arange(200, 300), exact_plan(3, query_bits), block_bits=query_bits, directed=False)
    with pytest.raises(ValueError, match=f"query of blocks of {query_bits} bits in tables 0 to [23]: the lists have"):
        scan(query, lists, RowChunks.of(world.rows))


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
    found = numbered(scan(query, lists, RowChunks.of(world.rows)), 400)
    assert found == by_definition(case)
    assert sum(map(len, found)) > 400
    assert numbered(scan(query.part(articles[::2]), lists, RowChunks.of(world.rows)), 200) == found[::2]


def test_the_cases_find_something() -> None:
    """Clustered entries: some queries have more near entries than are kept, some have none."""
    found = by_definition(whole_case(make_world(np.random.default_rng(1), 200, 4, 30), 100, 150, 64))
    kept = [len(near) for near in found]
    assert (min(kept), max(kept)) == (0, 8)
    assert sum(map(bool, found)) > 50


@pytest.mark.parametrize("at_once", [1, 7, 60])
def test_a_search_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """It stops in every one of the groups of look-ups whose lists are found together, and within their lists."""
    monkeypatch.setattr("stream_dedup.index.scan.WAITING_ROWS", at_once)
    case = whole_case(make_world(np.random.default_rng(3), 400, 4, 40), 150, 300, 3 * LOOKUPS_AT_ONCE + 8)
    near = scan(case.query, case.lists, RowChunks.of(case.world.rows))
    assert numbered(near, len(case.query)) == by_definition(case)
    assert near.lists == len(case.query) * case.query.plan.shape[1]


def flood(size: int) -> tuple[World, PostingLists]:
    """Equal entries: one list in each table."""
    world = make_world(np.random.default_rng(2), 1, 4, 0)
    many = World(
        np.repeat(world.signatures, size, 0),
        np.repeat(world.margins, size, 0),
        np.repeat(world.rows, size, 0),
        np.repeat(world.keys, size, 0),
    )
    return many, make_lists(many, 4, size // 2, max(size - 100, size // 2))


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize(("limit", "first"), [(10**6, 0), (1000, 48_999)])
def test_a_flood_gives_the_earliest_within_the_bucket_limit(limit: int, first: int, *, is_directed: bool) -> None:
    """Of the newest entries as of the query, not those that are newest now."""
    world, lists = flood(60_000)
    queries = np.array([49_999, 3])
    plan = directed(world.margins[queries], 64) if is_directed else exact_plan(3)
    query = ask(world, queries, plan, directed=is_directed, bucket_limit=limit)
    expected = [[(0, first + at) for at in range(8)], [(0, at) for at in range(3)]]
    assert expected == numbered(scan(query, lists, RowChunks.of(world.rows)), 2)


@pytest.mark.parametrize(("ends", "limit"), [((40, 80), 50), ((), 200), ((40, 80), 200)])
def test_a_list_is_limited_and_cut_as_a_whole(ends: tuple[int, ...], limit: int) -> None:
    """Each of its parts is within the limit, and the newest run has entries that are later than the article."""
    world, _ = flood(120)
    query = ask(world, np.array([110]), directed(world.margins[[110]], 64), bucket_limit=limit, best=200)
    near = scan(query, make_lists(world, 4, *ends), RowChunks.of(world.rows))
    assert numbered(near, 1) == [[(0, at) for at in range(max(110 - limit, 0), 110)]]


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("kind", ["array", "fetched"])
def test_of_a_flood_the_newest_candidates_are_checked(kind: str, *, is_directed: bool) -> None:
    """So many as the bound says, across all runs and before the article; most of the others are not even compared."""
    world, lists = flood(20_000)
    queries = np.array([19_990, 10_050])
    plan = directed(world.margins[queries], 64) if is_directed else exact_plan(3)
    query = ask(world, queries, plan, directed=is_directed, bucket_limit=10**6, candidates=120)
    near = scan(query, lists, rows_of(world, kind))
    assert numbered(near, 2) == [[(0, low + at) for at in range(8)] for low in (19_870, 9_930)]
    later = 10 + 9_950
    assert near.candidates < later + 2 * (120 + 2 * WAITING_ROWS)


def test_candidates_of_an_article_are_counted_once_and_not_in_each_list() -> None:
    """The bound is one for all posting lists, and an entry that lies in several of them takes one place."""
    world, lists = flood(40)
    query = ask(world, np.array([39]), directed(world.margins[[39]], 64), best=64, candidates=20)
    assert numbered(scan(query, lists, world.rows), 1) == [[(0, at) for at in range(19, 39)]]
    every = replace(query, candidates=39)
    assert numbered(scan(every, lists, world.rows), 1) == [[(0, at) for at in range(39)]]


@pytest.mark.parametrize("bound", [16, 1024])
def test_candidates_that_do_not_count_are_checked_many_at_once(bound: int) -> None:
    """There is room for one more, and thousands have expired: to collect these one by one took a second."""
    expired = 5000
    world, lists = flood(expired + bound)
    world.rows["time"] = np.where(np.arange(len(world.rows)) < expired, -1, 0)
    article = np.array([len(world.rows) - 1])
    plan = directed(world.margins[article], 64)
    calls: list[int] = []

    def fetch(doc_numbers: I64) -> RowArray:
        calls.append(len(doc_numbers))
        return world.rows[doc_numbers]

    query = ask(world, article, plan, bucket_limit=10**6, candidates=bound, oldest=np.array([0]))
    assert numbered(scan(query, lists, fetch), 1) == [[(0, expired + at) for at in range(8)]]
    assert len(calls) < 4 * len(world.rows) / LEAST_AT_ONCE + 4


@pytest.mark.parametrize("is_directed", [True, False])
def test_candidates_that_cannot_be_among_the_best_any_more_are_counted_too(*, is_directed: bool) -> None:
    """The nearest entries come first, then more further ones than are collected at once; an equal one is too old."""
    size, near, further, equal = 8 * WAITING_ROWS, 6 * WAITING_ROWS, 3 * WAITING_ROWS, WAITING_ROWS
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
    assert numbered(scan(query, lists, world.rows), 1) == [[(0, near + at) for at in range(8)]]
    everything = replace(query, candidates=None)
    assert numbered(scan(everything, lists, world.rows), 1)[0][0] == (0, equal)


def test_the_bound_goes_on_in_the_next_posting_list() -> None:
    """Entries that only a later look-up finds are candidates as far as the bound leaves room for them."""
    world = make_world(np.random.default_rng(8), 400, 4, 30)
    articles = np.arange(300, 400)
    lists = make_lists(world, 4, 150, 350)
    found = []
    for bound in (1, 2, 4, 8, 16, None):
        query = ask(world, articles, directed(world.margins[articles], 200), best=64, candidates=bound)
        case = Case(world, lists, query, articles, rules_for(query, 4, 200, 0))
        near = numbered(scan(query, lists, world.rows), len(articles))
        assert by_definition(case) == near
        found.append(sum(map(len, near)))
    assert found == sorted(found)
    assert found[0] < found[2] < found[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fetched", *(["array"] if FULL else [])])
def test_scratch_memory_is_bounded_in_a_flood(kind: str) -> None:
    """Two million candidates that all pass the sieve, and of which none counts: at most 16 MiB, where all take 48."""
    world, lists = flood(100_000)
    queries = np.full(5, 99_999)
    query = ask(world, queries, exact_plan(3), directed=False, bucket_limit=10**6, oldest=np.full(5, 10**6))
    rows = rows_of(world, kind)
    warm()
    tracemalloc.start()
    near = scan(query, lists, rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(near.queries), near.candidates) == (0, 5 * 4 * 99_999)
    assert peak < 16 << 20 < near.candidates * WAITING.itemsize


def test_rows_are_fetched_in_bulk() -> None:
    """Distinct document numbers in rising order, as many at a time as memory allows."""
    world, lists = flood(60_000)
    query = ask(world, np.array([59_999]), exact_plan(0), directed=False, bucket_limit=10**6, oldest=np.array([10**6]))
    calls: list[I64] = []

    def fetch(doc_numbers: I64) -> RowArray:
        calls.append(doc_numbers)
        return world.rows[doc_numbers]

    scan(query, lists, fetch)
    assert all((np.diff(doc_numbers) > 0).all() for doc_numbers in calls)
    assert max(map(len, calls)) <= FETCH_ROWS
    assert len(calls) <= 2 * (4 * 60_000 // FETCH_ROWS + 1)


def test_arrays_of_any_layout_are_taken() -> None:
    """Columns of larger arrays, and arrays that may not be written."""
    world = make_world(np.random.default_rng(4), 50, 4, 10)
    lists = make_lists(world, 4, 25, 40)
    query = ask(world, np.arange(50), directed(world.margins, 8), own_ids=world.rows["id_hash"])
    wide = np.repeat(query.keys, 2, axis=1)
    wide.setflags(write=False)
    plan = np.asfortranarray(query.plan)
    strided = replace(query, keys=wide[:, ::2], plan=plan, reach=np.broadcast_to(np.int64(60), 50))
    rows = RowChunks.of(world.rows)
    assert numbered(scan(query, lists, rows), 50) == numbered(scan(strided, lists, rows), 50)


def test_an_empty_index_has_nothing() -> None:
    """No run, or none with an entry; no row."""
    world = make_world(np.random.default_rng(5), 3, 4, 0)
    query = ask(world, np.zeros(3, np.int64), exact_plan(3), directed=False)
    none = RowChunks.of(np.empty(0, ROW))
    empty = [[make_run(table, 64)] for table in range(4)]
    for lists in (PostingLists([[]] * 4), PostingLists(empty), PostingLists([[], *empty[1:]]), make_lists(world, 4, 3)):
        assert numbered(scan(query, lists, none), 3) == [[], [], []]


def make_run(table: int, buckets: int, starts: type = np.uint32, keys: int = 0, doc_numbers: int = 0) -> Run:
    """A run of zeros."""
    return Run(
        Blocks(table), np.zeros(buckets + 1, starts), np.zeros(keys, np.uint64), np.zeros(doc_numbers, np.uint32)
    )


@pytest.mark.parametrize(
    ("buckets", "starts", "keys", "doc_numbers"),
    [
        (0, np.uint32, 0, 0),
        (63, np.uint32, 0, 0),
        (1 << 17, np.uint32, 0, 0),
        (64, np.int64, 0, 0),
        (64, np.uint32, 1, 0),
        (64, np.uint32, 0, 1),
    ],
)
def test_runs_that_cannot_be_are_refused(buckets: int, starts: type, keys: int, doc_numbers: int) -> None:
    """What is read by address is checked before."""
    with pytest.raises(ValueError, match="run"):
        make_run(0, buckets, starts, keys, doc_numbers)


def test_lists_that_end_after_their_keys_are_refused() -> None:
    """Else what is not theirs would be read."""
    starts = np.zeros(65, np.uint32)
    starts[-1] = 2
    with pytest.raises(ValueError, match="lists end at 2, 1 keys"):
        Run(Blocks(0), starts, np.zeros(1, np.uint64), np.zeros(1, np.uint32))


def test_runs_of_other_tables_and_blocks_of_several_widths_are_refused() -> None:
    """A look-up takes the block of its table, of one width."""
    with pytest.raises(ValueError, match="runs of other tables"):
        PostingLists([[make_run(0, 64)], [make_run(0, 64)]])
    wide = Run(Blocks(1, 20), np.zeros(65, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint32))
    with pytest.raises(ValueError, match="blocks of several widths"):
        PostingLists([[make_run(0, 64)], [wide]])


def test_missing_rows_are_refused() -> None:
    """Entries that exist for a query must have a row: from the low watermark to its own document number."""
    world = make_world(np.random.default_rng(6), 10, 4, 0)
    lists = make_lists(world, 4)
    query = ask(world, np.array([9]), exact_plan(0), directed=False)
    with pytest.raises(ValueError, match="rows of 0 to 8 are held, the query needs 0 to 9"):
        scan(query, lists, world.rows[:8])
    with pytest.raises(ValueError, match="rows of 4 to 10 are held, the query needs 0 to 9"):
        scan(query, lists, RowChunks((world.rows[4:],), 20, 4))


def test_rows_of_another_shape_are_refused() -> None:
    """Rows are read by address: one after the other, in the layout of ROW; only the last chunk may be shorter."""
    good = np.zeros(4, ROW)
    bad: list[Any] = [
        [good.reshape(2, 2)],
        [good[::2]],
        [good.view(np.uint64)],
        [good[["group", "time"]]],
        [good[:3], good],
        [good, np.zeros(4, row_type(16))],
        [np.zeros(4, row_type(40))],
    ]
    for chunks in bad:
        with pytest.raises(ValueError, match="rows"):
            RowChunks(chunks, 2)


@pytest.mark.parametrize("sketch_bytes", [0, 8])
@pytest.mark.parametrize("kind", ["array", "fetched"])
def test_rows_without_the_sketches_of_the_query_are_refused(kind: str, sketch_bytes: int) -> None:
    """Else the kernel would compare sketches with what stands behind a row."""
    world = make_world(np.random.default_rng(7), 10, 4, 0, sketch_bytes)
    lists = make_lists(world, 4)
    query = ask(world, np.array([9]), directed(world.margins[[9]], 8))
    wide = replace(query, sketches=np.zeros((1, 2), np.uint64), least_equal=np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="have no sketches of 2 words"):
        scan(wide, lists, rows_of(world, kind))


@pytest.mark.slow
def test_the_compiler_is_loaded_by_the_first_query() -> None:
    """Not before: a command that looks nothing up does not wait for it, nor for that which decodes batches together."""
    command = (
        "import sys; from stream_dedup.core import plain_batches; from stream_dedup.index import scan; "
        "loaded = lambda: ['numba' in sys.modules, plain_batches._kernel is not None]; "
        "before = loaded(); scan.warm(); print(*before, *loaded())"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "True"]


@pytest.mark.slow
def test_a_search_whose_code_cannot_be_kept_says_so_once_and_works() -> None:
    """A read-only file system, no home: compiled at each start, with the remedy."""
    code = (
        "from unittest.mock import Mock; from stream_dedup.startup.kept_files import KeptFiles, keep_tables; "
        # Kept: to compile one of the modules is enough.
        "keep_tables(); from stream_dedup.index import scan_kernel; from stream_dedup.core import batch_kernel; "
        "KeptFiles.find = Mock(return_value=None); KeptFiles.keep = Mock(side_effect=OSError('full')); "
        "import numpy as np; from stream_dedup.index import scan; from stream_dedup.core.probes import directed; "
        "import logging; logging.basicConfig(); scan.warm(); scan.warm(); "
        "print(directed(np.zeros((1, 32), np.uint8), 1).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[[0]]\n"
    assert done.stderr.count("compiled anew at each start") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_scan_takes_rows_as_an_array() -> None:
    """An array of rows is read as one chunk."""
    case = whole_case(make_world(np.random.default_rng(7), 60, 4, 10), 30, 50, 32)
    assert by_definition(case) == numbered(scan(case.query, case.lists, case.world.rows), 60)
