"""Hashes of features: 256 bits for the sums, and the spread of numbers over the slots of a table.

The hash of a feature is XXH3-128 of its UTF-8 bytes with seed 2n, then with seed 2n + 1, where n is the scheme's
``seed``, each in canonical (big-endian) byte order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio: neighbours are spread evenly over slots (Knuth 6.4)."""


def feature_hash(name: str, seed: int = 0) -> bytes:
    """Return the 256-bit hash of a feature."""
    return feature_hashes((name,), seed)


def feature_hashes(names: Iterable[str], seed: int = 0) -> bytes:
    """Return the hashes of features, joined."""
    digest, first, second = xxhash.xxh3_128_digest, 2 * seed, 2 * seed + 1
    raw = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join([digest(one, first) + digest(one, second) for one in raw])
