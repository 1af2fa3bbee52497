"""The dictionary of the segmenter as a trie in arrays, compiled. Importing this file loads the compiler.

A node of the trie is a number. That of a first character is its index among the ideographs, and 1 more; that of a
longer beginning is the slot of its last edge, above ``DEEP``. An edge leads from a node to the node with one character
more. Edges are kept in one open-addressing hash table (linear probing), each in one number: the node that it leaves,
the character, whether a longer word begins so, and the *value* of the beginning that it leads to, which is 0 if that is
no word. ``first`` has the values of single characters. So each step of a look-up reads one cache line.

Edges take more memory than the level-2 cache has, and most look-ups in a text find none. So the beginnings of two
characters, and those of three, have a Bloom filter each, in that cache: a beginning has two bits in one word, and no
edge if one of them is 0. An edge is looked up only where both are 1, as they are of one in ten of the others too.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint8, uint16, uint64

from stream_dedup.core.arrays import I64, U8, U16, U64
from stream_dedup.core.fingerprint.hashing import SPREAD
from stream_dedup.core.kernel import compiled, inlined, prefetch, read, several, whole, written

HAN_BEGIN, HAN_END = 0x4E00, 0x9FD6
"""The ideographs that words of the dictionary have: the first, and the one after the last."""
DEEP = 1 << 15
"""Nodes of more than one character are numbered from here on, one for each slot."""
CHARACTER_BITS, BEGINNING_BITS = 15, 24
"""Bits of a character in an edge, and of what is known of the beginning; 24 bits are left for a node."""
GOES_ON_SHIFT = BEGINNING_BITS - 1
GOES_ON = 1 << GOES_ON_SHIFT
"""Bit of an edge: a longer word begins so. The bits below are the value."""
WORD_VALUE_MASK = GOES_ON - 1
MOST_SLOTS = 1 << 23
FILTER_WORDS = 1 << 14
"""Words of 64 bits of a filter."""

_SPACE, _NEWLINE, _ZERO, _NINE = map(ord, " \n09")
_THREE_BYTES, _FOUR_BYTES = 0xE0, 0xF0
_WORD_SHIFT, _BIT_SHIFT, _OTHER_SHIFT = np.uint64(64 - 14), np.uint64(64 - 14 - 6), np.uint64(64 - 14 - 12)
_BIT_MASK, _LOWEST_BIT = np.uint64(63), np.uint64(1)
_FILTERS = several(written(uint64), written(uint64))
"""Type of the filters of the beginnings of two characters, and of three."""


@inlined
def _first_slot(edges: I64, key: int) -> int:
    return whole(np.uint64(key) * SPREAD >> np.uint64(40)) & len(edges) - 1


@inlined
def request_edge(edges: I64, address: int, beginning: int) -> None:
    """Request the slot of the edge of a beginning of two characters without waiting.

    ``address`` is that of the edges.
    """
    prefetch(address + 8 * _first_slot(edges, beginning))


@inlined
def request_longer_edge(edges: I64, address: int, node: int, character: int) -> None:
    """Request the slot of the edge from any node without waiting."""
    prefetch(address + 8 * _first_slot(edges, node << CHARACTER_BITS | character))


@inlined
def slot_of(edges: I64, node: int, character: int) -> int:
    """Return the slot of an edge, or of the free slot where it belongs, less ``len(edges)``."""
    key = node << CHARACTER_BITS | character
    slot, last = _first_slot(edges, key), len(edges) - 1
    while edges[slot] != 0:
        if edges[slot] >> BEGINNING_BITS == key:
            return slot
        slot = (slot + 1) & last
    return slot - len(edges)


@inlined
def beginning_of(first: int, second: int) -> int:
    """Return the beginning of two characters, as a number."""
    return first + 1 << CHARACTER_BITS | second


@inlined
def longer_beginning(beginning: int, character: int) -> int:
    """Return the beginning of three characters, from that of two."""
    return beginning << CHARACTER_BITS | character


@inlined
def bits_of(filtered: U64, beginning: int) -> int:
    """Return 0 if a word surely does not begin so, by a filter, and 1 otherwise.

    A number: of a truth value the compiler makes a branch, which could not be foreseen.
    """
    spread = np.uint64(beginning) * SPREAD
    word = filtered[whole(spread >> _WORD_SHIFT)]
    one, other = word >> (spread >> _BIT_SHIFT & _BIT_MASK), word >> (spread >> _OTHER_SHIFT & _BIT_MASK)
    return whole(one & other & _LOWEST_BIT)


@inlined
def _note(filtered: U64, beginning: int) -> None:
    spread = np.uint64(beginning) * SPREAD
    bits = _LOWEST_BIT << (spread >> _BIT_SHIFT & _BIT_MASK) | _LOWEST_BIT << (spread >> _OTHER_SHIFT & _BIT_MASK)
    filtered[whole(spread >> _WORD_SHIFT)] |= bits


@inlined
def _note_word(word: U16, filters: tuple[U64, U64]) -> None:
    """Set the bits of the beginnings of a word."""
    if len(word) > 1:
        beginning = beginning_of(whole(word[0]), whole(word[1]))
        _note(filters[0], beginning)
        if len(word) > 2:  # noqa: PLR2004 - beginnings of three characters
            _note(filters[1], longer_beginning(beginning, whole(word[2])))


@compiled(int64, read(uint16), int64, written(int64), written(int64), _FILTERS, int64, makes_arrays=False)
def insert(word: U16, value: int, first: I64, edges: I64, filters: tuple[U64, U64], free: int) -> int:
    """Add a word, or give it another value; return how many of ``free`` slots are left, below 0 if there are too few.

    The word has the indices of its characters.
    """
    _note_word(word, filters)
    if len(word) == 1:
        first[word[0]] = value
        return free
    node = whole(word[0]) + 1
    for at in range(1, len(word)):
        slot = slot_of(edges, node, whole(word[at]))
        if slot < 0:
            if free == 0:
                return -1
            free -= 1
            slot += len(edges)
            edges[slot] = (node << CHARACTER_BITS | whole(word[at])) << BEGINNING_BITS
        if at < len(word) - 1:
            edges[slot] |= GOES_ON
        else:
            edges[slot] = edges[slot] & ~WORD_VALUE_MASK | value
        node = slot + DEEP
    return free


@compiled(
    int64, read(uint16), several(read(int64), read(int64)), written(int64), written(int64), _FILTERS, makes_arrays=False
)
def insert_all(characters: U16, words: tuple[I64, I64], first: I64, edges: I64, filters: tuple[U64, U64]) -> int:
    """Add words, whose characters are joined; return how many slots are free below half of all, below 0 if too few.

    ``words``: the end of each word, and its value.
    """
    ends, values = words
    free = len(edges) // 2
    start = 0
    for number in range(len(ends)):
        free = insert(characters[start : ends[number]], values[number], first, edges, filters, free)
        if free < 0:
            return free
        start = ends[number]
    return free


@compiled(int64, read(uint16), read(int64), read(int64), makes_arrays=False)
def value_of(word: U16, first: I64, edges: I64) -> int:
    """Return the value of a word; 0 if it is not in the dictionary."""
    value, node = first[word[0]], whole(word[0]) + 1
    for at in range(1, len(word)):
        slot = slot_of(edges, node, whole(word[at]))
        if slot < 0:
            return 0
        value, node = edges[slot] & WORD_VALUE_MASK, slot + DEEP
    return whole(value)


@compiled(several(int64, int64), read(uint8), written(uint16), written(int64), written(int64), written(int64))
def parse(raw: U8, characters: U16, ends: I64, frequencies: I64, others: I64) -> tuple[int, int]:
    """Read lines of a word, its frequency and more; return the number of words of ideographs, and that of other lines.

    Fill in the indices of the characters of these words, joined, the end of each word, its frequency, and where each of
    the other lines begins.
    """
    words, left, size, at = 0, 0, 0, 0
    while at < len(raw):
        line, start, known = at, size, True
        while at < len(raw) and raw[at] != _SPACE and raw[at] != _NEWLINE:
            if raw[at] < _THREE_BYTES or raw[at] >= _FOUR_BYTES or at + 2 >= len(raw):
                known = False
                at += 1
                continue
            point = (whole(raw[at]) & 0x0F) << 12 | (whole(raw[at + 1]) & 0x3F) << 6 | whole(raw[at + 2]) & 0x3F
            at += 3
            known = known and HAN_BEGIN <= point < HAN_END
            if known:
                characters[size] = point - HAN_BEGIN
                size += 1
        at += 1
        frequency = 0
        while at < len(raw) and _ZERO <= raw[at] <= _NINE:
            frequency = 10 * frequency + whole(raw[at]) - _ZERO
            at += 1
        while at < len(raw) and raw[at - 1] != _NEWLINE:
            at += 1
        if known and size > start:
            ends[words], frequencies[words] = size, frequency
            words += 1
        else:
            size = start
            others[left] = line
            left += 1
    return words, left
