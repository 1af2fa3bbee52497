"""Undoes tricks of spam, compiled, as ``text.spam`` defines it. Importing this file loads the compiler.

Each text is a span of an array of code points of normalised text. Texts with letters or digits that only a table knows
are left to the definition. Most texts have no trick; a first look says which texts may have one. It notes the traits of
all characters, and then looks at these and their neighbours in loops of vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, uint16, uint32

from stream_dedup.core.arrays import I64, U16, U32
from stream_dedup.core.fingerprint.points import Kind
from stream_dedup.core.fingerprint.short_kernel import is_han
from stream_dedup.core.kernel import compiled, copied, inlined, read, several, whole, written
from stream_dedup.core.text.spam import (
    KEPT_REPEATS,
    MAX_SEPARATOR,
    MIN_APART,
    MIN_BEFORE_1,
    MIN_DIGITS,
    MIN_NUMBER,
)

UNDONE = several(written(uint32), written(int64, 2), written(boolean))
"""Type of code points, begin and end of each text, and which texts are left."""

_FIXED, _APART, _SEPARATOR, _WORD = Kind.FIXED, Kind.APART, Kind.SEPARATOR, Kind.WORD
_APART_BIT, _SEPARATOR_BIT, _WORD_BIT = (np.uint16(bit.bit_length() - 1) for bit in (_APART, _SEPARATOR, _WORD))
_LOWEST = np.uint16(1)
_LATIN, _LEET = Kind.LATIN, Kind.LEET
_L, _O, _ZERO, _ONE, _NINE, _I, _A, _E, _S, _T, _B, _U, _Y = map(ord, "lo019iaestbuy")
_THREE, _FOUR, _FIVE, _SEVEN, _EIGHT, _SIGN_A, _SIGN_S = map(ord, "34578@$")


@inlined
def _kind(points: U32, at: int, span: Any, kinds: U16) -> int:  # noqa: ANN401 - a tuple
    """Return the traits of a character of a text; none beyond its ends."""
    return whole(kinds[points[at]]) if span[0] <= at < span[1] else 0


@inlined
def _apart_end(points: U32, start: int, span: Any, kinds: U16) -> int:  # noqa: ANN401
    """Return the end of a run of single characters whose first one is here; -1 if it is too short."""
    units, end = 1, start + 1
    while True:
        at = end
        while at - end <= MAX_SEPARATOR and _kind(points, at, span, kinds) & _SEPARATOR:
            at += 1
        if not 0 < at - end <= MAX_SEPARATOR or not _kind(points, at, span, kinds) & _APART:
            break
        if _kind(points, at + 1, span, kinds) & _WORD:
            break
        units, end = units + 1, at + 1
    return end if units >= MIN_APART else -1


@inlined
def unspace(points: U32, span: Any, kinds: U16, joins: bool, done: U32, size: int) -> tuple[int, bool]:  # noqa: ANN401, FBT001
    """Add a text to others, its single characters that are kept apart joined if ``joins``.

    Return the new end, and whether the text has a letter of a to z beside a digit or a sign that may stand for one.
    """
    joined, before, last, mixed = whole(-1), 0, 0, 0
    for at in range(span[0], span[1]):
        kind = whole(kinds[points[at]])
        if joins and kind & _APART and not before & _WORD and at >= joined:
            joined = _apart_end(points, at, span, kinds)
        before = kind
        if at >= joined or not kind & _SEPARATOR:
            done[size] = points[at]
            size += 1
            mixed |= ((last & _LATIN != 0) & (kind & _LEET != 0)) | ((last & _LEET != 0) & (kind & _LATIN != 0))
            last = kind
    return size, mixed != 0


@inlined
def _is_letter(points: U32, at: int, span: Any, kinds: U16) -> bool:  # noqa: ANN401
    """Whether a character is a letter or digit and no ideograph."""
    kind = _kind(points, at, span, kinds)
    return kind & _WORD != 0 and not is_han(whole(points[at]))


@inlined
def _is_of_number(point: int) -> bool:
    """Whether a character may stand in a number: a digit, o or l."""
    return _ZERO <= point <= _NINE or point == _O or point == _L  # noqa: PLR1714 - numbers of two types


@inlined
def _undo_in_numbers(points: U32, span: Any, kinds: U16) -> None:  # noqa: ANN401
    """Replace o and l in numbers by 0 and 1, in place."""
    at = span[0]
    while at < span[1]:
        if not _is_of_number(whole(points[at])):
            at += 1
            continue
        start, digits = at, 0
        while at < span[1] and _is_of_number(whole(points[at])):
            digits += whole(points[at] <= _NINE)
            at += 1
        if at - start >= MIN_NUMBER and digits >= MIN_DIGITS:
            alone = not _is_letter(points, start - 1, span, kinds) and not _is_letter(points, at, span, kinds)
            for one in range(start, at if alone else start):
                if points[one] == _O:
                    points[one] = _ZERO
                elif points[one] == _L:
                    points[one] = _ONE


@inlined
def _letter_for(point: int) -> int:
    """Return the letter that a digit or sign looks like; others are returned as they are."""
    letter = point
    if point == _ZERO:
        letter = _O
    elif point == _ONE:
        letter = _L
    elif point == _THREE:
        letter = _E
    elif point == _FOUR or point == _SIGN_A:  # noqa: PLR1714, SIM109 - a tuple takes longer
        letter = _A
    elif point == _FIVE or point == _SIGN_S:  # noqa: PLR1714, SIM109
        letter = _S
    elif point == _SEVEN:
        letter = _T
    elif point == _EIGHT:
        letter = _B
    return letter


@inlined
def _is_leet(points: U32, at: int, span: Any, kinds: U16) -> bool:  # noqa: ANN401
    """Whether a digit or sign may stand for a letter."""
    return _kind(points, at, span, kinds) & _LEET != 0 and _letter_for(whole(points[at])) != whole(points[at])


@inlined
def _is_consonant(point: int) -> bool:
    """Whether a letter of a to z is one of those between which 1 becomes i: y is none."""
    if point == _A or point == _E or point == _I:  # noqa: PLR1714, SIM109
        return False
    return point != _O and point != _U and point != _Y  # noqa: PLR1714


@inlined
def _undo_in_words(points: U32, span: Any, kinds: U16) -> None:  # noqa: ANN401
    """Replace one or two digits or signs between two letters of a to z by letters, in place."""
    at, before = span[0], 0
    while at < span[1]:
        kind, size = whole(kinds[points[at]]), 0
        if kind & _LEET and before & _LATIN and _is_leet(points, at, span, kinds):
            if _is_leet(points, at + 1, span, kinds) and _kind(points, at + 2, span, kinds) & _LATIN:
                size = 2
            elif _kind(points, at + 1, span, kinds) & _LATIN:
                size = 1
        if size == 1 and points[at] == _ONE:
            between = _is_consonant(whole(points[at - 1])) and _is_consonant(whole(points[at + 1]))
            points[at] = _I if between else _L
        else:
            for one in range(at, at + size):
                points[one] = _letter_for(whole(points[one]))
        # What was replaced is no letter for what follows it.
        before = kind
        at += max(size, 1)


@inlined
def _undo_at_ends(points: U32, span: Any, kinds: U16) -> None:  # noqa: ANN401
    """Replace 0 and 1 at the end of a word by o and l, in place."""
    letters = 0
    for at in range(span[0], span[1]):
        kind = whole(kinds[points[at]])
        if kind & _LEET and letters:
            point = whole(points[at])
            enough = point == _ZERO or (point == _ONE and letters >= MIN_BEFORE_1)
            if enough and not _is_letter(points, at + 1, span, kinds):
                points[at] = _letter_for(point)
        letters = letters + 1 if kind & _LATIN else 0


@inlined
def undo_lookalikes(points: U32, span: Any, kinds: U16) -> int:  # noqa: ANN401
    """Replace digits and signs by letters that they look like, and letters in numbers by digits, in place."""
    _undo_in_numbers(points, span, kinds)
    _undo_in_words(points, span, kinds)
    _undo_at_ends(points, span, kinds)
    return 0


@inlined
def shorten_repeats(points: U32, start: int, end: int, kinds: U16) -> int:
    """Keep a repeated character ``KEPT_REPEATS`` times, in place; return the new end of the text."""
    size, last, times = start, whole(-1), 0
    for at in range(start, end):
        point = whole(points[at])
        times = times + 1 if point == last else 1
        last = point
        if times <= KEPT_REPEATS or kinds[point] & _FIXED:
            points[size] = point
            size += 1
    return size


@inlined
def _kinds_of(points: U32, span: Any, kinds: U16, room: U16) -> int:  # noqa: ANN401
    """Fill in the traits of each character of a text, from index 1 on, with none at both ends; return all traits."""
    seen, begin, last = 0, np.uint64(span[0]), len(kinds) - 1
    for at in range(np.uint64(span[1] - span[0])):
        kind = kinds[np.uint64(min(whole(points[begin + at]), last))]
        room[np.uint64(1) + at] = kind
        seen |= whole(kind)
    room[0], room[span[1] - span[0] + 1] = 0, 0
    return seen


@inlined
def _has_mixed(room: U16, size: int) -> bool:
    """Whether a letter of a to z is beside a digit or a sign that may stand for one."""
    found = False
    for at in range(np.uint64(size)):
        kind, behind = whole(room[at]), whole(room[at + np.uint64(1)])
        found |= (kind & _LATIN != 0) & (behind & _LEET != 0)
        found |= (kind & _LEET != 0) & (behind & _LATIN != 0)
    return found


@inlined
def _has_thrice(points: U32, span: Any, room: U16) -> bool:  # noqa: ANN401
    """Whether a character is there for the third time in a row, and is none that may be."""
    found, begin, number = False, np.uint64(span[0]), np.uint64(max(span[1] - span[0] - 2, 0))
    for at in range(number):
        first, second, third = points[begin + at], points[begin + at + np.uint64(1)], points[begin + at + np.uint64(2)]
        found |= (first == second) & (second == third)
    if found:
        for at in range(number):
            same = points[begin + at] == points[begin + at + np.uint64(1)] == points[begin + at + np.uint64(2)]
            if same and not room[at + np.uint64(1)] & _FIXED:
                return True
    return False


@inlined
def _has_apart(room: U16, size: int, singles: U16) -> bool:
    """Whether two single characters behind separators are close to each other.

    ``singles``: room for a number of each character, and of ``MAX_SEPARATOR`` + 1 more.
    """
    for at in range(np.uint64(size)):
        before, kind, behind = room[at], room[at + np.uint64(1)], room[at + np.uint64(2)]
        # 1 where it is one: the three bits, moved to the lowest.
        singles[at] = before >> _SEPARATOR_BIT & kind >> _APART_BIT & ~(behind >> _WORD_BIT) & _LOWEST
    found = np.uint16(0)
    singles[np.uint64(size) : np.uint64(size + MAX_SEPARATOR + 1)] = 0
    for at in range(np.uint64(size)):
        close = np.uint16(0)
        for behind in range(np.uint64(1), np.uint64(MAX_SEPARATOR + 2)):
            close |= singles[at + behind]
        found |= singles[at] & close
    return whole(found) != 0


@compiled(
    int64,
    read(uint32),
    read(int64, 2),
    read(uint16),
    several(int64, boolean, boolean, boolean),
    UNDONE,
)
def undo_tricks(points: U32, texts: I64, kinds: U16, steps: Any, found: Any) -> int:  # noqa: ANN401
    """Take the steps that follow NFKC; return how many code points the texts have then.

    Args:
        points: code points of normalised texts.
        texts: begin and end of each.
        kinds: bits of ``Kind`` of each code point; the last ones, which leave a text, are those of all beyond.
        steps: bits of ``Kind`` that leave a text to the definition, and whether characters that are kept apart are
            joined, whether lookalikes are replaced, and whether repeats are shortened.
        found: see ``UNDONE``; a text that is left has no code points.
    """
    (left_for, joins, looks, shortens), (done, spans, left) = steps, found
    size, longest = 0, 0
    for text in range(len(texts)):
        longest = max(longest, texts[text, 1] - texts[text, 0])
    room, singles = np.empty(longest + 2, np.uint16), np.empty(longest + MAX_SEPARATOR + 1, np.uint16)
    for text in range(len(texts)):
        start, span, own = size, (texts[text, 0], texts[text, 1]), texts[text, 1] - texts[text, 0]
        seen = _kinds_of(points, span, kinds, room)
        left[text] = seen & left_for != 0
        # The first of the ``MIN_APART`` characters that are joined may have no separator before it.
        apart = joins and _has_apart(room, own, singles)
        mixed = looks and seen & _LATIN and seen & _LEET and _has_mixed(room, own)
        if apart or mixed or (shortens and _has_thrice(points, span, room)):
            if not left[text]:
                size, mixed = unspace(points, span, kinds, joins, done, size)
                if looks and mixed:
                    undo_lookalikes(done, (start, size), kinds)
                if shortens:
                    size = shorten_repeats(done, start, size, kinds)
        elif not left[text]:
            size = copied(points[span[0] : span[1]], span[1] - span[0], done, size)
        spans[text, 0], spans[text, 1] = start, size
    return size
