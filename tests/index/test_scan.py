"""The search of the posting lists, compared with the reference."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import DocNumber
from stream_dedup.core.probes import directed, exact_plan, keys, words
from stream_dedup.core.rules import DIRECTED, EXACT, Rules, Scheme
from stream_dedup.index.layout import ROW, RowArray
from stream_dedup.index.posting_lists import LISTS, PART_LISTS, PARTS, Level, PostingLists, Source
from stream_dedup.index.query import Near, Query
from stream_dedup.index.row_chunks import RowChunks
from stream_dedup.index.scan import FETCH_ROWS, scan
from tests.amount import FULL, examples
from tests.definition import QUERY_TIME, near_by_definition, plain_entries

Found = list[list[tuple[int, int]]]
"""Of each query (distance, document number)."""


@dataclass(frozen=True)
class World:
    """Entries, their rows and keys."""

    signatures: np.ndarray
    margins: np.ndarray
    rows: RowArray
    keys: U64

    def blocks(self, table: int) -> I64:
        """Block of each entry."""
        return _block(self.keys, table)


def make_world(rng: np.random.Generator, n: int, tables: int, flips: int) -> World:
    """Entries around a few centres, in a few groups, some of them random."""
    centres = rng.integers(0, 2, (max(1, n // 20), 256), dtype=np.uint8)
    bits = centres[rng.integers(0, len(centres), n)]
    for row in bits:
        row[rng.integers(0, 256, rng.integers(0, flips + 1))] ^= 1
    strange = rng.random(n) < 0.1
    bits[strange] = rng.integers(0, 2, (int(strange.sum()), 256))
    signatures = np.packbits(bits, axis=1)
    groups = rng.choice(np.array([0, 0, 0, 1, 0xFFFF_0000_1234_5678], np.uint64), n)
    rows = np.zeros(n, ROW)
    rows["signature"] = words(signatures)
    rows["group"] = groups
    rows["id_hash"] = rng.integers(0, 5, n)
    rows["position"] = np.arange(n) * 1000
    rows["time"] = rng.integers(-50, 50, n)
    return World(signatures, rng.integers(0, 256, (n, 8 * tables), dtype=np.uint8), rows, keys(signatures, groups))


def make_lists(world: World, tables: int, stored: np.ndarray, young: int) -> PostingLists:
    """Stored up to a number of each part; then one older source a table; then one young one from ``young`` on."""
    return PostingLists([_levels(world, table, stored[table], young) for table in range(tables)])


def _levels(world: World, table: int, stored: np.ndarray, young: int) -> list[Level]:
    doc_numbers = np.arange(len(world.rows))
    limit = np.minimum(stored, young)[world.blocks(table) // PART_LISTS]
    parts = tuple(
        _source(world, table, doc_numbers[(doc_numbers < limit) & (world.blocks(table) // PART_LISTS == part)], part)
        for part in range(PARTS)
    )
    older = _source(world, table, doc_numbers[(doc_numbers >= limit) & (doc_numbers < young)])
    return [Level(parts), Level((older,)), Level((_source(world, table, doc_numbers[doc_numbers >= young]),)), Level()]


def _source(world: World, table: int, doc_numbers: I64, part: int | None = None) -> Source:
    first, count = (0, LISTS) if part is None else (part * PART_LISTS, PART_LISTS)
    blocks = world.blocks(table)[doc_numbers] - first
    order = np.argsort(blocks, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(blocks, minlength=count)))).astype(np.uint32)
    return Source(first, starts, world.keys[doc_numbers[order], table // 4], doc_numbers[order].astype(np.uint32))


def _block(of: U64, table: int) -> I64:
    return ((of[:, table // 4] >> np.uint64(48 - table % 4 * 16)) & np.uint64(0xFFFF)).astype(np.int64)


def ask(world: World, queries: I64, plan: U32, **changes: Any) -> Query:  # noqa: ANN401 - fields of several types
    """These entries, each as of its own document number."""
    return replace(
        Query(
            keys=world.keys[queries],
            groups=world.rows["group"][queries],
            before=queries,
            plan=plan,
            directed=True,
            reach=np.full(len(queries), 60),
            bucket_limit=1000,
        ),
        **changes,
    )


@dataclass(frozen=True)
class Case:
    """A query of the posting lists: the articles it is made of, and the rules that it follows for each."""

    world: World
    lists: PostingLists
    query: Query
    articles: I64
    rules: list[Rules]


def by_definition(case: Case) -> Found:
    """Near entries by the reference: of one's own id where the query says so, and the first ones only."""
    world, query, articles = case.world, case.query, case.articles
    rows, own = world.rows, query.own_ids
    entries = plain_entries(
        world.signatures,
        rows["group"],
        world.signatures[articles],
        query.groups,
        times=rows["time"],
        short=np.flatnonzero(query.reach == 0).tolist(),
    )
    found = near_by_definition(entries, case.rules, query.before.tolist(), world.margins[articles], query.low_watermark)
    if own is not None:
        found = [[pair for pair in near if rows["id_hash"][pair[1]] == own[at]] for at, near in enumerate(found)]
    return [near[: query.best] for near in found]


def rules_for(query: Query, tables: int, probes: int | None, k: int) -> list[Rules]:
    """The rules that each article's query follows: exact search of k bits where ``probes`` is None."""
    rules = Rules(
        Scheme("article", 1, f'{{"tables":{tables}}}'),
        search=EXACT if probes is None else DIRECTED,
        distance=k if probes is None else None,
        probes=probes,
        bucket_limit=query.bucket_limit,
    )
    oldest = [None] * len(query) if query.oldest is None else query.oldest.tolist()
    return [
        replace(
            rules,
            limit=None if probes is None else reach,
            window_ms=None if since is None else QUERY_TIME - since,
        )
        for reach, since in zip(query.reach.tolist(), oldest, strict=True)
    ]


def candidates(query: Query, world: World) -> int:
    """Entries of all posting lists that the plans look up, as often as they are met."""
    return sum(_candidates(query, world, article) for article in range(len(query)))


def _candidates(query: Query, world: World, article: int) -> int:
    count = 0
    for lookup in query.plan[article if len(query.plan) > 1 else 0].tolist():
        table, mask = lookup >> 16, lookup & 0xFFFF
        value = int(_block(query.keys[article : article + 1], table)[0]) ^ mask
        earlier = int((world.blocks(table)[: query.before[article]] == value).sum())
        count += min(earlier, query.bucket_limit)
    return count


def numbered(near: Near, queries: int) -> Found:
    """The same shape; checks the order that is promised."""
    found: Found = [[] for _ in range(queries)]
    for query, doc_number, distance in zip(*(column.tolist() for column in near[:3]), strict=True):
        found[query].append((distance, doc_number))
    assert near.queries.tolist() == sorted(near.queries.tolist())
    assert found == [sorted(of_one) for of_one in found]
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Entries in levels, and queries of every kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = draw(st.sampled_from([4, 8, 16]))
    world = make_world(rng, draw(st.integers(1, 120)), tables, draw(st.integers(0, 40)))
    n = len(world.rows)
    lists = make_lists(world, tables, rng.integers(0, n + 1, (tables, PARTS)), draw(st.integers(0, n)))
    articles = rng.integers(0, n, draw(st.integers(0, 12)))
    probes = draw(st.none() | st.integers(1, 200)) if tables == 4 else draw(st.integers(1, 200))
    k = draw(st.integers(0, 11))
    most = draw(st.sampled_from([0, 3, 11, 40, 64, 256]))
    query = ask(
        world,
        articles,
        exact_plan(k) if probes is None else directed(world.margins[articles], probes),
        directed=probes is not None,
        before=rng.integers(0, n + 1, len(articles)) if draw(st.booleans()) else articles,
        reach=rng.choice([0, k], len(articles)) if probes is None else rng.integers(0, most + 1, len(articles)),
        bucket_limit=draw(st.sampled_from([1, 2, 5, 1000])),
        oldest=rng.integers(-40, 40, len(articles)) if draw(st.booleans()) else None,
        own_ids=rng.integers(0, 5, len(articles)).astype(np.uint64) if draw(st.booleans()) else None,
        best=draw(st.sampled_from([1, 3, 8, 200])),
    )
    query = replace(query, low_watermark=DocNumber(draw(st.integers(0, int(min(query.before, default=0))))))
    return Case(world, lists, query, articles, rules_for(query, tables, probes, k))


def rows_of(world: World, kind: str, base: int = 0) -> Any:  # noqa: ANN401
    """In one array, in chunks of 32 from ``base`` on (the last one longer), or fetched."""
    if kind == "array":
        return RowChunks.of(world.rows)
    if kind == "fetched":
        return world.rows.__getitem__
    starts = range(base, max(base + 1, len(world.rows) - 8), 32)
    ends = [*starts[1:], len(world.rows)]
    return RowChunks([world.rows[start:end] for start, end in zip(starts, ends, strict=True)], 5, base)


@examples(300)
@given(case=cases(), kind=st.sampled_from(["array", "chunks", "fetched"]))
def test_gives_what_the_reference_gives(case: Case, kind: str) -> None:
    """Near entries are those of the definition, whatever the levels, the plan and the limits; rows held or fetched."""
    near = scan(case.query, case.lists, rows_of(case.world, kind, case.query.low_watermark))
    assert by_definition(case) == numbered(near, len(case.query))


@examples(100)
@given(case=cases())
def test_candidates_and_look_ups_are_counted(case: Case) -> None:
    """Every candidate is counted; entries at or after the article's own only where a posting list is short."""
    query, world = case.query, case.world
    near = scan(query, case.lists, RowChunks.of(world.rows))
    assert near.lists == len(query) * query.plan.shape[1]
    everything = replace(query, before=np.full(len(query), len(world.rows)))
    assert candidates(query, world) <= near.candidates <= candidates(everything, world)


def whole_case(world: World, stored: int, young: int, probes: int) -> Case:
    """Every entry of a world is queried as of its own document number."""
    articles = np.arange(len(world.rows))
    query = ask(world, articles, directed(world.margins, probes))
    lists = make_lists(world, 4, np.full((4, PARTS), stored), young)
    return Case(world, lists, query, articles, rules_for(query, 4, probes, 0))


def test_the_cases_find_something() -> None:
    """Clustered entries: some queries have more near entries than are kept, some have none."""
    found = by_definition(whole_case(make_world(np.random.default_rng(1), 200, 4, 30), 100, 150, 64))
    kept = [len(near) for near in found]
    assert (min(kept), max(kept)) == (0, 8)
    assert sum(map(bool, found)) > 50


def flood(size: int) -> tuple[World, PostingLists]:
    """Equal entries: one list in each table."""
    world = make_world(np.random.default_rng(2), 1, 4, 0)
    many = World(
        np.repeat(world.signatures, size, 0),
        np.repeat(world.margins, size, 0),
        np.repeat(world.rows, size, 0),
        np.repeat(world.keys, size, 0),
    )
    return many, make_lists(many, 4, np.full((4, PARTS), size // 2), size - 100)


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fetched", *(["array"] if FULL else [])])
def test_scratch_memory_is_bounded_in_a_flood(kind: str) -> None:
    """Eight million candidates that all pass the sieve, and of which none counts: at most 64 MiB."""
    world, lists = flood(400_000)
    queries = np.full(5, 399_999)
    query = ask(world, queries, exact_plan(3), directed=False, bucket_limit=10**6, oldest=np.full(5, 10**6))
    rows = rows_of(world, kind)
    tracemalloc.start()
    near = scan(query, lists, rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(near.queries), near.candidates) == (0, 8_000_000)
    assert peak < 64 << 20


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
    lists = make_lists(world, 4, np.full((4, PARTS), 25), 40)
    query = ask(world, np.arange(50), directed(world.margins, 8), own_ids=world.rows["id_hash"])
    wide = np.repeat(query.keys, 2, axis=1)
    wide.setflags(write=False)
    plan = np.asfortranarray(query.plan)
    strided = replace(query, keys=wide[:, ::2], plan=plan, reach=np.broadcast_to(np.int64(60), 50))
    rows = RowChunks.of(world.rows)
    assert numbered(scan(query, lists, rows), 50) == numbered(scan(strided, lists, rows), 50)


def test_an_empty_index_has_nothing() -> None:
    """No level, or none with an entry; no row."""
    world = make_world(np.random.default_rng(5), 3, 4, 0)
    query = ask(world, np.zeros(3, np.int64), exact_plan(3), directed=False)
    none = RowChunks.of(np.empty(0, ROW))
    for lists in (PostingLists([[]] * 4), PostingLists([[Level()]] * 4), make_lists(world, 4, np.zeros((4, PARTS)), 3)):
        assert numbered(scan(query, lists, none), 3) == [[], [], []]


@pytest.mark.parametrize(
    ("first", "blocks", "starts", "keys", "doc_numbers"),
    [
        (1, PART_LISTS, np.uint32, 0, 0),
        (0, PART_LISTS - 1, np.uint32, 0, 0),
        (LISTS - PART_LISTS, 2 * PART_LISTS, np.uint32, 0, 0),
        (0, PART_LISTS, np.int64, 0, 0),
        (0, PART_LISTS, np.uint32, 1, 0),
    ],
)
def test_sources_that_cannot_be_are_refused(first: int, blocks: int, starts: type, keys: int, doc_numbers: int) -> None:
    """What is read by address is checked before."""
    with pytest.raises(ValueError, match="source"):
        Source(first, np.zeros(blocks + 1, starts), np.zeros(keys, np.uint64), np.zeros(doc_numbers, np.uint32))


def test_lists_that_end_after_their_keys_are_refused() -> None:
    """Else what is not theirs would be read."""
    starts = np.zeros(PART_LISTS + 1, np.uint32)
    starts[-1] = 2
    with pytest.raises(ValueError, match="lists end at 2, 1 keys"):
        Source(0, starts, np.zeros(1, np.uint64), np.zeros(1, np.uint32))


def test_overlapping_sources_and_uneven_levels_are_refused() -> None:
    """A block is in one source of a level; every table has as many levels."""
    source = Source(0, np.zeros(LISTS + 1, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint32))
    with pytest.raises(ValueError, match="same block"):
        Level((source, source))
    with pytest.raises(ValueError, match=r"tables of \[1, 2\] levels"):
        PostingLists([[Level()], [Level(), Level()]])


def test_missing_rows_are_refused() -> None:
    """Entries that exist for a query must have a row: from the low watermark to its own document number."""
    world = make_world(np.random.default_rng(6), 10, 4, 0)
    lists = make_lists(world, 4, np.zeros((4, PARTS)), 0)
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
    ]
    for chunks in bad:
        with pytest.raises(ValueError, match="rows"):
            RowChunks(chunks, 2)


def test_the_compiler_is_loaded_by_the_first_query() -> None:
    """Not before: a command that looks nothing up does not wait for it."""
    command = (
        "import sys; from stream_dedup.index import scan; before = 'numba' in sys.modules; scan.warm(); "
        "print(before, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.slow
def test_a_search_whose_code_cannot_be_kept_says_so_once_and_works() -> None:
    """A read-only file system, no home: compiled at each start, with the remedy."""
    code = (
        "from stream_dedup.index import scan_kernel; "  # kept: to compile one of the two modules is enough
        "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []; "
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
