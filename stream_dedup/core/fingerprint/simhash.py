"""SimHash: add, reduce, and what is read off the sums. Any bit width.

For each bit the weights of the features are added: plus where the feature's hash has a 1,
minus where it has a 0. Bit i of the signature is 1 where sum i is greater than 0.

Worked: weights 4 and 5, hashes 100101 and 101011:

    4 -4 -4  4 -4  4
    5 -5  5 -5  5  5
    9 -9  1 -1  1  9   reduced: 101011

Why it works: read column i of the hashes as a vector of +1 and -1, one component for each feature.
Sum i is the projection of the weight vector on it, so a bit is the side of a
hyperplane on which the weight vector lies. Two vectors lie on different sides of a random
hyperplane with probability angle / pi (Charikar 2002), so signatures' distance over
their width estimates the angle.

The margin of a bit says how sure it is: ``min(15, floor(MARGIN_SCALE * |sum| / norm))``,
``norm`` being the Euclidean length of the weight vector. A sum divided by the norm is spread like
a standard normal variable, so 4 bits reach to 15 / 8 of its deviation; a bit that
lies further out hardly ever flips.

The same numbers on every machine: weights are whole, so a sum is exact in
any order of adding as long as each partial sum is a whole number that the type holds
(below 2**24 in float32, 2**53 in float64), and the margin is made of
square root, multiplication and division in float64, each correctly rounded.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U16
from stream_dedup.core.model import SIGNATURE_BITS

FLOAT32_LIMIT = 1 << 24
"""Total weight up to which float32 sums are exact: whole numbers of 24 bits."""
MARGIN_SCALE = 8
"""Steps of a margin to one deviation of a sum."""
MAX_MARGIN = 15
"""Largest margin: 4 bits."""
CHUNK_FEATURES = 1024
"""Features in one matrix product: their bits as float32 are 1 MiB at 256 bits, which the level-2 cache holds."""


def add(weights: I64, hashes: U8) -> NDArray[np.float64]:
    """Sums of one text: whole numbers, one for each bit.

    Args:
        weights: whole numbers of shape (features,), none below 0, of a total below 2**52.
        hashes: packed bits of shape (features, width / 8), bit 0 the high bit of byte 0.
    """
    total = int(weights.sum())
    kind = np.float32 if total < FLOAT32_LIMIT else np.float64
    positive = np.zeros(hashes.shape[1] * 8, kind)
    for start in range(0, len(weights), CHUNK_FEATURES):
        bits = np.unpackbits(hashes[start : start + CHUNK_FEATURES], axis=1)
        positive += weights[start : start + CHUNK_FEATURES].astype(kind) @ bits.astype(kind)
    # What is added for a 1 and taken for a 0 is twice the weight of the ones, less all of it.
    return 2 * positive.astype(np.float64) - total


def add_each(weights: I64, hashes: U8, ends: NDArray[np.intp]) -> NDArray[np.float64]:
    """The same for several texts, whose features stand one text after the other up to ``ends``: a row each."""
    totals = per_text(weights, ends)
    if totals.max(initial=0) >= FLOAT32_LIMIT:
        starts = [0, *ends[:-1].tolist()]
        return np.array([add(weights[a:b], hashes[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)])
    positive = np.zeros((len(ends), hashes.shape[1] * 8), np.float32)
    # Memory that is touched for the first time costs more than what is done with it.
    bits = np.empty((CHUNK_FEATURES, positive.shape[1]), np.float32)
    light = weights.astype(np.float32)
    base, chunk, start = 0, 0, 0
    for place, end in enumerate(ends.tolist()):
        while start < end:
            if start == chunk:
                base, chunk = start, min(start + CHUNK_FEATURES, len(weights))
                np.copyto(bits[: chunk - base], np.unpackbits(hashes[base:chunk], axis=1))
            upto = min(end, chunk)
            positive[place] += light[start:upto].dot(bits[start - base : upto - base])
            start = upto
    return 2 * positive.astype(np.float64) - totals[:, np.newaxis]


def per_text(values: I64, ends: NDArray[np.intp]) -> I64:
    """Sum of each text's values, which stand one text after the other up to ``ends``."""
    return np.diff(np.concatenate(([0], np.cumsum(values)))[np.concatenate(([0], ends))])


def reduce(sums: NDArray[np.floating]) -> U8:
    """Signatures: packed bits along the last axis, 1 only where the sum is greater than 0."""
    return np.packbits(sums > 0, axis=-1)


def margins(sums: NDArray[np.float64], squares: I64) -> U8:
    """Margins of each text's sums, one number of 0 to 15 for each bit.

    Args:
        sums: shape (texts, width).
        squares: sum of the squared weights of each text, shape (texts,); 0 of no weights.
    """
    norms = np.sqrt(np.maximum(squares, 1).astype(np.float64))
    steps = np.floor(MARGIN_SCALE * np.abs(sums) / norms[:, np.newaxis])
    return np.minimum(steps, MAX_MARGIN).astype(np.uint8)


def pack_margins(values: U8) -> U8:
    """Two margins a byte, the first in the high half."""
    packed: U8 = np.left_shift(values[..., 0::2], 4) | values[..., 1::2]
    return packed


def unpack_margins(packed: U8) -> U8:
    """One margin a byte again."""
    return np.stack((packed >> 4, packed & MAX_MARGIN), axis=-1).reshape(*packed.shape[:-1], -1)


def distance(a: int, b: int) -> int:
    """Hamming distance of two bit strings held as whole numbers."""
    return (a ^ b).bit_count()


def distances(a: U8, b: U8) -> U16:
    """Hamming distances of packed bit strings along the last axis; shapes broadcast."""
    counts: U16 = np.bitwise_count(a ^ b).sum(axis=-1, dtype=np.uint16)
    return counts


def similarity(bits: int, width: int = SIGNATURE_BITS) -> float:
    """Cosine of two weight vectors as their signatures' distance estimates it."""
    return math.cos(math.pi * bits / width)
