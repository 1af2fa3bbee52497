"""Time limits for calls that the Kafka client makes without one.

``commit_transaction`` and similar calls wait without limit while the broker is away, and a thread inside them cannot be
interrupted. A guard therefore names the call and its limit. A thread (``run``) checks all guards; when one is overdue,
it logs one error and ends the process. The process may end at any moment without losing or repeating an article.

Time during which the whole process was stopped or suspended does not count.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stream_dedup.exit_codes import EXIT_UNAVAILABLE

if TYPE_CHECKING:
    from stream_dedup.ports import Clock

log = logging.getLogger(__name__)

TICK_S = 0.5
"""Seconds between two checks of the guards."""
STANDSTILL_S = 5.0
"""A check that is so many seconds late means that the process itself did not run."""


class Watchdog:
    """Guards blocking calls."""

    def __init__(self, clock: Clock, end: Callable[[int], None] = os._exit) -> None:
        """``end`` is called with the exit code."""
        self._end = end
        self._now = clock.monotonic
        self._guards: dict[int, tuple[str, float, float, int]] = {}
        self._lock = threading.Lock()
        self._last_tick = self._now()
        self._done = clock.event()

    def stop(self) -> None:
        """Stop checking."""
        self._done.set()

    @contextmanager
    def guard(self, what: str, limit_s: float, exit_code: int = EXIT_UNAVAILABLE) -> Iterator[None]:
        """End the process if the block takes longer than ``limit_s`` seconds."""
        with self._lock:
            key = max(self._guards, default=0) + 1
            self._guards[key] = (what, self._now() + limit_s, limit_s, exit_code)
        try:
            yield
        finally:
            with self._lock:
                del self._guards[key]

    def tick(self) -> None:
        """Check the guards once."""
        now = self._now()
        still = now - self._last_tick
        self._last_tick = now
        with self._lock:
            if still > STANDSTILL_S:
                self._guards = {
                    key: (what, deadline + still, limit, code)
                    for key, (what, deadline, limit, code) in self._guards.items()
                }
            overdue = [guard for guard in self._guards.values() if guard[1] < now]
        for what, _, limit, code in overdue[:1]:
            log.error("%s took more than %g s; the worker ends and can be started again, nothing is lost", what, limit)
            self._end(code)

    def run(self) -> None:
        """Check the guards until ``stop``."""
        self._last_tick = self._now()
        while not self._done.wait(TICK_S):
            self.tick()
