"""Keys of features and their slots in open-addressing hash tables, compiled. Importing this file loads the compiler.

The key of a name of up to three code points is these code points, so equal keys are equal names. The key of any other
name is a hash, below 0; the caller compares its code points: two names with one hash are two features. Both the hash
and the spread over the slots depend on a random seed of each table: nobody can send words that all have one slot. With
a hash that everybody can compute, words that have one hash are found in minutes (Joux 2004: two beginnings of one hash,
and after these two more), and all of them share a slot under every seed.
"""

from __future__ import annotations

from os import urandom

import numpy as np
from numba import int64, uint32

from stream_dedup.core.arrays import U32
from stream_dedup.core.fingerprint.hashing import SPREAD
from stream_dedup.core.kernel import compiled, inlined, read, whole

KEY_POINTS, KEY_BITS = 3, 21
"""Code points in a key that is no hash, and bits of each."""

_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_SEED_BYTES = 8


def random_seed() -> int:
    """Return a seed that nobody can foresee. Python's own seed would not do: PYTHONHASHSEED fixes it."""
    return int.from_bytes(urandom(_SEED_BYTES), byteorder="little", signed=True)


@inlined
def longer_key(key: int, point: int) -> int:
    """Return the key of a name with one code point more, from that of a name of fewer than ``KEY_POINTS``."""
    return key << KEY_BITS | point + 1


@inlined
def hash_key(points: U32, start: int, size: int, seed: int) -> int:
    """Return the key, below 0, of a name of any size that is a span of code points."""
    mixed = np.uint64(size) ^ np.uint64(seed)
    for at in range(start, start + size):
        mixed = (mixed ^ np.uint64(points[at])) * _MIX
        mixed ^= mixed >> _HALF
    return whole(mixed) | whole(-1) << 63


@inlined
def span_key(points: U32, start: int, size: int, seed: int) -> int:
    """Return the key of a name that is a span of code points."""
    if size == 0 or size > KEY_POINTS:
        return hash_key(points, start, size, seed)
    # All three are read, and none is asked for: no order of sizes can be foreseen.
    last = len(points) - 1
    one = longer_key(whole(0), whole(points[start]))
    two = longer_key(one, whole(points[min(start + 1, last)]))
    three = longer_key(two, whole(points[min(start + 2, last)]))
    longer = two if size == 2 else three  # noqa: PLR2004 - code points
    return one if size == 1 else longer


@compiled(int64, read(uint32), int64)
def key_of(name: U32, seed: int) -> int:
    """Return the key of a name."""
    return span_key(name, 0, len(name), seed)


@inlined
def slot_of_key(key: int, seed: int, last: int) -> int:
    """Return the slot of a key, up to the ``last`` of a table, whose number of slots is a power of 2."""
    mixed = (np.uint64(key) ^ np.uint64(seed)) * _MIX
    mixed = (mixed ^ mixed >> _HALF) * SPREAD
    return whole(mixed >> _HALF) & last
