"""The look-up of ``scan`` in NumPy: what serves where numba is not installed, and what the compiled one must equal.

A batch's look-ups are sorted by list, so that those of one source are neighbours; then source by source the
entries are compared in portions of at most ``PORTION`` candidates, and what passes is checked in
portions as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.probes import BLOCK_BITS, BLOCKS, SIEVE_BITS
from stream_dedup.index.scan import (
    DISTANCE_SHIFT,
    FETCH_ROWS,
    I64,
    NO_RANK,
    ORDINAL,
    ROW_GROUP,
    ROW_ID,
    ROW_TIME,
    U64,
    Asked,
    Best,
    Fetch,
    Level,
    Lists,
    Near,
    Rows,
    Source,
)

PORTION = 1 << 18
"""Candidates compared, and look-ups prepared, in one vectorised step: about 10 MB of scratch memory."""


def scan(asked: Asked, lists: Lists, rows: Rows | Fetch) -> Near:
    """As ``scan.scan``."""
    best = Best.of(asked)
    check = _Check(asked, rows, best)
    step = max(1, PORTION // asked.plan.shape[1])
    for start in range(0, len(asked), step):
        lookups = _lookups(asked, lists, np.arange(start, min(start + step, len(asked))))
        best.tally.lists += len(lookups.queries)
        for queries, table, source, entries in lookups.candidates():
            best.tally.candidates += len(queries)
            check.add(queries, source.keys[entries] ^ asked.keys[queries, table // BLOCKS], source.ordinals[entries])
    check.finish()
    return best.near()


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """One source, and which look-ups (sorted by list) are of its blocks."""

    table: int
    level: int
    source: Source
    part: slice


@dataclass(frozen=True, slots=True, eq=False)
class _Lookups:
    """Look-ups sorted by list: whose they are, and where in each level's source the entries to compare stand."""

    queries: I64
    starts: I64
    """Shape (levels, look-ups)."""
    ends: I64
    held: list[_Held]

    def candidates(self) -> Iterator[tuple[I64, int, Source, I64]]:
        """Queries, table, source and entries in it, in bounded portions."""
        for held in self.held:
            starts = self.starts[held.level, held.part]
            counts = self.ends[held.level, held.part] - starts
            for at, entries in _pairs(starts, counts):
                yield self.queries[held.part][at], held.table, held.source, entries


def _lookups(asked: Asked, lists: Lists, numbers: I64) -> _Lookups:
    plan = asked.plan if len(asked.plan) == 1 else asked.plan[numbers]
    plan = np.broadcast_to(plan, (len(numbers), plan.shape[1]))
    tables = (plan >> np.uint32(BLOCK_BITS)).astype(np.int64)
    words = asked.keys[numbers[:, np.newaxis], tables // BLOCKS]
    shifts = (BLOCKS - 1 - tables % BLOCKS) * BLOCK_BITS
    blocks = (words >> shifts.astype(np.uint64)).astype(np.uint16) ^ plan.astype(np.uint16)
    wanted = (tables << BLOCK_BITS | blocks).ravel()
    order = np.argsort(wanted, kind="stable")
    wanted, queries = wanted[order], numbers[order // plan.shape[1]]
    levels = len(lists.tables[0])
    starts, ends = np.zeros((levels, len(wanted)), np.int64), np.zeros((levels, len(wanted)), np.int64)
    held = []
    for one in _held(lists, wanted):
        own = wanted[one.part] - (one.table << BLOCK_BITS) - one.source.first
        starts[one.level, one.part], ends[one.level, one.part] = one.source.starts[own], one.source.starts[own + 1]
        held.append(one)
    _limit(asked, queries, starts, ends, held)
    return _Lookups(queries, starts, ends, held)


def _held(lists: Lists, wanted: I64) -> Iterator[_Held]:
    for table, levels in enumerate(lists.tables):
        for number, level in enumerate(levels):
            yield from _held_in(table, number, level, wanted)


def _held_in(table: int, number: int, level: Level, wanted: I64) -> Iterator[_Held]:
    for source in level.sources:
        first = (table << BLOCK_BITS) + source.first
        start, end = np.searchsorted(wanted, (first, first + source.blocks)).tolist()
        if start < end and len(source.keys):
            yield _Held(table, number, source, slice(start, end))


def _limit(asked: Asked, queries: I64, starts: I64, ends: I64, held: list[_Held]) -> None:
    """Of lists longer than the bucket limit leave the newest entries as of the query, over all levels."""
    long = (ends - starts).sum(axis=0) > asked.bucket_limit
    left = np.where(long, asked.bucket_limit, 0)
    for one in sorted(held, key=lambda one: -one.level):
        for at in (np.flatnonzero(long[one.part]) + one.part.start).tolist():
            start, end = int(starts[one.level, at]), int(ends[one.level, at])
            end = start + int(np.searchsorted(one.source.ordinals[start:end], int(asked.before[queries[at]])))
            ends[one.level, at] = end
            starts[one.level, at] = max(start, end - int(left[at]))
            left[at] -= end - starts[one.level, at]


def _pairs(starts: I64, counts: I64) -> Iterator[tuple[I64, I64]]:
    """Every (index, entry) where ``counts[index]`` entries from ``starts[index]`` on are wanted, in portions."""
    ends = np.cumsum(counts)
    shifts = starts - (ends - counts)
    total = int(ends[-1])
    for first in range(0, total, PORTION):
        after = min(first + PORTION, total)
        here = slice(*np.searchsorted(ends, (first, after - 1), "right").tolist())
        here = slice(here.start, here.stop + 1)
        within = np.minimum(ends[here], after) - np.maximum(ends[here] - counts[here], first)
        at = np.repeat(np.arange(here.start, here.stop), within)
        yield at, np.arange(first, after) + shifts[at]


class _Check:
    """Gathers what passes the sieve, and checks it against the rows."""

    def __init__(self, asked: Asked, rows: Rows | Fetch, best: Best) -> None:
        self._asked = asked
        self._rows = rows
        self._best = best
        self._words = asked.words
        self._waiting: list[tuple[I64, I64]] = []
        self._count = 0

    def add(self, queries: I64, differing: U64, ordinals: NDArray[np.uint32]) -> None:
        """Candidates: their queries, the differing bits of their keys, their ordinals."""
        asked = self._asked
        distances = np.bitwise_count(differing)
        within = np.flatnonzero(distances <= (SIEVE_BITS if asked.directed else asked.reach[queries]))
        queries, ordinals = queries[within], ordinals[within].astype(np.int64)
        ranks = distances[within].astype(np.int64) << DISTANCE_SHIFT | ordinals
        counts = (ordinals < asked.before[queries]) & (ordinals >= asked.floor)
        # A distance over more bits is no smaller: what comes behind the last of the best now cannot come before it.
        counts &= ranks < self._best.ranks[queries, -1]
        self._waiting.append((queries[counts], ranks[counts]))
        self._count += int(counts.sum())
        if self._count >= FETCH_ROWS:
            self.finish()

    def finish(self) -> None:
        """Check everything that waits."""
        if not self._count:
            return
        queries, ranks = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting, self._count = [], 0
        for start in range(0, len(queries), FETCH_ROWS):
            part = slice(start, start + FETCH_ROWS)
            self._check(queries[part], ranks[part])

    def _check(self, queries: I64, ranks: I64) -> None:
        possible = ranks < self._best.ranks[queries, -1]
        queries, ranks = queries[possible], ranks[possible]
        if not len(queries):
            return
        ordinals = ranks & ORDINAL
        rows = self._fetch(ordinals)
        asked = self._asked
        counts = rows[:, ROW_GROUP] == asked.groups[queries]
        if asked.oldest is not None:
            counts &= rows[:, ROW_TIME].view(np.int64) >= asked.oldest[queries]
        if asked.own_ids is not None:
            counts &= rows[:, ROW_ID] == asked.own_ids[queries]
        if asked.directed:
            differing = rows[:, :BLOCKS] ^ self._words[queries]
            distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
            counts &= distances <= asked.reach[queries]
            ranks = distances << DISTANCE_SHIFT | ordinals
        _keep(self._best.ranks, queries[counts], ranks[counts])

    def _fetch(self, ordinals: I64) -> U64:
        if isinstance(self._rows, Rows):
            return self._rows.take(ordinals)
        distinct, at = np.unique(ordinals, return_inverse=True)
        return self._rows(distinct)[at]


def _keep(best: I64, queries: I64, ranks: I64) -> None:
    """Merge found ranks into the best of their queries, each once."""
    if not len(queries):
        return
    touched = np.unique(queries)
    width = best.shape[1]
    queries = np.concatenate((np.repeat(touched, width), queries))
    ranks = np.concatenate((best[touched].ravel(), ranks))
    order = np.lexsort((ranks, queries))
    queries, ranks = queries[order], ranks[order]
    first = np.ones(len(order), bool)
    first[1:] = (ranks[1:] != ranks[:-1]) | (queries[1:] != queries[:-1])
    queries, ranks = queries[first], ranks[first]
    at = np.arange(len(queries)) - np.searchsorted(queries, queries)
    best[touched] = NO_RANK
    best[queries[at < width], at[at < width]] = ranks[at < width]
