"""Normalises a text, and splits it into Han runs and other words.

``normalise`` defines which differences between two texts never count:

1. Characters that Unicode 14 does not know become spaces (see ``unicode14``).
2. Of a run of combining marks the first ``MAX_MARKS`` stay. No language has more, and sorting a long run takes time
   with the square of its length.
3. NFKC, case folding, and NFKC again, because folding may leave marks uncomposed.
4. White space becomes single spaces.

``split`` returns the words of the normalised text in two parts: Han runs, which a segmenter cuts further, and other
words. A Han run is a maximal run of U+4E00 to U+9FD5, the ideographs that jieba knows. Another word is a maximal run of
other letters and digits. All other characters separate. Han runs are joined by single spaces: a segmenter never
joins words across a space, so one call cuts them all.

Normalising whole articles is expensive (NFKC alone costs three quarters of segmenting), and splitting discards most of
its effect: a full-width comma separates words like an ASCII comma. So ``split`` looks up each UTF-16 unit in a table.
The unit is Han, or an ASCII letter or digit (full-width forms included), or a separator, or needs a closer look (a
letter beyond ASCII, a mark, a symbol that NFKC turns into letters). Only units that need the closer look are
normalised, with the ASCII letters and digits around them. If that gives ideographs (from compatibility forms), the
whole text is normalised. The words are those of the definition.

This is how ``plain`` words of the ``simhash`` profile are split. ``marked`` words keep their combining marks (vowels of
Thai and Hindi are marks): a word is a run of letters, digits and marks that begins with a letter or digit.

The result may depend only on the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U16, U32
from stream_dedup.core.kept_tables import kept_table, only
from stream_dedup.core.text.unicode14 import blank_unassigned, unassigned

MAX_MARKS = 30
"""Most combining marks in a row that are kept: the limit of Unicode's Stream-Safe Text Format."""
MAX_HAN_RUN = 4096
"""Most characters of a Han run; a longer run is cut, because the time of the reference segmenter grows with the square
of the length. Runs of real text are far shorter."""

HAN_FIRST, HAN_LAST = "\u4e00", "\u9fd5"
"""The ideographs that jieba knows."""
_HAN_FIRST, _HAN_LAST = ord(HAN_FIRST), ord(HAN_LAST)
_HAN_RUNS = re.compile("[\u4e00-\u9fd5]+")
_OTHER_WORDS = re.compile("[^\\W_\u4e00-\u9fd5]+")
_LONG_HAN_RUN = re.compile(f"[\u4e00-\u9fd5]{{{MAX_HAN_RUN}}}")
# Includes every combining mark: characters that are neither letters nor spaces, and two half-width kana marks.
_MAYBE_MARKS = re.compile(f"(?:[^\\w\\s\\x00-\\x7f]|[\uff9e\uff9f]){{{MAX_MARKS + 1},}}")

_SPACE = ord(" ")
_HAN, _CLOSER_LOOK = 1, 255
"""Kinds of a unit; any other kind is the ASCII character that the unit becomes: a letter, a digit or a space."""
_ASCII_KINDS = bytes(ord(chr(c).lower()) if chr(c).isalnum() else _SPACE for c in range(128))
_ASCII_WORDS = _ASCII_KINDS + bytes([_SPACE]) * 128
_HAN_SEPARATES = bytes(_SPACE if c == _HAN else c for c in range(256))
_SECOND_HALF = 0xDC00 >> 10
_EMOJI_LEAD = 0xD83D
"""First unit of U+1F400 to U+1F7FF: pictures, which all separate, among them half of all emoji."""
_EMOJI_POINTS = slice(0x1F400, 0x1F800)
_PLAIN_POINTS = 0x20000
CLOSER_LOOK = 0xFFFFFFFF
"""What stands for a code point in ``plain_points`` that needs a closer look."""


class Runs(NamedTuple):
    """The parts of a text before segmenting."""

    han: str
    """Han runs joined by single spaces."""
    words: list[str]
    """The other words, in order."""


def normalise(text: str) -> str:
    """Return the text after steps 1 to 4."""
    normalised = text.lower() if text.isascii() else nfkc_casefold(text)
    return " ".join(normalised.split())


def split(text: str, *, marked: bool = False) -> Runs:
    """Return Han runs and other words of the normalised text."""
    if text.isascii():
        return Runs("", text.encode().translate(_ASCII_WORDS).decode().split())
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    kinds = (_marked_unit_kinds() if marked else _unit_kinds()).take(units)
    if kinds.max() != _CLOSER_LOOK:
        words = kinds.tobytes().translate(_HAN_SEPARATES).decode().split()
    else:
        rest = normalise(_without_han(units, kinds))
        if _HAN_RUNS.search(rest):
            return split_normalised(normalise(text), marked=marked)
        words = other_words(rest, marked=marked)
    return Runs(_bounded(_han_text(units, kinds == _HAN)), words)


def words_apart(text: str, *, marked: bool = False) -> str:
    """Return a text with the words of ``split`` whose other characters are those of normalised text.

    Whoever finds words in normalised text need not have them found here.
    """
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    kinds = (_marked_unit_kinds() if marked else _unit_kinds()).take(units)
    rest = normalise(_without_han(units, kinds))
    return normalise(text) if _HAN_RUNS.search(rest) else f"{_han_text(units, kinds == _HAN)} {rest}"


def split_normalised(text: str, *, marked: bool = False) -> Runs:
    """Split text that is normalised already. This is the definition of ``split``."""
    return Runs(_bounded(" ".join(_HAN_RUNS.findall(text))), other_words(text, marked=marked))


def other_words(text: str, *, marked: bool = False) -> list[str]:
    """Return the words of normalised text that are not of ideographs."""
    words: list[str] = (_marked_words() if marked and not text.isascii() else _OTHER_WORDS).findall(text)
    return words


@cache
def marks() -> str:
    """Return the combining marks that belong to words, for use in a character class; enclosing marks do not."""
    return _marks().tobytes().decode("utf-32-le")


@kept_table(only)
def _marks() -> U32:
    """Return the code points of these marks."""
    known = np.flatnonzero(~unassigned())
    kinds = map(unicodedata.category, known.astype("<u4").tobytes().decode("utf-32-le"))
    return known[[kind in {"Mn", "Mc"} for kind in kinds]].astype("<u4")


@cache
def _marked_words() -> re.Pattern[str]:
    letter = "[^\\W_\u4e00-\u9fd5]"
    return re.compile(f"{letter}(?:{letter}|[{marks()}])*")


def warm() -> None:
    """Make the table now, not with the first text."""
    _unit_kinds()


def nfkc_casefold(text: str) -> str:
    """Return the text after steps 1 to 3."""
    text = _MAYBE_MARKS.sub(_cap_marks, blank_unassigned(text))
    normalised = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", normalised)


def _cap_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run.group():
        # A character whose decomposition begins with a mark counts as a mark.
        marks = marks + 1 if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) else 0
        if marks <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def _han_text(units: U16, is_han: NDArray[np.bool_]) -> str:
    # Each run and the unit after it, which becomes the space between two runs.
    keep = is_han.copy()
    keep[1:] |= is_han[:-1]
    return _text_of(np.maximum(units * is_han, _SPACE)[keep]).rstrip()


def _without_han(units: U16, kinds: U8) -> str:
    """Replace the units by the characters that they become, except those that need a closer look."""
    keep = kinds == _CLOSER_LOOK
    # The second half of a pair stays with the first.
    keep[1:] |= keep[:-1] & (units[1:] >> 10 == _SECOND_HALF)
    return _text_of(np.where(keep, units, np.maximum(kinds, _SPACE)))


def _text_of(units: U16) -> str:
    return units.astype("<u2", copy=False).tobytes().decode("utf-16-le", "surrogatepass")


def _bounded(han: str) -> str:
    return _LONG_HAN_RUN.sub(r"\g<0> ", han) if len(han) > MAX_HAN_RUN else han


@cache
@kept_table(only)
def _unit_kinds() -> U8:
    """Return the kind of each UTF-16 unit."""
    kinds = np.full(1 << 16, _CLOSER_LOOK, np.uint8)
    kinds[:128] = np.frombuffer(_ASCII_KINDS, np.uint8)
    kinds[_HAN_FIRST : _HAN_LAST + 1] = _HAN
    # The second half of a pair follows the first; alone it separates.
    kinds[[_EMOJI_LEAD, *range(0xDC00, 0xE000)]] = _SPACE
    others = [chr(c) for c in (*range(128, _HAN_FIRST), *range(_HAN_LAST + 1, 0xD800), *range(0xE000, 1 << 16))]
    # One call for all characters: nothing composes with a newline.
    kinds[list(map(ord, others))] = list(map(_kind_of, nfkc_casefold("\n".join(others)).split("\n")))
    kinds.setflags(write=False)
    return kinds


@cache
@kept_table(only)
def plain_points(*, marked: bool = False) -> U32:
    """Return what each code point becomes: itself (ideographs), an ASCII letter, a digit, a space, or ``CLOSER_LOOK``.

    Code points beyond the table need a closer look, as its last one does.
    """
    kinds = _marked_unit_kinds() if marked else _unit_kinds()
    points = np.full(_PLAIN_POINTS, CLOSER_LOOK, np.uint32)
    points[: len(kinds)] = np.where(kinds == _HAN, np.arange(len(kinds)), kinds)
    points[: len(kinds)][kinds == _CLOSER_LOOK] = CLOSER_LOOK
    points[_EMOJI_POINTS] = _SPACE
    points.setflags(write=False)
    return points


@cache
@kept_table(only)
def _marked_unit_kinds() -> U8:
    """Return the same for words that keep their marks: every mark needs a closer look."""
    kinds = _unit_kinds().copy()
    kinds[[ord(mark) for mark in marks() if ord(mark) < len(kinds)]] = _CLOSER_LOOK
    kinds.setflags(write=False)
    return kinds


def _kind_of(normalised: str) -> int:
    """Return the kind of a unit that becomes this text, if nothing composes with it."""
    if normalised.isascii() and len(normalised) == 1:
        return _ASCII_KINDS[ord(normalised)]
    # Most are letters and nothing else: the quick test first.
    if normalised.isalnum() or unicodedata.combining(normalised[0]) or any(map(str.isalnum, normalised)):
        return _CLOSER_LOOK
    return _SPACE
