"""Computes the values of sketches, compiled; ``sketch`` defines them. Importing this file loads the compiler."""

from __future__ import annotations

import numpy as np
from numba import int64, uint8, uint32

from stream_dedup.core.arrays import I64, U8, U32
from stream_dedup.core.fingerprint.sketch import FACTOR, VALUE_BITS
from stream_dedup.core.kernel import compiled, inlined, read, whole, written

_EMPTY = 0xFFFFFFFF
"""Minimum of a bin without shingles. A shingle with this hash counts as none."""

_BITS = 0xFFFFFFFF
_ONE, _OTHER = 0x85EBCA6B, 0xC2B2AE35


@inlined
def _mixed(number: int) -> int:
    """Mix the bits of a number of 32 bits: the mixing function of MurmurHash3."""
    number ^= number >> 16
    number = number * _ONE & _BITS
    number ^= number >> 13
    number = number * _OTHER & _BITS
    return number ^ number >> 16


@inlined
def _fill(minima: U32, full: U8, orders: I64) -> None:
    """Give each empty bin the minimum of the first bin in its order that has one."""
    bins = len(minima)
    for number in range(bins):
        full[number] = minima[number] != _EMPTY
    for number in range(bins):
        if not full[number]:
            for at in range(bins):
                if full[orders[number * bins + at]]:
                    minima[number] = minima[orders[number * bins + at]]
                    break


@inlined
def _values_of(hashes: U32, orders: I64, room: tuple[U32, U8], values: U8) -> None:
    """Fill in the values of one length of shingles, from the hashes of the shingles."""
    bins = len(values)
    minima, full = room
    minima[:bins] = _EMPTY
    for at in range(np.uint64(len(hashes))):
        slot = np.uint64((whole(hashes[at]) >> 16) * bins >> 16)
        minima[slot] = min(minima[slot], hashes[at])
    _fill(minima[:bins], full, orders)
    for number in range(bins):
        values[number] = _mixed(whole(minima[number]) + number * FACTOR & _BITS) >> 32 - VALUE_BITS


@compiled(int64, read(uint32), read(int64), int64, read(int64), read(int64), written(uint8, 2))
def fill_in(points: U32, lengths: I64, start: int, bins: I64, orders: I64, values: U8) -> int:
    """Fill in the values of the texts whose code points are joined; return the number of code points.

    Args:
        points: code points of all texts.
        lengths: code points of each text.
        start: what the polynomials begin with.
        bins: for each length of shingles from 1 on the number of values; 0 of those that are not asked for.
        orders: for each of these numbers, for each bin, the order of all bins, joined.
        values: shape (texts, all values), by length of shingles.
    """
    longest = len(bins)
    most = longest + (lengths.max() if len(lengths) else 0)
    own, sums, hashes = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    room = (np.empty(values.shape[1], np.uint32), np.empty(values.shape[1], np.uint8))
    begin = 0
    for text in range(len(lengths)):
        size = max(lengths[text], longest)
        own[:size] = 0
        for at in range(lengths[text]):
            own[at] = points[begin + at]
        begin += lengths[text]
        first, order = 0, 0
        for at in range(size):
            sums[at] = start + whole(own[at])
        for k in range(1, longest + 1):
            shingles = size - k + 1
            if k > 1:
                for at in range(shingles):
                    sums[at] = whole(sums[at]) * FACTOR + whole(own[at + k - 1])
            count = bins[k - 1]
            if count == 0:
                continue
            for at in range(shingles):
                hashes[at] = _mixed(whole(sums[at]))
            own_orders, own_values = orders[order : order + count * count], values[text, first : first + count]
            _values_of(hashes[:shingles], own_orders, room, own_values)
            first, order = first + count, order + count * count
    return begin
