"""The passages that two texts have in common, and those in which they differ.

A word is common if a run of ``_RUN`` words around it, itself among them, is in the other text, too. It takes time
proportional to the texts, whatever they hold; a longest common subsequence would take its square. Passages that were
moved count as common, as they do for the fingerprint, which does not know the order of words.

A word is a run of letters and digits, or a single Han, kana or Hangul character. Case, width and what is between words
do not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from stream_dedup.serve.pages.shown_text import Piece, pieces

_RUN_OF_WORDS = 3
_RUN_OF_CHARACTERS = 4
_SINGLE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")
_HAN = re.compile(rf"[{_SINGLE}]")
_SPACE = re.compile(r"\s+")


class Passage(NamedTuple):
    """A passage of a text."""

    text: str
    is_common: bool
    keeps_lines: bool = True

    @property
    def pieces(self) -> Sequence[Piece]:
        """The passage as it is shown."""
        return pieces(self.text, keeps_lines=self.keeps_lines)


class ComparedTexts(NamedTuple):
    """Two texts side by side."""

    a: list[Passage]
    b: list[Passage]
    common: float
    """Share of the words of the later text, B, that is common; 1.0 where it has no words."""


class _Word(NamedTuple):
    start: int
    end: int
    form: str


def compared(a: str, b: str) -> ComparedTexts:
    """Return the passages of two texts."""
    one, other = _words(a), _words(b)
    run = _run_length(one, other)
    in_a, in_b = _common(one, other, run), _common(other, one, run)
    share = sum(in_b) / len(in_b) if in_b else 1.0
    return ComparedTexts(_passages(a, one, in_a), _passages(b, other, in_b), share)


def differing_excerpt(passages: Sequence[Passage], before: int = 12, most: int = 140) -> list[Passage]:
    """Return one line of a text, from shortly before its first differing passage on; if none differs, its beginning."""
    lines = [(_SPACE.sub(" ", one.text), one.is_common) for one in passages]
    first = next((at for at, (_, is_common) in enumerate(lines) if not is_common), 0)
    head = "".join(text for text, _ in lines[:first])
    shown = [(head if len(head) <= before else "…" + head[-before:], True)] if head else []
    left = most
    for text, is_common in lines[first:]:
        shown.append((text if len(text) <= left else text[:left] + "…", is_common))
        left -= len(text)
        if left <= 0:
            break
    return [Passage(text, is_common, keeps_lines=False) for text, is_common in shown]


def _words(text: str) -> list[_Word]:
    return [
        _Word(found.start(), found.end(), unicodedata.normalize("NFKC", found[0]).casefold())
        for found in _WORD.finditer(text)
    ]


def _run_length(one: Sequence[_Word], other: Sequence[_Word]) -> int:
    """Return the length of the runs that are compared: longer ones where single characters are the words."""
    han = sum(_HAN.match(word.form) is not None for word in (*one, *other))
    run = _RUN_OF_CHARACTERS if 2 * han > len(one) + len(other) else _RUN_OF_WORDS
    return max(1, min(run, len(one), len(other)))


def _common(words: Sequence[_Word], others: Sequence[_Word], run: int) -> list[bool]:
    theirs = set(_runs(others, run))
    common = [False] * len(words)
    for at, forms in enumerate(_runs(words, run)):
        if forms in theirs:
            common[at : at + run] = [True] * run
    return common


def _runs(words: Sequence[_Word], run: int) -> list[tuple[str, ...]]:
    forms = [word.form for word in words]
    return [tuple(forms[at : at + run]) for at in range(len(forms) - run + 1)]


def _passages(text: str, words: Sequence[_Word], common: Sequence[bool]) -> list[Passage]:
    """Return the passages of a text; what is between two words of one kind is of their kind, else common."""
    if not words:
        return [Passage(text, is_common=True)] if text else []
    passages, end = [], 0
    for is_common, group in groupby(zip(words, common, strict=True), key=lambda one: one[1]):
        run = [word for word, _ in group]
        start, stop = run[0].start, run[-1].end
        if start > end:
            passages.append(Passage(text[end:start], is_common=True))
        passages.append(Passage(text[start:stop], is_common))
        end = stop
    if end < len(text):
        passages.append(Passage(text[end:], is_common=True))
    return passages
