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

The numbers are the same on every machine. Weights are whole numbers, so a sum is exact in any order of addition as long
as the type holds each partial sum (below 2**24 in float32, 2**53 in float64). The margin is computed by
square root, multiplication and division in float64, each correctly rounded.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.model import SIGNATURE_BITS

FLOAT32_LIMIT = 1 << 24
"""Total weight up to which float32 sums are exact: whole numbers of 24 bits."""
MARGIN_SCALE = 8
"""Steps of a margin in one standard deviation of a sum."""
MAX_MARGIN = 15
"""Largest margin: 4 bits."""
CHUNK_FEATURES = 1024
"""Features in one matrix product: at 256 bits their bits are 1 MiB of float32, which fits the level-2 cache."""


def add(weights: I64, hashes: U8) -> NDArray[np.float64]:
    """Return the sums of one text: whole numbers, one for each bit.

    Args:
        weights: whole numbers of shape (features,), at least 0, with a total below 2**52.
        hashes: packed bits of shape (features, width / 8), bit 0 the high bit of byte 0.
    """
    total = int(weights.sum())
    kind = np.float32 if total < FLOAT32_LIMIT else np.float64
    positive = np.zeros(hashes.shape[1] * 8, kind)
    for start in range(0, len(weights), CHUNK_FEATURES):
        bits = np.unpackbits(hashes[start : start + CHUNK_FEATURES], axis=1)
        positive += weights[start : start + CHUNK_FEATURES].astype(kind) @ bits.astype(kind)
    # Adding for a 1 and subtracting for a 0 gives twice the weight of the ones, less the total.
    return 2 * positive.astype(np.float64) - total


def add_each(weights: I64, hashes: U8, ends: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the sums of several texts, one row each; the features are joined, ``ends`` has the end of each text."""
    totals = per_text(weights, ends)
    if totals.max(initial=0) >= FLOAT32_LIMIT:
        starts = [0, *ends[:-1].tolist()]
        return np.array([add(weights[a:b], hashes[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)])
    positive = np.zeros((len(ends), hashes.shape[1] * 8), np.float32)
    # One buffer for all: the first touch of memory costs more than the work on it.
    bits = np.empty((CHUNK_FEATURES, positive.shape[1]), np.float32)
    light = weights.astype(np.float32)
    base, chunk, start = 0, 0, 0
    for row, end in enumerate(ends.tolist()):
        while start < end:
            if start == chunk:
                base, chunk = start, min(start + CHUNK_FEATURES, len(weights))
                np.copyto(bits[: chunk - base], np.unpackbits(hashes[base:chunk], axis=1))
            upto = min(end, chunk)
            positive[row] += light[start:upto].dot(bits[start - base : upto - base])
            start = upto
    return 2 * positive.astype(np.float64) - totals[:, np.newaxis]


def per_text(values: I64, ends: NDArray[np.intp]) -> I64:
    """Return the sum of the values of each text; the values are joined, ``ends`` has the end of each text."""
    return np.diff(np.concatenate(([0], np.cumsum(values)))[np.concatenate(([0], ends))])


def reduce(sums: NDArray[np.floating]) -> U8:
    """Return signatures: packed bits along the last axis, 1 where the sum is greater than 0."""
    return np.packbits(sums > 0, axis=-1)


def margins(sums: NDArray[np.float64], squares: I64) -> U8:
    """Return the margins of each text, a number from 0 to 15 for each bit.

    Args:
        sums: shape (texts, width).
        squares: sum of the squared weights of each text, shape (texts,); 0 without features.
    """
    norms = np.sqrt(np.maximum(squares, 1).astype(np.float64))
    steps = np.floor(MARGIN_SCALE * np.abs(sums) / norms[:, np.newaxis])
    return np.minimum(steps, MAX_MARGIN).astype(np.uint8)


def pack_margins(values: U8) -> U8:
    """Pack two margins into a byte, the first in the high half."""
    packed: U8 = np.left_shift(values[..., 0::2], 4) | values[..., 1::2]
    return packed


def unpack_margins(packed: U8) -> U8:
    """Unpack margins to one byte each."""
    return np.stack((packed >> 4, packed & MAX_MARGIN), axis=-1).reshape(*packed.shape[:-1], 2 * packed.shape[-1])


def similarity(bits: int, width: int = SIGNATURE_BITS) -> float:
    """Return the cosine of two weight vectors, as estimated from the distance of their signatures."""
    return math.cos(math.pi * bits / width)
