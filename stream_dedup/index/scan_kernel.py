"""The look-up of ``scan``, compiled. Importing it loads the compiler.

Article by article its posting lists are found (``list_kernel``), then their key words compared; what passes the sieve
waits, and is checked against its row some hundred candidates at a time. A look-up in a large index is mostly waiting
for memory, so addresses are prefetched a step before they are read.

Arrays are read by address: their owners checked their types and ends; ``scan.scan`` checked that every document number
has a row. Numbers are int64 and words uint64: mixed, they would become floats. ``scan_records`` describes the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, from_dtype, int64, uint32, void

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.kernel import (
    compiled,
    inlined,
    load_half,
    load_word,
    popcount,
    prefetch,
    read,
    record_at,
    several,
    whole,
    written,
)
from stream_dedup.core.model import BLOCKS_PER_WORD, FRAME_MASK, SKETCH_WORD_VALUES
from stream_dedup.index.layout import ROW, ROW_BYTES
from stream_dedup.index.list_kernel import HALF, LISTS_ROOM, WORD, Record, Records, find_lists, narrow, table_of
from stream_dedup.index.posting_lists import ADDRESSES
from stream_dedup.index.scan_records import (
    ARTICLE,
    CURSOR,
    DISTANCE_SHIFT,
    DOC_NUMBER,
    GROUP,
    LOOKUPS_AT_ONCE,
    NO_BOUND,
    SPAN,
    WAITING,
)
from stream_dedup.index.sieve_kernel import LANES, last_of, passing

AHEAD = 8
"""Posting lists whose keys are prefetched before they are compared."""
SURE_LINES, AHEAD_LINES = 4, 8
"""Cache lines of one posting list that are prefetched: so many without a branch, which would often be foreseen wrongly,
and so many at most; the processor itself foresees the rest."""
LEAST_AT_ONCE = 256
"""Candidates of an article collected at once even where its bound has less room: many may turn out not to count."""

LINE = 64
"""Bytes of a cache line."""

_FRAME = np.uint64(FRAME_MASK)
_LOWEST_BITS = np.uint64(0x1111_1111_1111_1111)
"""The lowest bit of each value of a sketch."""

_ARTICLE, _WAITING, _CURSOR, _ADDRESSES = map(from_dtype, (ARTICLE, WAITING, CURSOR, ADDRESSES))
_SPAN, _GROUP = map(from_dtype, (SPAN, GROUP))
_ROOM = several(LISTS_ROOM, written(_GROUP))
_ROW = from_dtype(ROW)
_row_at = record_at(_ROW)

Arrays = tuple[Any, ...]
"""Several arrays and numbers, of the types that the function declares."""


@inlined
def _prefetch(spans: Records, part: int) -> None:
    """Prefetch the first keys of a part of a list."""
    if part < len(spans):
        keys, size = spans[part].keys, spans[part].entries * WORD
        for at in range(0, SURE_LINES * LINE, LINE):
            prefetch(keys + min(at, size - WORD))
        for at in range(SURE_LINES * LINE, min(size, AHEAD_LINES * LINE), LINE):
            prefetch(keys + at)
        prefetch(keys + min(size, AHEAD_LINES * LINE) - WORD)


@compiled(int64, _ARTICLE, written(_SPAN), read(_ADDRESSES, 2), int64, _CURSOR, written(_GROUP))
def _sieve_keys(
    article: Record, spans: Records, directory: Records, block_bits: int, cursor: Record, groups: Records
) -> int:
    """Compare the keys from the cursor on, until as many groups as there is room for have entries that pass.

    Returns how many they are. Whether a group is kept is no branch: it would wait for the group's keys, and all that
    comes after it as well.
    """
    key, sure, sieve = article.keys, article.sure, article.sieve
    part, entry, compared, kept = cursor.span, cursor.entry, cursor.candidates, 0
    for ahead in range(part, part + AHEAD):
        _prefetch(spans, ahead)
    while part < len(spans) and kept < len(groups) - 1:
        _prefetch(spans, part + AHEAD)
        span, word = spans[part], table_of(spans[part].part) // BLOCKS_PER_WORD
        narrow(span, directory, block_bits, article.before)
        keys, entries, mine = span.keys, span.entries, key[word]
        once, twice = sure[word, 0], sure[word, 1]
        while entry < entries and kept < len(groups) - 1:
            end = entries - entry
            first = max(end - LANES, 0)
            lanes = passing(keys + first * WORD, end - first, mine, once, twice, sieve)
            group = groups[kept]
            group.lanes, group.part, group.entry, group.compared = lanes, part, entry, compared
            kept += whole(lanes != np.uint64(0))
            entry += end - first
            compared += end - first
        if entry == entries:
            part += 1
            entry = 0
    cursor.span, cursor.entry, cursor.candidates = part, entry, compared
    return kept


@compiled(
    int64,
    read(_ARTICLE),
    read(uint32, 2),
    read(_ADDRESSES, 2),
    int64,
    _ROOM,
    written(_CURSOR),
    written(_WAITING),
)
def collect(  # noqa: PLR0913, PLR0917 - compiled: no records of arrays
    articles: Records,
    plan: U32,
    directory: Records,
    block_bits: int,
    room: Arrays,
    cursors: Records,
    waiting: Records,
) -> int:
    """Step 1: fill ``waiting``, the newest entries of each list first; the cursor says where to go on.

    It stops where ``waiting`` is full, or has as many candidates of an article as there is room for, but not for fewer
    than ``LEAST_AT_ONCE``: to go on, the lists are found anew. An article without room is done.
    """
    waits, cursor, (lists, groups) = 0, cursors[0], room
    while cursor.article < len(articles):
        number = cursor.article
        article, lookups = articles[number], plan[min(number, len(plan) - 1)]
        key, most = article.keys, min(waits + max(article.room, LEAST_AT_ONCE), len(waiting))
        while cursor.lookup < len(lookups) and article.room:
            some = lookups[cursor.lookup : cursor.lookup + LOOKUPS_AT_ONCE]
            count = find_lists(article, some, directory, block_bits, lists)
            spans = lists[2][:count]
            while cursor.span < count:
                for at in range(_sieve_keys(article, spans, directory, block_bits, cursor, groups)):
                    group, lanes = groups[at], groups[at].lanes
                    span, mine = spans[group.part], key[table_of(spans[group.part].part) // BLOCKS_PER_WORD]
                    end = span.entries - group.entry
                    first = max(end - LANES, 0)
                    while lanes:
                        entry = first + last_of(lanes)
                        if waits == most:
                            newer = end - 1 - entry
                            cursor.span, cursor.entry = group.part, group.entry + newer
                            cursor.candidates = group.compared + newer
                            return waits
                        one = waiting[waits]
                        one.article, one.at = number, span.doc_numbers + entry * HALF
                        one.rank = popcount(load_word(span.keys + entry * WORD) ^ mine)
                        prefetch(span.doc_numbers + entry * HALF)
                        waits += 1
                        lanes ^= np.uint64(1) << np.uint64(entry - first)
            cursor.span = cursor.entry = 0
            cursor.lookup += LOOKUPS_AT_ONCE
        cursor.lookup = cursor.span = cursor.entry = 0
        cursor.lists += len(lookups)
        cursor.article += 1
    return waits


@compiled(int64, written(_WAITING), read(_ARTICLE), int64, read(int64, 2))
def resolve(waiting: Records, articles: Records, low_watermark: int, best: I64) -> int:
    """Step 2; moves the candidates that are left to the front and returns how many they are."""
    left, last = 0, best.shape[1] - 1
    for number in range(len(waiting)):
        article = waiting[number].article
        one, doc_number = articles[article], load_half(waiting[number].at)
        # The distance over more bits is no smaller: what is behind the last of the best now cannot come before it.
        rank = waiting[number].rank << DISTANCE_SHIFT | doc_number
        wanted = rank < best[article, last] if one.room == NO_BOUND else one.room > 0
        if wanted and low_watermark <= doc_number < one.before:
            kept = waiting[left]
            kept.article, kept.rank, kept.at = article, rank, doc_number
            left += 1
    return left


@compiled(void, written(_WAITING), read(int64), int64, int64, int64)
def locate(waiting: Records, chunks: I64, chunk_bits: int, base: int, row_bytes: int) -> None:
    """Replace document numbers by the addresses of their rows, which are of so many bytes."""
    for number in range(len(waiting)):
        position = waiting[number].at - base
        chunk = min(position >> chunk_bits, len(chunks) - 1)
        address = chunks[chunk] + (position - (chunk << chunk_bits)) * row_bytes
        waiting[number].at = address
        prefetch(address)
        prefetch(address + ROW_BYTES - 1)


@inlined
def _keep(best: I64, rank: int) -> None:
    """Insert a rank in order, unless it is there. It is less than the last."""
    low, high = 0, len(best)
    while low < high:
        middle = (low + high) // 2
        if best[middle] < rank:
            low = middle + 1
        else:
            high = middle
    if best[low] != rank:
        for at in range(len(best) - 1, low, -1):
            best[at] = best[at - 1]
        best[low] = rank


@inlined
def _hidden(withdrawn: I64, doc_number: int, before: int) -> bool:
    """Whether an entry was withdrawn before an article was logged."""
    low, high = 0, len(withdrawn)
    while low < high:
        middle = (low + high) // 2
        if withdrawn[middle, 0] < doc_number:
            low = middle + 1
        else:
            high = middle
    return low < len(withdrawn) and withdrawn[low, 0] == doc_number and withdrawn[low, 1] <= before


@inlined
def _first_time(seen: I64, article: int, doc_number: int) -> bool:
    """Note that an article has a candidate; returns whether it had not before. What others had is overwritten."""
    noted = article << DISTANCE_SHIFT | doc_number
    slot = doc_number & (len(seen) - 1)
    while seen[slot] >> DISTANCE_SHIFT == article:
        if seen[slot] == noted:
            return False
        slot = (slot + 1) & (len(seen) - 1)
    seen[slot] = noted
    return True


@inlined
def _counts(article: Record, seen: I64, at: int, doc_number: int) -> bool:
    """Count a candidate of an article, where their number is bounded; whether it was not counted yet."""
    if article.room == NO_BOUND:
        return True
    if not _first_time(seen, at, doc_number):
        return False
    article.room -= 1
    return True


@inlined
def _equal_values(own: U64, address: int, words: int) -> int:
    """How many values of 4 bits a sketch of so many words shares with the one at an address."""
    equal = 0
    for word in range(words):
        apart = own[word] ^ load_word(address + word * WORD)
        apart |= apart >> np.uint64(1)
        apart |= apart >> np.uint64(2)
        equal += SKETCH_WORD_VALUES - popcount(apart & _LOWEST_BITS)
    return equal


@inlined
def _is_confirmed(article: Record, distance: int, sketch: int) -> bool:
    """Whether the form and the values of the sketch at an address allow an entry at this distance to be near."""
    if distance > article.form_limit and article.form & _FRAME != 0:
        apart = article.form ^ load_word(sketch + article.sketch_words * WORD)
        if apart != 0 and apart & _FRAME == 0:
            return False
    if distance <= article.certain:
        return True
    least: int = max(article.least_equal, article.far_equal) if distance > article.far else article.least_equal
    return _equal_values(article.sketch, sketch, article.sketch_words) >= least


@compiled(void, read(_WAITING), written(_ARTICLE), read(int64, 2), boolean, written(int64), written(int64, 2))
def check(waiting: Records, articles: Records, withdrawn: I64, directed: bool, seen: I64, best: I64) -> None:  # noqa: FBT001 - compiled: no names
    """Step 3: compare candidates with their rows and keep the best; ``seen`` notes those that were counted."""
    for number in range(len(waiting)):
        rank, row, at = waiting[number].rank, _row_at(waiting[number].at), waiting[number].article
        article, doc_number = articles[at], rank & DOC_NUMBER
        if not article.room or row.group != article.group or row.time < article.oldest:
            continue
        if _hidden(withdrawn, doc_number, article.before) or not _counts(article, seen, at, doc_number):
            continue
        if (row.id_hash ^ article.own_id) & article.own_id_mask:
            continue
        if directed:
            distance = 0
            own, other = article.words, row.signature
            for word in range(BLOCKS_PER_WORD):
                distance += popcount(own[word] ^ other[word])
            if distance > article.reach:
                continue
            if not _is_confirmed(article, distance, waiting[number].at + ROW_BYTES):
                continue
            rank = distance << DISTANCE_SHIFT | doc_number
        if rank < best[at, best.shape[1] - 1]:  # a view of one row costs more than most of what is here
            _keep(best[at], rank)


_ASKED = several(written(_ARTICLE), read(uint32, 2), read(_ADDRESSES, 2), int64, read(int64, 2))
_SCRATCH = several(_ROOM, written(_CURSOR), written(_WAITING), written(int64), written(int64, 2))
_HELD = several(read(int64), int64, int64, int64)


@compiled(void, _ASKED, _SCRATCH, _HELD, int64, boolean)
def scan_held(asked: Arrays, scratch: Arrays, held: Arrays, low_watermark: int, directed: bool) -> None:  # noqa: FBT001 - compiled: no names
    """All steps by turns, where rows are held in memory, until every posting list was compared.

    ``asked`` are the articles, plan, directory, bits of a block and withdrawn entries; ``scratch`` the room of
    the lists and groups, the cursor, ``waiting``, ``seen`` and ``best``; ``held`` what ``locate`` takes of the rows.
    """
    articles, plan, directory, block_bits, withdrawn = asked
    room, cursors, waiting, seen, best = scratch
    addresses, chunk_bits, base, row_bytes = held
    count = collect(articles, plan, directory, block_bits, room, cursors, waiting)
    while count:
        left = waiting[: resolve(waiting[:count], articles, low_watermark, best)]
        locate(left, addresses, chunk_bits, base, row_bytes)
        check(left, articles, withdrawn, directed, seen, best)
        count = collect(articles, plan, directory, block_bits, room, cursors, waiting)
