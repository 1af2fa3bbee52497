"""The interfaces of worker, audit and clusters to Kafka, time and threads: protocols with their contracts.

Adapters exist in ``kafka``, of worker's ports with a choice of clients (``kafka.clients``), and in memory
(``tests.memory``). One contract suite (``tests/contract``) runs on all; where the broker does something else, the
memory adapter is wrong.

Rules for every port:

* A call whose docstring does not say that it may block returns at once. A call that may block names its limit.
* A call raises the errors of this file that its docstring names, and no error of a Kafka client.
* After a ``PassingError`` of a call that changes something, the change may or may not have happened, and may still
  happen later. What settles the doubt stands at the call.
* A port may be called from one thread at a time, if its docstring does not say "any thread".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import LogRecord, Payload
from stream_dedup.core.headers import Headers
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.errors import CorruptError


class Event(Protocol):
    """As ``threading.Event``. Any thread."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float) -> bool: ...


class Thread(Protocol):
    """As ``threading.Thread``, started."""

    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Clock(Protocol):
    """This machine's time, and the threads that wait for it. Any thread."""

    def monotonic(self) -> float:
        """Return seconds since some moment; it never goes back."""

    def time_ms(self) -> int:
        """Return milliseconds since 1970 by the wall clock, which may be wrong and may be set."""

    def sleep(self, seconds: float) -> None: ...
    def event(self) -> Event: ...
    def spawn(self, name: str, run: Callable[[], None]) -> Thread:
        """Start a thread that does not keep the process alive."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class SourceRecord(Protocol):
    """A record of a source or output topic, as Kafka's clients have it.

    ``leader_epoch`` is below 0 if it is not known; ``timestamp`` is in milliseconds since 1970.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def raw_of(record: SourceRecord) -> RawRecord:
    """Return what is decoded of a record; where its article has no id, it is topic, partition and offset."""
    return RawRecord(record.key, record.value, f"{record.topic}-{record.partition}-{record.offset}")


class CommittedOffset(NamedTuple):
    """A committed offset of a group: the offset of the next record, and what is said beside it."""

    offset: SourceOffset
    topic_id: bytes | None
    """Id of the topic that the offset belongs to; None if it was set by hand."""
    leader_epoch: int | None = None
    """Leader epoch of the last record before it; None or below 0 if it is not known."""


class PortError(Exception):
    """Base of the errors of ports."""


class PassingError(PortError):
    """The broker is away, busy, or electing a leader or coordinator: the same call may succeed later."""


class NotAMemberError(PortError):
    """The membership that the call was made under has ended: the partitions belong to another worker, or will."""


class FencedError(PortError):
    """Another producer was started with the same transactional id; this one can do nothing more."""


class RefusedByBrokerError(PortError):
    """The broker refuses the call and will refuse it again: a missing right, a setting beyond the broker's limit."""


class RecordTooLargeError(PortError):
    """A record is larger than its topic takes."""


class OffsetGoneError(PortError):
    """The offset to read from is before the first or after the last offset of its partition."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """``partitions`` are those without their next offset."""
        self.partitions = frozenset(partitions)
        super().__init__(", ".join(map(str, sorted(self.partitions))) or "no partition")


class SourceChangedError(PortError):
    """A partition was truncated below the offset that was read, or its topic was recreated: offsets denote others."""


class UnreadableError(PortError, CorruptError):
    """The broker has the records at the next offset, and the client cannot decode them.

    It ends every command that reads, with this message: whoever does not handle it lets it pass.
    """

    def __init__(self, partition: Partition, offset: int, reason: str, remedy: str) -> None:
        """``remedy`` is a sentence without its full stop: what to do, so that no record is lost."""
        super().__init__(
            f"topic {partition.topic}, partition {partition.number}: the records from offset {offset} on cannot be "
            f"read: {reason}. {remedy}, then start again"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """What one rebalance gave this worker. Two memberships are equal only if they are the same object.

    ``proof`` is taken when the partitions are assigned and is opaque to the worker: the group refuses offsets that
    are sent with the proof of an earlier membership, or of a generation below 0.
    """

    partitions: frozenset[Partition]
    generation: int
    proof: object


class ArticleSource(Protocol):
    """The articles of the partitions that the group assigns to this worker. One thread, except ``membership``.

    Every partition of a new membership is held: it yields no records until ``begin``. Only committed records are
    seen, in offset order for each partition; offsets may have gaps (transaction markers, aborted records).
    """

    def join(self, topics: Sequence[str]) -> None:
        """Ask to become a member of the group; ``poll`` makes it so. Topics that do not exist yet are waited for.

        A later call replaces the topics: it ends the membership, and a poll brings the next one.
        """

    def membership(self) -> Membership | None:
        """Return the present membership; None before the first and between a revocation and the next assignment.

        Any thread. It may end at any moment, in this process (``poll``) or at the broker, which then refuses what is
        sent with its proof.
        """

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        """Take part in the group, and return the next records of partitions that have begun and are not paused.

        May block for ``wait_s``, and longer while a rebalance completes. A broker that is away is an empty answer.
        Records returned after ``membership`` has changed belong to no present membership: drop them.

        Raises:
            OffsetGoneError: a begun partition has lost its next records, or its offset is past its end.
            SourceChangedError: the records before the next offset are not those that were read or committed.
            UnreadableError: the next records cannot be decoded.
            RefusedByBrokerError: this client may not read the topics, or not join the group.
        """

    def hold(self) -> None:
        """Yield nothing of any partition until it begins again; drop every record that was fetched."""

    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        """Yield the records of a held partition from an offset on.

        With a leader epoch the broker is asked whether the partition still has that offset of that epoch: if not, a
        later ``poll`` raises ``SourceChangedError``.

        Raises:
            NotAMemberError: it is not assigned any more.
        """

    def pause(self, partitions: Collection[Partition]) -> None:
        """Yield nothing of these partitions, and go on with the others that have begun; the membership continues.

        A call replaces the one before. A pause holds for partitions that begin later, too, of a later membership too.
        """

    def positions(self) -> Mapping[Partition, CommittedOffset]:
        """Return how far each partition that has begun was read: where the next record is, or behind it.

        Everything before it was returned, or is returned to nobody: markers of transactions and aborted records, as far
        as they were read. The leader epoch is that of the record before it, if it is known. Never blocks.
        """

    def committed(self, partition: Partition) -> CommittedOffset | None:
        """Return the group's committed offset, None of none. May block for some seconds.

        An offset that is part of an open transaction is waited for: what this returns is settled.

        Raises:
            PassingError: not known yet, an open transaction included.
            RefusedByBrokerError: this client may not read the group's offsets.
        """

    def commit_start(self, partition: Partition, start: CommittedOffset) -> None:
        """Commit an offset outside any transaction, under the present membership. May block for some seconds.

        Raises:
            NotAMemberError: nothing was committed.
            PassingError: it may or may not be committed; ``committed`` returns which.
        """

    def beginning(self, partition: Partition) -> SourceOffset:
        """Return the first offset that the partition holds now. May block for some seconds.

        Raises:
            PassingError: the broker did not answer.
        """

    def lag(self) -> dict[str, int]:
        """Return the number of records that were not returned yet, by topic: of the partitions that have begun.

        As of the last answer about their ends, which each call asks for; of a partition without an answer, 0. Never
        waits for a broker: while a leader does not answer, its partitions end where they did before.
        """

    def close(self) -> None:
        """Leave the group. May block for some seconds."""


class Output(NamedTuple):
    """A record for an output topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class VerdictSink(Protocol):
    """Transactions of output records and source offsets, one after the other. One thread.

        begin, send ..., send_offsets, flush, commit        in this order
        begin, send ..., abort                              at any point before ``commit``

    A new sink is not connected: ``renew`` comes first.

    After any error other than ``NotAMemberError`` of ``send_offsets`` the state of the transaction is unknown:
    ``renew`` settles it.
    """

    def begin(self) -> None: ...

    def send(self, outputs: Iterable[Output]) -> None:
        """Send records, in order; their failure shows in ``flush``. May block where too much is unsent.

        Raises:
            RecordTooLargeError, PassingError, RefusedByBrokerError: at once, where it is known at once.
        """

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        """Add source offsets; they are committed with the transaction. May block.

        Raises:
            NotAMemberError: the group has gone on without this membership; nothing of these offsets is kept.
            FencedError, PassingError, RefusedByBrokerError.
        """

    def flush(self) -> None:
        """Return when the broker has acknowledged every record of the transaction. May block.

        Raises:
            RecordTooLargeError: a record is larger than its topic takes.
            FencedError, PassingError, RefusedByBrokerError.
        """

    def commit(self) -> None:
        """Commit. May block without limit while the broker is away: a watchdog guards it.

        A normal return promises that readers of committed records see every record and that the offsets are
        committed, or will without anyone's doing.

        Raises:
            FencedError, PassingError: the outcome is unknown.
        """

    def abort(self) -> None:
        """Abort: no record and no offset of the transaction is ever seen. May block as ``commit``.

        Raises:
            FencedError, PassingError: the outcome is unknown; it is not committed, however.
        """

    def renew(self) -> None:
        """Start again under the same transactional ids; an open transaction of any earlier producer is settled.

        May block for the wait for a broker, once for each id. On return an earlier transaction with these ids is
        committed or aborted, and offsets read with ``ArticleSource.committed`` show it. Every earlier producer with
        these ids is fenced.

        Raises:
            PassingError: no coordinator answered in time.
            RefusedByBrokerError: a missing right, or a transaction time-out beyond the broker's limit.
        """

    def abort_hanging(self) -> list[str]:
        """Abort the open transactions of this group's workers that are no members any more; return their ids.

        May block. Any thread. Failing is harmless: the broker aborts them at their time-out.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def close(self) -> None:
        """Close without settling an open transaction. May block for some seconds."""


class GroupOffsets(Protocol):
    """Requests about the group's offsets and the topics, outside any membership. Any thread."""

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        """Return the present id of each of these topics that exists. May block for some seconds.

        None: of every topic that this client may describe, but for the broker's own.

        Raises:
            PassingError: no broker answered.
            RefusedByBrokerError: this client may not describe the topics.
        """

    def committed(self) -> dict[Partition, CommittedOffset]:
        """Return every committed offset of the group; offsets of open transactions are not among them. May block.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def close(self) -> None:
        """Close the connections. May block for some seconds."""


class TopicReader(Protocol):
    """Reads topics from offset to offset, outside any group: for the audit. One thread."""

    def partitions(self, names: Iterable[str]) -> list[Partition]:
        """Return every partition of those topics that exist.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the first offset and the offset after the last record of each, open transactions included.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[SourceRecord]:
        """Yield the committed records of each range, those of a partition in offset order; blocks.

        Transactions that are open in a range are waited for, for longer than they may stay open.

        Raises:
            OffsetGoneError: the first offset of a range is deleted.
            PassingError: nothing came for longer than a transaction may stay open.
        """

    def close(self) -> None:
        """Close the connections."""


class TopicFollower(Protocol):
    """Reads partitions from given offsets on, without an end, outside any group: committed records only. One thread."""

    def follow(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others. The records of earlier calls are dropped."""

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        """Return the next records, those of a partition in offset order; blocks up to ``wait_s`` for the first.

        A broker that is away, or a topic that is not there, is an empty answer.

        Raises:
            OffsetGoneError: the next offset of these partitions is deleted, or past their end. Call ``follow`` again.
            UnreadableError: the next records cannot be decoded.
            RefusedByBrokerError: this client may not read a topic.
        """

    def positions(self) -> Mapping[Partition, int]:
        """Return the offset of the next record of each partition that is followed; it moves over gaps, too."""

    def close(self) -> None:
        """Close the connections. May block for some seconds."""


class PublishedMark(NamedTuple):
    """How far a store has been published."""

    store_id: bytes
    """16 bytes; of the store that published."""
    sequence: int
    """Everything of this store up to this number is published."""


class MarkedSink(Protocol):
    """Transactions of records and a mark, which is committed or not together with the records. One thread.

    A new sink is not connected: ``renew`` comes first, and after any error of ``publish``.
    """

    def renew(self) -> PublishedMark | None:
        """Start under the transactional id; return the mark of the last transaction that was committed, None of none.

        An open transaction of any earlier producer of this id is settled; every earlier producer is fenced. The broker
        forgets a mark some days (``offsets.retention.minutes``) after it was committed. May block for the wait for a
        broker.

        Raises:
            PassingError: no coordinator answered in time.
            RefusedByBrokerError: a missing right, or a transaction time-out beyond the broker's limit.
        """

    def publish(self, outputs: Iterable[Output], mark: PublishedMark) -> None:
        """Commit one transaction of records and a mark. May block without limit while the broker is away.

        A normal return promises that readers of committed records see every record and that the mark is committed, or
        will without anyone's doing.

        Raises:
            RecordTooLargeError, RefusedByBrokerError: nothing of it was committed.
            FencedError, PassingError: the outcome is unknown; ``renew`` returns the mark that tells it.
        """

    def close(self) -> None:
        """Close without settling an open transaction. May block for some seconds."""


@dataclass(frozen=True, slots=True)
class FollowPorts:
    """All ports of a follower of the output topics."""

    follower: TopicFollower
    reader: TopicReader
    offsets: GroupOffsets
    """For the ids of topics."""
    sink: MarkedSink | None
    """None: nothing is published."""
    clock: Clock


class Append(Protocol):
    """The outcome of an append. Any thread."""

    def done(self) -> bool:
        """Return whether the outcome is known."""

    def error(self) -> PortError | None:
        """Return why it failed, None while it is not known or when the record is in the log.

        After a failure the record may be in the log nevertheless, or come into it later, even after ``renew``: a
        request that the broker has received is carried out, whatever becomes of its sender.
        """

    def wait(self, timeout_s: float) -> LogOffset:
        """Block until the record is acknowledged; return its offset.

        Raises:
            PortError: it failed, or is not acknowledged within ``timeout_s``.
        """


class FingerprintLog(Protocol):
    """The log topic of one group: one partition, one total order, append time set by the broker.

    Three threads use it: one reads (``poll``, ``seek``, ``bounds``, ``high_water``), one appends
    (``append``, ``renew``), one cuts (``cut``); they may be different ones.
    """

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return the first offset, and the offset after the last record. May block.

        Every record that was acknowledged to anyone before the call is before the second offset.

        Raises:
            PassingError: the broker did not answer in its time.
        """

    def seek(self, offset: LogOffset) -> None:
        """Read from this offset on."""

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return the next records in order; blocks up to ``wait_s`` for the first. Offsets may have gaps.

        Raises:
            OffsetGoneError: the offset to read from was cut away, or is past the end.
            SourceChangedError: the log was truncated below the offset that was read.
            RefusedByBrokerError: this client may not read the log.
            StreamDedupError: a record cannot be decoded, or its time was not set by the broker.
        """

    def position(self) -> LogOffset:
        """Return the offset of the next record that ``poll`` looks for; it moves over gaps, too."""

    def high_water(self) -> LogOffset:
        """Return the offset after the last record, as of the last fetch; 0 before the first. Any thread."""

    def append(self, payload: Payload) -> Append:
        """Send one record behind those sent before; does not block, except where too much is unsent.

        While no append fails, records reach the log in the order of the calls, each once. After a failure, call
        ``renew`` before anything else is appended: records sent after the failed one may be in the log without it.
        """

    def renew(self) -> None:
        """Give up every append whose outcome is not known, and be ready for new ones. May block for some seconds."""

    def cut(self, before: LogOffset) -> None:
        """Delete the records before an offset. May block. Cutting where it is cut already does nothing.

        Raises:
            PassingError: it may or may not be cut.
            RefusedByBrokerError: this client may not delete records.
        """

    def close(self) -> None:
        """Close the connections. May block for some seconds."""


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """All ports of one worker."""

    source: ArticleSource
    log: FingerprintLog
    sink: VerdictSink
    offsets: GroupOffsets
    clock: Clock


@dataclass(frozen=True, slots=True)
class AuditPorts:
    """All ports of an audit, which only reads: of the log it calls neither ``append`` nor ``cut``."""

    log: FingerprintLog
    offsets: GroupOffsets
    reader: TopicReader
    clock: Clock
