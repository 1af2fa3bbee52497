"""Lines that are rewritten in place, on a terminal only: pipes and logs contain no such lines."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from stream_dedup.terminal import cut, visible

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

    def close(self) -> None:
        """End the line."""
        if self._dirty:
            sys.stderr.write("\n")
            self._dirty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Screen:
    """Shows lines in place of those before, on the alternate screen of a terminal, which is left at the end.

    As a context manager, it leaves the last lines on the screen that was there before.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stdout.isatty()
        self._lines: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> bool:
        """Show lines in the size of the terminal; return whether there is a terminal to show them on."""
        if self._shown:
            self._lines = lines
            columns, rows = shutil.get_terminal_size()
            folded = [part for line in lines for part in _folded(line, columns)]
            shown = (cut(line, columns) for line in _fitting(folded, rows - 1))
            self._write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J")
        return self._shown

    def __enter__(self) -> Self:
        if self._shown:
            self._write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._write("\x1b[?25h\x1b[?1049l" + "".join(f"{visible(line)}\n" for line in self._lines))

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _folded(line: str, columns: int) -> list[str]:
    """Return the lines that a sentence takes: its end may be the remedy. The row of a table stays one line."""
    is_row = "  " in line or not line
    return [line] if is_row else textwrap.wrap(visible(line), columns, subsequent_indent="  ")


def _fitting(lines: Sequence[str], rows: int) -> list[str]:
    """Return the lines that fit: the first ones and the last ones, which say what is wrong."""
    if len(lines) <= rows:
        return list(lines)
    last = min(rows // 2, len(lines))
    return [*lines[: max(rows - last - 1, 0)], "…", *lines[len(lines) - last :]]
