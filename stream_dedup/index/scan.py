"""The look-up: the near entries of a batch of articles in the posting lists of the block tables.

``query`` says what counts. This file prepares the arrays that the compiled functions (``scan_kernel``) take, and lets
them run by turns with the fetching of rows. Scratch memory is bounded whatever the lists hold; the time that an article
of a flood costs is bounded by ``Query.candidates``.

1. Compare the keys of every posting list with the article's, in the order that ``query`` says; what passes the sieve
   waits.
2. Read the document numbers of what waits; drop what is beyond the bound, and what cannot be among the best any more.
3. Check the rest against their rows, held in memory or fetched; count what may match, and keep the best.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64
from stream_dedup.core.plain_batches import load_batch_kernel
from stream_dedup.core.probes import ALL_BITS, SURE_SIEVE_BITS, WORD_SIEVE_BITS, load_plan_kernel
from stream_dedup.index.layout import SKETCH_WORD, RowArray, RowType, row_type
from stream_dedup.index.posting_lists import PostingLists
from stream_dedup.index.query import Near, Query
from stream_dedup.index.row_chunks import Fetch, RowChunks
from stream_dedup.index.scan_records import (
    ARTICLE,
    CURSOR,
    DISTANCE_SHIFT,
    DOC_NUMBER,
    GROUP,
    LOOKUPS_AT_ONCE,
    NO_BOUND,
    NO_RANK,
    SPAN,
    WAITING,
)

log = logging.getLogger(__name__)

FETCH_ROWS = 1 << 14
"""Rows fetched at once where they are not held in memory: 1 MiB."""
WAITING_ROWS = 2048
"""Candidates collected at once, and checked at once where their rows are in memory. With a bound they are checked at
once in any case, so that the bound is known."""

NOTED_GROUPS = 256
"""Groups of keys with candidates that are noted at once, before any of their document numbers is read: 8 KiB."""

NEVER = -(1 << 62)
"""Log time before every other: nothing has expired."""


def scan(query: Query, lists: PostingLists, rows: RowChunks | RowArray | Fetch) -> Near:
    """Return the near entries of each article of a query.

    Args:
        query: the articles.
        lists: where entries are looked up.
        rows: of every entry; or a function that fetches them in bulk, ``FETCH_ROWS`` at most, called as rarely as
            memory allows.

    Raises:
        ValueError: rows are missing of document numbers that exist for an article, or have other sketches; or lists
            have other blocks than the plan.
    """
    _refuse_other_blocks(query, lists)
    if isinstance(rows, np.ndarray):
        rows = RowChunks.of(rows)
    if isinstance(rows, RowChunks) and len(query):
        if rows.chunks:
            _refuse_other_sketches(query, rows.kind)
        first, end = query.low_watermark, int(query.before.max())
        if not rows.base <= first <= end <= rows.end:
            msg = f"rows of {rows.base} to {rows.end} are held, the query needs {first} to {end}"
            raise ValueError(msg)
    return _Scan(query, lists, rows).near()


def _refuse_other_blocks(query: Query, lists: PostingLists) -> None:
    """Refuse a plan of blocks of another width, or of tables that are not there.

    Raises:
        ValueError: the kernel would read other lists, or beyond a directory.
    """
    last = int(query.plan.max(initial=0)) >> query.block_bits
    if lists.block_bits not in {None, query.block_bits} or last >= max(len(lists.tables), 1):
        msg = (
            f"query of blocks of {query.block_bits} bits in tables 0 to {last}: the lists have blocks of "
            f"{lists.block_bits} bits in {len(lists.tables)} tables"
        )
        raise ValueError(msg)


def _refuse_other_sketches(query: Query, kind: RowType) -> None:
    """Refuse rows whose sketches are not as wide as those of the query, if it has any.

    Raises:
        ValueError: the kernel would read beyond a row.
    """
    if query.sketches is not None and kind != row_type(query.sketches.shape[1] * SKETCH_WORD.itemsize):
        msg = f"rows: of {kind.itemsize} bytes, which have no sketches of {query.sketches.shape[1]} words"
        raise ValueError(msg)


def warm() -> None:
    """Compile now, or load what was compiled, so that no article waits for it: seconds the first time.

    The batches of a log are also decoded together from now on (``plain_batches``).
    """
    load_batch_kernel()
    load_plan_kernel()
    _load_kernel()


@cache
def _load_kernel() -> ModuleType:
    """Load the compiled functions; says once where their machine code cannot be kept for the next start."""
    from stream_dedup.core.kept_code import not_kept  # noqa: PLC0415 - loads the compiler
    from stream_dedup.index import scan_kernel  # noqa: PLC0415 - the same

    if not_kept:
        log.warning(
            "the search is compiled anew at each start, which takes some seconds: its machine code cannot be kept "
            "(%s); let NUMBA_CACHE_DIR name a folder that can be written",
            not_kept[0],
        )
    return scan_kernel


class _Scan:
    """The query as the compiled functions take it, and scratch memory."""

    def __init__(self, query: Query, lists: PostingLists, rows: RowChunks | Fetch) -> None:
        self._kernel = _load_kernel()
        self._rows, self._floor = rows, query.low_watermark
        self._query, self._articles = query, _articles(query)
        self._plan, self._directory = np.ascontiguousarray(query.plan), lists.directory
        self._directed = query.directed
        self._withdrawn = np.ascontiguousarray(query.withdrawn)
        # One more: a part that is not kept is overwritten.
        parts = min(query.plan.shape[1], LOOKUPS_AT_ONCE) * lists.runs + 1
        found = (np.empty(len(lists.tables), np.int64), np.empty(parts, np.int64), np.empty(parts, SPAN))
        self._room = (found, np.empty(NOTED_GROUPS + 1, GROUP))  # one more for the same reason
        few = isinstance(rows, RowChunks) or query.candidates is not None
        self._waiting = np.empty(WAITING_ROWS if few else FETCH_ROWS, WAITING)
        self._cursor = np.zeros(1, CURSOR)
        self._seen = np.full(_slots(query.candidates), -1, np.int64)
        self._best = np.full((len(query), query.best), NO_RANK, np.int64)

    def near(self) -> Near:
        """Run the steps until every posting list was compared."""
        if isinstance(self._rows, RowChunks):
            self._scan_held(self._rows)
        else:
            self._scan_fetched(self._rows)
        queries, at = np.nonzero(self._best != NO_RANK)
        ranks = self._best[queries, at]
        doc_numbers, distances = ranks & DOC_NUMBER, (ranks >> DISTANCE_SHIFT).astype(np.uint16)
        return Near(queries, doc_numbers, distances, int(self._cursor["lists"][0]), int(self._cursor["candidates"][0]))

    def _scan_held(self, rows: RowChunks) -> None:
        asked = (self._articles, self._plan, self._directory, self._query.block_bits, self._withdrawn)
        scratch = (self._room, self._cursor, self._waiting, self._seen, self._best)
        held = (rows.addresses, rows.chunk_bits, rows.base, rows.kind.itemsize)
        self._kernel.scan_held(asked, scratch, held, self._floor, self._directed)

    def _scan_fetched(self, fetch: Fetch) -> None:
        waits = 0
        while count := self._collect(self._waiting[waits : waits + WAITING_ROWS]):
            # 2
            waits += self._kernel.resolve(self._waiting[waits : waits + count], self._articles, self._floor, self._best)
            # 3
            if waits + WAITING_ROWS > len(self._waiting):
                self._check(self._waiting[:waits], fetch)
                waits = 0
        self._check(self._waiting[:waits], fetch)

    def _collect(self, waiting: NDArray[Any]) -> int:
        """Step 1: how many candidates wait; 0 when everything was compared."""
        count: int = self._kernel.collect(
            self._articles, self._plan, self._directory, self._query.block_bits, self._room, self._cursor, waiting
        )
        return count

    def _check(self, waiting: NDArray[Any], fetch: Fetch) -> None:
        if not len(waiting):
            return
        distinct, at = np.unique(waiting["at"], return_inverse=True)
        rows = np.ascontiguousarray(fetch(distinct))  # held until the check is done
        _refuse_other_sketches(self._query, rows.dtype)
        waiting["at"] = rows.__array_interface__["data"][0] + at * rows.itemsize
        self._kernel.check(waiting, self._articles, self._withdrawn, self._directed, self._seen, self._best)


def _slots(candidates: int | None) -> int:
    """Return the size of the table that notes the candidates of an article: at most half full; 0 without a bound."""
    return 0 if candidates is None else 1 << (2 * candidates - 1).bit_length()


def _sieve(query: Query) -> int | I64:
    """Return how many bits may differ at most before an entry's row is read."""
    if not query.directed:
        return query.reach
    return WORD_SIEVE_BITS if query.sure is None else SURE_SIEVE_BITS


def _articles(query: Query) -> NDArray[Any]:
    """Return the articles of a query as records."""
    articles = np.zeros(len(query), ARTICLE)
    articles["keys"], articles["words"], articles["group"] = query.keys, query.words, query.groups
    if query.own_ids is not None:
        articles["own_id"], articles["own_id_mask"] = query.own_ids, np.iinfo(np.uint64).max
    articles["before"], articles["reach"] = query.before, query.reach
    articles["oldest"] = NEVER if query.oldest is None else query.oldest
    articles["sieve"] = _sieve(query)
    articles["sure"] = ALL_BITS
    if query.sure is not None:
        articles["sure"][:, : query.sure.shape[1]] = query.sure
    articles["limit"] = query.bucket_limit
    if query.sketches is not None:
        words = query.sketches.shape[1] - query.form_words
        articles["sketch"][:, :words], articles["sketch_words"] = query.sketches[:, :words], words
        articles["least_equal"], articles["certain"] = query.least_equal, query.certain
        articles["far"], articles["far_equal"] = query.far, query.far_equal
        if query.form_words:
            articles["form"], articles["form_limit"] = query.sketches[:, words], query.form_limit
    articles["room"] = NO_BOUND if query.candidates is None else query.candidates
    return articles
