"""Hashes of new features and IDF of most words, compiled. Importing this file loads the compiler.

``hashing`` and ``weights`` define both. What is not made here is left to them: features of more than
``hash_kernel.MOST_HASHED_BYTES`` bytes, and the IDF of features that neither begin with an ideograph nor are ASCII.

The table of IDF takes more memory than the caches have, and each step of a look-up reads another part of it. So words
go through each step in blocks: what the next step reads is requested for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int32, int64, uint32, uint64

from stream_dedup.core.arrays import I32, I64, U32
from stream_dedup.core.fingerprint.hash_kernel import hash_of_bytes
from stream_dedup.core.fingerprint.lookup_kernel import WORD_ARRAYS, byte_at, first_slot, number_of, packed_bytes
from stream_dedup.core.kernel import compiled, inlined, prefetch, read, several, whole, written
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

NOT_HASHED, NOT_WEIGHED = -2, -1
"""In place of an IDF: neither it nor the hash is made here; only the hash is."""

_FIRST, _LAST = ord(HAN_FIRST), ord(HAN_LAST)
_ZERO, _NINE = map(ord, "09")
_BLOCK = 64
"""Words that take a step together: what is requested for them stays in the level-1 cache."""


@inlined
def _are_digits(low: np.uint64, high: np.uint64, size: int) -> bool:
    """Whether all bytes are digits of ASCII."""
    for at in range(size):  # noqa: SIM110 - numba compiles no generator
        if not _ZERO <= byte_at(low, high, at) <= _NINE:
            return False
    return True


@inlined
def _request_words(table: Any, wanted: I64, count: int) -> int:  # noqa: ANN401
    """Request what is looked for from these slots on, step by step: most of the table is in no cache."""
    slots, text, ends, numbers = table
    for at in range(count):
        if wanted[at] >= 0 and slots[wanted[at]] != 0:
            word = whole(slots[wanted[at]]) - 1
            prefetch(ends.ctypes.data + 4 * word)
            prefetch(numbers.ctypes.data + 8 * word)
    for at in range(count):
        if wanted[at] >= 0 and slots[wanted[at]] != 0:
            prefetch(text.ctypes.data + whole(ends[whole(slots[wanted[at]]) - 1]))
    return count


@inlined
def _idf_of(found: Any, slot: int, size: int, tables: Any, rule: Any) -> int:  # noqa: ANN401 - tuples
    """Return the IDF of a feature, ``NOT_WEIGHED`` if it is not known here.

    ``found``: its bytes, in two numbers, and how many; ``slot``: from which on it is looked for in the first table, -1
    if it is not; ``size``: its characters.
    """
    (low, high, length), (table, listed, others), (_, alone, unknown, _) = found, tables, rule
    number = whole(NOT_WEIGHED)
    if slot >= 0:
        number = number_of(table, slot, low, high, length)
        if number < 0 and length > size:
            return whole(alone if size == 1 else unknown)
    if number < 0 and length == size and others.shape[1] > 0:
        digits = _are_digits(low, high, length)
        if not digits:
            number = number_of(listed, first_slot(listed, low, high, length), low, high, length)
        if number < 0:
            number = whole(others[whole(digits), min(size, others.shape[1] - 1)])
    return number


@compiled(
    int64,
    read(uint32),
    read(int32),
    read(int32),
    several(WORD_ARRAYS, WORD_ARRAYS, read(int64, 2)),
    several(uint64, int64, int64, boolean),
    several(written(uint64), written(int64)),
)
def learn(points: U32, starts: I32, sizes: I32, tables: Any, rule: Any, found: Any) -> int:  # noqa: ANN401
    """Fill in the hash and the IDF of features, spans of code points; return of how many something is not made.

    Args:
        points: code points of texts.
        starts: of each feature, its first code point.
        sizes: code points of each feature.
        tables: ``table``, ``listed`` and ``others`` of ``weights.WordIdf``.
        rule: the scheme's seed, and ``alone``, ``unknown`` and ``in_table`` of ``weights.WordIdf``.
        found: four uint64 for each feature, joined, its hash; and its IDF, or one of the numbers above.
    """
    (seed, _, _, in_table), (hashes, idf), (table, _, _) = rule, found, tables
    halves, lengths, slots = np.empty((_BLOCK, 2), np.uint64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    left, address = whole(0), table[0].ctypes.data
    for begin in range(0, len(starts), _BLOCK):
        count = min(_BLOCK, len(starts) - begin)
        for at in range(count):
            start, size = whole(starts[begin + at]), whole(sizes[begin + at])
            low, high, length = packed_bytes(points, start, size)
            halves[at, 0], halves[at, 1], lengths[at], slots[at] = low, high, length, -1
            if length == 0:
                continue
            hash_of_bytes(low, high, length, seed, hashes, begin + at)
            if _FIRST <= whole(points[start]) <= _LAST or (in_table and length == size):
                slots[at] = first_slot(table, low, high, length)
                prefetch(address + 4 * slots[at])
        _request_words(table, slots, count)
        for at in range(count):
            number = whole(NOT_HASHED)
            if lengths[at] > 0:
                own = halves[at, 0], halves[at, 1], lengths[at]
                number = _idf_of(own, slots[at], whole(sizes[begin + at]), tables, rule)
            idf[begin + at] = number
            left += whole(number < 0)
    return left
