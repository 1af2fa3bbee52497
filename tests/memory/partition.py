"""One partition of a topic: its records, what transactions did to them, and its leader epochs.

Every record takes one offset, control records (the end of a transaction) too. Readers of committed records see no
control record, no record of an aborted transaction, and nothing from the first record of an open transaction on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stream_dedup.ports import Partition
from tests.memory.runtime import Signal

FRAME_BYTES = 61
"""Bytes of an empty record batch: its largest record is smaller than the batch by these."""


@dataclass(slots=True)
class BrokerNode:
    """A broker: the clock by which it stamps what it appends. Its clock may be set, forth and back."""

    number: int
    ahead_ms: int = 0


@dataclass(slots=True, eq=False)
class PartitionTransaction:
    """The part of a transaction in one partition."""

    first: int
    """Offset of its first record."""
    committed: bool | None = None
    """None while it is open."""


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be appended."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 0

    @property
    def size(self) -> int:
        """Return its bytes, about as the broker counts them."""
        headers = sum(len(name) + len(value or b"") + 2 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + 9 + FRAME_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecord:
    """A record in a partition."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int
    transaction: PartitionTransaction | None = None
    is_control: bool = False

    @property
    def visible(self) -> bool:
        """Whether a reader of committed records sees it, once the reader may read its offset."""
        return not self.is_control and (self.transaction is None or self.transaction.committed is True)


@dataclass(slots=True, eq=False)
class PartitionLog:
    """The records of one partition, from ``start`` on."""

    name: Partition
    leader: BrokerNode
    start: int = 0
    leader_epoch: int = 0
    records: list[StoredRecord] = field(default_factory=list)
    deleted: list[StoredRecord] = field(default_factory=list)
    """What retention has deleted: nobody reads it but the checks of the simulation."""
    changed: list[Signal] = field(default_factory=list)
    """Fired when there may be more to read: by readers that wait."""
    open: list[PartitionTransaction] = field(default_factory=list)
    _epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch that has records, and its first offset."""

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.start + len(self.records)

    @property
    def stable_end(self) -> int:
        """The offset before which every transaction has ended."""
        return self.open[0].first if self.open else self.end

    def append(self, message: Message, time_ms: int, transaction: PartitionTransaction | None = None) -> int:
        """Append a record; return its offset."""
        return self._append(message, time_ms, transaction, is_control=False)

    def begin_transaction(self) -> PartitionTransaction:
        """Begin the part of a transaction here, with its first record next."""
        transaction = PartitionTransaction(self.end)
        self.open.append(transaction)
        return transaction

    def end_transaction(self, transaction: PartitionTransaction, time_ms: int, *, committed: bool) -> None:
        """Write the control record that ends a transaction."""
        transaction.committed = committed
        self.open.remove(transaction)
        self._append(Message(None, None), time_ms, transaction, is_control=True)

    def read(self, offset: int, most: int, end: int | None = None) -> tuple[list[StoredRecord], int]:
        """Return the next committed records from an offset on, and the offset to read on from."""
        found: list[StoredRecord] = []
        until = self.stable_end if end is None else min(end, self.stable_end)
        for record in self._from(offset, until):
            if len(found) == most:
                return found, record.offset
            if record.visible:
                found.append(record)
        return found, max(offset, until)

    def holds(self, offset: int) -> bool:
        """Return whether one can read from this offset on: it is there, or the next to come."""
        return self.start <= offset <= self.end

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset."""
        if offset > self.start:
            self.deleted += self.records[: offset - self.start]
            del self.records[: offset - self.start]
            self.start = offset

    def truncate(self, offset: int) -> None:
        """Lose the records from an offset on, under a new leader: what an unclean election does."""
        del self.records[max(0, offset - self.start) :]
        self.open = [transaction for transaction in self.open if transaction.first < self.end]
        self._epoch_starts = [(epoch, first) for epoch, first in self._epoch_starts if first < self.end]
        self.leader_epoch += 1
        self.fire()

    def end_of_epoch(self, epoch: int) -> int:
        """Return the offset after the last record of this leader epoch, or of the one before it."""
        return next((first for known, first in self._epoch_starts if known > epoch), self.end)

    def epoch_before(self, offset: int) -> int | None:
        """Return the leader epoch of the record before this offset, None where there is none any more."""
        return self.records[offset - 1 - self.start].leader_epoch if self.start < offset <= self.end else None

    def fire(self) -> None:
        """Wake the readers."""
        for signal in self.changed:
            signal.fire()

    def _from(self, offset: int, until: int) -> Iterator[StoredRecord]:
        for index in range(max(0, offset - self.start), until - self.start):
            yield self.records[index]

    def _append(
        self, message: Message, time_ms: int, transaction: PartitionTransaction | None, *, is_control: bool
    ) -> int:
        offset = self.end
        if not self._epoch_starts or self._epoch_starts[-1][0] != self.leader_epoch:
            self._epoch_starts.append((self.leader_epoch, offset))
        self.records.append(
            StoredRecord(
                topic=self.name.topic,
                partition=self.name.number,
                offset=offset,
                timestamp=time_ms,
                key=message.key,
                value=message.value,
                headers=message.headers,
                leader_epoch=self.leader_epoch,
                transaction=transaction,
                is_control=is_control,
            )
        )
        self.fire()
        return offset
