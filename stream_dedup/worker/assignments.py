"""Owns the life of an assignment: the partitions that one membership gave this worker, from begin to end.

    state     meaning                                                          entered by
    IDLE      no batch is in flight, nothing is polled                         the start; the last release
    WORKING   batches are polled, logged, judged and committed                 begin
    ENDING    nothing is polled or committed any more; batches are dropped     end

    IDLE     -- begin(membership) -->                 WORKING     the source's thread
    WORKING  -- end(assignment, reason) -->           ENDING      any thread; IDLE at once if no batch is in flight
    ENDING   -- release of the last batch -->         IDLE        engine or committer

Rules:

* One assignment at a time. A new one begins only in IDLE: every batch of the old one has been committed or dropped, no
  transaction of it is open, and the outcome of each of its transactions is settled. The committed offsets that the new
  one reads are therefore final.
* An assignment has ended for everyone as soon as its membership is not the present one, before anyone has called
  ``end``.
* Whoever holds a batch releases it exactly once: the committer after its transaction has an outcome, or the engine or
  the committer when they drop it. The engine cancels the batch's work in the pool before it releases the batch.
* The batches in flight are limited by number and by bytes: that limits the memory of the producers, too, which hold
  nothing that is not in flight.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.ports import Membership

log = logging.getLogger(__name__)


class AssignmentState(Enum):
    """The states of the table above."""

    IDLE = auto()
    WORKING = auto()
    ENDING = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A membership that this worker works under, and the topic id under which each topic's partitions began."""

    membership: Membership
    topic_ids: dict[str, bytes] = field(default_factory=dict)


class InFlight(Protocol):
    """What an assignment counts: a batch on its way."""

    @property
    def assignment(self) -> Assignment:
        """The assignment that it was polled under."""

    @property
    def size_bytes(self) -> int:
        """Size of its records, in bytes."""


class AssignmentOwner:
    """The only place that begins and ends assignments. Every method may be called from any thread; none blocks."""

    def __init__(self, membership: Callable[[], Membership | None], max_batches: int, max_bytes: int) -> None:
        """``membership`` returns the present membership; polling pauses when either limit is reached."""
        self._membership = membership
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._state = AssignmentState.IDLE
        self._current: Assignment | None = None
        self._batches = 0
        self._bytes = 0
        self.released = 0
        """Batches released so far: it rises while there is progress."""

    @property
    def state(self) -> AssignmentState:
        """The present state."""
        return self._state

    @property
    def current(self) -> Assignment | None:
        """The assignment that is working or ending; None in IDLE."""
        return self._current

    @property
    def batches(self) -> int:
        """Number of batches in flight."""
        return self._batches

    @property
    def full(self) -> bool:
        """Whether polling should pause."""
        return self._batches >= self._max_batches or self._bytes >= self._max_bytes

    def is_working(self, assignment: Assignment) -> bool:
        """Return whether batches of this assignment may go on; once False, it stays False."""
        return (
            self._current is assignment
            and self._state is AssignmentState.WORKING
            and self._membership() is assignment.membership
        )

    def begin(self, membership: Membership) -> Assignment:
        """Begin to work under a membership.

        Raises:
            RuntimeError: the assignment before has not ended. That is a bug.
        """
        with self._lock:
            if self._state is not AssignmentState.IDLE:
                msg = f"an assignment begins while another is {self._state.name}"
                raise RuntimeError(msg)
            self._current = Assignment(membership)
            self._state = AssignmentState.WORKING
            return self._current

    def end(self, assignment: Assignment, reason: str) -> None:
        """End an assignment; its batches are dropped, and its articles are polled again. Repeating it does nothing."""
        with self._lock:
            if self._current is not assignment or self._state is not AssignmentState.WORKING:
                return
            self._state = AssignmentState.ENDING
            self._settle()
        log.info("assignment ends (generation %d): %s", assignment.membership.generation, reason)

    def reserve(self, batch: InFlight) -> bool:
        """Count a polled batch as in flight; return False, and count nothing, if its assignment has ended."""
        with self._lock:
            if self._current is not batch.assignment or self._state is not AssignmentState.WORKING:
                return False
            self._batches += 1
            self._bytes += batch.size_bytes
            return True

    def release(self, batch: InFlight) -> None:
        """Count a batch as committed or dropped."""
        with self._lock:
            self._batches -= 1
            self._bytes -= batch.size_bytes
            self.released += 1
            self._settle()

    def _settle(self) -> None:
        if self._state is AssignmentState.ENDING and not self._batches:
            self._state = AssignmentState.IDLE
            self._current = None
