"""The look-up of ``scan``, compiled. Needs numba.

Query by query the bounds of its lists are read, then their key words compared; what passes the sieve waits, and
is checked against its row some hundred candidates at a time. A look-up is mostly waiting for memory,
so addresses are asked for (``prefetch``) a step before they are read.

Arrays that make up the lists are read by address (``Lists.directory``): a tuple of so many would be unpacked at
every call. Their owner checked their types and ends, ``scan.scan`` checked that every ordinal has a row. Numbers
are int64 and words uint64: mixed they would become floats.

Steps, one compiled function each:

1. ``_collect``: compare keys; fills ``waiting`` with (query, distance, address of the ordinal), and stops when it is
   full; the cursor says where to go on.
2. ``_resolve``: read ordinals; leaves (query, rank, ordinal) of those that can still be among the best.
3. ``_check``: compare with the rows, whose addresses are now in the third column, and keep the best.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, int64, uint32, uint64, void

from stream_dedup.core.kernel import compiled, inlined, load_half, load_word, popcount, prefetch, read, written
from stream_dedup.core.probes import BLOCK_BITS, BLOCKS, SIEVE_BITS
from stream_dedup.index.scan import (
    DISTANCE_SHIFT,
    FETCH_ROWS,
    I64,
    LISTS,
    NEVER,
    ORDINAL,
    PART_LISTS,
    ROW_GROUP,
    ROW_ID,
    ROW_TIME,
    ROW_WORDS,
    U32,
    U64,
    Asked,
    Best,
    Fetch,
    Lists,
    Near,
    Rows,
)

WAITING = 512
"""Candidates that wait for their rows, where these are in memory: 32 KiB of rows, which the level-1 cache holds."""
AHEAD = 4
"""Lists whose keys are asked for before they are compared."""
AHEAD_LINES = 8
"""Most cache lines of one list that are asked for ahead; the processor itself foresees the rest."""

LINE = 64
"""Bytes of a cache line."""
WORD, HALF, ROW = 8, 4, 8 * ROW_WORDS
"""Bytes of a key, of an ordinal or a start, of a row."""
GROUP_AT, ID_AT, TIME_AT = WORD * ROW_GROUP, WORD * ROW_ID, WORD * ROW_TIME

QUERY, SPAN, ENTRY, LISTS_SEEN, CANDIDATES = range(5)
"""The cursor: where to go on, and what was looked at."""


def scan(asked: Asked, lists: Lists, rows: Rows | Fetch) -> Near:
    """As ``scan.scan``."""
    best = Best.of(asked)
    if not len(asked):
        return best.near()
    batch = _Batch(asked, lists, best.ranks, WAITING if isinstance(rows, Rows) else FETCH_ROWS)
    while count := batch.collect():
        if isinstance(rows, Rows):
            batch.check_held(count, rows)
        else:
            batch.check_fetched(count, rows)
    best.tally.lists, best.tally.candidates = batch.cursor[LISTS_SEEN:].tolist()
    return best.near()


class _Batch:
    """The queries as the compiled functions take them, and scratch memory."""

    def __init__(self, asked: Asked, lists: Lists, best: I64, waiting: int) -> None:
        n = len(asked)
        self.cursor = np.zeros(5, np.int64)
        self._floor, self._best = asked.floor, best
        self._before = np.ascontiguousarray(asked.before, np.int64)
        self._waiting = np.empty((waiting, 3), np.int64)
        reach = np.ascontiguousarray(asked.reach, np.int64)
        sieve = np.full(n, SIEVE_BITS) if asked.directed else reach
        keys, plan = np.ascontiguousarray(asked.keys), np.ascontiguousarray(asked.plan)
        spans = np.empty((plan.shape[1] * lists.directory.shape[1], 4), np.int64)
        self._lists = (keys, plan, self._before, sieve, asked.bucket_limit, lists.directory, spans)
        groups = np.ascontiguousarray(asked.groups)
        own_ids = groups if asked.own_ids is None else np.ascontiguousarray(asked.own_ids)
        oldest = np.full(n, NEVER) if asked.oldest is None else np.ascontiguousarray(asked.oldest, np.int64)
        self._conditions = (asked.words, groups, oldest, own_ids, asked.own_ids is not None, reach, asked.directed)

    def collect(self) -> int:
        """Step 1: how many candidates wait; 0 when everything was compared."""
        count: int = _collect(*self._lists, self.cursor, self._waiting)
        return count

    def check_held(self, count: int, rows: Rows) -> None:
        """Steps 2 and 3."""
        count = _resolve(self._waiting, count, self._before, self._floor, self._best)
        _locate(self._waiting, count, rows.addresses, rows.chunk_bits, rows.base)
        _check(self._waiting, count, *self._conditions, self._best)

    def check_fetched(self, count: int, fetch: Fetch) -> None:
        """Steps 2 and 3, with the rows fetched in between."""
        count = _resolve(self._waiting, count, self._before, self._floor, self._best)
        if count:
            distinct, at = np.unique(self._waiting[:count, 2], return_inverse=True)
            rows = np.ascontiguousarray(fetch(distinct), np.uint64)
            self._waiting[:count, 2] = rows.__array_interface__["data"][0] + at * ROW
            _check(self._waiting, count, *self._conditions, self._best)


@inlined
def _wanted(key: U64, lookup: np.uint32) -> tuple[np.int64, np.int64]:
    """Table and block of a look-up."""
    table = np.int64(lookup) >> BLOCK_BITS
    shift = (BLOCKS - 1 - table % BLOCKS) * BLOCK_BITS
    block = np.int64(key[table // BLOCKS] >> np.uint64(shift)) ^ np.int64(lookup)
    return table, block & (LISTS - 1)


@compiled(int64, written(int64, 2), int64, int64)
def _limit(spans: I64, before: int, limit: int) -> int:
    """Of the parts of one list, oldest first, leave the newest entries before an ordinal; gives how many are left."""
    left = limit
    for part in range(len(spans) - 1, -1, -1):
        low, high = 0, spans[part, 2]
        while low < high:
            middle = (low + high) // 2
            if load_half(spans[part, 1] + middle * HALF) < before:
                low = middle + 1
            else:
                high = middle
        skipped = max(low - left, 0)
        spans[part, 0] += skipped * WORD
        spans[part, 1] += skipped * HALF
        spans[part, 2] = low - skipped
        left -= low - skipped
    return limit - left


@compiled(int64, read(uint64), read(uint32), int64, int64, read(int64, 4), written(int64, 2), written(int64))
def _spans(  # noqa: PLR0913, PLR0917 - a compiled function takes arrays, no objects
    key: U64, plan: U32, before: int, limit: int, directory: I64, spans: I64, cursor: I64
) -> int:
    """Parts of a query's lists, each (address of first key, of first ordinal, entries, word); gives how many."""
    levels = directory.shape[1]
    for lookup in range(len(plan)):
        table, block = _wanted(key, plan[lookup])
        for level in range(levels):
            starts = directory[table, level, block // PART_LISTS, 0]
            prefetch(starts + block * HALF)
    count = 0
    for lookup in range(len(plan)):
        table, block = _wanted(key, plan[lookup])
        total, first = 0, count
        for level in range(levels):
            starts = directory[table, level, block // PART_LISTS, 0]
            if starts == 0:
                continue
            start = load_half(starts + block * HALF)
            entries = load_half(starts + block * HALF + HALF) - start
            if entries:
                spans[count, 0] = directory[table, level, block // PART_LISTS, 1] + start * WORD
                spans[count, 1] = directory[table, level, block // PART_LISTS, 2] + start * HALF
                spans[count, 2] = entries
                spans[count, 3] = table // BLOCKS
                total += entries
                count += 1
        if total > limit:
            total = _limit(spans[first:count], before, limit)
        cursor[CANDIDATES] += total
    cursor[LISTS_SEEN] += len(plan)
    return count


@inlined
def _ask_for(spans: I64, part: int, count: int) -> None:
    """Prefetch the keys of a part of a list."""
    if part < count:
        end = min(spans[part, 2] * WORD, AHEAD_LINES * LINE)
        for at in range(0, end, LINE):
            prefetch(spans[part, 0] + at)


@compiled(
    int64,
    read(uint64, 2),
    read(uint32, 2),
    read(int64),
    read(int64),
    int64,
    read(int64, 4),
    written(int64, 2),
    written(int64),
    written(int64, 2),
)
def _collect(  # noqa: PLR0913, PLR0917 - a compiled function takes arrays, no objects
    keys: U64,
    plan: U32,
    before: I64,
    sieve: I64,
    limit: int,
    directory: I64,
    spans: I64,
    cursor: I64,
    waiting: I64,
) -> int:
    """Step 1."""
    waits = 0
    while cursor[QUERY] < len(keys):
        query = cursor[QUERY]
        key, bound = keys[query], sieve[query]
        begun = cursor[LISTS_SEEN], cursor[CANDIDATES]
        count = _spans(key, plan[min(query, len(plan) - 1)], before[query], limit, directory, spans, cursor)
        for part in range(cursor[SPAN], cursor[SPAN] + AHEAD):
            _ask_for(spans, part, count)
        for part in range(cursor[SPAN], count):
            _ask_for(spans, part + AHEAD, count)
            at, ordinals, entries, mine = spans[part, 0], spans[part, 1], spans[part, 2], key[spans[part, 3]]
            for entry in range(cursor[ENTRY], entries):
                distance = popcount(load_word(at + entry * WORD) ^ mine)
                if distance <= bound:
                    if waits == len(waiting):
                        cursor[SPAN], cursor[ENTRY] = part, entry
                        cursor[LISTS_SEEN], cursor[CANDIDATES] = begun  # counted when the query is done
                        return waits
                    waiting[waits, 0], waiting[waits, 1], waiting[waits, 2] = query, distance, ordinals + entry * HALF
                    prefetch(ordinals + entry * HALF)
                    waits += 1
            cursor[ENTRY] = 0
        cursor[SPAN] = 0
        cursor[QUERY] += 1
    return waits


@compiled(int64, written(int64, 2), int64, read(int64), int64, read(int64, 2))
def _resolve(waiting: I64, count: int, before: I64, floor: int, best: I64) -> int:
    """Step 2."""
    left, last = 0, best.shape[1] - 1
    for number in range(count):
        query = waiting[number, 0]
        ordinal = load_half(waiting[number, 2])
        # The distance over more bits is no smaller: what is behind the last of the best now cannot come before it.
        rank = waiting[number, 1] << DISTANCE_SHIFT | ordinal
        if floor <= ordinal < before[query] and rank < best[query, last]:
            waiting[left, 0], waiting[left, 1], waiting[left, 2] = query, rank, ordinal
            left += 1
    return left


@compiled(void, written(int64, 2), int64, read(int64), int64, int64)
def _locate(waiting: I64, count: int, chunks: I64, chunk_bits: int, base: int) -> None:
    """Ordinals become addresses of their rows."""
    for number in range(count):
        place = waiting[number, 2] - base
        chunk = min(place >> chunk_bits, len(chunks) - 1)
        address = chunks[chunk] + (place - (chunk << chunk_bits)) * ROW
        waiting[number, 2] = address
        prefetch(address)


@inlined
def _keep(best: I64, rank: int) -> None:
    """Insert a rank in its order, once."""
    low, high = 0, len(best)
    while low < high:
        middle = (low + high) // 2
        if best[middle] < rank:
            low = middle + 1
        else:
            high = middle
    if low < len(best) and best[low] != rank:
        for at in range(len(best) - 1, low, -1):
            best[at] = best[at - 1]
        best[low] = rank


@compiled(
    void,
    read(int64, 2),
    int64,
    read(uint64, 2),
    read(uint64),
    read(int64),
    read(uint64),
    boolean,
    read(int64),
    boolean,
    written(int64, 2),
)
def _check(  # noqa: PLR0913, PLR0917 - a compiled function takes arrays, no objects
    waiting: I64,
    count: int,
    words: U64,
    groups: U64,
    oldest: I64,
    own_ids: U64,
    own: bool,  # noqa: FBT001 - a compiled function takes no names
    reach: I64,
    directed: bool,  # noqa: FBT001
    best: I64,
) -> None:
    """Step 3."""
    for number in range(count):
        query, rank, row = waiting[number, 0], waiting[number, 1], waiting[number, 2]
        if load_word(row + GROUP_AT) != groups[query] or np.int64(load_word(row + TIME_AT)) < oldest[query]:
            continue
        if own and load_word(row + ID_AT) != own_ids[query]:
            continue
        if directed:
            distance = 0
            for word in range(BLOCKS):
                distance += popcount(load_word(row + word * WORD) ^ words[query, word])
            if distance > reach[query]:
                continue
            rank = distance << DISTANCE_SHIFT | rank & ORDINAL
        _keep(best[query], rank)
