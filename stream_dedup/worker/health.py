"""Whether the worker makes progress: the answers of ``/healthz`` and ``/readyz``, and time limits for calls.

A worker is healthy unless

* one of its threads has not completed a round for ``worker.watchdog_s``, or
* batches are in flight and none was committed or dropped for that time, though a broker answers. Batches that wait for
  a schema do not count.

While no broker answers, waiting is right: the worker ends by itself after ``kafka.broker_wait_s``. That time does not
count.

``commit_transaction`` and similar calls of the Kafka client wait without limit while the broker is away, and a thread
inside them cannot be interrupted. A guard therefore names the call and its limit. The watchdog checks all guards; when
one is overdue, it logs one error and ends the process. The process may end at any moment without losing or repeating an
article.

Time during which the whole process was stopped or suspended counts for neither.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.errors import EXIT_UNAVAILABLE

if TYPE_CHECKING:
    from stream_dedup.ports import Clock
    from stream_dedup.worker.assignments import AssignmentOwner

log = logging.getLogger(__name__)

CHECK_S = 0.5
"""Seconds between two checks of the threads, and of the guards."""
STOPPED_S = 5.0
"""So many seconds since the last check mean that the process itself did not run."""


@dataclass(slots=True, eq=False)
class _Guard:
    """A call that must end."""

    what: str
    deadline: float
    limit_s: float
    exit_code: int


@dataclass(eq=False)
class Watchdog:
    """``run`` is a thread of its own; every other method may be called from any thread."""

    clock: Clock
    assignments: AssignmentOwner
    """Counts the batches in flight."""
    limit_s: float
    """Longest time without progress."""
    answered: Callable[[], bool]
    """Returns whether a broker answers."""
    end: Callable[[int], None] = os._exit
    """Ends the process with an exit code."""

    def __post_init__(self) -> None:
        """Check nothing yet."""
        self._lock = threading.Lock()
        self._guards: list[_Guard] = []
        self._rounds: dict[str, float] = {}
        self._released = 0
        self._progressed_at = self._checked_at = self.clock.monotonic()
        self._done = self.clock.event()
        self._is_ending = False
        self.problem: str | None = None
        """Why the worker is not healthy, None if it is."""

    def completed(self, thread: str) -> None:
        """Note that a thread has completed a round."""
        self._rounds[thread] = self.clock.monotonic()

    @contextmanager
    def guard(self, what: str, limit_s: float, exit_code: int = EXIT_UNAVAILABLE) -> Iterator[None]:
        """End the process if the block takes longer than ``limit_s`` seconds."""
        guard = _Guard(what, self.clock.monotonic() + limit_s, limit_s, exit_code)
        with self._lock:
            self._guards.append(guard)
        try:
            yield
        finally:
            with self._lock:
                self._guards.remove(guard)

    def note_end(self) -> None:
        """Note that threads end in order from now on, one after the other: calls alone are checked."""
        self._is_ending = True

    def stop(self) -> None:
        """Let ``run`` return."""
        self._done.set()

    def run(self) -> None:
        """Check until ``stop``."""
        self._checked_at = self.clock.monotonic()
        while not self._done.wait(CHECK_S):
            self.check()

    def check(self) -> None:
        """Check once."""
        now = self.clock.monotonic()
        since_s, self._checked_at = now - self._checked_at, now
        if since_s > STOPPED_S:
            self._forgive(since_s)
        elif not self.answered():
            self._progressed_at += since_s
        self._check_guards(now)
        if self.assignments.moving <= 0 or self.assignments.released != self._released:
            self._progressed_at = now
        self._released = self.assignments.released
        if not self._is_ending:
            self.problem = self._stuck_thread(now) or self._stuck_batches(now)

    def _forgive(self, seconds: float) -> None:
        """Let time in which the process did not run count for nothing."""
        for thread in list(self._rounds):
            self._rounds[thread] += seconds
        self._progressed_at += seconds
        with self._lock:
            for guard in self._guards:
                guard.deadline += seconds

    def _check_guards(self, now: float) -> None:
        with self._lock:
            overdue = next((guard for guard in self._guards if guard.deadline < now), None)
        if overdue is not None:
            log.error(
                "%s took more than %g s; the worker ends and can be started again, nothing is lost",
                overdue.what,
                overdue.limit_s,
            )
            self.end(overdue.exit_code)

    def _stuck_thread(self, now: float) -> str | None:
        thread, at = min(list(self._rounds.items()), key=lambda item: item[1], default=("", now))
        if now - at <= self.limit_s:
            return None
        return f"thread {thread} has not completed a round for {now - at:.0f} s (worker.watchdog_s {self.limit_s:g})"

    def _stuck_batches(self, now: float) -> str | None:
        stuck_s = now - self._progressed_at
        if stuck_s <= self.limit_s:
            return None
        return (
            f"{self.assignments.batches} batches are in flight, and none was committed for {stuck_s:.0f} s "
            f"(worker.watchdog_s {self.limit_s:g})"
        )
