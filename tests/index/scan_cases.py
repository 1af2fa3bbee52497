"""Queries of posting lists: entries, the rules of each query, and what the definition finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.model import BLOCK_BITS, FORM_BYTES, TABLE_MARGIN_BYTES, DocNumber, Status
from stream_dedup.core.probes import keys, sketch_words, words
from stream_dedup.core.query import Articles, Near, Query, query_of
from stream_dedup.core.rules import DIRECTED, Rules, greatest_distance
from stream_dedup.index import tables
from stream_dedup.index.layout import RowArray, row_type
from stream_dedup.index.store import IndexSettings
from stream_dedup.index.tables import RowColumn, Tables
from tests.definition import NOTHING_WITHDRAWN, near_by_definition, plain_entries
from tests.logs import scheme_of
from tests.simulation.memory_store import MemoryDisk, MemoryStore

BLOCK_WIDTHS = [16, 20, 24]
QUERY_TIME = 1_000
"""Log time of a query, later than that of any entry."""
DOMINATED = 16
"""Small margins with which an entry is dominated, where sketches are compared: a third are strongly so, a third not."""
Found = list[list[tuple[int, int]]]
"""Of each query (distance, document number)."""


@dataclass(frozen=True)
class World:
    """Entries, their rows and keys."""

    signatures: np.ndarray
    margins: np.ndarray
    rows: RowArray
    keys: U64

    @property
    def sketches(self) -> U8:
        """Sketch of each entry."""
        if "sketch" not in (self.rows.dtype.names or ()):
            return np.empty((len(self.rows), 0), np.uint8)
        return np.ascontiguousarray(self.rows["sketch"]).view(np.uint8)


def make_world(
    rng: np.random.Generator, n: int, tables: int, flips: int, sketch_bytes: int = 0, *, form: bool = False
) -> World:
    """Entries around a few centres, in a few scopes, some of them random; their sketches share some values."""
    centres = rng.integers(0, 2, (max(1, n // 20), 256), dtype=np.uint8)
    bits = centres[rng.integers(0, len(centres), n)]
    for row in bits:
        row[rng.integers(0, 256, rng.integers(0, flips + 1))] ^= 1
    strange = rng.random(n) < 0.1
    bits[strange] = rng.integers(0, 2, (int(strange.sum()), 256))
    signatures = np.packbits(bits, axis=1)
    scope_hashes = rng.choice(np.array([0, 0, 0, 1, 0xFFFF_0000_1234_5678], np.uint64), n)
    rows = np.zeros(n, row_type(sketch_bytes))
    rows["signature"] = words(signatures)
    if sketch_bytes:
        values = np.where(
            rng.random((n, 2 * sketch_bytes)) < rng.random((n, 1)), rng.integers(0, 16, 2 * sketch_bytes), 0
        )
        rows["sketch"] = sketch_words((values[:, ::2] << 4 | values[:, 1::2]).astype(np.uint8))
    if form:  # few frames and numbers, in the two halves of the last word; frame 0 is none
        frames, numbers = rng.choice(np.array([0, 1, 2, 1 << 31], np.uint64), (2, n))
        rows["sketch"][:, -1] = frames | numbers << np.uint64(32)
    rows["scope_hash"] = scope_hashes
    rows["id_hash"] = rng.integers(0, 5, n)
    rows["position"] = np.arange(n) * 1000
    rows["time"] = rng.integers(-50, 50, n)
    margins = rng.integers(0, 256, (n, 8 * tables), dtype=np.uint8)
    margins[::3] |= 0x44
    return World(signatures, margins, rows, keys(signatures, scope_hashes))


@dataclass(frozen=True)
class Budget(IndexSettings):
    """A budget in bytes."""

    bytes_: int = 1 << 30

    @property
    def cache_bytes(self) -> int:
        return self.bytes_


BUDGETS = {"none": 0, "tiny": 20_000, "large": 1 << 30}
"""Bytes of the cache: every chunk is fetched, some are, none is."""


@dataclass
class Lists:
    """Tables of the entries of a world, appended in portions that end at some document numbers."""

    world: World
    tables: int
    bits: int
    ends: tuple[int, ...]
    settings: Budget
    chunk: int
    """Entries of a chunk; one of rows is as large in memory, so a budget holds as many as it can."""
    low_watermark: DocNumber = DocNumber(0)
    """Entries with lower document numbers are trimmed."""

    def opened(self) -> Tables:
        """Return tables with all entries, over a store in memory."""
        MemoryStore.disk = MemoryDisk()
        path = Path("index/data-1")
        store: Any = MemoryStore(path, self.settings, create=True, on_corrupt=lambda _: None)
        rows_bytes = self.chunk * tables.ROW_CHUNK_BYTES // tables.CHUNK_ENTRIES
        with patch.multiple(tables, CHUNK_ENTRIES=self.chunk, ROW_CHUNK_BYTES=rows_bytes):
            column = RowColumn(store, DocNumber(0), DocNumber(0), self.world.rows.dtype)
            made = Tables(store, column, self.tables, self.bits, self.settings)
        for first, after in pairwise([0, *self.ends, len(self.world.rows)]):
            if after > first:
                writes: Any = store.batch()
                column.write_rows(writes, self.world.rows[first:after])
                store.write(writes)
                made.append_entries(self.world.rows[first:after])
        return made


def make_lists(
    world: World,
    tables: int,
    *ends: int,
    bits: int = BLOCK_BITS,
    fold: int = 1000,
    budget: int = 1 << 30,
    chunk: int = 1024,
) -> Lists:
    """Tables with the entries of a world, in portions up to each of these document numbers, and the rest."""
    return Lists(world, tables, bits, ends, Budget(fold_entries=fold, bytes_=budget), chunk)


def drawn_lists(rng: np.random.Generator, world: World, tables: int, bits: int = BLOCK_BITS) -> Lists:
    """Tables with any portions, folds and budget: every entry in chunks of a run of its own, or none."""
    n = len(world.rows)
    ends = sorted(rng.integers(0, n + 1, rng.integers(0, 12)).tolist())
    fold, budget = rng.choice([1, 5, 30, 10_000]), rng.choice(list(BUDGETS.values()))
    chunk = rng.choice([1, 3, 8, 1024])
    return make_lists(world, tables, *ends, bits=bits, fold=int(fold), budget=int(budget), chunk=int(chunk))


def scan(query: Query, lists: Lists) -> Near:
    """Return the near entries of a query, in tables of which some entries are trimmed."""
    tables = lists.opened()
    if lists.low_watermark:
        tables.drop_entries_before(lists.low_watermark)
    return tables.near(query)


def plain_blocks(table: int, bits: int, words: U64) -> I64:
    """Block of each word, bit by bit: from bit 16t on, counted from the highest, and after the last the first."""
    found = np.zeros(len(words), np.int64)
    for bit in range(bits):
        at = (16 * (table % 4) + bit) % 64
        found |= ((words >> np.uint64(63 - at)) & np.uint64(1)).astype(np.int64) << (bits - 1 - bit)
    return found


def search_rules(
    world: World,
    probes: int | None,
    *,
    bits: int = BLOCK_BITS,
    form: bool = False,
    **changes: Any,  # noqa: ANN401 - fields of several types
) -> Rules:
    """Rules of directed search within 60 bits, or of exact search where ``probes`` is None."""
    tables, sketch_bytes = world.margins.shape[1] // TABLE_MARGIN_BYTES, world.sketches.shape[1]
    search: dict[str, Any] = {"search": DIRECTED, "distance": None, "probes": probes, "limit": 60, "short_limit": 60}
    if sketch_bytes:
        search["dominated"] = DOMINATED
    scheme = scheme_of(tables, sketch_bytes, form=form, block_bits=bits)
    given: dict[str, Any] = {"bucket_limit": 1000} | ({} if probes is None else search)
    return Rules(scheme, **(given | changes))


def ask(world: World, queries: I64, rules: Rules, **changes: Any) -> Query:  # noqa: ANN401 - columns
    """These entries as long texts, each as of its own document number; ``changes`` are of the articles."""
    articles = Articles(
        statuses=np.full(len(queries), Status.LONG, np.uint8),
        scope_hashes=world.rows["scope_hash"][queries],
        signatures=world.signatures[queries],
        margins=world.margins[queries],
        sketches=world.sketches[queries],
        before=queries,
        times=np.full(len(queries), QUERY_TIME),
    )
    return query_of(replace(articles, **changes), rules, NOTHING_WITHDRAWN)


def under(query: Query, **changes: Any) -> Query:  # noqa: ANN401 - fields of several types
    """The same under other rules."""
    return replace(query, rules=replace(query.rules, **changes))


def by_definition(world: World, lists: Lists, query: Query) -> Found:
    """Near entries by the reference: of one's own id where the query says so, and the first ones only."""
    rows, articles, own = world.rows, query.articles, query.own_ids
    entries = plain_entries(
        world.signatures,
        rows["scope_hash"],
        articles.signatures,
        articles.scope_hashes,
        times=np.concatenate([rows["time"], articles.times]),
        statuses=np.concatenate([np.full(len(rows), Status.LONG, np.uint8), articles.statuses]),
        sketches=np.concatenate([world.sketches, articles.sketches]),
    )
    found = near_by_definition(entries, query.rules, articles.before.tolist(), articles.margins, lists.low_watermark)
    if own is not None:
        found = [[pair for pair in near if rows["id_hash"][pair[1]] == own[at]] for at, near in enumerate(found)]
    return [near[: query.best] for near in found]


def candidates(query: Query, world: World, first: int = 0) -> int:
    """Entries from a document number on of all posting lists that the plans look up, as often as they are met."""
    return sum(_candidates(query, world, article, first) for article in range(len(query)))


def _candidates(query: Query, world: World, article: int, first: int) -> int:
    count, bits, articles = 0, query.rules.scheme.block_bits, query.articles
    own = keys(articles.signatures[[article]], articles.scope_hashes[[article]])
    for lookup in query.plan[article if len(query.plan) > 1 else 0].tolist():
        table, mask = lookup >> bits, lookup & ((1 << bits) - 1)
        word = table // 4
        value = int(plain_blocks(table, bits, own[:, word])[0]) ^ mask
        words_before = world.keys[first : max(articles.before[article], first), word]
        earlier = int((plain_blocks(table, bits, words_before) == value).sum())
        count += min(earlier, query.rules.bucket_limit)
    return count


def numbered(near: Near, queries: int) -> Found:
    """The same shape; checks the order that is promised."""
    found: Found = [[] for _ in range(queries)]
    for query, doc_number, distance in zip(*(column.tolist() for column in near[:3]), strict=True):
        found[query].append((distance, doc_number))
    assert near.queries.tolist() == sorted(near.queries.tolist())
    assert found == [sorted(of_one) for of_one in found]
    return found


@dataclass(frozen=True)
class Case:
    """A query of the posting lists."""

    world: World
    lists: Lists
    query: Query


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Entries in runs, and queries of every kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = draw(st.sampled_from([4, 8, 16]))
    sketch_bytes = draw(st.sampled_from([0, 8, 16, 32]))
    form = sketch_bytes > FORM_BYTES and draw(st.booleans())
    world = make_world(rng, draw(st.integers(1, 120)), tables, draw(st.integers(0, 40)), sketch_bytes, form=form)
    n = len(world.rows)
    bits = draw(st.sampled_from(BLOCK_WIDTHS))
    lists = drawn_lists(rng, world, tables, bits)
    articles = rng.integers(0, n, draw(st.integers(0, 12)))
    probes = draw(st.none() | st.integers(1, 200)) if tables == 4 else draw(st.integers(1, 200))
    rules = search_rules(
        world,
        probes,
        bits=bits,
        form=form,
        window_ms=draw(st.sampled_from([None, QUERY_TIME])),
        bucket_limit=draw(st.sampled_from([1, 2, 5, 1000])),
        candidates=draw(st.sampled_from([None, 1, 3, 20, 1024])),
        **drawn_limits(draw, rng, bits, None if probes is None else 2 * sketch_bytes - 16 * form, form=form),
    )
    query = ask(
        world,
        articles,
        rules,
        statuses=rng.choice(np.array([Status.LONG, Status.LONG, Status.SHORT, Status.EXACT], np.uint8), len(articles)),
        before=rng.integers(0, n + 1, len(articles)) if draw(st.booleans()) else articles,
        times=QUERY_TIME + rng.integers(-40, 40, len(articles)),
    )
    own_ids = rng.integers(0, 5, len(articles)).astype(np.uint64) if draw(st.booleans()) else None
    query = replace(query, own_ids=own_ids, best=draw(st.sampled_from([1, 3, 8, 200])))
    lists.low_watermark = DocNumber(draw(st.integers(0, int(min(query.articles.before, default=0)))))
    return Case(world, lists, query)


def drawn_limits(
    draw: st.DrawFn, rng: np.random.Generator, bits: int, values: int | None, *, form: bool
) -> dict[str, int | None]:
    """Limits of directed search in sketches of so many values, or the distance of exact search."""
    if values is None:
        return {"distance": draw(st.integers(0, min(11, greatest_distance(bits))))}
    most = draw(st.sampled_from([0, 3, 11, 40, 64, 256]))
    limits: dict[str, int | None] = {name: int(rng.integers(0, most + 1)) for name in ("limit", "short_limit")}
    if values and draw(st.booleans()):
        limits |= {name: int(rng.integers(0, values + 1)) for name in ("min_equal", "short_min_equal", "far_min_equal")}
        limits |= {"certain": draw(st.sampled_from([None, 0, 5, 20])), "far": draw(st.sampled_from([0, 4, 12, 40]))}
    if form:
        limits["form_limit"] = draw(st.sampled_from([None, 0, 3, 11, 256]))
    return limits
