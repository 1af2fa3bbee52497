"""Foreign text in a page, and the passages that two texts have in common.

Characters that are not seen, or change how others are seen, become visible marks. Templates escape what is markup. What
remains are characters that a browser obeys (they reverse the text behind them) or does not draw: control and format
characters, half surrogates, separators, fillers. Each is shown as its code, in a box. Line feeds and tabs stay where a
text has lines.

A word is common to two texts if a run of some words around it, itself among them, is in the other text, too. It
takes time proportional to the texts, whatever they hold; a longest common subsequence would take its square. Passages
that were moved count as common, as they do for the fingerprint, which does not know the order of words.

A word is a run of letters and digits, or a single Han, kana or Hangul character. Case, width and what is between words
do not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from stream_dedup.terminal import HIDDEN

MAX_SHOWN = 20_000
"""Characters of a text that a page shows, and that are compared for their passages."""
MAX_READ = 4 * MAX_SHOWN
"""Characters of a text that are read for its words where it has markup: of a web page much is markup. It bounds the
time of a hostile one."""
EXCERPT = 140
"""Characters of an excerpt."""
FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""
DRAWN_MARKS = 2
"""Combining marks of one character that are drawn; a tower of them would cover the lines around it."""
_LINES = frozenset("\n\t")


class Piece(NamedTuple):
    """A piece of foreign text: characters that are shown as they are, or one that is shown as its code."""

    text: str
    is_code: bool = False
    name: str = ""
    """Name of the character, where ``text`` is its code."""


class ShownArticle(NamedTuple):
    """The text of an article as a page shows it."""

    text: str
    """Its beginning, without markup."""
    source: Sequence[Piece] = ()
    """The beginning of the text with its markup; none where it has no markup."""
    is_cut: bool = False
    """Whether it has more text than is shown."""

    @classmethod
    def of(cls, text: str, readable: str | None) -> ShownArticle:
        """Return what is shown of a text; ``readable``: without its markup, None where it has none."""
        if readable is None:
            return cls(text[:MAX_SHOWN], is_cut=len(text) > MAX_SHOWN)
        source = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
        return cls(readable[:MAX_SHOWN], pieces(source), len(readable) > MAX_SHOWN or len(text) > MAX_READ)


def shown_fields(texts: Sequence[str]) -> str:
    """Return the text of several fields, as it is shown and compared: each that is not empty on lines of its own."""
    return "\n".join(text for text in texts if text)


def pieces(text: str, *, keeps_lines: bool = True) -> list[Piece]:
    """Return foreign text in pieces; without ``keeps_lines`` line feeds and tabs are shown as codes, too."""
    if text.isprintable() and text.isascii():
        return [Piece(text)] if text else []
    kept = _LINES if keeps_lines else frozenset()
    return list(_pieces(_without_carriage_returns(text) if keeps_lines else text, kept))


def is_hidden(character: str) -> bool:
    """Return whether a character is not seen, or changes how others are seen."""
    return unicodedata.category(character) in HIDDEN or character in FILLERS


def excerpt(text: str, length: int = EXCERPT) -> str:
    """Return the beginning of a text on one line, cut with an ellipsis."""
    line = " ".join(text[: 8 * length].split())
    return line if len(line) <= length and len(text) <= 8 * length else line[:length] + "…"


def _pieces(text: str, kept: frozenset[str]) -> Iterator[Piece]:
    for hidden, group in groupby(_without_towers(text), key=lambda one: one not in kept and is_hidden(one)):
        if hidden:
            yield from (Piece(f"U+{ord(one):04X}", is_code=True, name=unicodedata.name(one, "")) for one in group)
        else:
            yield Piece("".join(group))


def _without_towers(text: str) -> Iterator[str]:
    marks = 0
    for one in text:
        marks = marks + 1 if unicodedata.combining(one) else 0
        if marks <= DRAWN_MARKS:
            yield one


def _without_carriage_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


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
