"""Each article's nearest earlier entry, for several lengths of the plan.

Each measured article is compared with every earlier entry of its group. For each length of the plan the nearest
entry that its look-ups reach is kept. One pass so gives the verdicts under all of these settings:

    with the first r look-ups of its plan and the limit L an article is a duplicate
    if and only if ``distances[article, r] <= L``

This holds because a near entry is one that a look-up reaches, that passes the sieve, that is among the newest entries
of the posting list, and that is within the limit; and because the match is the nearest entry, then the earliest. An
entry that the sketches rule out is near at no limit, and left out: beyond ``match.certain`` bits, and with another
number beyond ``match.far`` bits, one with too few equal values; beyond ``match.form_limit`` bits one of the same form
with other numbers. The bound on candidates, which decides in floods only, is ignored.

The work grows with the square of the entries; the caller bounds it by measuring fewer articles. Memory: some
200 bytes an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_dedup.calibrate.list_lengths import ListLengths
from stream_dedup.core import probes as core_probes
from stream_dedup.core.arrays import I64, U8, U16, U32, U64, Bools
from stream_dedup.core.fingerprint.sketch import equal_values, have_other_numbers, split
from stream_dedup.core.model import BLOCKS_PER_WORD, TABLE_MARGIN_BYTES, Status, signed
from stream_dedup.core.probes import SURE_SIEVE_BITS, WORD_SIEVE_BITS
from stream_dedup.core.progress import ReportProgress
from stream_dedup.core.rules import Rules, exact_radii, exact_steps

NOWHERE = np.iinfo(np.uint16).max
"""Distance where no entry is reached: above every limit."""
UNREACHED = np.iinfo(np.int32).max
"""Rank of an entry that no look-up finds."""
WORDS = 4
_STEP = 256
"""Articles whose plans are made at once, and between two progress reports."""


@dataclass(frozen=True, slots=True, eq=False)
class SignedEntries:
    """Entries with a signature, in order, as columns (see ``core.entry``)."""

    statuses: U8
    groups: U64
    signatures: U8
    margins: U8
    sketches: U8

    def __post_init__(self) -> None:
        """Refuse entries without a signature: they are near nothing."""
        if not signed(self.statuses).all():
            msg = "an entry without a signature is near nothing"
            raise ValueError(msg)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.statuses)


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The results for each measured article (rows) and each length of plan (columns; the last: every entry compared).

    ``queries`` are the articles' numbers among the entries. ``distances`` are in bits (``NOWHERE``: no entry
    is reached), ``matches`` are numbers of entries (-1: none). ``ranks`` are the least lengths of plan that
    reach the nearest entry of all, less one (``UNREACHED``: none does). ``compared`` counts the candidates of the
    look-ups (it lacks the last column). ``closest`` is the distance of the nearest entry whatever its sketch, ``equal``
    the number of equal values in the sketches of the two (``NOWHERE`` and 0: none is within the ceiling).
    """

    queries: I64
    distances: U16
    matches: I64
    ranks: NDArray[np.int32]
    compared: I64
    closest: U16
    equal: I64


class Pairs(NamedTuple):
    """An article and some earlier entries of its group: their numbers, and the XOR of their keys."""

    query: int
    others: I64
    differing: U64
    """Shape (others, 4)."""


class MeasuredSearch(Protocol):
    """The differences between exact and directed search."""

    width: int
    """Bits that a distance is over."""
    lengths: tuple[int, ...]
    """Lengths of the plan, rising: look-ups (directed) or numbers of the steps (exact). A step is an index of them."""

    def lookups(self, step: int) -> int:
        """Return the look-ups an article at this step."""

    def prepare(self, queries: I64) -> None:
        """Prepare for these articles, which are measured next."""

    def ranks(self, pairs: Pairs) -> NDArray[np.int32]:
        """Return the least length that reaches each pair, less one; ``UNREACHED`` where none does."""

    def compared(self, queries: I64) -> I64:
        """Return the number of candidates at each step, shape (queries, steps)."""

    def equal_values(self, query: int, others: I64) -> I64:
        """Return how many values of an article's sketch those of others share."""

    def confirmed(self, query: int, others: I64, distances: U16, equal: I64) -> Bools:
        """Return which others, at these distances and with these equal values, the sketches do not rule out."""


def measure(
    entries: SignedEntries, search: MeasuredSearch, queries: I64, ceiling: int, progress: ReportProgress
) -> Nearest:
    """Find the nearest earlier entries.

    Args:
        entries: all of them.
        search: the search whose steps are measured.
        queries: numbers of the articles to measure, rising.
        ceiling: greatest limit of interest: no step looks for entries beyond it.
        progress: called with the comparisons done and their total.
    """
    steps = len(search.lengths)
    near = Nearest(
        queries,
        np.full((len(queries), steps + 1), NOWHERE, np.uint16),
        np.full((len(queries), steps + 1), -1, np.int64),
        np.full(len(queries), UNREACHED, np.int32),
        np.zeros((len(queries), steps), np.int64),
        np.full(len(queries), NOWHERE, np.uint16),
        np.zeros(len(queries), np.int64),
    )
    words = core_probes.words(entries.signatures)[:, : search.width // 64]
    done, whole = 0, work(entries.groups, queries)
    for rows, members in _portions(entries.groups, queries):
        search.prepare(queries[rows])
        near.compared[rows] = search.compared(queries[rows])
        columns = np.ascontiguousarray(words[members].T)
        earlier = np.searchsorted(members, queries[rows])
        for row, count in zip(rows.tolist(), earlier.tolist(), strict=True):
            if count:
                _measure_one(near, row, members[:count], columns[:, : count + 1], search, ceiling)
        done += int(earlier.sum())
        progress(done, whole)
    return near


def work(groups: U64, queries: I64) -> int:
    """Return the number of comparisons that ``measure`` makes: each article with every earlier entry of its group."""
    _, kinds, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(kinds, kind="stable")
    earlier = np.empty(len(groups), np.int64)
    earlier[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return int(earlier[queries].sum())


def _portions(groups: U64, queries: I64) -> Iterator[tuple[I64, I64]]:
    """Yield rows of ``queries`` that are of one group, some at a time, with all entry numbers of that group."""
    _, kinds, counts = np.unique(groups, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(kinds, kind="stable"), np.cumsum(counts)[:-1])
    rows = np.argsort(kinds[queries], kind="stable")
    ends = np.cumsum(np.bincount(kinds[queries], minlength=len(counts)))[:-1]
    for numbers, own in zip(members, np.split(rows, ends), strict=True):
        for start in range(0, len(own), _STEP):
            yield own[start : start + _STEP], numbers


def _measure_one(near: Nearest, row: int, others: I64, columns: U64, search: MeasuredSearch, ceiling: int) -> None:
    """Fill one row; ``columns`` are the words of the other entries and, last, of the article."""
    differing = columns[:, :-1] ^ columns[:, -1:]
    distances = np.bitwise_count(differing).sum(axis=0, dtype=np.uint16)
    query, close = int(near.queries[row]), np.flatnonzero(distances <= ceiling)
    # Nearest first, then earliest: the nearest of all is at 0.
    close = close[np.argsort(distances[close], kind="stable")]
    if len(close):
        equal = search.equal_values(query, others[close])
        near.closest[row], near.equal[row] = distances[close[0]], equal[0]
        close = close[search.confirmed(query, others[close], distances[close], equal)]
    if not len(close):
        far = np.flatnonzero(distances > ceiling)
        close = far[distances[far].argmin(keepdims=True)] if len(far) else far
    if not len(close):
        return
    near.distances[row, -1], near.matches[row, -1] = distances[close[0]], others[close[0]]
    ranks = search.ranks(Pairs(query, others[close], differing[:, close].T))
    near.ranks[row] = ranks[0]
    # Of the entries so far, the least rank: it falls, so the first entry that a step reaches is found by bisection.
    falling = np.minimum.accumulate(ranks)
    at = np.searchsorted(-falling, -np.array(search.lengths), side="right")
    for step in np.flatnonzero(at < len(close)).tolist():
        found = close[at[step]]
        near.distances[row, step], near.matches[row, step] = distances[found], others[found]


class DirectedSearch:
    """Directed search: a step is a number of look-ups."""

    width = 256

    def __init__(self, entries: SignedEntries, rules: Rules, lengths: Sequence[int]) -> None:
        self.lengths = tuple(sorted(lengths))
        self._margins, self._rules = entries.margins, rules
        self._values, self._forms = split(entries.sketches, rules.scheme.form_bytes)
        self._least_equal = [rules.least_equal(status) for status in Status]
        self._far_least_equal = [rules.least_equal(status, rules.far_bits + 1) for status in Status]
        self._statuses = entries.statuses
        self._tables = entries.margins.shape[1] // TABLE_MARGIN_BYTES
        self._block_bits = rules.scheme.block_bits
        self._blocks = _blocks(entries, self._tables, self._block_bits)
        self._lists = ListLengths(self._blocks, self._block_bits)
        self._plans: dict[int, U32] = {}
        self._sure: dict[int, U64] = {}

    def lookups(self, step: int) -> int:
        """Return the length of the step."""
        return self.lengths[step]

    def prepare(self, queries: I64) -> None:
        """Make the plans, and find the sure bits where the sieve asks for them."""
        plans = core_probes.directed(self._margins[queries], self.lengths[-1], self._block_bits)
        self._plans = dict(zip(queries.tolist(), plans, strict=True))
        if self._rules.sieves_sure_bits:
            self._sure = dict(zip(queries.tolist(), core_probes.sure_masks(self._margins[queries]), strict=True))

    def ranks(self, pairs: Pairs) -> NDArray[np.int32]:
        """Return the least rank over the tables where the sieve passes the entry and it is among the newest."""
        plan = self._plans[pairs.query]
        order = np.argsort(plan).astype(np.int32)
        ascending = plan[order]
        least = np.full(len(pairs.others), UNREACHED, np.int32)
        for table in range(self._tables):
            lookups = np.uint32(table << self._block_bits) | _block(pairs.differing, table, self._block_bits)
            at = np.minimum(np.searchsorted(ascending, lookups), len(plan) - 1)
            ranks = np.where(ascending[at] == lookups, order[at], UNREACHED).astype(np.int32)
            held = self._held(pairs.query, pairs.differing[:, table // BLOCKS_PER_WORD], table // BLOCKS_PER_WORD)
            ranks[held | _overtaken(self._lists, table, self._blocks, pairs, self._rules.bucket_limit)] = UNREACHED
            np.minimum(least, ranks, out=least)
        return least

    def _held(self, query: int, differing: U64, word: int) -> Bools:
        """Return which of these differing words the sieve holds."""
        if query not in self._sure:
            return np.asarray(np.bitwise_count(differing) > WORD_SIEVE_BITS)
        once, twice = np.bitwise_count(differing & self._sure[query][word][:, np.newaxis])
        return np.asarray(once + twice > SURE_SIEVE_BITS)

    def compared(self, queries: I64) -> I64:
        """Return the sums of candidates over the beginnings of the plans."""
        plans = np.stack([self._plans[query] for query in queries.tolist()])
        own = self._blocks[queries[:, np.newaxis], plans >> self._block_bits]
        met = np.minimum(self._lists.sizes(plans ^ own, queries[:, np.newaxis]), self._rules.bucket_limit)
        return np.cumsum(met, axis=1)[:, np.array(self.lengths) - 1]

    def equal_values(self, query: int, others: I64) -> I64:
        """Return how many values of an article's sketch those of others share."""
        return equal_values(self._values[query], self._values[others])

    def confirmed(self, query: int, others: I64, distances: U16, equal: I64) -> Bools:
        """Return which have enough equal values or are certain, and are within the limit of other numbers."""
        rules, status = self._rules, int(self._statuses[query])
        least = np.where(distances > rules.far_bits, self._far_least_equal[status], self._least_equal[status])
        enough = np.asarray((equal >= least) | (distances <= rules.certain_bits))
        if self._rules.form_limit is None:
            return enough
        return enough & (
            (distances <= self._rules.form_limit) | ~have_other_numbers(self._forms[query], self._forms[others])
        )


class ExactSearch:
    """Exact search: a step is a plan, those of ``rules.exact_steps`` in their order."""

    width = 64

    def __init__(self, entries: SignedEntries, rules: Rules) -> None:
        self._limit = rules.bucket_limit
        self._block_bits = rules.scheme.block_bits
        self._blocks = _blocks(entries, BLOCKS_PER_WORD, self._block_bits)
        self._lists = ListLengths(self._blocks, self._block_bits)
        self._distances = exact_steps(self._block_bits)
        self.lengths = tuple(range(1, len(self._distances) + 1))
        self._radii = np.array([exact_radii(k, self._block_bits) for k in self._distances])

    def lookups(self, step: int) -> int:
        """Return the look-ups of the step: 4, 68 or 548 in blocks of 16 bits."""
        return int(core_probes.exact_plan(self._distances[step], self._block_bits).shape[1])

    def prepare(self, queries: I64) -> None:
        """Do nothing: the plan is the same for all articles."""

    def ranks(self, pairs: Pairs) -> NDArray[np.int32]:
        """Return the first step that reads a posting list which has the entry among its newest."""
        least = np.full(len(pairs.others), UNREACHED, np.int32)
        for table, radii in enumerate(self._radii.T):
            differing = np.bitwise_count(_block(pairs.differing, table, self._block_bits))
            ranks = np.searchsorted(radii, differing).astype(np.int32)  # the radii rise from step to step
            ranks[ranks == len(radii)] = UNREACHED
            ranks[_overtaken(self._lists, table, self._blocks, pairs, self._limit)] = UNREACHED
            np.minimum(least, ranks, out=least)
        return least

    def compared(self, queries: I64) -> I64:
        """Return the sums of candidates over the plans."""
        sums = []
        for step in range(len(self.lengths)):
            plan = core_probes.exact_plan(self._distances[step], self._block_bits)
            own = self._blocks[queries[:, np.newaxis], plan >> self._block_bits]
            sizes = self._lists.sizes(plan ^ own, queries[:, np.newaxis])
            sums.append(np.minimum(sizes, self._limit).sum(axis=1))
        return np.stack(sums, axis=1)

    def equal_values(self, query: int, others: I64) -> I64:  # noqa: ARG002 - as the other search's
        """Return 0 for each: exact search compares no sketches."""
        return np.zeros(len(others), np.int64)

    def confirmed(self, query: int, others: I64, distances: U16, equal: I64) -> Bools:  # noqa: ARG002 - as the other search's
        """Return that all are."""
        return np.ones(len(others), np.bool_)


def _blocks(entries: SignedEntries, tables: int, block_bits: int) -> U32:
    """Return the blocks of the keys, shape (entries, tables): the values of the posting lists."""
    keys = core_probes.keys(entries.signatures, entries.groups)[:, : tables // BLOCKS_PER_WORD]
    return core_probes.blocks(keys.reshape(-1), block_bits).reshape(-1, tables)


def _block(differing: U64, table: int, block_bits: int) -> U32:
    return core_probes.block_of(differing[:, table // BLOCKS_PER_WORD], table, block_bits)


def _overtaken(lists: ListLengths, table: int, blocks: U32, pairs: Pairs, limit: int) -> NDArray[np.bool_] | bool:
    """Return which entries are no longer among the newest of their posting list as of the article."""
    if lists.longest <= limit:
        return False
    until = np.full(len(pairs.others), pairs.query, np.int64)
    newer: NDArray[np.bool_] = lists.between(table, blocks[pairs.others, table], pairs.others, until) > limit
    return newer
