"""Counts, weighs and hashes the grams of short texts, and adds them up, compiled; ``features.grams_of`` defines them.

Importing this file loads the compiler. A *unit* is a span of code points: a word, or one other character, whose size is
given as 0. The grams of one text are counted in an open-addressing hash table (linear probing) by their keys (see
``keys_kernel``); only the key of a longer number is a hash. A text goes through three loops: one makes the keys, one
the slots, and one counts. So the second has vector instructions, and the third waits for no key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, uint16, uint32, uint64

from stream_dedup.core.arrays import I32, I64, U16, U32, U64
from stream_dedup.core.fingerprint.hash_kernel import MOST_HASHED_BYTES, hash_of_bytes, three_bytes, with_character
from stream_dedup.core.fingerprint.keys_kernel import KEY_BITS, hash_key, longer_key, slot_of_key
from stream_dedup.core.fingerprint.points import Kind
from stream_dedup.core.fingerprint.short_kernel import is_han
from stream_dedup.core.fingerprint.sums_kernel import WORD_BITS, add_features
from stream_dedup.core.kernel import ONE, compiled, inlined, read, several, whole, written

UNITS = several(read(uint32), read(int32), read(int32), read(int64, 2))
"""Type of code points, starts and sizes of units, and begin and end of the units of each text."""
COUNTED = several(
    *(written(int64), written(uint64, 2), written(int64), written(int32, 2)), written(float64, 2), written(int64)
)
"""Type of the weights and the hashes of grams, of the end of each text, of the numbers that are left, and of the sums
and squared weights of each text."""
HASH_WORDS = 4

_CHARACTER_BYTES = 4
"""Most bytes of a character in UTF-8."""
_DECIMAL = Kind.DECIMAL
_EDGE, _SPACE = map(ord, "_ ")
_POINT_MASK = (1 << KEY_BITS) - 1
_SLOTS = 4
"""Slots for each gram that a text may have: most are found in the first one."""
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
def _keys_of(span: Any, units: Any, kinds: U16, seed: int, found: Any) -> tuple[int, int, int]:  # noqa: ANN401
    """Fill in the keys of the grams of a text; return how many pairs of ideographs, ideographs and others it has.

    ``found``: keys of these three and the unit of each of the others, with room for one more.
    """
    (points, starts, sizes), (pair_keys, single_keys, other_keys, owners) = units, found
    pairs, singles, others, before, was_han = 0, 0, 0, whole(0), 0
    for unit in range(np.uint64(span[0]), np.uint64(span[1])):
        start, size = whole(starts[unit]), whole(sizes[unit])
        if size == 0:
            point = whole(points[np.uint64(start)])
            key, han = longer_key(whole(0), point), whole(is_han(point))
            pair, is_pair = before << KEY_BITS | key, whole(before != 0)
            of_han = is_pair & han & was_han
            # Where this is no such gram, the next one takes its place.
            pair_keys[np.uint64(pairs)], single_keys[np.uint64(singles)] = pair, key
            pairs, singles = pairs + of_han, singles + han
            other_keys[np.uint64(others)], owners[np.uint64(others)] = key, unit
            others += 1 - han
            other_keys[np.uint64(others)], owners[np.uint64(others)] = pair, unit
            others += is_pair ^ of_han
            before, was_han = key, han
            continue
        before = whole(0)
        if size > 1 and _is_number(points, start, size, kinds):
            # One digit between its edges is a trigram.
            other_keys[others], owners[others], others = hash_key(points, start, size, seed), unit, others + 1
            continue
        first, second = whole(_EDGE), whole(points[start])
        for at in range(start + 1, start + size + 1):
            third = whole(points[at]) if at < start + size else whole(_EDGE)
            other_keys[others] = longer_key(longer_key(longer_key(whole(0), first), second), third)
            owners[others], others = unit, others + 1
            first, second = second, third
    return pairs, singles, others


@inlined
def _count_all(n: int, every: Any, room: Any, last: int, different: int) -> int:  # noqa: ANN401
    """Count n grams whose key is no hash; return the number of different grams, ``different`` and those that are new.

    Args:
        n: grams.
        every: key and slot of each.
        room: slots up to ``last``, and key and count of each different gram, numbered from 1 on; the counts of new ones
            are 0. The key of number 0 is overwritten.
        last: slot of the table.
        different: how many there are so far.
    """
    (all_keys, where), (slots, keys, counts) = every, room
    for at in range(np.uint64(n)):
        key, slot = all_keys[at], np.uint64(where[at])
        if key < 0:
            continue
        gram = np.uint64(slots[slot])
        # A free slot ends the search as the key does: whether a gram is new cannot be foreseen.
        keys[0] = key
        while keys[gram] != key:
            slot = slot + np.uint64(1) & np.uint64(last)
            gram = np.uint64(slots[slot])
        # Written again where it is known: a branch for new ones would be foreseen half of the time.
        is_new = whole(gram == 0)
        different += is_new
        gram = np.uint64(different) if is_new else gram
        slots[slot], keys[gram] = gram, key
        counts[gram] += 1
    return different


@inlined
def _count_numbers(n: int, units: Any, every: Any, room: Any, state: tuple[int, int]) -> int:  # noqa: ANN401
    """Count the grams whose key is a hash, beside the others; return the number of different grams of both kinds.

    ``units``: points, starts and sizes of units; ``every``: key, slot and unit of each gram; ``room``: as of the
    others, and the units of the different grams; ``state``: the number of different grams so far, and the last slot.
    """
    (points, starts, sizes), (all_keys, where, all_owners), (slots, keys, counts, owners) = units, every, room
    different, last = state
    for at in range(n):
        key, unit, slot = all_keys[at], whole(all_owners[at]), whole(where[at])
        if key >= 0:
            continue
        size = whole(sizes[unit])
        while slots[slot] != 0:
            gram = slots[slot]
            if keys[gram] == key:
                other = owners[gram]
                if sizes[other] == size and _same(points, starts[other], starts[unit], size):
                    break
            slot = (slot + 1) & last
        if slots[slot] == 0:
            different += 1
            slots[slot], keys[different], owners[different] = different, key, unit
        counts[slots[slot]] += 1
    return different


@inlined
def _class_of(key: int) -> int:
    """Return which of ``Features.gram_weights`` a gram has that is neither an ideograph nor a pair of these."""
    if key < 0 or key >> 2 * KEY_BITS:
        return _TRIGRAM
    return (_PAIR if key >> KEY_BITS else _SINGLE) + _OTHER


@inlined
def _weigh(times: I32, span: tuple[int, int], weights: I64, own: I64, row: int) -> None:
    """Fill in the weights of grams of one class, from a row on."""
    for at in range(span[0], span[1]):
        own[row + at - span[0]] = weights[min(whole(times[at]), len(weights) - 1)]


@inlined
def _hashes_of_pairs(keys: I64, span: tuple[int, int], seed: np.uint64, hashes: U64, row: int) -> None:
    """Fill in the hashes of pairs of ideographs, from a row on."""
    row -= span[0]
    for at in range(np.uint64(span[0]), np.uint64(span[1])):
        first, second = np.uint64(keys[at] >> KEY_BITS) - ONE, np.uint64(keys[at] & _POINT_MASK) - ONE
        low = three_bytes(first) | np.uint64(_SPACE) << np.uint64(24) | three_bytes(second) << np.uint64(32)
        hash_of_bytes(low, np.uint64(0), 7, seed, hashes, row + whole(at))


@inlined
def _hashes_of_singles(keys: I64, span: tuple[int, int], seed: np.uint64, hashes: U64, row: int) -> None:
    """Do the same for ideographs."""
    row -= span[0]
    for at in range(np.uint64(span[0]), np.uint64(span[1])):
        hash_of_bytes(three_bytes(np.uint64(keys[at]) - ONE), np.uint64(0), 3, seed, hashes, row + whole(at))


@inlined
def _hash_of_key(key: int, seed: np.uint64, hashes: U64, row: int) -> None:
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
    hash_of_bytes(low, high, size, seed, hashes, row)


@inlined
def _hash_of_number(points: U32, span: tuple[int, int], seed: np.uint64, hashes: U64, row: int) -> bool:
    """Fill in the hash of a number, given by start and size, between two edges; return whether it is short enough."""
    low, high, done = with_character(np.uint64(0), np.uint64(0), 0, whole(_EDGE))
    for at in range(span[0], span[0] + span[1]):
        if done + _CHARACTER_BYTES + 1 > MOST_HASHED_BYTES:
            return False
        low, high, done = with_character(low, high, done, whole(points[at]))
    low, high, done = with_character(low, high, done, whole(_EDGE))
    hash_of_bytes(low, high, done, seed, hashes, row)
    return True


@inlined
def _most_grams(span: Any, sizes: I32) -> int:  # noqa: ANN401
    """Return a bound of the grams of a text: a word has as many as it has characters, another unit two."""
    most = 0
    for unit in range(span[0], span[1]):
        most += max(2, whole(sizes[unit]))
    return most


@inlined
def _slots_of(keys: I64, n: int, seed: int, last: int, where: I32) -> None:
    """Fill in the slots of n keys."""
    for at in range(np.uint64(n)):
        where[at] = slot_of_key(keys[at], seed, last)


@inlined
def _slots_for(grams: int) -> int:
    """Return how many slots a table has for so many grams: a power of 2."""
    size = 1
    while size < _SLOTS * grams:
        size *= 2
    return size


@compiled(several(int64, int64), UNITS, read(uint16), several(read(int64, 2), boolean), several(int64, uint64), COUNTED)
def count(units: Any, kinds: U16, how: Any, seeds: tuple[int, np.uint64], found: Any) -> tuple[int, int]:  # noqa: ANN401
    """Fill in the sums of texts, or weights and hashes of their grams; return how many of these, and how many are left.

    A text whose sums are filled in has no weights and hashes: they would take more memory than the level-2 cache has.

    Args:
        units: see ``UNITS``.
        kinds: bits of ``points.Kind`` of each code point; the last ones are those of all beyond.
        how: weights of a gram by its class and its count, up to the last one; and whether grams are added up, of the
            texts of which none is left.
        seeds: of the slots, and of the scheme.
        found: see ``COUNTED``. A number that is left, because it is too long to be hashed here, has a row with the
            number of its gram and that of its unit.
    """
    (points, starts, sizes, spans), (own, hashes, ends, left, sums, squares), (weights, adds) = units, found, how
    most = 1
    for text in range(len(spans)):
        most = max(most, _most_grams(spans[text], sizes))
    slots = np.empty(_slots_for(most), np.int32)
    (pair_keys, single_keys, other_keys), all_owners = np.empty((3, most + 1), np.int64), np.empty(most + 1, np.int32)
    of_pairs, of_singles, of_others = np.empty((3, most), np.int32)
    keys, times, owners = np.empty(most + 1, np.int64), np.zeros(most + 1, np.int32), np.empty(most + 1, np.int32)
    room, spread, seed = (slots, keys, times), seeds[0], seeds[1]
    bits, joined = hashes.shape[1] * WORD_BITS, hashes.reshape(hashes.size)
    of_sums = np.zeros(bits, np.uint16), np.zeros(bits, np.int64)
    grams, more = 0, 0
    for text in range(len(spans)):
        begin, left_before = grams, more
        last = _slots_for(_most_grams(spans[text], sizes)) - 1
        slots[: last + 1] = 0
        of_text, every = (points, starts, sizes), (pair_keys, single_keys, other_keys, all_owners)
        n_pairs, n_singles, n_others = _keys_of(spans[text], of_text, kinds, spread, every)
        _slots_of(pair_keys, n_pairs, spread, last, of_pairs)
        _slots_of(single_keys, n_singles, spread, last, of_singles)
        _slots_of(other_keys, n_others, spread, last, of_others)
        pairs = _count_all(n_pairs, (pair_keys, of_pairs), room, last, 0)
        han = _count_all(n_singles, (single_keys, of_singles), room, last, pairs)
        known = _count_all(n_others, (other_keys, of_others), room, last, han)
        state = (known, last)
        different = _count_numbers(n_others, of_text, (other_keys, of_others, all_owners), (*room, owners), state)
        _weigh(times, (1, pairs + 1), weights[_PAIR], own, grams)
        _weigh(times, (pairs + 1, han + 1), weights[_SINGLE], own, grams + pairs)
        _hashes_of_pairs(keys, (1, pairs + 1), seed, joined, grams)
        _hashes_of_singles(keys, (pairs + 1, han + 1), seed, joined, grams + pairs)
        grams += han
        for at in range(han + 1, different + 1):
            own[grams] = weights[_class_of(keys[at]), min(whole(times[at]), weights.shape[1] - 1)]
            if keys[at] >= 0:
                _hash_of_key(keys[at], seed, joined, grams)
            else:
                unit = owners[at]
                if not _hash_of_number(points, (whole(starts[unit]), whole(sizes[unit])), seed, joined, grams):
                    left[more, 0], left[more, 1] = grams, unit
                    more += 1
            grams += 1
        times[: different + 1] = 0
        if adds and more == left_before:
            squares[text] = add_features(own, hashes, (begin, grams), of_sums, sums[text])
            grams = begin
        ends[text] = grams
    return grams, more
