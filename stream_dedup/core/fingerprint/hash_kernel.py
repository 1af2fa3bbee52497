"""The hash of a feature of at most 16 bytes, compiled; ``hashing`` defines it. Importing this file loads the compiler.

XXH3-128 has a way of its own for each range of sizes; those up to 16 bytes are here. Bytes are two numbers of 64 bits,
the first byte lowest. A hash is four such numbers, whose bytes in memory are those of ``hashing.feature_hash``.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.arrays import U64
from stream_dedup.core.kernel import inlined, multiply_high, swap_bytes

MOST_HASHED_BYTES = 16

_U = np.uint64
_PRIME32_2 = _U(0x85EBCA77)
_PRIME64_1, _PRIME64_2 = _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F)
_PRIME64_3 = _U(0x165667B19E3779F9)
_MIX_1, _MIX_2 = _U(0x165667919E3779F9), _U(0x9FB21C651E98DF25)
# Of XXH3's secret, the first byte of each lowest: 0 and 4 of 32 bits, then 16, 32 and so on of 64 bits, in pairs.
_FLIP_0, _FLIP_8 = _U(0x396CFEB8 ^ 0xBE4BA423), _U(0x2C81017C ^ 0x1CAD21F7)
_FLIP_16 = _U(0xDB979083E96DD4DE ^ 0x1F67B3B7A4A44072)
_FLIP_32 = _U(0x78E5C0CC4EE679CB ^ 0x2172FFCC7DD05A82)
_FLIP_48 = _U(0x8E2443F7744608B8 ^ 0x4C263A81E69035E0)
_LOW, _BYTE = _U(0xFFFFFFFF), _U(0xFF)
_1, _2, _3, _8, _13, _16, _19, _24, _28, _29 = map(_U, (1, 2, 3, 8, 13, 16, 19, 24, 28, 29))
_32, _33, _35, _37, _54, _64 = map(_U, (32, 33, 35, 37, 54, 64))
_CONTINUED, _SIX = _U(0x80), _U(0x3F)
_TWO, _THREE, _FOUR = _U(0xC0), _U(0xE0), _U(0xF0)


@inlined
def _swapped_half(half: np.uint64) -> np.uint64:
    """Return a number of 32 bits with its bytes in the opposite order."""
    return np.uint64(swap_bytes(half) >> _32)


@inlined
def _avalanche_64(number: np.uint64) -> np.uint64:
    number ^= number >> _33
    number *= _PRIME64_2
    number ^= number >> _29
    number *= _PRIME64_3
    return number ^ number >> _32


@inlined
def _avalanche(number: np.uint64) -> np.uint64:
    number ^= number >> _37
    number *= _MIX_1
    return number ^ number >> _32


@inlined
def _high_by_halves(one: np.uint64, other: np.uint64) -> np.uint64:
    """Return the same as ``multiply_high``, which has no vector instructions: so a loop of hashes has them."""
    upper, lower, other_upper, other_lower = one >> _32, one & _LOW, other >> _32, other & _LOW
    left = upper * other_lower
    middle = (lower * other_lower >> _32) + (left & _LOW) + lower * other_upper
    return upper * other_upper + (left >> _32) + (middle >> _32)


@inlined
def _of_3(low: np.uint64, size: np.uint64, seed: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the halves of the hash of 1 to 3 bytes, the high one first."""
    one, middle = low & _BYTE, low >> (size >> _1) * _8 & _BYTE
    last = low >> (size - _1) * _8 & _BYTE
    joined = one << _16 | middle << _24 | last | size << _8
    swapped = _swapped_half(joined)
    turned = (swapped << _13 | swapped >> _19) & _LOW
    return _avalanche_64(turned ^ _FLIP_8 - seed), _avalanche_64(joined ^ _FLIP_0 + seed)


@inlined
def _of_8(low: np.uint64, size: np.uint64, seed: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the same of 4 to 8 bytes."""
    seed ^= _swapped_half(seed & _LOW) << _32
    both = (low & _LOW) + (low >> (size * _8 - _32) << _32)
    keyed = both ^ _FLIP_16 + seed
    factor = _PRIME64_1 + (size << _2)
    first, second = keyed * factor, _high_by_halves(keyed, factor)
    second += first << _1
    first ^= second >> _3
    first ^= first >> _35
    first *= _MIX_2
    return _avalanche(second), first ^ first >> _28


@inlined
def _of_16(low: np.uint64, high: np.uint64, size: np.uint64, seed: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the same of 9 to 16 bytes."""
    # The last eight bytes; a shift by all 64 bits is none.
    last = high if size == _16 else low >> (size - _8) * _8 | high << (_16 - size) * _8
    keyed = low ^ last ^ _FLIP_32 - seed
    first, second = keyed * _PRIME64_1, multiply_high(keyed, _PRIME64_1)
    first += size - _1 << _54
    last ^= _FLIP_48 + seed
    second += last + (last & _LOW) * (_PRIME32_2 - _1)
    first ^= swap_bytes(second)
    third, fourth = first * _PRIME64_2, multiply_high(first, _PRIME64_2)
    fourth += second * _PRIME64_2
    return _avalanche(fourth), _avalanche(third)


@inlined
def _halves(low: np.uint64, high: np.uint64, size: int, seed: np.uint64) -> tuple[np.uint64, np.uint64]:
    length = np.uint64(size)
    if size <= 3:  # noqa: PLR2004 - the ranges of XXH3
        return _of_3(low, length, seed)
    if size <= 8:  # noqa: PLR2004
        return _of_8(low, length, seed)
    return _of_16(low, high, length, seed)


@inlined
def low_half_of_bytes(low: np.uint64, high: np.uint64, size: int) -> np.uint64:
    """Return the low half of XXH3-128 of 1 to ``MOST_HASHED_BYTES`` bytes, with seed 0."""
    return _halves(low, high, size, np.uint64(0))[1]


@inlined
def hash_of_bytes(low: np.uint64, high: np.uint64, size: int, seed: np.uint64, hashes: U64, row: int) -> None:
    """Fill in the hash of 1 to ``MOST_HASHED_BYTES`` bytes; ``seed``: that of the scheme.

    ``hashes``: the numbers of all rows, joined: to rows of an array a loop of hashes writes one by one.
    """
    at = np.uint64(row) << _2
    for half in range(2):
        first, second = _halves(low, high, size, (seed << _1) + np.uint64(half))
        hashes[at], hashes[at + _1] = swap_bytes(first), swap_bytes(second)
        at += _2


@inlined
def with_character(low: np.uint64, high: np.uint64, size: int, point: int) -> tuple[np.uint64, np.uint64, int]:
    """Add the bytes of a character in UTF-8 to fewer than ``MOST_HASHED_BYTES``; too many are cut off."""
    code, more = np.uint64(point), 1
    if point >= 0x10000:  # noqa: PLR2004 - the ranges of UTF-8
        code, more = _tail(code, 3) | _FOUR | code >> np.uint64(18), 4
    elif point >= 0x800:  # noqa: PLR2004
        code, more = three_bytes(code), 3
    elif point >= 0x80:  # noqa: PLR2004
        code, more = _tail(code, 1) | _TWO | code >> np.uint64(6), 2
    shift = np.uint64(size) * _8
    if size == 0:
        return code, high, more
    if size < 8:  # noqa: PLR2004 - bytes of a number
        return low | code << shift, high | code >> _64 - shift, size + more
    return low, high | code << shift - _64, size + more


@inlined
def three_bytes(code: np.uint64) -> np.uint64:
    """Return the bytes of a character that has three of them in UTF-8."""
    return _tail(code, 2) | _THREE | code >> np.uint64(12)


@inlined
def _tail(code: np.uint64, bytes_behind: int) -> np.uint64:
    """Return the bytes of a character in UTF-8 behind the first one."""
    tail = np.uint64(0)
    for number in range(bytes_behind):
        at = np.uint64(number)
        six = code >> np.uint64(6) * (np.uint64(bytes_behind) - _1 - at) & _SIX
        tail |= (six | _CONTINUED) << (at + _1) * _8
    return tail
