"""This machine's time, and the threads that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Event(Protocol):
    """As ``threading.Event``."""

    def set(self) -> None:
        """Wake every waiting thread. Any thread."""

    def clear(self) -> None:
        """Reset. Any thread."""

    def is_set(self) -> bool:
        """Return whether it is set. Any thread."""

    def wait(self, timeout: float) -> bool:
        """Block until it is set or ``timeout`` seconds have passed; return whether it is set. Any thread."""


class Thread(Protocol):
    """A running thread."""

    def join(self, timeout: float | None = None) -> None:
        """Block until it has ended, or for ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Return whether it runs."""


class Clock(Protocol):
    """This machine's time, and the threads that wait for it. Any thread."""

    def monotonic(self) -> float:
        """Return seconds since some moment; it never goes back."""

    def time_ms(self) -> int:
        """Return milliseconds since 1970 by the wall clock, which may be wrong and may be set."""

    def sleep(self, seconds: float) -> None:
        """Block for that time."""

    def event(self) -> Event:
        """Return a new event."""

    def spawn(self, name: str, run: Callable[[], None]) -> Thread:
        """Start a thread that does not keep the process alive."""
