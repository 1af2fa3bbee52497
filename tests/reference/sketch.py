"""Sketches: a second summary of a text in a few bytes, made of other features than the signature.

A sketch is a row of values of 4 bits, two in a byte, the first in the high half. Values at one position of two sketches
are equal about as often as the share of their shingles that the texts have in common (the Jaccard similarity J);
unequal minima give equal values by chance in 1 of 16. So of W values about W (J + (1 - J) / 16) are equal. The sums of
a signature add up weighted words or characters and forget their order. A sketch counts the shingles of the text, each
once: where the signature is wrong about two texts, the sketch has no reason to be.

The algorithm is one-permutation MinHash (Li, Owen and Zhang 2012), with b = 4 bits of each value (Li and König 2010)
and optimal densification (Shrivastava 2017):

1. A shingle is a run of k letters and digits; white space and punctuation do not count. A text of fewer than k is one
   shingle, filled up with zeros to the longest one of the settings.
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

from collections.abc import Sequence
from functools import cache

import numpy as np

from stream_dedup.core.arrays import U64

_FACTOR = np.uint64(0x9E3779B1)
"""Factor of the polynomial, and what the number of a bin is multiplied by."""
_ALL = np.uint64(0xFFFFFFFF)
"""All bits of a hash; a shingle with this hash counts as none."""
_HALF = np.uint64(16)


def sketch_of(letters: str, values: Sequence[tuple[int, int]], seed: int = 0) -> bytes:
    """Return the sketch of a text. ``values``: lengths of shingles, and how many values there are of each."""
    points = list(map(ord, letters))
    longest = max((size for size, _ in values), default=0)
    padded = np.array(points + [0] * (longest - len(points)), np.uint64)
    found = [value for size, bins in values for value in _values(padded, size, bins, seed)]
    return bytes(high << 4 | low for high, low in zip(found[0::2], found[1::2], strict=True))


def _values(points: U64, size: int, bins: int, seed: int) -> list[int]:
    count = len(points) - size + 1
    hashes = points[:count] + mixed(np.array([seed], np.uint64))
    for at in range(1, size):
        hashes = hashes * _FACTOR + points[at : at + count] & _ALL
    hashes = mixed(hashes)
    minima = np.full(bins, _ALL)
    np.minimum.at(minima, (hashes >> _HALF) * np.uint64(bins) >> _HALF, hashes)
    filled = np.array([_minimum(minima.tolist(), number, bins) for number in range(bins)], np.uint64)
    made: list[int] = (mixed(filled + np.arange(bins, dtype=np.uint64) * _FACTOR) >> np.uint64(28)).tolist()
    return made


def _minimum(minima: Sequence[int], number: int, bins: int) -> int:
    """Return the minimum of a bin, or that of the first of its order that has one."""
    if minima[number] != _ALL:
        return minima[number]
    return next((minima[other] for other in _order(number, bins) if minima[other] != _ALL), int(_ALL))


@cache
def _order(number: int, bins: int) -> Sequence[int]:
    numbers = np.arange(number * bins, (number + 1) * bins, dtype=np.uint64)
    ranks = mixed(numbers * _FACTOR + np.uint64(bins)).tolist()
    return sorted(range(bins), key=ranks.__getitem__)


def mixed(numbers: U64) -> U64:
    """Mix the bits of numbers, of which the lower 32 count: the mixing function of MurmurHash3."""
    numbers = numbers & _ALL
    numbers = numbers ^ numbers >> _HALF
    numbers = numbers * np.uint64(0x85EBCA6B) & _ALL
    numbers = numbers ^ numbers >> np.uint64(13)
    numbers = numbers * np.uint64(0xC2B2AE35) & _ALL
    return numbers ^ numbers >> _HALF
