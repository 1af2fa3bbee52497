"""Tables of code points by which batches of short text are normalised.

This file owns which characters are *plain*. Normalising turns a plain character into one character, or into up to
``MOST_TIMES`` of the same character (an ellipsis is three dots), whatever its neighbours are. A plain character is no
mark and does not compose with the character before it. All other characters need a closer look: their text is
normalised by the definition.

The tables may depend only on Unicode 14 and the definition of the steps.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U16, U32
from stream_dedup.core.fingerprint.features import SINGLES
from stream_dedup.core.fingerprint.form import GRAMMAR
from stream_dedup.core.kept_tables import kept_table
from stream_dedup.core.text.normalise import marks, nfkc_casefold
from stream_dedup.core.text.unicode14 import unassigned

SIZE = 0x20000
"""Code points in a table; those beyond (rare ideographs) use the last row, which needs a closer look."""
MOST_TIMES = 3
_PLAIN_RANGES = ((0, 0xD7FF), (0xE000, 0xFFFF), (0x1F000, 0x1FAFF))
"""Ranges that may have plain characters: the first plane, and emoji."""


class Raw:
    """Traits of a character of a text, as bits."""

    CLOSER = 1
    """It is not plain."""


class Kind:
    """Traits of a character of a normalised text, as bits."""

    SINGLE = 1
    """A unit by itself, such as an ideograph."""
    LETTER = 2
    """Part of a word."""
    MARK = 4
    """A mark, with which a word goes on; or a character beyond the tables."""
    DECIMAL = 8
    """Digits; a word of these is a number."""
    WORD = 16
    """A letter or digit of any script."""
    GRAMMAR = 32
    """An ideograph that is a word of grammar."""


class CodePointTables(NamedTuple):
    """Tables with one row for each of ``SIZE`` code points."""

    raw: U8
    """Bits of ``Raw``."""
    normalised: U32
    """The character that a plain character becomes."""
    times: U8
    """How many times it becomes that character."""
    kinds: U16
    """Bits of ``Kind``."""


@cache
@kept_table(CodePointTables._make)
def code_point_tables() -> CodePointTables:
    """Return the tables, which are made at the first call."""
    raw = np.full(SIZE, Raw.CLOSER, np.uint8)
    made = CodePointTables(raw, np.arange(SIZE, dtype=np.uint32), np.ones(SIZE, np.uint8), _kinds())
    points, becomes, times = _plain()
    known = made.kinds[np.minimum(becomes, SIZE - 1)] & Kind.MARK == 0
    points, becomes, times = points[known], becomes[known], times[known]
    made.normalised[points], made.times[points] = becomes, times
    made.raw[points] ^= np.uint8(Raw.CLOSER)
    made.normalised[ord("\n")] = ord(" ")
    made.raw[ord("\n")] = 0
    for table in made:
        table.setflags(write=False)
    return made


def _kinds() -> U16:
    kinds = np.zeros(SIZE, np.uint16)
    single = _where(f"[{SINGLES}]")
    for flag, where in (
        (Kind.LETTER, _where(r"[^\W_]") & ~single),
        (Kind.SINGLE, single),
        (Kind.WORD, _where(r"[^\W_]")),
        (Kind.GRAMMAR, list(map(ord, GRAMMAR))),
        (Kind.DECIMAL, _where(r"\d")),
        (Kind.MARK, [point for point in map(ord, marks()) if point < SIZE]),
    ):
        kinds[where] |= np.uint16(flag)
    kinds[-1] |= np.uint16(Kind.MARK)
    return kinds


@cache
def _every() -> str:
    return "".join(map(chr, range(SIZE)))


def _where(pattern: str) -> NDArray[np.bool_]:
    """Return for each code point whether a pattern of one character, or of a run of characters, finds it."""
    found = np.zeros(SIZE, np.bool_)
    # Runs, for there are many characters and few runs.
    for run in re.finditer(f"(?:{pattern})+", _every()):
        found[run.start() : run.end()] = True
    return found


def _plain() -> tuple[U32, U32, I64]:
    """Return the code points that become one character, or several times the same; which one, and how many times."""
    inert = _inert()
    # One call for all characters: nothing composes with a newline.
    normalised = nfkc_casefold("\n".join(inert)).split("\n")
    plain = [
        (character, " " if became.isspace() else became)
        for character, became in zip(inert, normalised, strict=True)
        if len(became) == 1 or (len(became) <= MOST_TIMES and len(set(became)) == 1)
    ]
    times = np.array([len(became) for _, became in plain], np.int64)
    return _points([character for character, _ in plain]), _points([became[0] for _, became in plain]), times


def _points(characters: Iterable[str]) -> U32:
    return np.frombuffer("".join(characters).encode("utf-32-le"), "<u4").astype(np.uint32, copy=False)


def _inert() -> list[str]:
    """Return the characters that never compose with the one before them, without the newline."""
    ranges = np.concatenate([np.arange(first, last + 1) for first, last in _PLAIN_RANGES])
    known = ranges[~unassigned()[ranges] & (ranges != ord("\n"))]
    characters = list(known.astype("<u4").tobytes().decode("utf-32-le"))
    decomposed = unicodedata.normalize("NFKD", "\n".join(characters)).split("\n")
    seconds = _seconds()
    return [
        character
        for character, parts in zip(characters, decomposed, strict=True)
        if parts[0] not in seconds and not unicodedata.combining(parts[0])
    ]


def _seconds() -> frozenset[str]:
    """Return the characters that may compose with the one before: second ones of a pair, medial and final jamo."""
    pairs = (pair.split() for pair in map(unicodedata.decomposition, _every()) if pair)
    found = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}  # noqa: PLR2004
    return frozenset(found | set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))))
