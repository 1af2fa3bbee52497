"""The output of the commands.

Only this module of the command line writes to a terminal (ruff bans ``click.echo`` elsewhere), so that foreign text
cannot control it: move the cursor, set a title, reverse the order of letters, or imitate a line of the program.
``filter`` is the exception: its output is the caller's records, unchanged.

Lines of progress are rewritten in place, on a terminal only: pipes and logs contain no such lines.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Self

import click

from stream_dedup.terminal import visible, visible_json

if TYPE_CHECKING:
    from stream_dedup.files.inputs import Progress

MIN_REPORT_COLUMNS = 60
"""A narrower terminal gets a report of this width: its tables and pairs of texts need it."""
_HALF_SURROGATE = re.compile("[\ud800-\udfff]")


def write_lines(*lines: str, err: bool = False) -> None:
    """Write lines, which may contain foreign text: a line feed inside a line is escaped."""
    _write("\n".join(map(visible, lines)), err=err)


def report_columns(default: int) -> int:
    """Return the width of a report for this terminal; ``default`` where standard output is no terminal."""
    return max(MIN_REPORT_COLUMNS, shutil.get_terminal_size((default, 24)).columns)


def write_json(values: object, *, indented: bool = False) -> None:
    """Write values as JSON and a line end, in UTF-8 for every locale, with hidden characters escaped."""
    _write(visible_json(json_text(values, indented=indented)).encode())


def json_text(values: object, *, indented: bool = False) -> str:
    r"""Return values as valid JSON.

    Half surrogates (of a truncated emoji, or of a file name that is not UTF-8) are not valid in JSON: each is written
    out, as ``\ud83d``, like the ids in an index. A dataclass becomes an object; a value without a JSON type becomes
    its text.
    """
    form: dict[str, Any] = {"indent": 2} if indented else {"separators": (",", ":")}
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=_plain, **form)
    return _HALF_SURROGATE.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever JSON has no form for
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def say(message: str) -> None:
    """Write a message to standard error after the program's name.

    Lines after the first are indented, so that quoted text cannot look like a message of the program.
    """
    first, *more = message.split("\n")
    with suppress(OSError):  # where standard error cannot be written, the exit code remains
        write_lines(f"stream-dedup: {first}", *map(_indented, more), err=True)


def _indented(line: str) -> str:
    return line if line.startswith(" ") or not line else f"  {line}"


def _write(text: str | bytes, *, err: bool = False) -> None:
    click.echo(text, err=err)  # noqa: TID251 - the one place


EVERY_S = 0.5
"""Seconds between two updates of the line."""


class ProgressLine:
    """Rewrites one line of standard error. As a context manager, it ends the line."""

    def __init__(self, *, hidden: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not hidden
        self._begun = self._last = time.monotonic()
        self._dirty = False

    def show(self, text: Callable[[float], str]) -> None:
        """Show ``text(seconds since the start)``, at most once in ``EVERY_S``."""
        now = time.monotonic()
        if self._shown and now - self._last >= EVERY_S:
            self._last, self._dirty = now, True
            sys.stderr.write(f"\r{visible(text(now - self._begun))}\x1b[K")
            sys.stderr.flush()

    def count(self, done: int, total: int) -> None:
        """Show the number of finished items, the total and the rate."""
        self.show(lambda elapsed: f"{done:,} of {total:,} ({done / elapsed:,.0f}/s)")

    def stage(self, name: str, done: int, total: int) -> None:
        """Show the number of finished items of a stage, and the total."""
        self.show(lambda _elapsed: f"{done:,} of {total:,} {name}")

    def read(self, progress: Progress, count: int, what: str) -> None:
        """Show the share of the inputs that was read, the number of finished items, the rate, and what they are."""
        share = f"{progress.read / progress.total:.0%}, " if progress.total else ""
        self.show(lambda elapsed: f"{share}{count:,} ({count / elapsed:,.0f}/s) {what}")

    def close(self) -> None:
        """End the line."""
        if self._dirty:
            sys.stderr.write("\n")
            self._dirty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
