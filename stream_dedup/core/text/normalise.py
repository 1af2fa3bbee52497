"""Normalise a text, and split it into Han runs and other words.

Owns what two texts may differ in and still be the same text. ``normalise`` is the definition:

1. characters that Unicode 14 does not know become spaces (``unicode14`` says why);
2. of a run of combining marks the first ``MAX_MARKS`` stay (no language has more, and sorting
   a long run takes time with the square of its length);
3. NFKC, case folding, and NFKC again, because folding may leave marks uncomposed;
4. white space collapses to single spaces.

``split`` gives the words of the normalised text in two parts: Han runs, which a segmenter cuts
further, and other words, which are taken whole. A Han run is a maximal run of U+4E00 to
U+9FD5, the ideographs that jieba knows; another word is a maximal run of other letters and
digits. Everything else separates. Han runs come joined by single spaces: no
segmenter joins words across a space, so one call cuts them all.

Normalising whole articles is dear (NFKC alone costs three quarters of segmenting), and most of what
it does is lost again in splitting: a full-width comma separates words as well as an ASCII
one. So ``split`` looks up each UTF-16 unit in a table: is it Han, an ASCII letter or digit
after all (full-width ones too), does it separate, or does it need a closer look (a letter beyond
ASCII, a mark, a symbol that NFKC turns into letters)? Only what needs the closer look is
normalised, with the ASCII letters and digits around it; where ideographs come out of that (from
compatibility forms), the whole text is. The words are the same, which a test holds against the
definition.

That is how the ``plain`` words of the ``simhash`` profile are split. ``marked`` words keep their combining marks
(vowels of Thai and Hindi are marks): a word is then a run of letters, digits and marks that begins with a letter or
digit.

Must never depend on anything but the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U16
from stream_dedup.core.text.unicode14 import blank_unassigned, unassigned

MAX_MARKS = 30
"""Combining marks in a row that are kept: the limit of Unicode's Stream-Safe Text Format."""
MAX_HAN_RUN = 4096
"""Characters of a Han run that are segmented in one piece; a longer one is cut there. Text has
punctuation long before; the reference segmenter's time grows with the square of the length."""

HAN_FIRST, HAN_LAST = "\u4e00", "\u9fd5"
"""The ideographs that jieba knows."""
_HAN_FIRST, _HAN_LAST = ord(HAN_FIRST), ord(HAN_LAST)
_HAN_RUNS = re.compile("[\u4e00-\u9fd5]+")
_OTHER_WORDS = re.compile("[^\\W_\u4e00-\u9fd5]+")
_LONG_HAN_RUN = re.compile(f"[\u4e00-\u9fd5]{{{MAX_HAN_RUN}}}")
# Every combining mark is here: neither letter nor space, or one of two half-width kana marks that become one.
_MAYBE_MARKS = re.compile(f"(?:[^\\w\\s\\x00-\\x7f]|[\uff9e\uff9f]){{{MAX_MARKS + 1},}}")

_SPACE = ord(" ")
_HAN, _CLOSER_LOOK = 1, 255
"""Kinds of a unit, beside the ASCII character that it stands for: a letter, a digit or a space."""
_ASCII_KINDS = bytes(ord(chr(c).lower()) if chr(c).isalnum() else _SPACE for c in range(128))
_ASCII_WORDS = _ASCII_KINDS + bytes([_SPACE]) * 128
_HAN_SEPARATES = bytes(_SPACE if c == _HAN else c for c in range(256))
_SECOND_HALF = 0xDC00 >> 10
_EMOJI_LEAD = 0xD83D
"""First unit of U+1F400 to U+1F7FF: pictures, all of which separate, and half of all emoji."""


class Runs(NamedTuple):
    """The words of a text before segmenting."""

    han: str
    """Han runs joined by single spaces."""
    words: list[str]
    """The other words, in order."""


def normalise(text: str) -> str:
    """The text as it is compared."""
    normalised = text.lower() if text.isascii() else nfkc_casefold(text)
    return " ".join(normalised.split())


def split(text: str, *, marked: bool = False) -> Runs:
    """Han runs and other words of the normalised text."""
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


def split_normalised(text: str, *, marked: bool = False) -> Runs:
    """The same for text that is normalised: the definition."""
    return Runs(_bounded(" ".join(_HAN_RUNS.findall(text))), other_words(text, marked=marked))


def other_words(text: str, *, marked: bool = False) -> list[str]:
    """Words of normalised text that are not of ideographs."""
    words: list[str] = (_marked_words() if marked and not text.isascii() else _OTHER_WORDS).findall(text)
    return words


@cache
def marks() -> str:
    """Combining marks that belong to a word, as the inside of a character class; not those that enclose."""
    known = (chr(point) for point in np.flatnonzero(~unassigned()).tolist())
    return "".join(mark for mark in known if unicodedata.category(mark) in {"Mn", "Mc"})


@cache
def _marked_words() -> re.Pattern[str]:
    letter = "[^\\W_\u4e00-\u9fd5]"
    return re.compile(f"{letter}(?:{letter}|[{marks()}])*")


def warm() -> None:
    """Make the table now and not at the first text."""
    _unit_kinds()


def nfkc_casefold(text: str) -> str:
    """Steps 1 to 3."""
    text = _MAYBE_MARKS.sub(_cap_marks, blank_unassigned(text))
    normalised = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", normalised)


def _cap_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run.group():
        # A character that begins with a mark when taken apart counts as one.
        marks = marks + 1 if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) else 0
        if marks <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def _han_text(units: U16, is_han: NDArray[np.bool_]) -> str:
    # A run and the one unit after it, which becomes the space between two runs.
    keep = is_han.copy()
    keep[1:] |= is_han[:-1]
    return _text_of(np.maximum(units * is_han, _SPACE)[keep]).rstrip()


def _without_han(units: U16, kinds: U8) -> str:
    """The text with units by their kind, but for those that need a closer look."""
    keep = kinds == _CLOSER_LOOK
    # The second half of a pair stays with the first.
    keep[1:] |= keep[:-1] & (units[1:] >> 10 == _SECOND_HALF)
    return _text_of(np.where(keep, units, np.maximum(kinds, _SPACE)))


def _text_of(units: U16) -> str:
    return units.astype("<u2", copy=False).tobytes().decode("utf-16-le", "surrogatepass")


def _bounded(han: str) -> str:
    return _LONG_HAN_RUN.sub(r"\g<0> ", han) if len(han) > MAX_HAN_RUN else han


@cache
def _unit_kinds() -> U8:
    """Kind of each UTF-16 unit."""
    kinds = np.full(1 << 16, _CLOSER_LOOK, np.uint8)
    kinds[:128] = np.frombuffer(_ASCII_KINDS, np.uint8)
    kinds[_HAN_FIRST : _HAN_LAST + 1] = _HAN
    # A second half goes with the first; alone it separates.
    kinds[[_EMOJI_LEAD, *range(0xDC00, 0xE000)]] = _SPACE
    others = [chr(c) for c in (*range(128, _HAN_FIRST), *range(_HAN_LAST + 1, 0xD800), *range(0xE000, 1 << 16))]
    # One call for all: nothing composes with a newline.
    for character, normalised in zip(others, nfkc_casefold("\n".join(others)).split("\n"), strict=True):
        kinds[ord(character)] = _kind_of(normalised)
    kinds.setflags(write=False)
    return kinds


@cache
def _marked_unit_kinds() -> U8:
    """The same for words that keep their marks, of which not all that separate otherwise compose with anything."""
    kinds = _unit_kinds().copy()
    kinds[[ord(mark) for mark in marks() if ord(mark) < len(kinds)]] = _CLOSER_LOOK
    kinds.setflags(write=False)
    return kinds


def _kind_of(normalised: str) -> int:
    """Kind of a unit that becomes this text on its own, if nothing composes with it."""
    if normalised.isascii() and len(normalised) == 1:
        return _ASCII_KINDS[ord(normalised)]
    if unicodedata.combining(normalised[0]) or any(character.isalnum() for character in normalised):
        return _CLOSER_LOOK
    return _SPACE
