"""Adds up the weights of features for many texts, compiled. Importing this file loads the compiler.

The sums are those of ``simhash.add_each``. The weights of the features whose hash has a 1 are added as numbers of 16
bits, 64 at once, and moved to numbers of 64 bits before they could be too large. Four features are added at a time:
loading and storing the numbers would take longer than adding.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from stream_dedup.core.arrays import F64, I32, I64, U8, U16, U64
from stream_dedup.core.fingerprint.weights import Sums
from stream_dedup.core.kernel import ONE, add_where, compiled, inlined, prefetch, read, whole, written

WORD_BITS = 64
MOST = (1 << 16) - 1
"""The largest number of 16 bits."""

_AHEAD = 8
"""Features ahead for which rows are requested: the table is larger than the level-2 cache."""
_WORD_BYTES = WORD_BITS * 2
_IN_BYTE = 7


def sums_of_weights(weights: I64, hashes: U8, ends: NDArray[np.intp]) -> Sums:
    """Return the sums of texts; the weights of their features are joined, ``ends`` has the end of each text."""
    sums, squares = np.empty((len(ends), hashes.shape[1] * 8)), np.empty(len(ends), np.int64)
    words = np.ascontiguousarray(hashes).view("<u8")
    _add_each(np.ascontiguousarray(weights, np.int64), words, ends.astype(np.int64, copy=False), sums, squares)
    return Sums(sums, squares)


def sums_of_rows(weights: I64, rows: I32, hashes: U8, ends: I64) -> Sums:
    """Return the same of features whose hashes are these rows of a table."""
    sums, squares = np.empty((len(ends), hashes.shape[1] * 8)), np.empty(len(ends), np.int64)
    _add_rows(weights, rows, hashes.view("<u8"), ends, sums, squares)
    return Sums(sums, squares)


@inlined
def _move(light: U16, heavy: I64) -> None:
    """Add the numbers of 16 bits to those of 64, and make them 0."""
    for at in range(len(light)):
        heavy[at] += light[at]
    light[:] = 0


@inlined
def add_features(weights: I64, hashes: U64, span: tuple[int, int], room: tuple[U16, I64], sums: F64) -> int:
    """Fill in the sums of a text, given by its first feature and the one after its last; return its squared weights.

    The bits of a hash are numbered from the lowest of the first word, and those of ``sums`` from the highest of the
    first byte. ``room``: two numbers for each bit, all 0 before and after.
    """
    (light, heavy), words = room, hashes.shape[1]
    total, square, left, at = 0, 0, MOST, span[0]
    while at < span[1]:
        if at + 4 <= span[1]:
            four = weights[at], weights[at + 1], weights[at + 2], weights[at + 3]
            together = four[0] + four[1] + four[2] + four[3]
            if together <= left:
                left -= together
                total += together
                square += four[0] * four[0] + four[1] * four[1] + four[2] * four[2] + four[3] * four[3]
                for word in range(words):
                    bits = hashes[at, word], hashes[at + 1, word], hashes[at + 2, word], hashes[at + 3, word]
                    add_where(light.ctypes.data + _WORD_BYTES * word, bits, four)
                at += 4
                continue
        weight = weights[at]
        total += weight
        square += weight * weight
        if weight > left:
            _move(light, heavy)
            left = MOST
        if weight > MOST:
            for bit in range(len(heavy)):
                heavy[bit] += weight * whole(hashes[at, bit // WORD_BITS] >> np.uint64(bit % WORD_BITS) & ONE)
        else:
            left -= weight
            for word in range(words):
                add_where(light.ctypes.data + _WORD_BYTES * word, (hashes[at, word],), (weight,))
        at += 1
    _move(light, heavy)
    for bit in range(len(heavy)):
        sums[bit ^ _IN_BYTE] = 2 * heavy[bit] - total
    heavy[:] = 0
    return square


@compiled(int64, read(int64), read(uint64, 2), read(int64), written(float64, 2), written(int64))
def _add_each(weights: I64, hashes: U64, ends: I64, sums: F64, squares: I64) -> int:
    """Fill in the sums and the sum of the squared weights of each text; return the number of features."""
    bits = hashes.shape[1] * WORD_BITS
    room = np.zeros(bits, np.uint16), np.zeros(bits, np.int64)
    start = 0
    for text in range(len(ends)):
        squares[text] = add_features(weights, hashes, (start, ends[text]), room, sums[text])
        start = ends[text]
    return start


@compiled(int64, read(int64), read(int32), read(uint64, 2), read(int64), written(float64, 2), written(int64))
def _add_rows(weights: I64, rows: I32, hashes: U64, ends: I64, sums: F64, squares: I64) -> int:
    """Do the same with hashes that are rows of a table; return the number of features."""
    words, address = hashes.shape[1], hashes.ctypes.data
    bits = words * WORD_BITS
    room = np.zeros(bits, np.uint16), np.zeros(bits, np.int64)
    most, start = whole(0), whole(0)
    for end in ends:
        most, start = max(most, end - start), end
    own = np.empty((most, words), np.uint64)
    start = whole(0)
    for text in range(len(ends)):
        for at in range(start, ends[text]):
            if at + _AHEAD < len(rows):
                prefetch(address + bits // 8 * whole(rows[at + _AHEAD]))
            for word in range(words):
                own[at - start, word] = hashes[rows[at], word]
        span = (0, ends[text] - start)
        squares[text] = add_features(weights[start : ends[text]], own, span, room, sums[text])
        start = ends[text]
    return start
