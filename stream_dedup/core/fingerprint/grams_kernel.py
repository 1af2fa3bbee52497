"""Counts, weighs and hashes the grams of short texts, compiled; ``features.grams_of`` defines them.

Importing this file loads the compiler. A *unit* is a span of code points: a word, or one other character, whose size is
given as 0. The grams of one text are counted in an open-addressing hash table (linear probing) by their keys (see
``keys_kernel``); only the key of a longer number is a hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint16, uint32, uint64

from stream_dedup.core.arrays import I32, I64, U16, U32, U64
from stream_dedup.core.fingerprint.hash_kernel import MOST_HASHED_BYTES, hash_of_bytes, with_character
from stream_dedup.core.fingerprint.keys_kernel import KEY_BITS, hash_key, longer_key, slot_of_key
from stream_dedup.core.fingerprint.points import Kind
from stream_dedup.core.fingerprint.short_kernel import is_han
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written

UNITS = several(read(uint32), read(int32), read(int32), read(int64, 2))
"""Type of code points, starts and sizes of units, and begin and end of the units of each text."""
COUNTED = several(written(int64), written(uint64, 2), written(int64), written(int32, 2))
"""Type of the weights and the hashes of all grams, of the end of each text, and of the numbers that are left."""
HASH_WORDS = 4

_CHARACTER_BYTES = 4
"""Most bytes of a character in UTF-8."""
_DECIMAL = Kind.DECIMAL
_EDGE, _SPACE = map(ord, "_ ")
_POINT_MASK = (1 << KEY_BITS) - 1
_SINGLE, _PAIR, _OTHER, _TRIGRAM = 0, 1, 2, 4
"""Which of ``Features.gram_weights`` a gram has; that of a character or pair that is not of ideographs is 2 behind."""


@inlined
def _is_number(points: U32, start: int, size: int, kinds: U16) -> bool:
    for at in range(start, start + size):  # noqa: SIM110 - numba compiles no generator
        if not kinds[min(whole(points[at]), len(kinds) - 1)] & _DECIMAL:
            return False
    return True


@inlined
def _same(points: U32, one: int, other: int, size: int) -> bool:
    for at in range(size):  # noqa: SIM110 - numba compiles no generator
        if points[one + at] != points[other + at]:
            return False
    return True


@inlined
def _count(key: int, unit: int, units: Any, room: Any, table: tuple[int, int], n: int) -> int:  # noqa: ANN401
    """Count a gram of a text that has n different grams so far; return how many it has then."""
    (points, starts, sizes), (slots, keys, counts, owners, taken), (last, seed) = units, room, table
    slot = slot_of_key(key, seed, last)
    while slots[slot] != 0:
        at = whole(slots[slot]) - 1
        if keys[at] == key:
            other = whole(owners[at])
            if key > 0 or (
                sizes[other] == sizes[unit] and _same(points, starts[other], starts[unit], whole(sizes[unit]))
            ):
                counts[at] += 1
                return n
        slot = (slot + 1) & last
    slots[slot] = n + 1
    keys[n], counts[n], owners[n], taken[n] = key, 1, unit, slot
    return n + 1


@inlined
def _count_all(span: Any, units: Any, kinds: U16, room: Any, table: tuple[int, int]) -> int:  # noqa: ANN401
    """Count the grams of one text; return the number of different ones.

    ``table``: its last slot, and the seed of the slots.
    """
    points, starts, sizes = units
    n, before = 0, whole(-1)
    for unit in range(span[0], span[1]):
        start, size = whole(starts[unit]), whole(sizes[unit])
        point = whole(points[start])
        if size == 0:
            key = longer_key(whole(0), point)
            n = _count(key, unit, units, room, table, n)
            if before >= 0:
                n = _count(longer_key(longer_key(whole(0), before), point), unit, units, room, table, n)
            before = point
            continue
        before = whole(-1)
        if size > 1 and _is_number(points, start, size, kinds):
            # One digit between its edges is a trigram.
            n = _count(hash_key(points, start, size, table[1]), unit, units, room, table, n)
            continue
        first, second = whole(_EDGE), point
        for at in range(start + 1, start + size + 1):
            third = whole(points[at]) if at < start + size else whole(_EDGE)
            key = longer_key(longer_key(longer_key(whole(0), first), second), third)
            n = _count(key, unit, units, room, table, n)
            first, second = second, third
    return n


@inlined
def _class_of(key: int) -> int:
    """Return which of ``Features.gram_weights`` a gram has."""
    if key < 0 or key >> 2 * KEY_BITS:
        return _TRIGRAM
    second, first = (key & _POINT_MASK) - 1, (key >> KEY_BITS) - 1
    other = not is_han(second)
    if first < 0:
        return _SINGLE + _OTHER * other
    return _PAIR + _OTHER * (other or not is_han(first))


@inlined
def _hash_of_key(key: int, seed: np.uint64, row: U64) -> None:
    """Fill in the hash of a gram of up to three characters; a space joins those of a pair."""
    low, high, size = np.uint64(0), np.uint64(0), 0
    first, second, third = (key >> 2 * KEY_BITS) - 1, (key >> KEY_BITS & _POINT_MASK) - 1, (key & _POINT_MASK) - 1
    if first >= 0:
        low, high, size = with_character(low, high, size, first)
        low, high, size = with_character(low, high, size, second)
    elif second >= 0:
        low, high, size = with_character(low, high, size, second)
        low, high, size = with_character(low, high, size, whole(_SPACE))
    low, high, size = with_character(low, high, size, third)
    hash_of_bytes(low, high, size, seed, row)


@inlined
def _hash_of_number(points: U32, start: int, size: int, seed: np.uint64, row: U64) -> bool:
    """Fill in the hash of a number between two edges; return whether it is short enough."""
    low, high, done = with_character(np.uint64(0), np.uint64(0), 0, whole(_EDGE))
    for at in range(start, start + size):
        if done + _CHARACTER_BYTES + 1 > MOST_HASHED_BYTES:
            return False
        low, high, done = with_character(low, high, done, whole(points[at]))
    low, high, done = with_character(low, high, done, whole(_EDGE))
    hash_of_bytes(low, high, done, seed, row)
    return True


@inlined
def _most_grams(span: Any, sizes: I32) -> int:  # noqa: ANN401
    """Return a bound of the grams of a text: a word has as many as it has characters, another unit two."""
    most = 0
    for unit in range(span[0], span[1]):
        most += max(2, whole(sizes[unit]))
    return most


@compiled(several(int64, int64), UNITS, read(uint16), read(int64, 2), several(int64, uint64), COUNTED)
def count(units: Any, kinds: U16, weights: I64, seeds: tuple[int, np.uint64], found: Any) -> tuple[int, int]:  # noqa: ANN401
    """Fill in weights and hashes of the different grams of each text; return how many there are, and how many are left.

    Args:
        units: see ``UNITS``.
        kinds: bits of ``points.Kind`` of each code point; the last ones are those of all beyond.
        weights: of a gram by its class and its count, up to the last one.
        seeds: of the slots, and of the scheme.
        found: see ``COUNTED``. A number that is left, because it is too long to be hashed here, has a row with the
            number of its gram and that of its unit.
    """
    (points, starts, sizes, spans), (own, hashes, ends, left) = units, found
    most = 1
    for text in range(len(spans)):
        most = max(most, _most_grams(spans[text], sizes))
    size = 1
    while size < 2 * most:
        size *= 2
    slots, taken, owners = np.zeros(size, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    keys, counts = np.empty(most, np.int64), np.empty(most, np.int64)
    room, spread, seed = (slots, keys, counts, owners, taken), seeds[0], seeds[1]
    grams, more = 0, 0
    for text in range(len(spans)):
        last, bound = 1, 2 * _most_grams(spans[text], sizes)
        while last < bound:
            last *= 2
        n = _count_all(spans[text], (points, starts, sizes), kinds, room, (last - 1, spread))
        for at in range(n):
            slots[taken[at]] = 0
            own[grams] = weights[_class_of(keys[at]), min(counts[at], weights.shape[1] - 1)]
            unit = owners[at]
            if keys[at] >= 0:
                _hash_of_key(keys[at], seed, hashes[grams])
            elif not _hash_of_number(points, whole(starts[unit]), whole(sizes[unit]), seed, hashes[grams]):
                left[more, 0], left[more, 1] = grams, unit
                more += 1
            grams += 1
        ends[text] = grams
    return grams, more
