"""Normalises a text, and splits it into Han runs and other words.

Which differences between two texts never count:

1. Characters that Unicode 14 does not know become spaces (see ``unicode14``).
2. Of a run of combining marks the first ``MAX_MARKS`` stay. No language has more, and sorting a long run takes time
   with the square of its length.
3. NFKC, case folding, and NFKC again, because folding may leave marks uncomposed.
4. White space becomes single spaces.

A Han run is a maximal run of U+4E00 to U+9FD5, the ideographs that jieba knows. Another word is a maximal run of other
letters and digits. ``marked`` words keep their combining marks (vowels of Thai and Hindi are marks): a word is a run of
letters, digits and marks that begins with a letter or digit. All other characters separate.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import NamedTuple

from tests.reference.unicode14 import blank_unassigned, unassigned

MAX_MARKS = 30
"""Most combining marks in a row that are kept: the limit of Unicode's Stream-Safe Text Format."""
MAX_HAN_RUN = 4096
"""Most characters of a Han run; a longer run is cut, because the time of the reference segmenter grows with the square
of the length. Runs of real text are far shorter."""

HAN_FIRST, HAN_LAST = "\u4e00", "\u9fd5"
"""The ideographs that jieba knows."""
_HAN_RUNS = re.compile("[\u4e00-\u9fd5]+")
_OTHER_WORDS = re.compile("[^\\W_\u4e00-\u9fd5]+")


class Runs(NamedTuple):
    """The parts of a text before segmenting."""

    han: list[str]
    """Han runs."""
    words: list[str]
    """The other words, in order."""


def normalise(text: str) -> str:
    """Return the text after steps 1 to 4."""
    return " ".join(nfkc_casefold(text).split())


def split_normalised(text: str, *, marked: bool = False) -> Runs:
    """Split text that is normalised already."""
    found = _HAN_RUNS.findall(text)
    han = [run[start : start + MAX_HAN_RUN] for run in found for start in range(0, len(run), MAX_HAN_RUN)]
    return Runs(han, (_marked_words() if marked else _OTHER_WORDS).findall(text))


@cache
def marks() -> str:
    """Return the combining marks that belong to words, for use in a character class; enclosing marks do not."""
    every = (chr(point) for point in range(sys.maxunicode + 1) if not unassigned()[point])
    return "".join(one for one in every if unicodedata.category(one) in {"Mn", "Mc"})


@cache
def _marked_words() -> re.Pattern[str]:
    letter = "[^\\W_\u4e00-\u9fd5]"
    return re.compile(f"{letter}(?:{letter}|[{marks()}])*")


def nfkc_casefold(text: str) -> str:
    """Return the text after steps 1 to 3."""
    normalised = unicodedata.normalize("NFKC", _with_few_marks(blank_unassigned(text))).casefold()
    return unicodedata.normalize("NFKC", normalised)


def _with_few_marks(text: str) -> str:
    if not any(map(_is_mark, text)):
        return text
    kept, count = [], 0
    for character in text:
        count = count + 1 if _is_mark(character) else 0
        if count <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


@cache
def _is_mark(character: str) -> bool:
    """Whether the decomposition of a character begins with a mark."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0
