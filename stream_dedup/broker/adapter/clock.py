"""The machine's clock and its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class SystemClock:
    """Implements ``ports.Clock``."""

    def monotonic(self) -> float:
        """Return seconds since some moment; it never goes back."""
        return time.monotonic()

    def time_ms(self) -> int:
        """Return milliseconds since 1970 by the wall clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Block for that time."""
        time.sleep(seconds)

    def event(self) -> threading.Event:
        """Return a new event."""
        return threading.Event()

    def spawn(self, name: str, run: Callable[[], None]) -> threading.Thread:
        """Start a thread that does not keep the process alive."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread
