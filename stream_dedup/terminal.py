"""Text in the columns of a terminal, where a Chinese character takes two of them.

Owns widths, nothing else: the Unicode property East Asian Width as the standard library knows it; combining marks,
zero-width and control characters take no column. Terminals differ about some emoji; a table that is off by a column
there is accepted.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

ELLIPSIS = "…"


def width_of(text: str) -> int:
    """Columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def shorten(text: str, width: int) -> str:
    """The text on one line, cut to so many columns: what is cut is marked."""
    line = " ".join(text.split())
    if width_of(line) <= width:
        return "".join(filter(_visible, line))
    kept, taken = [], 0
    for character in filter(_visible, line):
        taken += _width(character)
        if taken > width - 1:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text with spaces behind it (or before it) up to so many columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Lines of a table: the first ``left`` columns flush left, the others flush right, two spaces between."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width, right=at >= left) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _visible(character: str) -> bool:
    """Whether a character may go to a terminal: control characters could do more there than be seen."""
    return unicodedata.category(character) not in {"Cc", "Cs"}


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
