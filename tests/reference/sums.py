"""SimHash of any bit width: sums, signatures, margins, similarities.

Sum i adds the weight of each feature whose hash has a 1 in bit i, and subtracts the weight of each other
feature. Bit i of the signature is 1 if sum i is greater than 0.

Example: weights 4 and 5, hashes 100101 and 101011:

    4 -4 -4  4 -4  4
    5 -5  5 -5  5  5
    9 -9  1 -1  1  9   reduced: 101011

Why it works: column i of the hashes, read as +1 and -1, is a vector with one component for each feature.
Sum i is the projection of the weight vector on it, so bit i tells on which side of a hyperplane the weight vector
lies. Two vectors lie on different sides of a random hyperplane with probability angle / pi (Charikar 2002), so the
distance of two signatures, divided by their width, estimates the angle.

The margin of a bit tells how sure the bit is: ``min(15, floor(MARGIN_SCALE * |sum| / norm))``, where
``norm`` is the Euclidean length of the weight vector. A sum divided by the norm has about a standard normal
distribution, so 4 bits reach to 15 / 8 standard deviations; a bit beyond that almost never flips.

The numbers are the same on every machine. Weights are whole numbers. The margin is computed by square root,
multiplication and division in float64, each correctly rounded.

The hash of a feature is XXH3-128 of its UTF-8 bytes with seed 2n, then with seed 2n + 1, where n is the scheme's
``seed``, each in canonical (big-endian) byte order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import xxhash

MARGIN_SCALE = 8
"""Steps of a margin in one standard deviation of a sum."""
MAX_MARGIN = 15
"""Largest margin: 4 bits."""
_HALF = 128


def feature_hash(name: str, seed: int = 0) -> bytes:
    """Return the 256-bit hash of a feature."""
    raw = name.encode("utf-8", "surrogatepass")
    return xxhash.xxh3_128_digest(raw, 2 * seed) + xxhash.xxh3_128_digest(raw, 2 * seed + 1)


class Sums(NamedTuple):
    """What the features of one text add up to."""

    sums: list[int]
    """One for each bit."""
    squares: int
    """Sum of the squares of the weights."""


def add(weights: Sequence[int], hashes: Iterable[bytes], bits: int = 2 * _HALF) -> Sums:
    """Return the sums of features: hashes are packed bits, bit 0 the high bit of byte 0."""
    packed = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(weights), -1 if weights else bits // 8)
    signs = 2 * np.unpackbits(packed, axis=1)[:, :bits].astype(np.int64) - 1
    sums = np.array(weights, np.int64) @ signs
    return Sums(sums.tolist(), sum(weight * weight for weight in weights))


def reduce(sums: Iterable[int]) -> bytes:
    """Return the signature: packed bits, 1 where the sum is greater than 0."""
    bits = "".join("1" if one > 0 else "0" for one in sums)
    return int(bits, 2).to_bytes(len(bits) // 8)


def margins(sums: Iterable[int], squares: int) -> list[int]:
    """Return the margins, a number from 0 to 15 for each bit. ``squares``: 0 without features."""
    norm = math.sqrt(max(squares, 1))
    return [min(math.floor(MARGIN_SCALE * abs(one) / norm), MAX_MARGIN) for one in sums]


def packed(margins: Sequence[int]) -> bytes:
    """Pack two margins into a byte, the first in the high half."""
    return bytes(high << 4 | low for high, low in zip(margins[0::2], margins[1::2], strict=True))
