"""Steps 2 and 3: decodes and fingerprints the records that are not logged; holds batches that wait for a schema.

A record that is not logged yet is decoded, and needs its schema. Of each partition:

    1  a batch whose schemas are all there goes on
    2  a batch that lacks a schema is divided: what comes before the first such record goes on, the rest is held
    3  every later batch of the partition is held behind it: verdicts leave in source order
    4  when a schema has come, and every ``HELD_LOOK_S``, the held batches go through 1 and 2 again

In step 4 the record may be logged meanwhile, by another worker or as a rejection (``stream-dedup reject``): then it is
not decoded, and goes on. Held batches are in flight and count for its limits, so a partition is paused, in its group,
when enough of it is held. They are dropped when their assignment ends.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import rejected_columns
from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.record import too_large_reason
from stream_dedup.ports import CommittedOffset, raw_of
from stream_dedup.registry.values import schema_ids_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from stream_dedup.core.arrays import I64
    from stream_dedup.core.decode import InputFormat
    from stream_dedup.core.model import LogOffset, Widths
    from stream_dedup.ports import Append, Partition, SourceRecord
    from stream_dedup.worker.assignments import AssignmentOwner, PolledBatch
    from stream_dedup.worker.watches import SchemaWatch

log = logging.getLogger(__name__)

HELD_LOOK_S = 0.5
"""Seconds between two checks whether held records are in the log."""


@dataclass(frozen=True, slots=True)
class SourceEntryMaker:
    """Makes log entries from source records; a record that no output topic can hold is rejected unread. Any thread."""

    make: Callable[[Sequence[RawRecord]], Columns]
    format: InputFormat
    record_bytes: int
    """Largest record that is read."""
    widths: Widths
    """Of the columns that ``make`` returns."""

    def __call__(self, records: Sequence[SourceRecord]) -> Columns:
        """Return the entries of these records, in order; an entry depends on its own record alone."""
        raw = [*map(raw_of, records)]
        reasons = [too_large_reason(record, self.record_bytes) for record in records]
        if not any(reasons):
            return self.make(raw)
        return Columns.concat(
            [
                self.make([record]) if reason is None else rejected_columns(record, self.format, reason, self.widths)
                for record, reason in zip(raw, reasons, strict=True)
            ]
        )


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A polled batch between steps 2 and 6. Only the engine's thread reads and changes it."""

    polled: PolledBatch
    rows: I64
    """Those that were not in the log when the engine received the batch."""
    began: float
    """Monotonic seconds at which the present step began."""
    columns: Future[Columns] | None = None
    """Of these rows, in order; None if there are none."""
    appends: list[Append] | None = None
    """Outcomes of the appends, once appended; empty if other workers had logged every row meanwhile."""
    is_counted: bool = False
    """Whether the metrics count its texts: they count once, however often the append is retried."""
    seen_to: LogOffset | None = None
    """The log offset that the index was applied to when the batch was looked for in it."""
    positions: I64 | None = None
    """Log position of each record as of then, None where a record of it was not in the log."""


@dataclass(eq=False)
class HeldBatches:
    """The held batches of each partition. Only the engine's thread calls its methods."""

    schemas: SchemaWatch | None
    """None: nothing is held."""
    assignments: AssignmentOwner
    unlogged: Callable[[PolledBatch], NDArray[np.bool_]]
    """Returns which records of a batch have to be decoded."""
    reads_keys: bool
    """Whether their keys have to be, too."""

    def __post_init__(self) -> None:
        """Hold nothing yet."""
        self._held: dict[Partition, deque[PolledBatch]] = {}
        self._lacking: dict[Partition, int] = {}
        """The schema that the first record of the first batch waits for."""
        self._tried: object = None
        self._reported: set[tuple[Partition, int]] = set()
        """Partition and offset of what was reported as held."""
        self.batches = 0
        """Number of batches that are held. Any thread."""

    def receive(self, polled: Iterable[PolledBatch], now: float) -> list[PolledBatch]:
        """Return the batches that can be decoded, of these and of the held ones; ``now`` in monotonic seconds."""
        if self.schemas is None:
            return list(polled)
        state = (self.schemas.changes, now // HELD_LOOK_S)
        if state != self._tried:
            self._lacking.clear()  # every partition is looked at again
        self._tried = state
        for batch in polled:
            self._held.setdefault(batch.partition, deque()).append(batch)
        ready: list[PolledBatch] = []
        for partition in [partition for partition in self._held if partition not in self._lacking]:
            ready += self._passing(partition)
        self.schemas.want(frozenset(self._lacking.values()))
        self._count()
        return ready

    def drop_ended(self) -> Iterator[PolledBatch]:
        """Drop and yield the batches whose assignment has ended."""
        for partition, batches in list(self._held.items()):
            if not self.assignments.is_working(batches[0].assignment):  # all of them are of one
                yield from self._held.pop(partition)
                self._lacking.pop(partition, None)
        self._count()

    def waiting(self) -> tuple[int, int]:
        """Return the number of partitions held for an unknown schema, and for one that the registry did not answer."""
        if self.schemas is None:
            return 0, 0
        unknown = sum(map(self.schemas.is_unknown, self._lacking.values()))
        return unknown, len(self._lacking) - unknown

    def _passing(self, partition: Partition) -> Iterator[PolledBatch]:
        """Remove and yield what a partition has before the first record that lacks its schema."""
        held = self._held[partition]
        while held:
            batch = held[0]
            lacking = self._first_lacking(batch)
            if lacking is None:
                yield held.popleft()
                continue
            row, schema_id = lacking
            self._lacking[partition] = schema_id
            self._report(batch, row, schema_id)
            if row:
                head, rest = divided(batch, row)
                if self.assignments.divide(batch, (head, rest)):  # else its assignment has ended: it will be dropped
                    held[0] = rest
                    yield head
            return
        del self._held[partition]

    def _first_lacking(self, batch: PolledBatch) -> tuple[int, int] | None:
        """Return the first row that has to be decoded and lacks its schema, and the id of the schema."""
        assert self.schemas is not None  # noqa: S101 - without schemas nothing is held
        for row in np.flatnonzero(self.unlogged(batch)).tolist():
            record = batch.records[row]
            for schema_id in schema_ids_of(record.value, record.key if self.reads_keys else None):
                if schema_id not in self.schemas:
                    return row, schema_id
        return None

    def _report(self, batch: PolledBatch, row: int, schema_id: int) -> None:
        """Report a record that is held because the registry does not know its schema, once."""
        assert self.schemas is not None  # noqa: S101 - as above
        at = (batch.partition, int(batch.offsets[row]))
        if not self.schemas.is_unknown(schema_id) or at in self._reported:
            return
        self._reported = {before for before in self._reported if before[0] != batch.partition} | {at}
        name = f"{batch.partition}-{at[1]}"
        log.error(
            "%s: the schema registry does not know schema %d, so the partition is held from this record on. Register "
            "the schema; or reject the record: stream-dedup reject %s",
            name,
            schema_id,
            name,
        )

    def _count(self) -> None:
        self.batches = sum(map(len, self._held.values()))


def divided(batch: PolledBatch, row: int) -> tuple[PolledBatch, PolledBatch]:
    """Return the records before a row, which is not the first, and the others, as two batches."""
    size = batch.size_bytes * row // len(batch.records)
    last = batch.records[row - 1]
    behind = CommittedOffset(SourceOffset(last.offset + 1), batch.topic_id, last.leader_epoch)
    head = replace(batch, records=batch.records[:row], offsets=batch.offsets[:row], size_bytes=size, next=behind)
    rest = replace(batch, records=batch.records[row:], offsets=batch.offsets[row:], size_bytes=batch.size_bytes - size)
    return head, rest
