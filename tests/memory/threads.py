"""Real time for the cluster in memory, where a test runs threads of the program over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.memory.broker import FIRST_TIME_MS
from tests.memory.runtime import Signal


class ThreadRuntime:
    """Implements ``Runtime`` with the machine's clock; the cluster's calls are short and need no lock of their own."""

    def __init__(self) -> None:
        """The cluster's clocks show the machine's time."""
        self._begun = time.monotonic() - (time.time() - FIRST_TIME_MS / 1000)

    def now(self) -> float:
        return time.monotonic() - self._begun

    def wait(self, signal: Signal, timeout_s: float) -> None:
        fired = threading.Event()
        signal.add(fired.set)
        fired.wait(timeout_s)
        signal.remove(fired.set)

    def call_at(self, when: float, run: Callable[[], None]) -> None:
        left = when - self.now()
        if left <= 0:
            run()
            return
        timer = threading.Timer(left, run)
        timer.daemon = True
        timer.start()
