"""What is on its way through a worker: batches in flight, and the assignment they belong to.

Three threads hand batches on, each owning them in turn: the source polls, the engine
logs and judges, the committer sends. A batch belongs to the assignment under
which it was polled. When that assignment ends (a rebalance, an unknown outcome,
a topic made again) the batch is thrown away, wherever it is: its offsets are not
committed, so its articles come again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stream_dedup.core.arrays import I64

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kafka import ConsumerGroupMetadata, TopicPartition

    from stream_dedup.broker.record import ConsumerRecord
    from stream_dedup.core.fingerprint.columns import Columns
    from stream_dedup.core.model import Judgement


@dataclass(slots=True, eq=False)
class Assignment:
    """One term of office in the group: what was assigned, and the proof of membership.

    ``metadata`` is taken when the partitions are assigned and never afterwards: a worker
    that fell out of its group would get an empty one, which the broker accepts unchecked.
    """

    metadata: ConsumerGroupMetadata
    partitions: frozenset[TopicPartition]
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    valid: bool = True


@dataclass(slots=True, eq=False)
class Stretch:
    """Rows of a batch that did not stand in the log when the batch was taken in."""

    rows: slice
    columns: list[Future[Columns]]
    began: float
    """Monotonic seconds at which the step that it is in began."""
    sent: list[Any] | None = None
    """Futures of the appends, once appended; empty where others had logged every row meanwhile."""


@dataclass(slots=True, eq=False)
class Flight:
    """One polled batch of one source partition.

    ``records`` are the client's consumer records in offset order; ``offsets`` int64 of
    shape (n,); ``positions`` int64 of shape (n,), -1 where not standing yet. ``observed`` says of each record
    whether the rules at its log position only observe.
    """

    assignment: Assignment
    partition: TopicPartition
    topic_id: bytes
    records: list[ConsumerRecord]
    offsets: I64
    size_bytes: int
    polled_at: float
    positions: I64
    stretches: list[Stretch] | None = None
    judgements: list[Judgement] = field(default_factory=list)
    observed: list[bool] = field(default_factory=list)
    fingerprints: list[int] = field(default_factory=list)


class Budget:
    """Bound on what is in flight, in batches and bytes.

    The bound on the producers' memory, too: nothing is sent that is not in flight.
    """

    def __init__(self, batches: int, size_bytes: int) -> None:
        """Both are the most that may be in flight before polling pauses."""
        self._most_batches = batches
        self._most_bytes = size_bytes
        self._batches = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, flight: Flight) -> None:
        """Count a batch that was polled."""
        with self._lock:
            self._batches += 1
            self._bytes += flight.size_bytes

    def give_back(self, flight: Flight) -> None:
        """Count a batch that was committed or thrown away."""
        with self._lock:
            self._batches -= 1
            self._bytes -= flight.size_bytes

    @property
    def batches(self) -> int:
        """Batches in flight now."""
        return self._batches

    @property
    def full(self) -> bool:
        """Whether polling should pause."""
        return self._batches >= self._most_batches or self._bytes >= self._most_bytes
