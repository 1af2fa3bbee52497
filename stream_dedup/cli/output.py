"""What the commands write for people and programs.

The only place of the command line that writes to a terminal (ruff keeps ``click.echo`` out of the others), so that
foreign text can do nothing there but be read: not move the cursor, not set a title, not turn the order of letters
around, not look like a line of ours. ``filter`` is the exception: its output is the caller's own records, unchanged.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import Any

import click

from stream_dedup.terminal import visible, visible_json

MIN_REPORT_COLUMNS = 60
"""A narrower terminal gets a report of this width: its tables and pairs of texts need it."""
_HALF_SURROGATE = re.compile("[\ud800-\udfff]")


def write_lines(*lines: str, err: bool = False) -> None:
    """Write lines, each of which may hold foreign text: a line feed inside of one is shown, not obeyed."""
    _write("\n".join(map(visible, lines)), err=err)


def report_columns(default: int) -> int:
    """Returns the width of a report for this terminal; ``default`` where standard output is no terminal."""
    return max(MIN_REPORT_COLUMNS, shutil.get_terminal_size((default, 24)).columns)


def write_json(values: object, *, indented: bool = False) -> None:
    """Write values as one JSON text and a line end, in UTF-8 whatever the locale is, hidden characters escaped."""
    _write(visible_json(json_text(values, indented=indented)).encode())


def json_text(values: object, *, indented: bool = False) -> str:
    r"""Values as JSON that every reader takes.

    Half surrogates (of a cut emoji, or bytes of a file name that are no UTF-8) are no characters and stand in no JSON
    text: each is written out, as ``\ud83d``, in the way in which ids are kept in an index. A dataclass becomes an
    object; what JSON has no form for becomes its text.
    """
    form: dict[str, Any] = {"indent": 2} if indented else {"separators": (",", ":")}
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=_plain, **form)
    return _HALF_SURROGATE.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever JSON has no form for
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def say(message: str) -> None:
    """Write a message to standard error under the program's name.

    Lines after the first are indented, so that none of them, whatever it quotes, looks like a message of its own.
    """
    first, *more = message.split("\n")
    with suppress(OSError):  # where standard error cannot be written, the exit code still says it
        write_lines(f"stream-dedup: {first}", *map(_indented, more), err=True)


def _indented(line: str) -> str:
    return line if line.startswith(" ") or not line else f"  {line}"


def _write(text: str | bytes, *, err: bool = False) -> None:
    click.echo(text, err=err)  # noqa: TID251 - the one place
