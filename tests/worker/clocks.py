"""A clock that a test sets, for parts of the worker that run without threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stream_dedup.ports import Event, Thread


class ManualClock:
    """Stands still until the test or a sleeper moves it; its events do not wait, and it starts no thread."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def time_ms(self) -> int:
        return int(self.now * 1000)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def event(self) -> Event:
        return _NoWait()

    def spawn(self, name: str, run: Callable[[], None]) -> Thread:
        raise AssertionError(f"{name} is started: {run}")


class _NoWait:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    def wait(self, timeout: float) -> bool:
        assert timeout >= 0
        return self._event.is_set()
