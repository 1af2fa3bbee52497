"""Tables of code points by which batches of short text are normalised.

This file owns which characters are *plain*. Normalising turns a plain character into one character, or into up to
``MOST_TIMES`` of the same character (an ellipsis is three dots), whatever its neighbours are. A plain character is no
mark, does not compose with the character before it, and no step of ``clean`` or ``spam`` applies to it alone. All other
characters need a closer look: their text is normalised by the definition.

The tables may depend only on Unicode 14, the definition of the steps and OpenCC's dictionaries.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import U8, U32
from stream_dedup.core.fingerprint.features import SINGLES
from stream_dedup.core.text import clean, spam
from stream_dedup.core.text.normalise import marks, nfkc_casefold
from stream_dedup.core.text.simplify import simplifiable
from stream_dedup.core.text.unicode14 import unassigned

SIZE = 0x20000
"""Code points in a table; those beyond (rare ideographs) use the last row, which needs a closer look."""
MOST_TIMES = 3
_PLAIN_RANGES = ((0, 0xD7FF), (0xE000, 0xFFFF), (0x1F000, 0x1FAFF))
"""Ranges that may have plain characters: the first plane, and emoji."""
NO_TABLE = re.compile(f"{spam.ENCLOSED.pattern}|{spam.FOREIGN.pattern}|(?![0-9])\\d")
"""Characters without a bit in ``Kind``: letters that look like others, and digits that are not ASCII."""
# Tags, entities, addresses and user names begin with these.
_CLOSER = re.compile(f"[<&@]|{NO_TABLE.pattern}")
_EVERY = "".join(map(chr, range(SIZE)))


class Raw:
    """Traits of a character of a text, as bits."""

    CLOSER, TRADITIONAL, PICTURE, DROPPED, SEVERAL = 1, 2, 4, 8, 16


class Kind:
    """Traits of a character of a normalised text, as bits."""

    SINGLE = 1
    """A unit by itself, such as an ideograph."""
    LETTER = 2
    """Part of a word."""
    MARK = 4
    """A mark, or a character beyond the tables: the regular expression finds the units."""
    FIXED = 8
    """Repetitions are not shortened: digits, white space, _."""
    APART = 16
    """A character that ``spam.unspace`` may join."""
    JOINED = 32
    """A character whose neighbours ``spam.unspace`` does not join."""
    LATIN = 64
    """a to z."""
    LEET = 128
    """ASCII digits and signs that may stand for letters."""


class CodePointTables(NamedTuple):
    """Tables with one row for each of ``SIZE`` code points."""

    raw: U8
    """Bits of ``Raw``."""
    normalised: U32
    """The character that a plain character becomes."""
    times: U8
    """How many times it becomes that character."""
    kinds: U8
    """Bits of ``Kind``."""


@cache
def code_point_tables() -> CodePointTables:
    """Return the tables, which are made at the first call."""
    made = CodePointTables(_raw(), np.arange(SIZE, dtype=np.uint32), np.ones(SIZE, np.uint8), _kinds())
    characters = _inert()
    known = made.kinds & Kind.MARK == 0
    # One call for all characters: nothing composes with a newline.
    for character, normalised in zip(characters, nfkc_casefold("\n".join(characters)).split("\n"), strict=True):
        became, point = " " if normalised.isspace() else normalised, ord(character)
        if len(became) <= MOST_TIMES and became == became[:1] * len(became) and known[min(ord(became[0]), SIZE - 1)]:
            made.normalised[point], made.times[point] = ord(became[0]), len(became)
            closer = Raw.CLOSER if _CLOSER.match(became) else 0
            made.raw[point] ^= np.uint8((Raw.CLOSER ^ closer) | (Raw.SEVERAL if len(became) > 1 else 0))
    made.normalised[ord("\n")] = ord(" ")
    made.raw[ord("\n")] = 0
    # A dropped character needs no other look; under steps that do not drop it, it needs a closer look.
    made.raw[made.raw & Raw.DROPPED != 0] = Raw.DROPPED
    for table in made:
        table.setflags(write=False)
    return made


def _raw() -> U8:
    """Return the bits of the steps before NFKC; every character also needs a closer look so far."""
    flags = np.full(SIZE, Raw.CLOSER, np.uint8)
    for flag, pattern in (
        (Raw.DROPPED, clean.INVISIBLE.pattern),
        (Raw.DROPPED, clean.SKIN_TONES.pattern),
        (Raw.PICTURE, clean.PICTURE.pattern),
    ):
        flags[_where(pattern)] |= np.uint8(flag)
    flags[[point for point in simplifiable() if point < SIZE]] |= np.uint8(Raw.TRADITIONAL)
    return flags


def _kinds() -> U8:
    kinds = np.zeros(SIZE, np.uint8)
    for flag, pattern in (
        (Kind.LETTER, f"(?![{SINGLES}])[^\\W_]"),
        (Kind.SINGLE, f"[{SINGLES}]"),
        (Kind.MARK, f"[{marks()}]"),
        (Kind.FIXED, r"[\d\s_]"),
        (Kind.APART, f"[{spam.UNIT}]"),
        (Kind.JOINED, "[a-z0-9\u4e00-\u9fd5]"),
        (Kind.LATIN, "[a-z]"),
        (Kind.LEET, "[0-9@$]"),
    ):
        kinds[_where(pattern)] |= np.uint8(flag)
    kinds[-1] |= np.uint8(Kind.MARK)
    # The zero character ends each text, and there may be several in a row.
    kinds[0] = Kind.FIXED
    return kinds


def _where(pattern: str) -> list[int]:
    """Return the code points that a pattern of one character, or of a run of characters, finds."""
    return [point for found in re.finditer(pattern, _EVERY) for point in range(*found.span())]


def _inert() -> list[str]:
    """Return the characters that never compose with the one before them, without the newline."""
    missing, seconds = unassigned(), _seconds()
    characters = (chr(point) for first, last in _PLAIN_RANGES for point in range(first, last + 1))
    return [
        character
        for character in characters
        if not missing[ord(character)]
        and character != "\n"
        and not unicodedata.combining(first := unicodedata.normalize("NFKD", character)[0])
        and first not in seconds
    ]


def _seconds() -> frozenset[str]:
    """Return the characters that may compose with the one before: second ones of a pair, medial and final jamo."""
    pairs = (unicodedata.decomposition(character).split() for character in _EVERY)
    found = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}  # noqa: PLR2004
    return frozenset(found | set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))))
