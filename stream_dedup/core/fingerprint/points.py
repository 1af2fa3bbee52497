"""What each code point is to short text, as tables: what whole batches of texts are looked up in.

Owns which characters are *plain*: a plain character becomes one character by normalising, or up to ``MOST_TIMES`` of
the same (an ellipsis is three dots), whatever stands beside it. It is no mark, composes with nothing before it, and no
step of ``clean`` or ``spam`` begins at it alone. All others need a closer look: their text is treated by the
definition.

Must never depend on anything but Unicode 14, the definition of the steps and OpenCC's dictionaries.
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
"""Code points in a table; what is beyond (rare ideographs) is looked up as the last one, which needs a closer look."""
MOST_TIMES = 3
_PLAIN_RANGES = ((0, 0xD7FF), (0xE000, 0xFFFF), (0x1F000, 0x1FAFF))
"""Where plain characters are looked for: the first plane, and emoji."""
NO_TABLE = re.compile(f"{spam.ENCLOSED.pattern}|{spam.FOREIGN.pattern}|(?![0-9])\\d")
"""What looks like other letters, and digits that are no ASCII: ``Kind`` does not tell them."""
# Tags, entities, addresses and names begin so.
_CLOSER = re.compile(f"[<&@]|{NO_TABLE.pattern}")
_EVERY = "".join(map(chr, range(SIZE)))


class Raw:
    """What a character of a text may be, as bits."""

    CLOSER, TRADITIONAL, PICTURE, DROPPED, SEVERAL = 1, 2, 4, 8, 16


class Kind:
    """What a character of a normalised text may be, as bits."""

    SINGLE = 1
    """A unit by itself, as ideographs are."""
    LETTER = 2
    """Part of a word."""
    MARK = 4
    """A mark, or a character that no table knows: the regular expression tells the units."""
    FIXED = 8
    """Repeats of it stay: digits, white space, _."""
    APART = 16
    """May be one of the characters that separators keep apart."""
    JOINED = 32
    """Its neighbours are none of these."""
    LATIN = 64
    """a to z."""
    LEET = 128
    """ASCII digits and signs that may be taken for letters."""


class CodePointTables(NamedTuple):
    """One row for each of ``SIZE`` code points."""

    raw: U8
    """``Raw``."""
    normalised: U32
    """What a plain character becomes."""
    times: U8
    """How many of these it becomes."""
    kinds: U8
    """``Kind``."""


@cache
def code_point_tables() -> CodePointTables:
    """The tables, made at the first call."""
    made = CodePointTables(_raw(), np.arange(SIZE, dtype=np.uint32), np.ones(SIZE, np.uint8), _kinds())
    characters = _inert()
    known = made.kinds & Kind.MARK == 0
    # One call for all: nothing composes with a newline.
    for character, normalised in zip(characters, nfkc_casefold("\n".join(characters)).split("\n"), strict=True):
        became, point = " " if normalised.isspace() else normalised, ord(character)
        if len(became) <= MOST_TIMES and became == became[:1] * len(became) and known[min(ord(became[0]), SIZE - 1)]:
            made.normalised[point], made.times[point] = ord(became[0]), len(became)
            closer = Raw.CLOSER if _CLOSER.match(became) else 0
            made.raw[point] ^= np.uint8((Raw.CLOSER ^ closer) | (Raw.SEVERAL if len(became) > 1 else 0))
    made.normalised[ord("\n")] = ord(" ")
    made.raw[ord("\n")] = 0
    # What is dropped needs no other look, and where it is not dropped it needs one.
    made.raw[made.raw & Raw.DROPPED != 0] = Raw.DROPPED
    for table in made:
        table.setflags(write=False)
    return made


def _raw() -> U8:
    """Of each character what the steps before NFKC may do to it; each is to be looked at more closely so far."""
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
    # It ends a text, and of empty texts several stand in a row.
    kinds[0] = Kind.FIXED
    return kinds


def _where(pattern: str) -> list[int]:
    """Code points that a pattern of one character finds, or of a run of them."""
    return [point for found in re.finditer(pattern, _EVERY) for point in range(*found.span())]


def _inert() -> list[str]:
    """Characters that stay apart from what is before them, but for the newline."""
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
    """Characters that may compose with what is before them: the second ones of a pair, and medial and final jamo."""
    pairs = (unicodedata.decomposition(character).split() for character in _EVERY)
    found = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}  # noqa: PLR2004
    return frozenset(found | set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))))
