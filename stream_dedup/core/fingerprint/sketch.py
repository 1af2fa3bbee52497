"""Sketches: a second summary of a text in a few bytes, made of other features than the signature.

A sketch is a row of values of 4 bits, two in a byte, the first in the high half. Values at one position of two sketches
are equal about as often as the share of their shingles that the texts have in common (the Jaccard similarity J);
unequal minima give equal values by chance in 1 of 16. So of W values about W (J + (1 - J) / 16) are equal. The sums of
a signature add up weighted words or characters and forget their order. A sketch counts the shingles of the text, each
once: where the
signature is wrong about two texts, the sketch has no reason to be.

The algorithm is one-permutation MinHash (Li, Owen and Zhang 2012), with b = 4 bits of each value (Li and König 2010)
and optimal densification (Shrivastava 2017):

1. A shingle is a run of k letters and digits; white space and punctuation do not count. A text of fewer than k is one
   shingle, filled up with zeros. There are values for each k of ``Sketcher``; they do not share shingles.
2. Each shingle has one hash of 32 bits: a polynomial of its code points, mixed.
3. The range of hashes is divided into as many bins as there are values. The smallest hash in a bin is its minimum.
4. A bin without a shingle takes the minimum of another bin: the first of an order of all bins of its own that has one.
   Short texts have few shingles, and most would have empty bins otherwise.
5. The value is the top 4 bits of the minimum mixed with the number of the bin, so that chance decides anew about a
   minimum that several bins have.

All is whole-number arithmetic modulo 2**32: a sketch depends on the text and the seed alone, on every machine and in
every batch. A text without letters and digits has the sketch of k zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U32, U64, Bools
from stream_dedup.core.model import FRAME_MASK

Whole = NDArray[np.intp]

VALUE_BITS = 4
"""Bits of a value; with fewer, more of the unequal values are equal by chance, with more there are fewer values."""
CHUNK_CHARACTERS = 1 << 15
"""Characters hashed together: the arrays of one step then fit the level-2 cache."""

_LOW_HALF = 0x0F
_FACTOR = np.uint32(0x9E3779B1)
_STEPS = ((16, np.uint32(0x85EBCA6B)), (13, np.uint32(0xC2B2AE35)))
"""The mixing function of MurmurHash3 for 32 bits: shifts and factors; one more shift of 16 ends it."""
_EMPTY = np.uint32(0xFFFFFFFF)
"""Minimum of a bin without shingles. A shingle with this hash counts as none."""


def equal_values(one: U8, other: U8) -> I64:
    """Return how many values two sketches share; of rows of sketches, for each pair of rows."""
    apart = one ^ other
    counts: I64 = (apart >> VALUE_BITS == 0).sum(axis=-1) + (apart & _LOW_HALF == 0).sum(axis=-1)
    return counts


def split(sketches: U8, form_bytes: int) -> tuple[U8, U64]:
    """Return the values of sketches, and the form at the end of each; 0 of a scheme without forms."""
    end = sketches.shape[-1] - form_bytes
    if not form_bytes:
        return sketches, np.zeros(sketches.shape[:-1], np.uint64)
    forms: U64 = np.ascontiguousarray(sketches[..., end:]).view("<u8")[..., 0]
    return sketches[..., :end], forms


def have_other_numbers(one: U64, other: U64) -> Bools:
    """Return whether texts of these forms have one frame, and numbers that differ."""
    frame = np.uint64(FRAME_MASK)
    apart = one ^ other
    others: Bools = (one & frame != 0) & (apart & frame == 0) & (apart != 0)
    return others


class Letters(NamedTuple):
    """Letters and digits of n texts, joined."""

    points: U32
    """Code points."""
    lengths: Whole
    """Letters of each text."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Letters:
        """Return the characters of texts."""
        joined = "".join(texts).encode("utf-32-le", "surrogatepass")
        return cls(np.frombuffer(joined, "<u4"), np.fromiter(map(len, texts), np.intp, len(texts)))

    @classmethod
    def joined(cls, parts: Iterable[Letters]) -> Letters:
        """Return those of all texts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def where(self, keep: Bools) -> Letters:
        """Return those of some of the texts."""
        return self if keep.all() else Letters(self.points[np.repeat(keep, self.lengths)], self.lengths[keep])


class Sketcher:
    """Computes the sketches of texts: ``values`` has the length of a shingle and the number of values, for each."""

    def __init__(self, values: Sequence[tuple[int, int]], seed: int = 0) -> None:
        self._bins = dict(values)
        self._longest = max(self._bins, default=1)
        self._start = _mixed(np.array([seed & 0xFFFFFFFF], np.uint32))
        self._orders = {bins: _orders(bins) for bins in self._bins.values()}

    def of_texts(self, texts: Sequence[str]) -> U8:
        """Return the sketch of each text, one row each; the texts are letters and digits only."""
        return self.of_points(*Letters.of(texts))

    def of_points(self, points: U32, lengths: Whole) -> U8:
        """Return the same for texts whose code points are joined."""
        points, lengths = self._filled_up(points, lengths)
        ends = np.cumsum(lengths)
        parts, start, first = [np.empty((0, self.size), np.uint8)], 0, 0
        while start < len(lengths):
            stop = max(start + 1, int(np.searchsorted(ends, first + CHUNK_CHARACTERS, side="right")))
            parts.append(self._chunk(points[first : ends[stop - 1]], lengths[start:stop]))
            start, first = stop, ends[stop - 1]
        return np.concatenate(parts)

    @property
    def size(self) -> int:
        """Bytes of a sketch."""
        return sum(self._bins.values()) * VALUE_BITS // 8

    def _filled_up(self, points: U32, lengths: Whole) -> tuple[U32, Whole]:
        """Fill texts that are too short up with zeros."""
        missing = np.maximum(self._longest - lengths, 0)
        if not missing.any():
            return points, lengths
        return np.insert(points, np.repeat(np.cumsum(lengths), missing), 0), lengths + missing

    def _chunk(self, points: U32, lengths: Whole) -> U8:
        ends = np.cumsum(lengths)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        values = dict[int, U8]()
        sums = points + self._start
        # The polynomial of a shingle begins with that of the shorter one.
        for k in range(1, self._longest + 1):
            if k > 1:
                sums *= _FACTOR
                sums[: 1 - k] += points[k - 1 :]
            bins = self._bins.get(k)
            if bins is not None:
                hashes = _mixed(sums.copy())
                # The last k - 1 characters of a text begin no shingle.
                hashes[(ends[:, np.newaxis] - np.arange(1, k)).reshape(-1)] = _EMPTY
                values[k] = self._values_of(hashes, rows, len(lengths), bins)
        none = np.empty((len(lengths), 0), np.uint8)
        return _packed(np.hstack([none, *(values[k] for k in self._bins)]))

    def _values_of(self, hashes: U32, rows: Whole, texts: int, bins: int) -> U8:
        """Return the values from the hashes of shingles and the rows of their texts."""
        minima = np.full((texts, bins), _EMPTY)
        slots = rows * bins
        slots += (hashes >> 16) * np.uint32(bins) >> 16
        np.minimum.at(minima.reshape(-1), slots, hashes)
        _fill(minima, self._orders[bins])
        minima += np.arange(bins, dtype=np.uint32) * _FACTOR
        return (_mixed(minima) >> (32 - VALUE_BITS)).astype(np.uint8)


def _mixed(numbers: U32) -> U32:
    """Mix the bits of each number, in place."""
    shifted = np.empty_like(numbers)
    for shift, factor in _STEPS:
        np.right_shift(numbers, shift, out=shifted)
        numbers ^= shifted
        numbers *= factor
    np.right_shift(numbers, 16, out=shifted)
    numbers ^= shifted
    return numbers


def _fill(minima: U32, orders: Whole) -> None:
    """Give each empty bin the minimum of the first bin in its order that has one."""
    full = minima != _EMPTY
    rows, empty = np.nonzero(~full)
    if len(rows):
        order = orders[empty]
        donors = np.take_along_axis(full[rows], order, axis=1).argmax(axis=1)
        minima[rows, empty] = minima[rows, order[np.arange(len(rows)), donors]]


def _orders(bins: int) -> Whole:
    """Return the order of all bins in which each empty bin looks for a minimum."""
    drawn = _mixed(np.arange(bins * bins, dtype=np.uint32) * _FACTOR + np.uint32(bins))
    return drawn.reshape(bins, bins).argsort(axis=1, kind="stable")


def _packed(values: U8) -> U8:
    packed: U8 = np.left_shift(values[:, 0::2], VALUE_BITS) | values[:, 1::2]
    return packed
