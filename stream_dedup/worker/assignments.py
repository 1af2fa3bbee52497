"""Assignments, from begin to end: the partitions that a membership gave this worker, and their batches in flight.

    state     meaning                                                          entered by
    IDLE      no assignment is current: nothing is in flight or polled         the start; the last release
    WORKING   batches are polled, logged, judged and committed                 begin
    ENDING    it has ended: nothing is committed any more, batches are dropped end

    IDLE     -- begin(membership) -->                 WORKING     the source's thread
    WORKING  -- end(assignment, reason) -->           ENDING      any thread; IDLE at once if no batch is in flight
    ENDING   -- release of the last batch -->         IDLE        engine or committer

Rules:

* One assignment at a time. A new one begins only in IDLE: every batch of the old one has been committed or dropped, no
  transaction of it is open, and the outcome of each of its transactions is settled. The committed offsets that the new
  assignment reads are therefore final.
* An assignment has ended for every thread as soon as its membership is not the present one, before any has called
  ``end``.
* Whoever holds a batch releases it exactly once: the committer after its transaction has an outcome, or the engine or
  the committer when they drop it. The engine cancels the batch's fingerprinting before it releases the batch.
* The batches in flight are limited by number and by bytes. This limits the memory of the producers, too, which hold
  nothing that is not in flight. The number is for each eight partitions: a poll returns a batch of each partition, and
  the next poll must not wait for its commit. A partition may have as much in flight as is left of the limit. However
  long the batches of a few partitions stay in flight, the others are polled: after ``n`` such partitions an (n + 1)th
  of the limit is left. A poll exceeds the limit by up to a batch of each partition, so many partitions that wait for a
  schema may exhaust it for good: while any of them waits, a partition with nothing in flight is polled nevertheless.

A batch has one type for each stage. It is complete when it is made and is never changed afterwards, so threads hand
batches over without locks. Only ``decoding.PendingBatch`` is changed, by the engine's thread alone.

    source      polls records into a ``PolledBatch``
    engine      logs the batch, then makes it a ``JudgedBatch``
    committer   sends the verdicts and commits
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from stream_dedup.core.arrays import I64
    from stream_dedup.core.model import Judgement
    from stream_dedup.ports import CommittedOffset, Membership, Partition, SourceRecord

log = logging.getLogger(__name__)

LIMITED_PARTITIONS = 8
"""Partitions that share the configured number of batches in flight; twice as many share twice the number."""


@dataclass(slots=True, eq=False)
class Assignment:
    """A membership that this worker works under, and the topic id under which each topic's partitions began."""

    membership: Membership
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    ended: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PolledBatch:
    """Records of one source partition, in offset order, as they were polled.

    A batch without records says how far reading went past markers of transactions or aborted records.
    """

    assignment: Assignment
    partition: Partition
    topic_id: bytes
    records: Sequence[SourceRecord]
    offsets: I64
    """Source offsets, shape (n,)."""
    size_bytes: int
    """Memory of the records, roughly."""
    polled_at: float
    """Monotonic seconds."""
    next: CommittedOffset
    """Offset of the next record behind the batch: what is committed with its verdicts."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBatch:
    """A batch with the verdict of each record."""

    polled: PolledBatch
    judgements: Sequence[Judgement]
    fingerprints: Sequence[int]
    observed: Sequence[bool]
    """Whether the rules at the record's log position only observe."""


@dataclass(eq=False)
class AssignmentOwner:
    """The only place that begins and ends assignments. Every method may be called from any thread; none blocks."""

    membership: Callable[[], Membership | None]
    """Returns the present membership."""
    max_batches: int
    max_bytes: int
    held: Callable[[], int] = lambda: 0
    """Returns how many batches in flight wait for a schema."""

    def __post_init__(self) -> None:
        """Begin in IDLE."""
        self._lock = threading.Lock()
        self.current: Assignment | None = None
        """The assignment that is working or ending; None in IDLE."""
        self.batches = 0
        """Number of batches in flight."""
        self._batches: Counter[Partition] = Counter()
        self._bytes: Counter[Partition] = Counter()
        self.released = 0
        """Batches released so far: it rises while there is progress."""

    @property
    def moving(self) -> int:
        """Number of batches in flight that do not wait for a schema."""
        return self.batches - self.held()

    def has_in_flight(self, partition: Partition) -> bool:
        """Return whether a batch of the partition is in flight."""
        with self._lock:
            return partition in self._batches

    def crowded(self, partitions: Collection[Partition]) -> frozenset[Partition]:
        """Return the partitions of which nothing should be polled now: at the limit all of them.

        While batches wait for a schema, only partitions with something in flight.
        """
        if not self.batches:
            return frozenset()
        with self._lock:
            left = self.max_batches * max(1, -(-len(partitions) // LIMITED_PARTITIONS)) - self.batches
            left_bytes = self.max_bytes - self._bytes.total()
            full = frozenset(at for at in partitions if self._batches[at] >= left or self._bytes[at] >= left_bytes)
            return full & self._batches.keys() if self.held() else full

    def is_working(self, assignment: Assignment) -> bool:
        """Return whether batches of this assignment may go on; once False, it stays False."""
        return not assignment.ended and self.membership() is assignment.membership

    def begin(self, membership: Membership) -> Assignment:
        """Begin to work under a membership.

        Raises:
            RuntimeError: the assignment before has not ended. That is a bug.
        """
        with self._lock:
            if self.current is not None:
                raise RuntimeError("an assignment begins while batches of another may be in flight")
            self.current = Assignment(membership)
            return self.current

    def end(self, assignment: Assignment, reason: str) -> None:
        """End an assignment; its batches are dropped, and its articles are polled again. Repeating it does nothing."""
        with self._lock:
            if assignment.ended:
                return
            assignment.ended = True
            self._settle()
        log.info("assignment ends (generation %d): %s", assignment.membership.generation, reason)

    def reserve(self, batch: PolledBatch) -> bool:
        """Count a polled batch as in flight; return False, and count nothing, if its assignment has ended."""
        with self._lock:
            if batch.assignment.ended:
                return False
            self._count(batch, 1)
            return True

    def release(self, batch: PolledBatch) -> None:
        """Count a batch as committed or dropped."""
        with self._lock:
            self._count(batch, -1)
            self.released += 1
            self._settle()

    def divide(self, batch: PolledBatch, parts: Sequence[PolledBatch]) -> bool:
        """Count the parts of a batch in its place; return False, and change nothing, if its assignment has ended."""
        with self._lock:
            if batch.assignment.ended:
                return False
            for part in parts:
                self._count(part, 1)
            self._count(batch, -1)
            return True

    def _count(self, batch: PolledBatch, sign: int) -> None:
        self.batches += sign
        self._batches[batch.partition] += sign
        self._bytes[batch.partition] += sign * batch.size_bytes
        if not self._batches[batch.partition]:
            del self._batches[batch.partition], self._bytes[batch.partition]

    def _settle(self) -> None:
        if self.current is not None and self.current.ended and not self.batches:
            self.current = None
