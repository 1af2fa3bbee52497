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
FACTOR = 0x9E3779B1
"""Factor of the polynomial, and what the number of a bin is multiplied by."""

_LOW_HALF = 0x0F
_STEPS = ((16, np.uint32(0x85EBCA6B)), (13, np.uint32(0xC2B2AE35)))
"""The mixing function of MurmurHash3 for 32 bits: shifts and factors; one more shift of 16 ends it."""


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
        bins = dict(values)
        self._values = list(bins.items())
        self._start = int(_mixed(np.array([seed & 0xFFFFFFFF], np.uint32))[0])
        self._bins = np.array([bins.get(k, 0) for k in range(1, max(bins, default=0) + 1)], np.int64)
        orders = [_orders(n).reshape(-1) for n in self._bins.tolist() if n]
        self._orders = np.concatenate([np.empty(0, np.int64), *orders])

    def of_texts(self, texts: Sequence[str]) -> U8:
        """Return the sketch of each text, one row each; the texts are letters and digits only."""
        return self.of_points(*Letters.of(texts))

    def of_points(self, points: U32, lengths: Whole) -> U8:
        """Return the same for texts whose code points are joined."""
        from stream_dedup.core.fingerprint.sketch_kernel import fill_in  # noqa: PLC0415 - loads the compiler

        values = np.empty((len(lengths), int(self._bins.sum())), np.uint8)
        fill_in(points, lengths, self._start, self._bins, self._orders, values)
        return _packed(self._as_given(values))

    @property
    def size(self) -> int:
        """Bytes of a sketch."""
        return int(self._bins.sum()) * VALUE_BITS // 8

    def _as_given(self, values: U8) -> U8:
        """Put values that rise with the length of the shingles in the order in which the lengths were given."""
        if self._values == sorted(self._values):
            return values
        ends = np.cumsum(self._bins)
        return np.hstack([values[:, ends[k - 1] - n : ends[k - 1]] for k, n in self._values])


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


def _orders(bins: int) -> Whole:
    """Return the order of all bins in which each empty bin looks for a minimum."""
    drawn = _mixed(np.arange(bins * bins, dtype=np.uint32) * np.uint32(FACTOR) + np.uint32(bins))
    return drawn.reshape(bins, bins).argsort(axis=1, kind="stable")


def _packed(values: U8) -> U8:
    packed: U8 = np.left_shift(values[:, 0::2], VALUE_BITS) | values[:, 1::2]
    return packed
