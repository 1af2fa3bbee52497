"""Normalises short texts by tables, and finds their units, compiled. Importing this file loads the compiler.

Each text is a span of an array of code points. Each step says which texts it leaves to the definition: a false alarm
costs time and changes no result.
"""

from __future__ import annotations

from typing import Any

from numba import boolean, int32, int64, uint8, uint16, uint32

from stream_dedup.core.arrays import I64, U8, U16, U32
from stream_dedup.core.fingerprint.points import Kind, Raw
from stream_dedup.core.fingerprint.reader import SYMBOLS
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written
from stream_dedup.core.text import clean
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST
from stream_dedup.core.text.spam import MAX_SEPARATOR

TABLES = several(read(uint8), read(uint32), read(uint8), read(uint16))
"""Type of ``points.CodePointTables``."""
NORMALISED = several(written(uint32), written(int64, 2), written(boolean))
"""Type of code points, begin and end of each text, and which texts are left to the definition."""
FOUND_UNITS = several(written(int32), written(int32), written(int64, 2), written(int64), written(boolean))
"""Type of starts and sizes of units, begin and end of those of each text, its letters, and which texts are left."""
VISIBLE, LETTERS_FIRST, LETTERS, ALL = range(4)
"""Which characters of a text are copied: all but spaces, its letters with the ideographs first, its letters, or all."""

_DROPPED = Raw.DROPPED
_LETTER, _SINGLE, _MARK = Kind.LETTER, Kind.SINGLE, Kind.MARK
_FIXED, _APART, _JOINED = Kind.FIXED, Kind.APART, Kind.JOINED
_LATIN, _LEET, _NO_TABLE = Kind.LATIN, Kind.LEET, Kind.NO_TABLE
_FIRST_HAN, _LAST_HAN = ord(HAN_FIRST), ord(HAN_LAST)
_SPACE, _DOT, _SLASH, _OPEN, _CLOSE, _W = map(ord, " ./(]w")
_C, _M, _N, _O, _E, _R = map(ord, "cmnoer")
_FIRST_TOKEN, _LAST_TOKEN = ord(min(clean.TOKENS.values())), ord(max(clean.TOKENS.values()))
_L, _ZERO, _ONE = map(ord, "l01")
_FAR = -1 << 31


@inlined
def is_han(point: int) -> bool:
    """Whether a character is one of the ideographs that jieba knows."""
    return _FIRST_HAN <= point <= _LAST_HAN


@inlined
def _kind_of(point: int, kinds: U16) -> int:
    return whole(kinds[min(point, len(kinds) - 1)])


@inlined
def _either(point: int, one: int, other: int) -> bool:
    return point == one or point == other  # noqa: PLR1714 - a tuple is compared one by one, too


@inlined
def _begins_address(first: int, second: int, third: int) -> bool:
    """Whether an address or a link target may be around the third of three neighbours.

    A host has a dot and the first two letters of a top domain (com, cn, net, org), or ``www.``.
    """
    if first == _DOT and second == _C:
        return _either(third, _O, _N)
    if first == _DOT and second == _N:
        return third == _E
    if first == _DOT and second == _O:
        return third == _R
    if second == _W:
        return third == _DOT
    if second == _SLASH:
        return third == _SLASH
    return second == _CLOSE and third == _OPEN


@compiled(int64, read(uint32), read(int64), TABLES, several(int64, int64, int64, int64, boolean), NORMALISED)
def normalise(points: U32, ends: I64, tables: Any, steps: Any, found: Any) -> int:  # noqa: ANN401 - tuples of arrays
    """Normalise the plain texts; return how many code points they have.

    Args:
        points: code points of all texts.
        ends: end of each text.
        tables: of code points.
        steps: what leaves a text to the definition: bits of ``Raw`` and of ``Kind``, bits of ``Kind`` in a text with
            spaces, the most characters before any is dropped, and whether there may be addresses.
        found: see ``NORMALISED``; a text that is left has no code points.
    """
    (traits, becomes, times, kinds), (closer, closer_kinds, spaced_kinds, most, addresses) = tables, steps
    normalised, spans, left = found
    size, begin = 0, 0
    for text in range(len(ends)):
        start, characters, seen, spaced, look = size, 0, 0, False, False
        first, second = whole(-1), whole(-1)
        for at in range(begin, ends[text]):
            point = min(whole(points[at]), len(traits) - 1)
            trait, each = whole(traits[point]), whole(times[point])
            characters += each
            look = look or trait & closer != 0
            if look or trait & _DROPPED:
                continue
            point = whole(becomes[point])
            seen |= whole(kinds[point])
            spaced = spaced or point == _SPACE
            for _ in range(each):
                look = look or (addresses and _begins_address(first, second, point))
                first, second = second, point
                if point != _SPACE or (size > start and normalised[size - 1] != _SPACE):
                    normalised[size] = point
                    size += 1
        left[text] = look or characters > most or seen & closer_kinds != 0 or (spaced and seen & spaced_kinds != 0)
        if left[text]:
            size = start
        elif size > start and normalised[size - 1] == _SPACE:
            size -= 1
        spans[text, 0], spans[text, 1] = start, size
        begin = ends[text]
    return size


@inlined
def _looks_alike(points: U32, at: int, span: Any, kinds: U16) -> bool:  # noqa: ANN401
    """Whether a digit or sign may stand for a letter, or a letter beside it for a digit: see ``spam``."""
    before = whole(points[at - 1]) if at > span[0] else 0
    behind = whole(points[at + 1]) if at + 1 < span[1] else 0
    # In a number these stand for 1 and 0.
    if _either(before, _L, _O) or _either(behind, _L, _O):
        return True
    if not _kind_of(before, kinds) & _LATIN:
        return False
    if _either(whole(points[at]), _ZERO, _ONE) or _kind_of(behind, kinds) & _LATIN:
        return True
    third = _kind_of(whole(points[at + 2]), kinds) if at + 2 < span[1] else 0
    return _kind_of(behind, kinds) & _LEET != 0 and third & _LATIN != 0


@inlined
def _has_tricks(points: U32, span: Any, kinds: U16, seldom: int) -> bool:  # noqa: ANN401
    """Whether a text may have tricks of spam other than repeats, or has a character of a kind that is seldom.

    The tricks are separated characters, and lookalikes in words.
    """
    before, kind = 0, 0
    lone, last_lone = whole(_FAR), whole(_FAR)
    for at in range(span[0], span[1] + 1):
        behind = _kind_of(whole(points[at]), kinds) if at < span[1] else 0
        if behind & seldom or (behind & _LEET and _looks_alike(points, at, span, kinds)):
            return True
        if kind & _APART and not before & _JOINED and not behind & _JOINED:
            if at - last_lone <= MAX_SEPARATOR + 1 and last_lone - lone <= MAX_SEPARATOR + 1:
                return True
            lone, last_lone = last_lone, at
        before, kind = kind, behind
    return False


@compiled(int64, read(uint32), read(int64, 2), read(uint16), several(int64, boolean), NORMALISED)
def without_repeats(points: U32, texts: I64, kinds: U16, steps: Any, found: Any) -> int:  # noqa: ANN401
    """Copy the texts that have no other tricks than repeats, and shorten these; return how many code points they have.

    Args:
        points: code points of normalised texts.
        texts: begin and end of each.
        kinds: bits of ``Kind`` of each code point; the last ones are those of all beyond.
        steps: bits of ``Kind`` that leave a text to the definition, and whether repeats are shortened.
        found: see ``NORMALISED``; a text that is left has no code points.
    """
    (seldom, shortened), (done, spans, left) = steps, found
    size = 0
    for text in range(len(texts)):
        start, begin, end = size, texts[text, 0], texts[text, 1]
        left[text] = _has_tricks(points, texts[text], kinds, seldom)
        if not left[text]:
            for at in range(begin, end):
                point = points[at]
                third = shortened and at >= begin + 2 and point == points[at - 1] and point == points[at - 2]
                if not third or _kind_of(whole(point), kinds) & _FIXED:
                    done[size] = point
                    size += 1
        spans[text, 0], spans[text, 1] = start, size
    return size


@compiled(int64, read(uint32), read(int64, 2), read(uint16), FOUND_UNITS)
def find_units(points: U32, texts: I64, kinds: U16, found: Any) -> int:  # noqa: ANN401
    """Find the units of each text; return how many there are.

    A text with marks, or with so many symbols that these may count, is left, without units.
    """
    starts, sizes, spans, letters, left = found
    units = 0
    for text in range(len(texts)):
        begin, known, visible, tokens, marks = units, 0, 0, 0, False
        within = False
        for at in range(texts[text, 0], texts[text, 1]):
            point = whole(points[at])
            kind = _kind_of(point, kinds)
            visible += point != _SPACE
            marks = marks or kind & _MARK != 0
            if kind & (_LETTER | _SINGLE):
                known += 1
                if not (within and kind & _LETTER):
                    starts[units], sizes[units] = at, 0
                    units += 1
                sizes[units - 1] += kind & _LETTER != 0
            within = kind & _LETTER != 0
        for unit in range(begin, units):
            tokens += sizes[unit] == 1 and _FIRST_TOKEN <= points[starts[unit]] <= _LAST_TOKEN
        left[text] = marks or known * SYMBOLS < visible
        if left[text]:
            units = begin
        letters[text] = known - tokens
        spans[text, 0], spans[text, 1] = begin, units
    return units


@compiled(int64, read(uint32), read(int64, 2), read(uint8), read(uint16), several(written(uint32), written(int64)))
def letters_of(points: U32, texts: I64, which: U8, kinds: U16, found: Any) -> int:  # noqa: ANN401
    """Copy characters of each text, as ``which`` says; return how many there are.

    ``found`` has room for the characters of all texts, and one more, and gets how many each text has.
    """
    letters, sizes = found
    size = 0
    for text in range(len(texts)):
        start, begin, end = size, texts[text, 0], texts[text, 1]
        if which[text] == LETTERS_FIRST:
            for at in range(begin, end):
                letters[size] = points[at]
                size += is_han(whole(points[at]))
        for at in range(begin, end):
            point = whole(points[at])
            letters[size] = point
            wanted = which[text] == ALL or (which[text] == VISIBLE and point != _SPACE)
            if which[text] == LETTERS or (which[text] == LETTERS_FIRST and not is_han(point)):
                wanted = _kind_of(point, kinds) & (_LETTER | _SINGLE) != 0
            size += wanted
        sizes[text] = size - start
    return size
