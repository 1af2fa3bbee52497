"""Looks words up in the arrays of ``word_numbers``, compiled. Importing this file loads the compiler.

A word is given by its bytes in UTF-8, at most ``MOST_HASHED_BYTES``, in two numbers, and by how many these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint8, uint32

from stream_dedup.core.arrays import U32
from stream_dedup.core.fingerprint.hash_kernel import MOST_HASHED_BYTES, low_half_of_bytes, with_character
from stream_dedup.core.kernel import inlined, read, several, whole

WORD_ARRAYS = several(read(uint32), read(uint8), read(uint32), read(int64))
"""Type of ``WordNumbers.arrays``."""

_BYTE = np.uint64(0xFF)
_8 = np.uint64(8)


@inlined
def packed_bytes(points: U32, start: int, size: int) -> tuple[np.uint64, np.uint64, int]:
    """Return the bytes of a span of code points, and how many it has; 0 if these are too many."""
    low, high, done, at = np.uint64(0), np.uint64(0), whole(0), start
    while at < start + size and done < MOST_HASHED_BYTES:
        low, high, done = with_character(low, high, done, whole(points[at]))
        at += 1
    return low, high, done if at == start + size and done <= MOST_HASHED_BYTES else whole(0)


@inlined
def byte_at(low: np.uint64, high: np.uint64, at: int) -> int:
    """Return one of the bytes of a word."""
    word, number = (low, at) if at < 8 else (high, at - 8)  # noqa: PLR2004 - bytes of a number
    return whole(word >> np.uint64(number) * _8 & _BYTE)


@inlined
def _is_at(text: Any, begin: int, low: np.uint64, high: np.uint64, size: int) -> bool:  # noqa: ANN401 - an array
    """Return whether these bytes are in the text there."""
    for at in range(size):  # noqa: SIM110 - numba compiles no generator
        if whole(text[begin + at]) != byte_at(low, high, at):
            return False
    return True


@inlined
def first_slot(table: Any, low: np.uint64, high: np.uint64, size: int) -> int:  # noqa: ANN401 - four arrays
    """Return the slot of a word from which on it is looked for."""
    return whole(low_half_of_bytes(low, high, size) & np.uint64(len(table[0]) - 1))


@inlined
def number_of(table: Any, slot: int, low: np.uint64, high: np.uint64, size: int) -> int:  # noqa: ANN401
    """Return the number of a word that is looked for from this slot on, -1 if there is none."""
    slots, text, ends, numbers = table
    while slots[slot] != 0:
        word = whole(slots[slot]) - 1
        begin = whole(ends[word])
        if whole(ends[word + 1]) - begin == size and _is_at(text, begin, low, high, size):
            return whole(numbers[word])
        slot = slot + 1 & len(slots) - 1
    return whole(-1)
