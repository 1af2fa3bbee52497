"""Computes the sketches of texts; ``sketch`` defines them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U32, Bools
from stream_dedup.core.fingerprint.sketch import FACTOR, VALUE_BITS

Whole = NDArray[np.intp]

_STEPS = ((16, np.uint32(0x85EBCA6B)), (13, np.uint32(0xC2B2AE35)))
"""The mixing function of MurmurHash3 for 32 bits: shifts and factors; one more shift of 16 ends it."""


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
