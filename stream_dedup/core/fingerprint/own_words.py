"""A user's files of words: a dictionary in jieba's format, and words that do not count."""

from __future__ import annotations

import re
from pathlib import Path

from stream_dedup.errors import UserError

MAX_FREQUENCY = 10**15
"""Of a word: 16 million times the sum of jieba's frequencies. Sums of them stay finite as floats."""
_SHOWN = 60
"""Characters of a wrong line that its error repeats."""
_IDEOGRAPHS = re.compile("[\u4e00-\u9fd5]+")


def user_words(path: Path) -> dict[str, int | None]:
    """Read words and frequencies of a dictionary in jieba's format, with lines ``word [frequency] [tag]``.

    Only words of ideographs are returned: other words are never cut, so a dictionary cannot change them.

    Raises:
        UserError: the file cannot be read, or a line has another form.
    """
    words: dict[str, int | None] = {}
    for number, line in read_lines(path).items():
        word, *rest = line.split()
        frequency = _frequency(rest[0]) if rest else None
        # In jieba, a frequency of 0 forbids the word in every tokenizer of the process.
        if len(rest) > 2 or (len(rest) == 2 and frequency is None) or frequency == 0:  # noqa: PLR2004 - and a tag
            shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
            msg = f"{path}, line {number}: {shown!r} is no entry of a dictionary; write: word [frequency above 0] [tag]"
            raise UserError(msg)
        if frequency is not None and frequency > MAX_FREQUENCY:
            msg = f"{path}, line {number}: the frequency has {len(rest[0])} digits; write at most {MAX_FREQUENCY}"
            raise UserError(msg)
        if _IDEOGRAPHS.fullmatch(word):
            words[word] = frequency
    return words


def _frequency(digits: str) -> int | None:
    """Return the number, one above the maximum for a larger one, or None for a tag.

    Python itself reads 4,300 digits at most.
    """
    if not (digits.isascii() and digits.isdecimal()):
        return None
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= len(str(MAX_FREQUENCY)) else MAX_FREQUENCY + 1


def read_lines(path: Path) -> dict[int, str]:
    """Return the lines of a file of words by their numbers, from 1, without empty lines and comments (#).

    Raises:
        UserError: the file cannot be read as UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): name a text file"
        raise UserError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        raise UserError(msg) from error
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return {number: line for number, line in lines if line and not line.startswith("#")}
