"""Batches on their way through the worker, one type for each stage, and the assignment that they belong to.

    source      polls records into a ``PolledBatch``
    engine      logs the batch (``PendingBatch``, the engine's own), then makes it a ``JudgedBatch``
    committer   sends the verdicts and commits

A batch of a stage is complete when it is made and is never changed afterwards, so threads hand batches over without
locks. A batch belongs to the assignment under which it was polled. When that assignment ends (a rebalance, an unknown
outcome of a transaction, a topic that was made again), the batch is dropped at whatever stage it is. Its offsets are
not committed, so its articles are polled again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from kafka import ConsumerGroupMetadata, TopicPartition

    from stream_dedup.broker.record import ConsumerRecord
    from stream_dedup.core.arrays import I64
    from stream_dedup.core.columns import Columns
    from stream_dedup.core.model import Judgement


@dataclass(slots=True, eq=False)
class Assignment:
    """The partitions assigned to this worker by one rebalance, and the proof of its membership.

    ``metadata`` is taken when the partitions are assigned and never afterwards: a worker
    that fell out of its group would get an empty one, which the broker accepts unchecked.
    """

    metadata: ConsumerGroupMetadata
    partitions: frozenset[TopicPartition]
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    valid: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class PolledBatch:
    """Records of one source partition, in offset order, as they were polled."""

    assignment: Assignment
    partition: TopicPartition
    topic_id: bytes
    records: Sequence[ConsumerRecord]
    offsets: I64
    """Source offsets, shape (n,)."""
    size_bytes: int
    polled_at: float
    """Monotonic seconds."""


@dataclass(slots=True, eq=False)
class UnloggedSpan:
    """Consecutive rows of a batch that were not in the log when the engine received the batch."""

    rows: slice
    columns: list[Future[Columns]]
    """Of the rows in order, in pieces."""
    began: float
    """Monotonic seconds at which the present step of the span began."""
    appends: list[Any] | None = None
    """Futures of the appends, once appended; empty if other workers had logged every row meanwhile."""


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A polled batch between steps 2 and 6. Only the engine's thread reads and changes it."""

    polled: PolledBatch
    spans: list[UnloggedSpan]
    logged: LoggedBatch | None = None
    """Set once the log, as far as it was read, holds every record of the batch."""


@dataclass(frozen=True, slots=True, eq=False)
class LoggedBatch:
    """A batch of which every record is in the log."""

    polled: PolledBatch
    positions: I64
    """Log position of each record, shape (n,)."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBatch:
    """A batch with the verdict of each record."""

    polled: PolledBatch
    judgements: Sequence[Judgement]
    fingerprints: Sequence[int]
    observed: Sequence[bool]
    """Whether the rules at the record's log position only observe."""


class Budget:
    """Limit on the batches in flight, by number and by bytes.

    It limits the memory of the producers, too: they send nothing that is not in flight.
    """

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        """Polling pauses as soon as either limit is reached."""
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._batches = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def reserve(self, batch: PolledBatch) -> None:
        """Count a batch as in flight."""
        with self._lock:
            self._batches += 1
            self._bytes += batch.size_bytes

    def release(self, batch: PolledBatch) -> None:
        """Count a batch as committed or dropped."""
        with self._lock:
            self._batches -= 1
            self._bytes -= batch.size_bytes

    @property
    def batches(self) -> int:
        """Number of batches in flight now."""
        return self._batches

    @property
    def full(self) -> bool:
        """Whether polling should pause."""
        return self._batches >= self._max_batches or self._bytes >= self._max_bytes
