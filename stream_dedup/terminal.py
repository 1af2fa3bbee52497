"""Text for a terminal: foreign text made harmless, and columns, of which a Chinese character takes two.

Owns two things:

* How foreign text (ids, articles, file names, what a broker says) is shown. ``visible`` is the only function for that:
  a character that a terminal acts on, or does not show, is written as an escape.
* Widths: the Unicode property East Asian Width as the standard library knows it; combining marks take no column.
  Terminals differ about some emoji; a table that is off by a column there is accepted.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence

ELLIPSIS = "…"
HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories that a terminal acts on or does not show: control characters, format characters (which reorder
text or are invisible), half surrogates, separators of lines and of paragraphs."""


def visible(text: str) -> str:
    r"""Foreign text for one line of a terminal or a log: each hidden character as ``\n``, ``\x1b``, ``\u202e``.

    Everything else stays: Chinese, emoji, combining marks. The joiner inside of some emoji
    is escaped like every format character: two ids that differ in it alone must not look alike. A backslash stays as it
    is, so the result is to be read by people and not to be decoded.
    """
    return replace_hidden(text, _escape)


def visible_json(text: str) -> str:
    r"""JSON of the same value in which no character is hidden, but for the line feeds between its lines.

    Hidden characters stand only inside of JSON's strings, where ``\u202e`` means the same as the character.
    """
    return "\n".join(replace_hidden(line, lambda character: json.dumps(character)[1:-1]) for line in text.split("\n"))


def replace_hidden(text: str, escape: Callable[[str], str]) -> str:
    """The text with each hidden character as ``escape`` writes it."""
    if text.isprintable():
        return text
    return "".join(escape(one) if unicodedata.category(one) in HIDDEN else one for one in text)


def width_of(text: str) -> int:
    """Columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def shorten(text: str, width: int) -> str:
    """Foreign text on one visible line, cut to so many columns: what is cut is marked, and no escape is cut in two."""
    line = " ".join(text.split())
    whole = visible(line)
    if width_of(whole) <= width:
        return whole
    kept, taken = [], 0
    for shown in map(visible, line):
        taken += width_of(shown)
        if taken > width - 1:
            break
        kept.append(shown)
    return "".join(kept) + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text with spaces behind it (or before it) up to so many columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Lines of a table: the first ``left`` columns flush left, the others flush right, two spaces between.

    Cells may be foreign text.
    """
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width, right=at >= left) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _escape(character: str) -> str:
    """As Python writes it."""
    return character.encode("unicode_escape").decode()


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
