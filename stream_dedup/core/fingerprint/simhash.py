"""What is read off signatures and margins; the native core makes them."""

from __future__ import annotations

import math

import numpy as np

from stream_dedup.core.arrays import U8
from stream_dedup.core.model import SIGNATURE_BITS

MARGIN_SCALE = 8
"""Steps of a margin in one standard deviation of a sum."""
MAX_MARGIN = 15
"""Largest margin: 4 bits."""


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
