"""Text for a terminal: foreign text with its hidden characters escaped, and the width of text in columns.

* ``visible`` is the only function that shows foreign text (ids, articles, file names, messages of a broker): a
  character that a terminal executes or does not show is written as an escape.
* The width of a character is its Unicode property East Asian Width in the standard library; combining marks take no
  column. Terminals differ for some emoji; a table may be off by a column there.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence

ELLIPSIS = "…"
HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories that a terminal executes or does not show: control characters, format characters (which reorder
text or are invisible), half surrogates, separators of lines and of paragraphs."""


def visible(text: str) -> str:
    r"""Return foreign text for one line of a terminal or log, with hidden characters as ``\n``, ``\x1b``, ``\u202e``.

    Other characters are unchanged: Chinese, emoji, combining marks. The joiner inside some emoji is escaped like every
    format character, so that two ids that differ in it look different. A backslash is not escaped: the result is for
    people and cannot be decoded.
    """
    return replace_hidden(text, lambda character: character.encode("unicode_escape").decode())


def visible_json(text: str) -> str:
    r"""Return JSON of the same value without hidden characters, except the line feeds between its lines.

    Hidden characters occur only inside JSON strings, where ``\u202e`` is equivalent to the character.
    """
    return "\n".join(replace_hidden(line, lambda character: json.dumps(character)[1:-1]) for line in text.split("\n"))


def replace_hidden(text: str, escape: Callable[[str], str]) -> str:
    """Return the text with each hidden character replaced by ``escape(character)``."""
    if text.isprintable():
        return text
    return "".join(escape(each) if unicodedata.category(each) in HIDDEN else each for each in text)


def width_of(text: str) -> int:
    """Return the columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def shorten(text: str, width: int) -> str:
    """Return foreign text on one line, cut to ``width`` columns with an ellipsis; never cut an escape."""
    text = " ".join(text.split())
    whole = visible(text)
    if width_of(whole) <= width:
        return whole
    kept, taken = [], 0
    for shown in map(visible, text):
        taken += width_of(shown)
        if taken > width - 1:
            break
        kept.append(shown)
    return "".join(kept) + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return the text padded with spaces to ``width`` columns, on the left with ``right=True``."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the lines of a table: the first ``left`` columns flush left, the others flush right, two spaces between.

    Cells may contain foreign text.
    """
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width, right=at >= left) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
