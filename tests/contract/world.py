"""What the contract suite asks of an adapter beside the ports: a world with topics, groups and members.

A world is a broker (real, or in memory) with its time. The suite is one thread; a port that blocks for a while lets the
time of its world pass. A test that waits for something calls ``wait_until`` of its world, never the machine's clock.

Every adapter of the ports has a fixture in ``conftest`` that makes its world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from stream_dedup.ports import (
    CommittedOffset,
    MarkedSink,
    Output,
    Partition,
    PublishedMark,
    SourceRecord,
    TopicFollower,
    TopicReader,
    VerdictSink,
    WorkerPorts,
)

BROKER_WAIT_S = 10.0
"""``kafka.broker_wait_s`` of every member."""
SESSION_S = 3.0
"""``kafka.session_timeout_s`` of every member."""
TRANSACTION_S = 20.0
"""``kafka.transaction_timeout_s`` of a member, where the test names no other."""


class OpenTransaction(Protocol):
    """A transaction of a producer that is no worker."""

    offsets: list[int]
    """Offsets of its records, which are acknowledged."""

    def commit(self) -> None:
        """Commit it; returns when readers of committed records can see its records."""

    def abort(self) -> None:
        """Abort it; returns when the records behind it are readable."""


class World(Protocol):
    """One broker, or cluster of brokers, and its time."""

    def name(self, role: str) -> str:
        """Return a name that no other test uses."""

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until the condition holds; fail the test, naming ``what``, if it does not in due time."""

    def time_ms(self) -> int:
        """Return the broker's time, ms since 1970."""

    # Topics.

    def make_topic(self, topic: str, partitions: int = 1, largest_batch: int | None = None) -> bytes:
        """Make a topic; return its id. ``largest_batch`` is ``max.message.bytes``. Its times are its producers'."""

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions; returns when records can be written to each."""

    def make_log(self, group: str) -> None:
        """Make the log topic of a group: one partition, append time."""

    def log_topic(self, group: str) -> str:
        """Return the name of a group's log topic."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; returns when no broker knows it any more."""

    def delete_records(self, partition: Partition, before: int) -> None:
        """Delete the records before an offset."""

    # Records.

    def write(self, partition: Partition, values: Sequence[bytes]) -> list[int]:
        """Append records outside any transaction; return their offsets."""

    def open_transaction(self, partition: Partition, values: Sequence[bytes]) -> OpenTransaction:
        """Append records in a transaction that stays open."""

    def committed_records(self, topic: str) -> list[SourceRecord]:
        """Return all records that a reader of committed records can read now, by partition and offset."""

    # The group.

    def committed_offsets(self, group: str) -> Mapping[Partition, CommittedOffset]:
        """Return the committed offsets of a group; offsets of open transactions are not among them."""

    def set_offset(self, group: str, partition: Partition, start: CommittedOffset) -> None:
        """Set a committed offset of a group without members."""

    # Members.

    def ports(self, group: str, member: str, transaction_timeout_s: float = TRANSACTION_S) -> WorkerPorts:
        """Make the ports of a worker: ``member`` is its client id and transactional id, ``group-UUID``.

        The world closes them when the test ends. Two with the same ``member`` are two processes of one worker's index
        folder. The log topic of the group exists.
        """

    def topic_reader(self) -> TopicReader:
        """Make a reader of topics outside any group."""

    def topic_follower(self) -> TopicFollower:
        """Make a follower of topics outside any group."""

    def marked_sink(self, topic: str, group: str, transactional_id: str) -> MarkedSink:
        """Make a sink whose mark is kept by a group without members; the world closes it when the test ends."""

    def publish_without_answer(self, sink: MarkedSink, outputs: Sequence[Output], mark: PublishedMark) -> None:
        """Publish; the broker carries it out, and its answer to the commit never arrives.

        Raises:
            PassingError: always.
        """

    def commit_without_answer(self, sink: VerdictSink) -> None:
        """Commit the transaction of a sink: the broker carries it out, and its answer never arrives.

        Raises:
            PassingError: always.
        """
