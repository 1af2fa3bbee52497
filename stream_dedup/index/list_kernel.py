"""How ``scan`` finds the posting lists of an article, compiled. Importing it loads the compiler.

A list has a part in each run of its table. Where a run is small most look-ups find nothing in it: a bit of its filter
says so, and no more of the run is read. Of the other parts the bucket is read, and those that have entries are left. A
bucket is narrowed to the list when its keys are read, or before, if the list may have more entries than are compared.

The arrays of the runs are read by address (``PostingLists.directory``): a tuple of so many arrays would be unpacked at
every call. Their owner checked their types and ends. ``scan_records`` describes the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, int64, uint32, void
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U32
from stream_dedup.core.kernel import compiled, inlined, load_half, load_word, prefetch, read, several, whole, written
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD
from stream_dedup.index.posting_lists import ADDRESSES
from stream_dedup.index.run_kernel import block_of
from stream_dedup.index.scan_records import ARTICLE, PART_BLOCK_BITS, PART_RUN_BITS, PART_TABLE_BITS, SPAN
from stream_dedup.index.sieve_kernel import LANES, few_below

FEW = 16
"""Entries of a part of a list that are compared even where they may be later than the article."""
WORD, HALF = 8, 4
"""Bytes of a key, of a document number or a start."""

_TABLE_SHIFT = PART_RUN_BITS + PART_BLOCK_BITS
_LOOKUP_SHIFT = PART_TABLE_BITS + _TABLE_SHIFT
_BLOCK_MASK = (1 << PART_BLOCK_BITS) - 1

_ARTICLE, _SPAN, _ADDRESSES = map(from_dtype, (ARTICLE, SPAN, ADDRESSES))

Record = Any
"""One record, by its columns' names."""
Records = NDArray[Any]


@inlined
def _below(keys: int, entries: int, block: int, rotation: int, block_bits: int) -> int:
    """How many of some entries, sorted by block, have a lower one."""
    if entries <= LANES:
        return few_below(keys, entries, block, rotation, block_bits)
    low, high = 0, entries
    while low < high:
        middle = (low + high) // 2
        if block_of(load_word(keys + middle * WORD), rotation, block_bits) < block:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _earlier(doc_numbers: int, entries: int, before: int) -> int:
    """How many entries of a part of a list are before a document number."""
    low, high = 0, entries
    while low < high:
        middle = (low + high) // 2
        if load_half(doc_numbers + middle * HALF) < before:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(int64, written(_SPAN), int64, int64)
def _limit(spans: Records, before: int, limit: int) -> int:
    """Of the parts of one list, newest first, leave the newest entries before a number; returns how many are left."""
    left = limit
    for part in range(len(spans)):
        span = spans[part]
        low = _earlier(span.doc_numbers, span.entries, before)
        skipped = max(low - left, 0)
        span.keys += skipped * WORD
        span.doc_numbers += skipped * HALF
        span.entries = low - skipped
        left -= low - skipped
    return limit - left


@inlined
def table_of(part: int) -> int:
    """Return the table of a part."""
    return part >> _TABLE_SHIFT & (1 << PART_TABLE_BITS) - 1


@inlined
def _run_of(part: int) -> int:
    """Return the number of the run of a part in its table."""
    return part >> PART_BLOCK_BITS & (1 << PART_RUN_BITS) - 1


@compiled(int64, _ARTICLE, read(uint32), read(_ADDRESSES, 2), int64, written(int64), written(int64))
def _parts(article: Record, plan: U32, directory: Records, block_bits: int, blocks: I64, parts: I64) -> int:
    """Fill in which parts of an article's posting lists may have entries: of each list the newest part first.

    Returns how many they are. A part is counted or not without a branch, which would often be foreseen wrongly.
    """
    key, runs, mask, count = article.keys, directory.shape[1], (1 << block_bits) - 1, 0
    for table in range(len(directory)):
        rotation = table % BLOCKS_PER_WORD * BLOCK_BITS
        blocks[table] = block_of(key[table // BLOCKS_PER_WORD], rotation, block_bits)
    for lookup in range(len(plan)):
        table = whole(plan[lookup]) >> block_bits
        block = blocks[table] ^ (whole(plan[lookup]) & mask)
        for number in range(runs - 1, -1, -1):
            run = directory[table, number]
            parts[count] = lookup << _LOOKUP_SHIFT | table << _TABLE_SHIFT | number << PART_BLOCK_BITS | block
            if run.filter:
                bit = block >> run.filter_shift
                count += whole(load_word(run.filter + (bit >> 6) * WORD) >> np.uint64(bit & 63) & np.uint64(1))
            elif run.starts:
                prefetch(run.starts + (block >> run.shift) * HALF)
                count += 1
    return count


@inlined
def narrow(span: Record, directory: Records, block_bits: int, before: int) -> None:
    """Leave of a bucket the list, and of the newest run what is before a number, as most that is not is there."""
    table, number = table_of(span.part), _run_of(span.part)
    if directory[table, number].shift:
        block, rotation = span.part & _BLOCK_MASK, table % BLOCKS_PER_WORD * BLOCK_BITS
        skipped = _below(span.keys, span.entries, block, rotation, block_bits)
        span.keys += skipped * WORD
        span.doc_numbers += skipped * HALF
        span.entries = _below(span.keys, span.entries - skipped, block + 1, rotation, block_bits)
    if span.entries > FEW and number == directory.shape[1] - 1:
        span.entries = _earlier(span.doc_numbers, span.entries, before)


@compiled(void, written(_SPAN), _ARTICLE, read(_ADDRESSES, 2), int64)
def _limit_all(spans: Records, article: Record, directory: Records, block_bits: int) -> None:
    """Leave of each list the newest entries before an article, if there are more than its limit."""
    first = 0
    while first < len(spans):
        after, entries = first, 0
        while after < len(spans) and spans[after].part >> _LOOKUP_SHIFT == spans[first].part >> _LOOKUP_SHIFT:
            narrow(spans[after], directory, block_bits, article.before)
            entries += spans[after].entries
            after += 1
        if entries > article.limit:
            _limit(spans[first:after], article.before, article.limit)
        first = after


@compiled(int64, _ARTICLE, read(_ADDRESSES, 2), int64, read(int64), written(_SPAN))
def _spans(article: Record, directory: Records, block_bits: int, parts: I64, spans: Records) -> int:
    """Find parts of posting lists, those of one list together; returns how many have entries."""
    count, most = 0, 0
    for at in range(len(parts)):
        part = parts[at]
        run = directory[table_of(part), _run_of(part)]
        bucket = run.starts + ((part & _BLOCK_MASK) >> run.shift) * HALF
        start = load_half(bucket)
        entries = load_half(bucket + HALF) - start
        span = spans[count]
        span.keys, span.doc_numbers = run.keys + start * WORD, run.doc_numbers + start * HALF
        span.entries, span.part = entries, part
        count += whole(entries != 0)
        most = max(most, entries)
    if most * directory.shape[1] > article.limit:
        _limit_all(spans[:count], article, directory, block_bits)
    return count


LISTS_ROOM = several(written(int64), written(int64), written(_SPAN))
"""Room for the blocks of the tables, for the parts of an article's lists, and for the spans."""


@compiled(int64, _ARTICLE, read(uint32), read(_ADDRESSES, 2), int64, LISTS_ROOM)
def find_lists(article: Record, plan: U32, directory: Records, block_bits: int, room: tuple[I64, I64, Records]) -> int:
    """Find the parts of an article's posting lists: in the order of the plan, of each list the newest part first.

    ``room`` is as ``LISTS_ROOM``. Returns how many spans there are.
    """
    blocks, parts, spans = room
    found = _parts(article, plan, directory, block_bits, blocks, parts)
    return _spans(article, directory, block_bits, parts[:found], spans)
