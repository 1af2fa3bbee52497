"""The source: membership of the group, and the articles of the partitions that it assigns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_dedup.core.model import SourceOffset
from stream_dedup.ports.records import CommittedOffset, Partition, SourceRecord


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

        As of the last fetch; of paused partitions, of which nothing is fetched, as of the last answer about their ends,
        which each call asks for. Never waits for a broker: while a leader does not answer, it is what was known before.
        """

    def close(self) -> None:
        """Leave the group. May block for some seconds."""
