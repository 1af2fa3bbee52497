"""Each article's nearest earlier entry, for several lengths of the plan.

Each measured article is compared with every earlier entry of its scope. For each length of the plan the nearest
entry that its look-ups reach is kept. One pass so gives the verdicts under all of these settings:

    with the first r look-ups of its plan and the limit L an article is a duplicate
    if and only if ``distances[article, r] <= L``

This holds because a near entry is one that a look-up reaches, that passes the sieve, and that is within the limit; and
because the match is the nearest entry, then the earliest. An entry that the sketches rule out is near at no limit, and
left out: beyond ``certain`` bits, and with another number beyond ``far`` bits, one with too few equal values; beyond
``form_limit`` bits one of the same form with other numbers. The bounds on the entries of a posting list and on
candidates are ignored: they decide in floods only, where the newest entries are as near as the older ones.

The work grows with the square of the entries; the caller bounds it by measuring fewer articles. Memory: some
200 bytes an entry, and 32 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import probes
from stream_dedup.core.arrays import I32, I64, U16, U32, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import BLOCKS_PER_WORD, FINGERPRINT_BITS, SIGNATURE_BITS, ReportProgress, signed
from stream_dedup.core.near import NO_PLACE, PairCheck, PairTexts
from stream_dedup.core.rules import Rules, exact_steps

NOWHERE = np.iinfo(np.uint16).max
"""Distance where no entry is reached: above every limit."""
_DISTANCES = 1 << 24
"""Distances that are computed at once, 2 bytes each: more of them share the copying of the entries' signatures."""
_STEP = 256
"""Articles whose plans are made at once, and between two progress reports."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The results for each measured article (rows) and each length of plan (columns; the last: every entry compared).

    ``queries`` are the articles' numbers among the entries. ``distances`` are in bits (``NOWHERE``: no entry
    is reached), ``matches`` are numbers of entries (-1: none). ``ranks`` are the least lengths of plan that
    reach the nearest entry of all, less one (``NO_PLACE``: none does). ``compared`` counts the entries in the posting
    lists that the look-ups read, once all are logged (it lacks the last column). ``closest`` is the distance of the
    nearest entry whatever its sketch, ``equal`` the number of equal values in the sketches of the two (``NOWHERE`` and
    0: none is within the ceiling).
    """

    queries: I64
    distances: U16
    matches: I64
    ranks: I32
    compared: I64
    closest: U16
    equal: I64


class MeasuredSearch:
    """A search that is measured at several lengths of its plans, rising; a step is an index of these ``lengths``.

    In exact search they are those of ``rules.exact_steps``. Each of these plans has all look-ups of the one before, so
    one plan, in the order of the steps, has them all.
    """

    def __init__(self, entries: Columns, rules: Rules, lengths: Sequence[int] = ()) -> None:
        """Measure directed search at these lengths; exact search has its own. Every entry must have a signature."""
        if not signed(entries.statuses).all():
            raise ValueError("an entry without a signature is near nothing")
        self.texts = PairTexts.of(entries.signatures, entries.sketches)
        self.check = PairCheck(rules)
        self.width = SIGNATURE_BITS if rules.directed else FINGERPRINT_BITS
        """Bits that a distance is over."""
        self._rules = rules
        self._statuses, self._margins = entries.statuses, entries.margins
        self._dominated = self.check.dominated(entries.statuses, entries.margins)
        tables, self._block_bits = rules.scheme.tables, rules.scheme.block_bits
        keys = probes.keys(entries.signatures, entries.scope_hashes)[:, : tables // BLOCKS_PER_WORD]
        self._blocks = probes.blocks(keys.reshape(-1), self._block_bits).reshape(-1, tables)
        self._sorted = np.sort(self._blocks.T, axis=1)
        self._prepared: dict[int, tuple[U32, U64]] = {}
        steps = [probes.exact_plan(k, self._block_bits)[0] for k in exact_steps(self._block_bits)]
        self.lengths = tuple(sorted(lengths)) if rules.directed else tuple(map(len, steps))
        every = np.concatenate(steps)
        self._exact_plan = every[np.sort(np.unique(every, return_index=True)[1])]

    def prepare(self, queries: I64) -> None:
        """Make the plans of these articles, which are measured next, and the masks of their sieves."""
        plans, masks = self._plans(queries), self.check.masks(self._margins[queries])
        self._prepared = dict(zip(queries.tolist(), zip(plans, masks, strict=True), strict=True))

    def accounts(self, query: int, others: I64, reach: int) -> NDArray[np.void]:
        """Return the accounts of an article with others, as if this were the limit of every kind of text."""
        own = np.array([query])
        return self.check.accounts(
            self._statuses[own], self._dominated[own], self.texts.rows(own), self.texts.rows(others), reach
        )

    def ranks(self, query: int, others: I64) -> I32:
        """Return the least length of the plan that reaches each of the others, less one; ``NO_PLACE`` where none does.

        A look-up reaches an entry of its posting list that the sieve passes. In exact search the sieve is the limit,
        whichever that is.
        """
        plan, masks = self._prepared[query]
        own, words = np.array([query]), len(masks)
        met = self.check.meetings(
            self._statuses[own],
            self.texts.words[own, :words],
            self.texts.words[others, :words],
            masks,
            plan[np.newaxis],
        )
        least: I32 = (met.found if self._rules.directed else met.places).min(axis=1)
        return least

    def compared(self, queries: I64) -> I64:
        """Return the number of entries in the posting lists read up to each step, shape (queries, steps)."""
        plans = np.stack([self._prepared[query][0] for query in queries.tolist()])
        tables = plans >> self._block_bits
        values = (plans ^ self._blocks[queries[:, np.newaxis], tables]) & (1 << self._block_bits) - 1
        sizes = np.empty(plans.shape, np.int64)
        for table, ordered in enumerate(self._sorted):
            of_table = values[tables == table]
            sizes[tables == table] = np.searchsorted(ordered, of_table, "right") - np.searchsorted(ordered, of_table)
        return np.cumsum(np.minimum(sizes, self._rules.bucket_limit), axis=1)[:, np.array(self.lengths) - 1]

    def _plans(self, queries: I64) -> U32:
        if self._rules.directed:
            return probes.directed(self._margins[queries], self.lengths[-1], self._block_bits)
        return np.broadcast_to(self._exact_plan, (len(queries), len(self._exact_plan)))


def measure(entries: Columns, search: MeasuredSearch, queries: I64, ceiling: int, progress: ReportProgress) -> Nearest:
    """Find the nearest earlier entries of the articles with these numbers, rising.

    No step of the search looks for entries beyond ``ceiling``, the greatest limit of interest.
    """
    steps = len(search.lengths)
    near = Nearest(
        queries,
        np.full((len(queries), steps + 1), NOWHERE, np.uint16),
        np.full((len(queries), steps + 1), -1, np.int64),
        np.full(len(queries), NO_PLACE, np.int32),
        np.zeros((len(queries), steps), np.int64),
        np.full(len(queries), NOWHERE, np.uint16),
        np.zeros(len(queries), np.int64),
    )
    done, whole = 0, work(entries.scope_hashes, queries)
    for rows, members in _portions(entries.scope_hashes, queries):
        search.prepare(queries[rows])
        near.compared[rows] = search.compared(queries[rows])
        earlier = np.searchsorted(members, queries[rows])
        distances = _distances(search, queries[rows], members[: earlier.max()])
        for row, count, from_all in zip(rows.tolist(), earlier.tolist(), distances, strict=True):
            if count:
                _measure_one(near, row, members[:count], from_all[:count], search, ceiling)
        done += int(earlier.sum())
        progress(done, whole)
    return near


def work(scope_hashes: U64, queries: I64) -> int:
    """Return the number of comparisons that ``measure`` makes: each article with every earlier entry of its scope."""
    _, kinds, counts = np.unique(scope_hashes, return_inverse=True, return_counts=True)
    order = np.argsort(kinds, kind="stable")
    earlier = np.empty(len(scope_hashes), np.int64)
    earlier[order] = np.arange(len(scope_hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return int(earlier[queries].sum())


def _portions(scope_hashes: U64, queries: I64) -> Iterator[tuple[I64, I64]]:
    """Yield rows of ``queries`` that are of one scope, some at a time, with all entry numbers of that scope."""
    _, kinds, counts = np.unique(scope_hashes, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(kinds, kind="stable"), np.cumsum(counts)[:-1])
    rows = np.argsort(kinds[queries], kind="stable")
    ends = np.cumsum(np.bincount(kinds[queries], minlength=len(counts)))[:-1]
    for numbers, own in zip(members, np.split(rows, ends), strict=True):
        for start in range(0, len(own), _STEP):
            yield own[start : start + _STEP], numbers


def _distances(search: MeasuredSearch, queries: I64, others: I64) -> Iterator[U16]:
    """Yield the distances of each article from the others."""
    words = search.texts.words[others]
    step = max(1, _DISTANCES // max(1, len(others)))
    for start in range(0, len(queries), step):
        yield from search.check.distances(search.texts.words[queries[start : start + step]], words)


def _measure_one(near: Nearest, row: int, others: I64, distances: U16, search: MeasuredSearch, ceiling: int) -> None:
    """Fill one row; ``distances`` are those of the other entries from the article."""
    query, close = int(near.queries[row]), np.flatnonzero(distances <= ceiling)
    # Nearest first, then earliest: the nearest of all is at 0.
    close = close[np.argsort(distances[close], kind="stable")]
    if len(close):
        accounts = search.accounts(query, others[close], ceiling)
        near.closest[row], near.equal[row] = distances[close[0]], accounts["equal"][0]
        close = close[accounts["near"]]
    if not len(close):
        far = np.flatnonzero(distances > ceiling)
        close = far[distances[far].argmin(axis=0, keepdims=True)] if len(far) else far
    if not len(close):
        return
    near.distances[row, -1], near.matches[row, -1] = distances[close[0]], others[close[0]]
    ranks = search.ranks(query, others[close])
    near.ranks[row] = ranks[0]
    # Of the entries so far, the least rank: it falls, so the first entry that a step reaches is found by bisection.
    falling = np.minimum.accumulate(ranks)
    at = np.searchsorted(-falling, -np.array(search.lengths), side="right")
    for step in np.flatnonzero(at < len(close)).tolist():
        found = close[at[step]]
        near.distances[row, step], near.matches[row, step] = distances[found], others[found]
