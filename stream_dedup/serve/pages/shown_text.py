"""Foreign text in a page: characters that are not seen, or change how others are seen, become visible marks.

Templates escape what is markup. What remains are characters that a browser obeys (they reverse the text behind them)
or does not draw: control and format characters, half surrogates, separators, fillers. Each is shown as its code, in a
box. Line feeds and tabs stay where a text has lines.
"""

from __future__ import annotations

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
