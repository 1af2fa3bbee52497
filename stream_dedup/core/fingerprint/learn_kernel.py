"""Hashes of new features and IDF of words of ideographs, compiled. Importing this file loads the compiler.

``hashing`` and ``weights`` define both. What is not made here is left to them: features of more than
``MOST_HASHED_BYTES`` bytes, and the IDF of features that do not begin with an ideograph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint8, uint32, uint64

from stream_dedup.core.arrays import I32, U32
from stream_dedup.core.fingerprint.hash_kernel import (
    MOST_HASHED_BYTES,
    hash_of_bytes,
    low_half_of_bytes,
    with_character,
)
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

NOT_HASHED, NOT_WEIGHED = -2, -1
"""In place of an IDF: neither it nor the hash is made here; only the hash is."""

_FIRST, _LAST = ord(HAN_FIRST), ord(HAN_LAST)
_BYTE = np.uint64(0xFF)
_8 = np.uint64(8)


@inlined
def _is_at(text: Any, begin: int, low: np.uint64, high: np.uint64, size: int) -> bool:  # noqa: ANN401 - an array
    """Return whether these bytes are in the text there."""
    for at in range(size):
        word, byte = (low, at) if at < 8 else (high, at - 8)  # noqa: PLR2004 - bytes of a number
        if np.uint64(text[begin + at]) != word >> np.uint64(byte) * _8 & _BYTE:
            return False
    return True


@inlined
def _number(table: Any, low: np.uint64, high: np.uint64, size: int) -> int:  # noqa: ANN401 - four arrays
    """Return the number of a word (``word_numbers``), -1 if there is none."""
    slots, text, ends, numbers = table
    mask = np.uint64(len(slots) - 1)
    slot = low_half_of_bytes(low, high, size) & mask
    while slots[slot] != 0:
        word = whole(slots[slot]) - 1
        begin = whole(ends[word])
        if whole(ends[word + 1]) - begin == size and _is_at(text, begin, low, high, size):
            return whole(numbers[word])
        slot = slot + np.uint64(1) & mask
    return whole(-1)


@compiled(
    int64,
    read(uint32),
    read(int32),
    read(int32),
    several(read(uint32), read(uint8), read(uint32), read(int64)),
    several(uint64, int64, int64),
    several(written(uint64, 2), written(int64)),
)
def learn(points: U32, starts: I32, sizes: I32, table: Any, rule: Any, found: Any) -> int:  # noqa: ANN401
    """Fill in the hash and the IDF of features, spans of code points; return of how many something is not made.

    Args:
        points: code points of texts.
        starts: of each feature, its first code point.
        sizes: code points of each feature.
        table: the arrays of ``word_numbers.WordNumbers``.
        rule: the scheme's seed, and the IDF of ideographs that are not in the table: of one alone, of several.
        found: rows of four uint64, the hash of each feature; and its IDF, or one of the numbers above.
    """
    (seed, alone, unknown), (hashes, idf) = rule, found
    left = whole(0)
    for feature in range(len(starts)):
        start, points_left = whole(starts[feature]), whole(sizes[feature])
        first = whole(points[start]) if points_left > 0 else whole(0)
        low, high, size, at = np.uint64(0), np.uint64(0), whole(0), start
        while points_left > 0 and size < MOST_HASHED_BYTES:
            low, high, size = with_character(low, high, size, whole(points[at]))
            at, points_left = at + 1, points_left - 1
        if size == 0 or points_left > 0 or size > MOST_HASHED_BYTES:
            idf[feature] = NOT_HASHED
            left += 1
            continue
        hash_of_bytes(low, high, size, seed, hashes[feature])
        number = whole(NOT_WEIGHED)
        if _FIRST <= first <= _LAST:
            number = _number(table, low, high, size)
            if number < 0:
                number = alone if whole(sizes[feature]) == 1 else unknown
        idf[feature] = number
        left += whole(number < 0)
    return left
