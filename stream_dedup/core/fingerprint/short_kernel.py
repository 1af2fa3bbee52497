"""Normalises short texts by tables, and finds their units, compiled. Importing this file loads the compiler.

Each text is a span of an array of code points. Each step says which texts it leaves to the definition: a false alarm
costs time and changes no result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int32, int64, uint8, uint16, uint32

from stream_dedup.core.arrays import I32, I64, U8, U16, U32
from stream_dedup.core.fingerprint.form import LEAST_FRAME, SHORTEST_WORD
from stream_dedup.core.fingerprint.lookup_kernel import WORD_ARRAYS, first_slot, number_of, packed_bytes
from stream_dedup.core.fingerprint.points import Kind, Raw
from stream_dedup.core.fingerprint.reader import SYMBOLS
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written
from stream_dedup.core.text import clean
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

TABLES = several(read(uint8), read(uint32), read(uint8))
"""Type of the tables ``raw``, ``normalised`` and ``times`` of ``points``."""
NORMALISED = several(written(uint32), written(int64, 2), written(boolean))
"""Type of code points, begin and end of each text, and which texts are left to the definition."""
FOUND_UNITS = several(written(int32), written(int32), written(int64, 2), written(int64), written(boolean))
"""Type of starts and sizes of units, begin and end of those of each text, its letters, and which texts are left."""
FOUND_FORMS = several(written(uint32), written(uint32), written(int64, 2), written(boolean))
"""Type of words, digits, begin and end of the words and then of the digits of each text, and which texts are left."""
VISIBLE, LETTERS_FIRST, LETTERS, ALL = range(4)
"""Which characters of a text are copied: all but spaces, its letters with the ideographs first, its letters, or all."""

_CLOSER = Raw.CLOSER
_LETTER, _SINGLE, _IN_WORD = Kind.LETTER, Kind.SINGLE, Kind.LETTER | Kind.MARK
_OF_WORDS, _DIGITS, _GRAMMAR = Kind.WORD, Kind.DECIMAL, Kind.GRAMMAR
_FIRST_HAN, _LAST_HAN = ord(HAN_FIRST), ord(HAN_LAST)
_BLANK = ord(" ")
_FIRST_TOKEN, _LAST_TOKEN = ord(min(clean.TOKENS.values())), ord(max(clean.TOKENS.values()))


@inlined
def is_han(point: int) -> bool:
    """Whether a character is one of the ideographs that jieba knows."""
    return _FIRST_HAN <= point <= _LAST_HAN


@inlined
def _kind_of(point: int, kinds: U16) -> int:
    return whole(kinds[np.uint64(min(point, len(kinds) - 1))])


@compiled(int64, read(uint32), read(int64, 2), TABLES, several(read(int64), int64), NORMALISED, makes_arrays=False)
def normalise(points: U32, texts: I64, tables: Any, limit: Any, found: Any) -> int:  # noqa: ANN401 - tuples of arrays
    """Normalise the plain texts; return how many code points they have.

    Args:
        points: code points of texts that have taken the steps before NFKC.
        texts: begin and end of each.
        tables: of code points.
        limit: characters of each text that these steps dropped, times what one may become; and the most characters of
            a text that is not left to the definition, those included.
        found: see ``NORMALISED``; a text that is left has no code points.
    """
    (traits, becomes, times), (dropped, most), (normalised, spans, left) = tables, limit, found
    size = 0
    for text in range(len(texts)):
        start, characters, look = size, dropped[text], False
        for at in range(np.uint64(texts[text, 0]), np.uint64(texts[text, 1])):
            point = np.uint64(min(whole(points[at]), len(traits) - 1))
            each = whole(times[point])
            characters += each
            look |= traits[point] & _CLOSER != 0
            become = whole(becomes[point])
            for _ in range(each):
                if become != _BLANK or (size > start and normalised[np.uint64(size - 1)] != _BLANK):
                    normalised[np.uint64(size)] = become
                    size += 1
        left[text] = look or characters > most
        if left[text]:
            size = start
        elif size > start and normalised[size - 1] == _BLANK:
            size -= 1
        spans[text, 0], spans[text, 1] = start, size
    return size


@inlined
def _end_word(points: U32, word: Any, starts: I32, sizes: I32, units: int, tokens: int) -> tuple[int, int]:  # noqa: ANN401
    """Add a word to the units; return how many units and tokens there are then."""
    starts[units], sizes[units] = word[0], word[1] - word[0]
    is_token = word[1] - word[0] == 1 and _FIRST_TOKEN <= points[word[0]] <= _LAST_TOKEN
    return units + 1, tokens + whole(is_token)


@compiled(int64, read(uint32), read(int64, 2), read(uint16), FOUND_UNITS, makes_arrays=False)
def find_units(points: U32, texts: I64, kinds: U16, found: Any) -> int:  # noqa: ANN401
    """Find the units of each text; return how many there are.

    A word goes on with marks. A text with a character beyond the table, or with so many symbols that these may count,
    is left, without units.
    """
    starts, sizes, spans, letters, left = found
    units, last = 0, len(kinds) - 1
    for text in range(len(texts)):
        begin, known, visible, tokens, beyond, run = units, 0, 0, 0, False, whole(-1)
        for index in range(np.uint64(texts[text, 0]), np.uint64(texts[text, 1])):
            at, point = whole(index), whole(points[index])
            kind = whole(kinds[np.uint64(min(point, last))])
            visible += point != _BLANK
            beyond |= point >= last
            if run >= 0 and not kind & _IN_WORD:
                units, tokens = _end_word(points, (run, at), starts, sizes, units, tokens)
                run = -1
            elif run < 0 and kind & _LETTER:
                run = at
            known += whole(run >= 0) | whole(kind & _SINGLE != 0)
            # Where this is no unit, the next one takes its place.
            starts[np.uint64(units)], sizes[np.uint64(units)] = at, 0
            units += whole(kind & _SINGLE != 0) & whole(run < 0)
        if run >= 0:
            units, tokens = _end_word(points, (run, texts[text, 1]), starts, sizes, units, tokens)
        left[text] = beyond or known * SYMBOLS < visible
        if left[text]:
            units = begin
        letters[text] = known - tokens
        spans[text, 0], spans[text, 1] = begin, units
    return units


@inlined
def _may_have_form(points: U32, span: Any, kinds: U16, most: int) -> tuple[bool, bool]:  # noqa: ANN401
    """Return whether a text has digits and at most so many letters, and whether it has a character beyond the tables.

    Of a text with more letters the rest is not looked at.
    """
    letters, seen, beyond = 0, 0, False
    for at in range(span[0], span[1]):
        point = whole(points[at])
        kind = _kind_of(point, kinds)
        beyond |= point >= len(kinds) - 1
        seen |= kind
        letters += whole(kind & _OF_WORDS != 0) & whole(point < _FIRST_TOKEN or point > _LAST_TOKEN)
        if letters > most:
            return False, False
    return seen & _DIGITS != 0, beyond


@inlined
def _end_of_word(words: U32, size: int, run: int, grammar: Any, known: int) -> tuple[int, int]:  # noqa: ANN401
    """Put a space behind the last ``run`` letters if they are a word of grammar, and drop them if not.

    Return how many code points and how many words there are then.
    """
    if run >= SHORTEST_WORD:
        low, high, length = packed_bytes(words, size - run, run)
        if length and number_of(grammar, first_slot(grammar, low, high, length), low, high, length) >= 0:
            words[size] = _BLANK
            return size + 1, known + 1
    return size - run, known


@compiled(int64, read(uint32), read(int64, 2), read(uint16), WORD_ARRAYS, int64, FOUND_FORMS, makes_arrays=False)
def find_forms(points: U32, texts: I64, kinds: U16, grammar: Any, most: int, found: Any) -> int:  # noqa: ANN401
    """Copy the words of grammar of each text, a space behind each, and its digits; return the size of all words.

    Nothing of a text without digits, with more than ``most`` letters, with fewer than ``LEAST_FRAME`` of these words,
    or with a character beyond the tables, which is left to the definition. ``grammar``: the arrays of the words of more
    than one character. ``found`` has room for twice as many words and as many digits as there are characters.
    """
    words, digits, spans, left = found
    size, decimals = 0, 0
    for text in range(len(texts)):
        start, first, run, known = size, decimals, 0, 0
        may_have, left[text] = _may_have_form(points, texts[text], kinds, most)
        end = texts[text, 1] if may_have and not left[text] else texts[text, 0]
        for at in range(texts[text, 0], end):
            point = whole(points[at])
            kind = _kind_of(point, kinds)
            digits[decimals] = point
            decimals += kind & _DIGITS != 0
            if kind & _OF_WORDS and not kind & _DIGITS and not is_han(point):
                words[size] = point
                size, run = size + 1, run + 1
                continue
            size, known = _end_of_word(words, size, run, grammar, known)
            run = 0
            if kind & _GRAMMAR:
                words[size], words[size + 1] = point, _BLANK
                size, known = size + 2, known + 1
        size, known = _end_of_word(words, size, run, grammar, known)
        if known < LEAST_FRAME:
            size, decimals = start, first
        spans[text, 0], spans[text, 1], spans[text, 2], spans[text, 3] = start, size, first, decimals
    return size


@inlined
def _is_in_word(kind: int, before: int) -> int:
    """Whether a character of this kind is part of a word, behind one that is, or is not."""
    return whole(kind & _LETTER != 0) | (before & whole(kind & _IN_WORD != 0))


@inlined
def _copy_letters_first(points: U32, span: Any, kinds: U16, letters: U32, size: int) -> int:  # noqa: ANN401
    """Copy the letters of a text, its ideographs first; return the new end."""
    others, in_word = 0, 0
    for at in range(np.uint64(span[0]), np.uint64(span[1])):
        point = whole(points[at])
        kind, han = _kind_of(point, kinds), whole(is_han(point))
        letters[np.uint64(size)] = point
        size += han
        in_word = _is_in_word(kind, in_word)
        others += (in_word | whole(kind & _SINGLE != 0)) & (1 - han)
    # Most texts have few others, and many have none.
    at, in_word = whole(span[0]), 0
    while others:
        point = whole(points[np.uint64(at)])
        kind = _kind_of(point, kinds)
        in_word = _is_in_word(kind, in_word)
        wanted = (in_word | whole(kind & _SINGLE != 0)) & whole(not is_han(point))
        letters[np.uint64(size)] = point
        size, others, at = size + wanted, others - wanted, at + 1
    return size


@compiled(
    int64,
    read(uint32),
    read(int64, 2),
    read(uint8),
    read(uint16),
    several(written(uint32), written(int64)),
    makes_arrays=False,
)
def letters_of(points: U32, texts: I64, which: U8, kinds: U16, found: Any) -> int:  # noqa: ANN401
    """Copy characters of each text, as ``which`` says; return how many there are.

    ``found`` has room for the characters of all texts, and one more, and gets how many each text has.
    """
    letters, sizes = found
    size = 0
    for text in range(len(texts)):
        start, begin, end = size, texts[text, 0], texts[text, 1]
        if which[text] == LETTERS_FIRST:
            size = _copy_letters_first(points, (begin, end), kinds, letters, size)
        else:
            in_word = 0
            for at in range(np.uint64(begin), np.uint64(end)):
                point = whole(points[at])
                letters[np.uint64(size)] = point
                wanted = whole(which[text] == ALL or (which[text] == VISIBLE and point != _BLANK))
                if which[text] == LETTERS:
                    kind = _kind_of(point, kinds)
                    in_word = _is_in_word(kind, in_word)
                    wanted = in_word | whole(kind & _SINGLE != 0)
                size += wanted
        sizes[text] = size - start
    return size
