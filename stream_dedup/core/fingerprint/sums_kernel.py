"""Adds up the weights of features for many texts, compiled. Importing this file loads the compiler.

The sums are those of ``simhash.add_each``. The weights of the features whose hash has a 1 are added as numbers of 16
bits, 64 at once, and moved to numbers of 64 bits before they could be too large.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, uint64
from numpy.typing import NDArray

from stream_dedup.core.arrays import F64, I64, U8, U16, U64
from stream_dedup.core.fingerprint.weights import Sums
from stream_dedup.core.kernel import add_where, compiled, inlined, read, whole, written

WORD_BITS = 64
MOST = (1 << 16) - 1
"""The largest number of 16 bits."""

_WORD_BYTES = WORD_BITS * 2
_IN_BYTE = 7
_ONE = np.uint64(1)


def sums_of_weights(weights: I64, hashes: U8, ends: NDArray[np.intp]) -> Sums:
    """Return the sums of texts; the weights of their features are joined, ``ends`` has the end of each text."""
    sums, squares = np.empty((len(ends), hashes.shape[1] * 8)), np.empty(len(ends), np.int64)
    words = np.ascontiguousarray(hashes).view("<u8")
    _add_each(np.ascontiguousarray(weights, np.int64), words, ends.astype(np.int64, copy=False), sums, squares)
    return Sums(sums, squares)


@inlined
def _move(light: U16, heavy: I64) -> None:
    """Add the numbers of 16 bits to those of 64, and make them 0."""
    for at in range(len(light)):
        heavy[at] += light[at]
    light[:] = 0


@compiled(int64, read(int64), read(uint64, 2), read(int64), written(float64, 2), written(int64))
def _add_each(weights: I64, hashes: U64, ends: I64, sums: F64, squares: I64) -> int:
    """Fill in the sums and the sum of the squared weights of each text; return the number of features.

    The bits of a hash are numbered from the lowest of the first word, and those of ``sums`` from the highest of the
    first byte.
    """
    words = hashes.shape[1]
    light, heavy = np.zeros(words * WORD_BITS, np.uint16), np.zeros(words * WORD_BITS, np.int64)
    start = 0
    for text in range(len(ends)):
        total, square, room = 0, 0, MOST
        for at in range(start, ends[text]):
            weight = weights[at]
            total += weight
            square += weight * weight
            if weight > room:
                _move(light, heavy)
                room = MOST
            if weight > MOST:
                for bit in range(len(heavy)):
                    heavy[bit] += weight * whole(hashes[at, bit // WORD_BITS] >> np.uint64(bit % WORD_BITS) & _ONE)
                continue
            room -= weight
            for word in range(words):
                add_where(light.ctypes.data + _WORD_BYTES * word, hashes[at, word], weight)
        _move(light, heavy)
        for bit in range(len(heavy)):
            sums[text, bit ^ _IN_BYTE] = 2 * heavy[bit] - total
        heavy[:] = 0
        squares[text] = square
        start = ends[text]
    return start
