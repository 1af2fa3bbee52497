"""The port ``FingerprintLog`` in memory.

An append is a request on its way: the broker carries it out when it arrives, and its answer comes later; either may be
lost. The requests of one producer arrive in the order in which they were sent. ``renew`` gives up those on their way,
which may arrive nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from stream_dedup.core.entry import LogRecord, Payload, decode, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.errors import CorruptError
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, PortError
from tests.memory.broker import Cluster
from tests.memory.partition import Message, PartitionLog, StoredRecord
from tests.memory.runtime import DELIVERY_TIMEOUT_S, Connection, Signal, hooked, poll_until

MOST_DECODED = 1_000
"""Values of records that are kept decoded."""
MOST_RECORDS = 1_000
"""Records of one poll."""


@dataclass(slots=True, eq=False)
class MemoryAppend:
    """The outcome of an append."""

    connection: Connection
    _cluster: Cluster
    _changed: Signal = field(default_factory=Signal)
    _offset: int | None = None
    _error: PortError | None = None

    @hooked("append.done")
    def done(self) -> bool:
        return self.is_settled

    @hooked("append.error")
    def error(self) -> PortError | None:
        return self._error

    @hooked("append.wait")
    def wait(self, timeout_s: float) -> LogOffset:
        runtime = self._cluster.runtime
        deadline = runtime.now() + timeout_s
        while self._offset is None:
            left = deadline - runtime.now()
            if self._error is not None or left <= 0:
                raise self._error or PassingError("not acknowledged in time")
            runtime.wait(self._changed, left)
        return LogOffset(self._offset)

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known."""
        return self._offset is not None or self._error is not None

    def settle(self, offset: int | None, error: PortError | None) -> None:
        """Set the outcome, if it is not known."""
        if not self.is_settled:
            self._offset, self._error = offset, error
            self._changed.fire()


@dataclass(slots=True, eq=False)
class _Producer:
    """An idempotent producer; ``free_at`` is when the request sent last has arrived."""

    free_at: float = 0.0
    sent: list[MemoryAppend] = field(default_factory=list)


class MemoryLog:
    """The log topic of one group."""

    def __init__(self, cluster: Cluster, connection: Connection, topic: str) -> None:
        """Reading begins after ``seek``."""
        self.connection = connection
        self._cluster = cluster
        self._partition = Partition(topic, 0)
        self._producer = _Producer()
        self._position = 0
        self._high_water = 0
        self._changed = Signal()
        self._watched: PartitionLog | None = None

    @hooked("log.bounds")
    def bounds(self) -> tuple[LogOffset, LogOffset]:
        log = self._cluster.partition(self._partition)
        return LogOffset(log.start), LogOffset(log.end)

    @hooked("log.seek")
    def seek(self, offset: int) -> None:
        self._position = offset

    def poll(self, wait_s: float) -> list[LogRecord]:
        return poll_until(self._cluster.runtime, self._changed, wait_s, self._poll_once) or []

    @hooked("log.position")
    def position(self) -> LogOffset:
        return LogOffset(self._position)

    def high_water(self) -> LogOffset:
        return LogOffset(self._high_water)

    @hooked("log.append")
    def append(self, payload: Payload) -> MemoryAppend:
        runtime, producer = self._cluster.runtime, self._producer
        append = MemoryAppend(self.connection, self._cluster)
        producer.sent = [sent for sent in producer.sent if not sent.is_settled]
        producer.sent.append(append)
        delivery = self.connection.delivery("append")
        message = Message(None, encode(payload))
        arrives_s = delivery.arrives_s
        if arrives_s is not None:
            arrives = producer.free_at = max(runtime.now() + arrives_s, producer.free_at)
            runtime.call_at(arrives, lambda: self._arrive(append, message, delivery.answered_s))
        if arrives_s is None or delivery.answered_s is None:
            self._fail(append, runtime.now() + DELIVERY_TIMEOUT_S)
        return append

    @hooked("log.renew")
    def renew(self) -> None:
        for append in self._producer.sent:
            append.settle(None, PassingError("given up"))
        self._producer = _Producer()

    @hooked("log.cut")
    def cut(self, before: int) -> None:
        self._cluster.partition(self._partition).delete_before(before)

    @hooked("log.close")
    def close(self) -> None:
        """There is no connection to close."""

    # Reading.

    @hooked("log.poll")
    def _poll_once(self) -> list[LogRecord]:
        log = self._cluster.partition(self._partition)
        if log is not self._watched:
            self._watch(log)
        if not log.holds(self._position):
            raise OffsetGoneError([self._partition])
        self._high_water = log.end
        found, self._position = log.read(self._position, min(MOST_RECORDS, self.connection.most_records()))
        return [_decoded(record) for record in found]

    def _watch(self, log: PartitionLog) -> None:
        if self._watched is not None:
            self._watched.changed.remove(self._changed)
        self._watched = log
        log.changed.append(self._changed)

    # Appending.

    def _arrive(self, append: MemoryAppend, message: Message, answered_s: float | None) -> None:
        """Carry out an append, whatever has become of its producer; then send the answer."""
        runtime = self._cluster.runtime
        offset: int | None = None
        error: PortError | None = None
        try:
            offset = self._cluster.append(self._cluster.partition(self._partition), message)
        except PortError as refused:
            error = refused
        if answered_s is not None:
            runtime.call_at(runtime.now() + answered_s, lambda: append.settle(offset, error))

    def _fail(self, append: MemoryAppend, when: float) -> None:
        error = PassingError("the request was not answered")
        self._cluster.runtime.call_at(when, lambda: append.settle(None, error))


@lru_cache(MOST_DECODED)
def payload_of(value: bytes) -> Payload:
    """Decode the value of a record, which every reader of the log reads; a payload is never changed."""
    return decode(value)


def _decoded(record: StoredRecord) -> LogRecord:
    """Decode a record, as its reader does."""
    if record.value is None:
        raise CorruptError(f"log record at offset {record.offset} has no value")
    return LogRecord(LogOffset(record.offset), record.timestamp, payload_of(record.value), record.value)
