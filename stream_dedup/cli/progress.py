"""One line of progress, on a terminal only: what is piped or logged holds no such lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from stream_dedup.terminal import visible

EVERY_S = 0.5
"""Seconds between two changes of the line: to be read, not to be watched."""


class ProgressLine:
    """Rewrites one line of standard error; used as a context manager it ends that line."""

    def __init__(self, *, hidden: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not hidden
        self._begun = self._last = time.monotonic()
        self._dirty = False

    def show(self, text: Callable[[float], str]) -> None:
        """Show what ``text`` makes of the seconds since the beginning, if it is time."""
        now = time.monotonic()
        if self._shown and now - self._last >= EVERY_S:
            self._last, self._dirty = now, True
            sys.stderr.write(f"\r{visible(text(now - self._begun))}\x1b[K")
            sys.stderr.flush()

    def count(self, done: int, total: int) -> None:
        """Show how many of how many are done."""
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
