"""Finds, numbers and counts the words of texts, compiled. Importing this file loads the compiler.

A *piece* is a part of a text that is counted with one weight: a field, or the key sentences of a field. The pieces of
several texts are one array of code points of normalised text. Three passes make counts of them:

1. ``split`` finds the words of each piece, as ``normalise.split_normalised``, the dictionary and
   ``features.cut_unspaced`` define them: the first code point of each word, and its size.
2. ``find`` looks up the number of each word in a table, and adds the words that are new.
3. ``tally`` counts the numbers of each text.

The table of words is an open-addressing hash table (linear probing) of pairs: key (see ``keys_kernel``) and number. The
code points of a name whose key is a hash are kept in ``names``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int32, int64, uint8, uint32

from stream_dedup.core.arrays import I32, I64, U8, U32
from stream_dedup.core.fingerprint.features import UNSPACED_SIZE
from stream_dedup.core.fingerprint.keys_kernel import slot_of_key, span_key
from stream_dedup.core.fingerprint.segment_kernel import DICTIONARY, ROOM, find_way, join_singles
from stream_dedup.core.fingerprint.short_kernel import is_han
from stream_dedup.core.kernel import compiled, inlined, prefetch, read, several, whole, written
from stream_dedup.core.text.normalise import CLOSER_LOOK, MAX_HAN_RUN

HAN, LETTER, MARK, NO_SPACES = 1, 2, 4, 8
"""Traits of a character of normalised text, as bits: an ideograph that jieba knows; part of another word; a mark, part
of a word behind its first character; part of a run that is written without spaces."""
ROWS, NAME_POINTS, ADDED = 0, 1, 2
"""What ``used`` counts: numbers of the table, elements of ``names``, and the numbers that were added last."""

_BLOCK_WORDS = 32
"""Words whose slots are requested together: those of many articles do not fit the level-2 cache."""
_PAIR_BYTES, _POINT_BYTES = 16, 4
_LEAST_STRETCH = 1 << 10
"""Characters that are cut at once, and more up to the end of a run: their arrays fit the level-1 cache."""
_STEP = 16
"""Characters whose joints are found at once. A stretch ends behind so many that are no ideographs: they are not cut."""
LONGEST_STRETCH = _LEAST_STRETCH + MAX_HAN_RUN

WORD_SPANS = several(written(int32), written(int32), written(int64, 2))
"""Type of starts and sizes of words, and of what is known of each piece."""
TABLE = several(written(int64, 2), written(uint32), written(int64), written(int64), int64)
"""Type of slots, names, begins (where the name of each number begins in ``names``), ``used`` and the seed."""


@compiled(
    *(int64, read(uint32), read(int64, 2), read(uint32), several(written(uint32), written(boolean))),
    makes_arrays=False,
)
def look_up(points: U32, pieces: I64, becomes: U32, found: Any) -> int:  # noqa: ANN401 - a tuple of arrays
    """Fill in what each code point becomes, and which pieces need a closer look; return the number of pieces.

    ``becomes``: see ``normalise.plain_points``; its last code point stands for all beyond.
    """
    (plain, closer), last = found, len(becomes) - 1
    for piece in range(len(pieces)):
        needed = False
        for at in range(np.uint64(pieces[piece, 0]), np.uint64(pieces[piece, 1])):
            plain[at] = becomes[np.uint64(min(whole(points[at]), last))]
            needed |= plain[at] == CLOSER_LOOK
        closer[piece] = needed
    return len(pieces)


@inlined
def _parts(points: U32, kinds: U8, span: tuple[int, int], starts: I32, sizes: I32, words: int) -> int:
    """Add the parts of a word, overlapping where it is written without spaces; return the number of words."""
    start, end = span
    while start < end:
        unspaced, at = kinds[points[start]] & NO_SPACES, start + 1
        while at < end and kinds[points[at]] & NO_SPACES == unspaced:
            at += 1
        if unspaced and at - start > UNSPACED_SIZE:
            for first in range(start, at - UNSPACED_SIZE + 1):
                starts[words], sizes[words] = first, UNSPACED_SIZE
                words += 1
        else:
            starts[words], sizes[words] = start, at - start
            words += 1
        start = at
    return words


@inlined
def _find_joints(points: U32, begin: int, stop: int, joints: U8) -> int:
    """Fill in the joints of a stretch of text (see ``segment_kernel``), which ends where a run does; return its end."""
    size, last, seen = whole(0), stop - begin - 1, True
    # The last character of the text has no joint.
    joints[last if last < _LEAST_STRETCH else 0] = 0
    while seen and size < min(last, _LEAST_STRETCH):
        seen, end = False, min(size + _STEP, last)
        for at in range(np.uint64(begin + size), np.uint64(begin + end)):
            han, behind = is_han(whole(points[at])), is_han(whole(points[at + np.uint64(1)]))
            joints[at - np.uint64(begin)] = han & behind
            seen |= han
        size = end
    if size == last and last < _LEAST_STRETCH:
        return stop
    run = size
    while run > 0 and joints[run - 1]:
        run -= 1
    # A longer run is cut, as ``normalise`` says.
    while size > run and joints[size - 1]:
        is_joint = size < last and is_han(whole(points[begin + size + 1])) and size + 1 - run < MAX_HAN_RUN
        joints[size] = is_joint
        size += 1
    return begin + size


@compiled(int64, read(uint32), read(int64, 2), read(uint8), several(DICTIONARY, ROOM), WORD_SPANS, makes_arrays=False)
def split(points: U32, pieces: I64, kinds: U8, cutter: Any, found: Any) -> int:  # noqa: ANN401 - tuples of arrays
    """Find the words of each piece, given by its first code point and the one after its last.

    Fill in starts and sizes of the words, joined, and for each piece the end of its words and the number of its
    letters; return the number of words. ``cutter``: the dictionary, and room for ``LONGEST_STRETCH`` characters.
    """
    (dictionary, room), (starts, sizes, ends) = cutter, found
    words, way = 0, room[2]
    for piece in range(len(pieces)):
        at, stop = pieces[piece, 0], pieces[piece, 1]
        letters = 0
        while at < stop:
            begin, last = at, at + 1
            if kinds[points[at]] & (HAN | LETTER) == 0:
                at += 1
                continue
            if kinds[points[at]] & HAN:
                last = _find_joints(points, begin, stop, room[6])
                find_way(points, begin, last - begin, dictionary, room)
                join_singles(points, begin, last - begin, dictionary, room)
            while at < last:
                kind = whole(kinds[np.uint64(points[np.uint64(at)])])
                if kind & LETTER:
                    end = at + 1
                    while end < stop and kinds[points[end]] & (LETTER | MARK):
                        end += 1
                    letters += end - at
                    words = _parts(points, kinds, (at, end), starts, sizes, words)
                    at = end
                    continue
                size = whole(way[np.uint64(at - begin)]) + begin - at
                # Where this is no word, the next one takes its place.
                starts[np.uint64(words)], sizes[np.uint64(words)] = at, size
                words += kind & HAN
                letters += size * (kind & HAN)
                at += size
        ends[piece, 0], ends[piece, 1] = words, letters
    return words


@compiled(int64, read(uint32), read(int64, 2), read(uint8), written(uint32), makes_arrays=False)
def letters_of(points: U32, pieces: I64, kinds: U8, letters: U32) -> int:
    """Fill in the letters of each piece, its ideographs first; return how many there are.

    ``letters`` has one more element than there are letters.
    """
    size = 0
    for piece in range(len(pieces)):
        begin, stop = pieces[piece, 0], pieces[piece, 1]
        for at in range(np.uint64(begin), np.uint64(stop)):
            letters[np.uint64(size)] = points[at]
            size += whole(kinds[np.uint64(points[at])] & HAN)
        within = False
        for at in range(np.uint64(begin), np.uint64(stop)):
            within = kinds[np.uint64(points[at])] & (LETTER | MARK if within else LETTER) != 0
            letters[np.uint64(size)] = points[at]
            size += whole(within)
    return size


@inlined
def _same_name(points: U32, start: int, size: int, names: U32, begin: int) -> bool:
    if whole(names[begin]) != size:
        return False
    for at in range(size):  # noqa: SIM110 - numba compiles no generator
        if names[begin + 1 + at] != points[start + at]:
            return False
    return True


@inlined
def _request_names(keys: I64, where: I64, count: int, table: Any) -> None:  # noqa: ANN401
    """Request the names of words whose keys are hashes, where these keys are in their first slots."""
    slots, names, begins = table
    for at in range(count):
        if keys[at] < 0 and slots[where[at], 0] == keys[at]:
            prefetch(names.ctypes.data + _POINT_BYTES * begins[slots[where[at], 1]])


@compiled(
    int64,
    read(uint32),
    read(int32),
    read(int32),
    int64,
    TABLE,
    several(written(int32), written(int32)),
)
def find(points: U32, starts: I32, sizes: I32, done: int, table: Any, found: Any) -> int:  # noqa: ANN401
    """Fill in the numbers of the words from ``done`` on; return where the table has no room for a word, or their end.

    ``found`` also gets the word of each number that is added, from ``used[ADDED]`` on.
    """
    (slots, names, begins, used, seed), (rows, new), last = table, found, len(table[0]) - 1
    keys, where = np.empty(_BLOCK_WORDS, np.int64), np.empty(_BLOCK_WORDS, np.int64)
    for first in range(done, len(starts), _BLOCK_WORDS):
        count = min(_BLOCK_WORDS, len(starts) - first)
        for at in range(count):
            keys[at] = span_key(points, whole(starts[first + at]), whole(sizes[first + at]), seed)
            where[at] = slot_of_key(keys[at], seed, last)
            prefetch(slots.ctypes.data + _PAIR_BYTES * where[at])
        _request_names(keys, where, count, (slots, names, begins))
        for at in range(count):
            word, key, slot = first + at, keys[at], where[at]
            start, size = whole(starts[word]), whole(sizes[word])
            while slots[slot, 0] != 0:
                row = slots[slot, 1]
                if slots[slot, 0] == key and (key > 0 or _same_name(points, start, size, names, begins[row])):
                    break
                slot = (slot + 1) & last
            if slots[slot, 0] == 0:
                row = used[ROWS]
                if 2 * row >= len(slots) or row >= len(begins) or used[NAME_POINTS] + size >= len(names):
                    return word
                if key < 0:
                    begins[row] = used[NAME_POINTS]
                    names[used[NAME_POINTS]] = size
                    for letter in range(size):
                        names[used[NAME_POINTS] + 1 + letter] = points[start + letter]
                    used[NAME_POINTS] += size + 1
                slots[slot, 0], slots[slot, 1] = key, row
                new[used[ADDED]] = word
                used[ADDED] += 1
                used[ROWS] += 1
            rows[word] = slots[slot, 1]
    return len(starts)


@compiled(int64, read(int64, 2), int64, written(int64, 2), makes_arrays=False)
def move(slots: I64, seed: int, larger: I64) -> int:
    """Copy the keys to a larger array of slots, which is free."""
    for old in range(len(slots)):
        if slots[old, 0] != 0:
            slot = slot_of_key(slots[old, 0], seed, len(larger) - 1)
            while larger[slot, 0] != 0:
                slot = (slot + 1) & (len(larger) - 1)
            larger[slot, 0], larger[slot, 1] = slots[old, 0], slots[old, 1]
    return len(larger)


TALLY = several(written(int32), written(int64), written(int64))
"""Type of the numbers of the words of texts, their counts, and the end of each text."""


@compiled(
    int64,
    read(int32),
    read(int64, 2),
    read(int64),
    read(int64),
    several(read(boolean), written(int64)),
    TALLY,
    makes_arrays=False,
)
def tally(rows: I32, pieces: I64, weights: I64, texts: I64, room: Any, found: Any) -> int:  # noqa: ANN401
    """Count the numbers of each text, whose last piece is given by ``texts``; return how many there are in all.

    Numbers that do not count are left out. The counts in ``room`` are 0 for each number of the table, and are so again
    at the end.
    """
    (count, times), (own, counts, ends) = room, found
    size, word, piece = 0, 0, 0
    for text in range(len(texts)):
        begin = size
        while piece < texts[text]:
            weight = weights[piece]
            while word < pieces[piece, 0]:
                row = np.uint64(rows[np.uint64(word)])
                if count[row]:
                    # Where it is known, the next one takes its place.
                    own[np.uint64(size)] = row
                    size += whole(times[row] == 0)
                    times[row] += weight
                word += 1
            piece += 1
        for at in range(np.uint64(begin), np.uint64(size)):
            row = np.uint64(own[at])
            counts[at] = times[row]
            times[row] = 0
        ends[text] = size
    return size
