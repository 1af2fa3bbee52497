"""Batches on their way through the worker, one type for each stage.

    source      polls records into a ``PolledBatch``
    engine      logs the batch (``PendingBatch``, the engine's own), then makes it a ``JudgedBatch``
    committer   sends the verdicts and commits

A batch of a stage is complete when it is made and is never changed afterwards, so threads hand batches over without
locks. A batch belongs to the assignment under which it was polled (``assignments``). When that assignment ends, the
batch is dropped at whatever stage it is. Its offsets are not committed, so its articles are polled again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from stream_dedup.core.arrays import I64
    from stream_dedup.core.columns import Columns
    from stream_dedup.core.model import Judgement, LogOffset
    from stream_dedup.ports import Append, CommittedOffset, Partition, SourceRecord
    from stream_dedup.worker.assignments import Assignment


@dataclass(frozen=True, slots=True, eq=False)
class PolledBatch:
    """Records of one source partition, in offset order, as they were polled.

    One without records says that reading went on past markers of transactions or aborted records.
    """

    assignment: Assignment
    partition: Partition
    topic_id: bytes
    records: Sequence[SourceRecord]
    offsets: I64
    """Source offsets, shape (n,)."""
    size_bytes: int
    """Memory of the records, about."""
    polled_at: float
    """Monotonic seconds."""
    next: CommittedOffset
    """Where reading goes on behind it: what is committed with its verdicts."""


@dataclass(slots=True, eq=False)
class UnloggedSpan:
    """Consecutive rows of a batch that were not in the log when the engine received the batch."""

    rows: slice
    columns: Future[Columns]
    """Of the rows in order."""
    began: float
    """Monotonic seconds at which the present step of the span began."""
    appends: list[Append] | None = None
    """Outcomes of the appends, once appended; empty if other workers had logged every row meanwhile."""
    is_counted: bool = False
    """Whether the metrics have its texts: an append that failed is made again, and they count once."""
    is_logged: bool = False
    """Whether every append was seen to be in the log."""


def spans_of(wanted: NDArray[np.bool_]) -> list[slice]:
    """Return the spans of consecutive wanted rows, each as long as possible."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False]))))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A polled batch between steps 2 and 6. Only the engine's thread reads and changes it."""

    polled: PolledBatch
    spans: list[UnloggedSpan]
    seen_to: LogOffset | None = None
    """The log offset that the index was applied to when the batch was looked for in it."""
    positions: I64 | None = None
    """Log position of each record as of then, None where a record of it was not in the log."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBatch:
    """A batch with the verdict of each record."""

    polled: PolledBatch
    judgements: Sequence[Judgement]
    fingerprints: Sequence[int]
    observed: Sequence[bool]
    """Whether the rules at the record's log position only observe."""
