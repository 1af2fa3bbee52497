"""Blocks of keys, and the merging of runs, compiled. Importing this file loads the compiler."""

from __future__ import annotations

import numpy as np
from numba import boolean, int64, uint32, uint64, void

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written
from stream_dedup.core.model import FINGERPRINT_BITS

STARTS_OF_A_STEP = 16
"""Empty buckets that are closed in the time of an entry."""
OLDER_AT, NEWER_AT, WRITTEN, CLOSED, FIRST_ENTRY, FIRST_START = range(6)
"""Cursor of a merge: entries taken of the older and of the newer run, entries written, the last bucket whose start is
known, and which entry and which start are the first ones of the arrays that are written into."""
CURSOR_FIELDS = 6
DIGIT_BITS = 11
"""Bits of a block that entries are sorted by at once."""
_DIGIT_MASK = (1 << DIGIT_BITS) - 1


@inlined
def block_of(word: np.uint64, rotation: int, block_bits: int) -> int:
    """Block of a key word: so many bits from bit ``rotation`` on, counted from the highest, going round at the end."""
    turned = word << np.uint64(rotation) | word >> np.uint64(1) >> np.uint64(FINGERPRINT_BITS - 1 - rotation)
    return whole(turned >> np.uint64(FINGERPRINT_BITS - block_bits))


_ENTRIES = several(read(uint64), read(uint32))
_MERGED = several(written(uint32), written(uint64), written(uint32))
Entries = tuple[U64, U32]
"""Keys and document numbers."""


@compiled(boolean, _ENTRIES, _ENTRIES, _MERGED, written(int64), int64, int64, int64, int64, int64)
def merge_some(  # noqa: PLR0913, PLR0917 - compiled: no names
    older: Entries,
    newer: Entries,
    merged: tuple[U32, U64, U32],
    cursor: I64,
    low_watermark: int,
    rotation: int,
    block_bits: int,
    shift: int,
    most: int,
) -> bool:
    """Take so many more entries of two runs, at most, as the arrays have room; returns whether the merge is done.

    ``merged`` are starts of buckets, keys and document numbers of the new run, from those on that the cursor names, and
    ``shift`` is how much longer a block is than the number of a bucket. Entries before ``low_watermark`` are left out.
    """
    old_keys, old_numbers = older
    new_keys, new_numbers = newer
    starts, keys, numbers = merged
    i, j, at, bucket = cursor[OLDER_AT], cursor[NEWER_AT], cursor[WRITTEN], cursor[CLOSED]
    first_entry, first_start = cursor[FIRST_ENTRY], cursor[FIRST_START]
    last_entry, last_start = first_entry + len(keys) - 1, first_start + len(starts) - 1
    buckets = 1 << (block_bits - shift)
    olds, news = len(old_keys), len(new_keys)
    old_block = block_of(old_keys[i], rotation, block_bits) if i < olds else 0
    new_block = block_of(new_keys[j], rotation, block_bits) if j < news else 0
    taken = i + j
    end = min(taken + most, olds + news)
    while i + j < end:
        takes_older = j == news or (i < olds and old_block <= new_block)
        block, key, number = (
            (old_block, old_keys[i], old_numbers[i]) if takes_older else (new_block, new_keys[j], new_numbers[j])
        )
        if whole(number) >= low_watermark:
            own = block >> shift
            last = min(own, last_start)
            while bucket < last:
                bucket += 1
                starts[bucket - first_start] = at
            if bucket < own or at > last_entry:
                break  # no room
            keys[at - first_entry] = key
            numbers[at - first_entry] = number
            at += 1
        if takes_older:
            i += 1
            if i < olds:
                old_block = block_of(old_keys[i], rotation, block_bits)
        else:
            j += 1
            if j < news:
                new_block = block_of(new_keys[j], rotation, block_bits)
    if i + j == olds + news:
        last = min(buckets, last_start, bucket + STARTS_OF_A_STEP * (most - (i + j - taken)))
        while bucket < last:
            bucket += 1
            starts[bucket - first_start] = at
    cursor[OLDER_AT], cursor[NEWER_AT], cursor[WRITTEN], cursor[CLOSED] = i, j, at, bucket
    done: bool = i + j == olds + news and bucket == buckets
    return done


@compiled(void, read(uint64), int64, int64, written(int64))
def number_blocks(words: U64, rotation: int, block_bits: int, numbers: I64) -> None:
    """Fill in the block of each word."""
    for at in range(len(words)):
        numbers[at] = block_of(words[at], rotation, block_bits)


@compiled(void, read(uint64), int64, int64, written(uint64))
def note_blocks(words: U64, rotation: int, bits: int, noted: U64) -> None:
    """Set the bit of each word's block of so many bits, 64 of them in each uint64, the first the lowest."""
    for at in range(len(words)):
        block = block_of(words[at], rotation, bits)
        noted[block >> 6] |= np.uint64(1) << np.uint64(block & 63)


_SORTED = several(written(uint32), written(uint64), written(uint32))
_SORTING_ROOM = several(written(uint32, 2), written(uint32))


@compiled(void, read(uint64), int64, int64, int64, _SORTING_ROOM)
def _sort_digit(words: U64, rotation: int, block_bits: int, digit: int, room: tuple[U32, U32]) -> None:
    """Sort an order of words by some bits of their blocks, from bit ``digit`` on; leaves the order of equals."""
    orders, counts = room
    counts[:] = 0
    for at in range(len(words)):
        counts[(block_of(words[at], rotation, block_bits) >> digit & _DIGIT_MASK) + 1] += np.uint32(1)
    for value in range(_DIGIT_MASK):
        counts[value + 1] += counts[value]
    for at in range(len(words)):
        value = block_of(words[orders[0, at]], rotation, block_bits) >> digit & _DIGIT_MASK
        orders[1, counts[value]] = orders[0, at]
        counts[value] += np.uint32(1)
    for at in range(len(words)):  # not by rows: numba would check their shapes, and compile the text of the error
        orders[0, at] = orders[1, at]


@compiled(void, _ENTRIES, int64, int64, int64, _SORTED, _SORTING_ROOM)
def sort_entries(
    entries: Entries,
    rotation: int,
    block_bits: int,
    shift: int,
    sorted_run: tuple[U32, U64, U32],
    room: tuple[U32, U32],
) -> None:
    """Fill in the arrays of a run from entries in rising order of document number, by counting sorts.

    They are by the bits of a block below the number of its bucket, ``DIGIT_BITS`` at a time from the lowest on, then by
    the bucket, to which a block is shifted. ``room`` is for two orders of the entries, and for the counts of a digit.
    """
    words, numbers = entries
    starts, keys, doc_numbers = sorted_run
    order = room[0][0]
    for at in range(len(words)):
        order[at] = np.uint32(at)
    for digit in range(0, shift, DIGIT_BITS):  # the last digit may have bits of the bucket, which is sorted by next
        _sort_digit(words, rotation, block_bits, digit, room)
    # The start of a bucket is counted two behind it, and is one behind it while the bucket is filled.
    starts[:] = 0
    for at in range(len(words)):
        bucket = block_of(words[at], rotation, block_bits) >> shift
        if bucket + 2 < len(starts):
            starts[bucket + 2] += np.uint32(1)
    for bucket in range(2, len(starts)):
        starts[bucket] += starts[bucket - 1]
    for at in range(len(words)):
        word, number = words[order[at]], numbers[order[at]]
        bucket = block_of(word, rotation, block_bits) >> shift
        to = starts[bucket + 1]
        keys[to], doc_numbers[to] = word, number
        starts[bucket + 1] = to + np.uint32(1)
