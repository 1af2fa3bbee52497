"""Following topics without an end, and publishing what was made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stream_dedup.ports.clock import Clock
from stream_dedup.ports.records import Partition, SourceRecord
from stream_dedup.ports.sink import Output
from stream_dedup.ports.topics import GroupOffsets, TopicReader


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
