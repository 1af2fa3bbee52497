"""The progress line, on a terminal only: pipes and logs contain no such lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from stream_dedup.terminal import visible

EVERY_S = 0.5
"""Seconds between two updates of the line."""


class ProgressLine:
    """Rewrites one line of standard error. As a context manager, it ends the line."""

    def __init__(self, *, hidden: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not hidden
        self._begun = self._last = time.monotonic()
        self._dirty = False

    def show(self, text: Callable[[float], str]) -> None:
        """Shows ``text(seconds since the start)``, at most once in ``EVERY_S``."""
        now = time.monotonic()
        if self._shown and now - self._last >= EVERY_S:
            self._last, self._dirty = now, True
            sys.stderr.write(f"\r{visible(text(now - self._begun))}\x1b[K")
            sys.stderr.flush()

    def count(self, done: int, total: int) -> None:
        """Shows the number of finished items, the total and the rate."""
        self.show(lambda elapsed: f"{done:,} of {total:,} ({done / elapsed:,.0f}/s)")

    def close(self) -> None:
        """Ends the line."""
        if self._dirty:
            sys.stderr.write("\n")
            self._dirty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
