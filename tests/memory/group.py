"""The group coordinator: members, generations, the assignment, and the committed offsets of one group.

A rebalance, as a member can observe it:

    1  a member joins, leaves, or is removed because its session has ended; or the topics have changed
    2  every other member finds out at its next poll, gives up its membership, and joins again; its offsets are accepted
       under the old generation until step 3
    3  when every member has joined, or those that have not are removed, the next generation begins: the partitions are
       assigned in turn to the members in the order of their ids
    4  each member takes its share at its next poll
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from stream_dedup.ports import CommittedOffset, NotAMemberError, Partition, PassingError
from tests.memory.runtime import Signal

T = TypeVar("T")

if TYPE_CHECKING:
    from tests.memory.broker import Cluster
    from tests.memory.transactions import Transaction

HEARTBEATS_A_SESSION = 4
"""Heartbeats in one session time-out."""
REBALANCE_TIMEOUT_S = 60.0
"""A member that has not joined again in this time is removed: its ``max.poll.interval.ms``."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a member proves its membership by."""

    member_id: str
    generation: int


@dataclass(slots=True, eq=False)
class Member:
    """A member of the group."""

    id: str
    client_id: str
    topics: Sequence[str]
    session_s: float
    heartbeats: Callable[[], bool]
    changed: Signal
    """Fired when a new generation has begun."""
    seen_at: float
    polled_at: float
    joined: bool = True
    """Whether it takes part in the rebalance that is going on, or took part in the last one."""
    share: frozenset[Partition] = frozenset()


@dataclass(slots=True, eq=False)
class Group:
    """One group."""

    cluster: Cluster
    name: str
    generation: int = 0
    rebalancing: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    committed: dict[Partition, CommittedOffset] = field(default_factory=dict)
    _pending: dict[Transaction, dict[Partition, tuple[int, CommittedOffset]]] = field(default_factory=dict)
    """Offsets of open transactions, each with its number in the topic of offsets."""
    _numbers: dict[Partition, int] = field(default_factory=dict)
    """Those of the committed offsets."""
    _written: int = 0
    _assigned_counts: Mapping[str, int] = field(default_factory=dict)
    _joins: int = 0
    _rebalances: int = 0

    # Members.

    def join(self, member: Member | None, make: Callable[[str], Member]) -> Member:
        """Join, or join again; ``make`` makes a new member with the id that it is given. Returns the member."""
        if member is None or self.members.get(member.id) is not member:
            self._joins += 1
            member = make(f"member-{self._joins:06d}")
            self.members[member.id] = member
            self._watch(member)
        member.joined = True
        self._begin_rebalance()
        member.joined = True
        self._complete_if_joined()
        return member

    def leave(self, member: Member) -> None:
        """Remove a member."""
        if self.members.get(member.id) is member:
            del self.members[member.id]
            member.changed.fire()
            self._begin_rebalance()
            self._complete_if_joined()

    def is_member(self, member: Member) -> bool:
        """Return whether it has not been removed."""
        return self.members.get(member.id) is member

    def metadata_changed(self) -> None:
        """Begin a rebalance if the topics that members read have other partitions than at the last assignment."""
        if self.members and self._counts() != self._assigned_counts:
            self._begin_rebalance()

    def client_ids(self) -> set[str]:
        """Return the client ids of all members."""
        return {member.client_id for member in self.members.values()}

    def check(self, proof: object) -> None:
        """Check that a request comes from a present member.

        Raises:
            NotAMemberError: it is no member any more, or of an earlier generation.
        """
        if not isinstance(proof, Proof) or proof.member_id not in self.members or proof.generation != self.generation:
            raise NotAMemberError(f"not a member of generation {self.generation} of group {self.name}: {proof}")

    def _begin_rebalance(self) -> None:
        if self.rebalancing:
            return
        self.rebalancing = True
        self._rebalances += 1
        for member in self.members.values():
            member.joined = False
            member.changed.fire()
        runtime, number = self.cluster.runtime, self._rebalances
        runtime.call_at(runtime.now() + REBALANCE_TIMEOUT_S, lambda: self._remove_absent(number))

    def _remove_absent(self, number: int) -> None:
        if self.rebalancing and number == self._rebalances:
            self.members = {name: member for name, member in self.members.items() if member.joined}
            self._complete_if_joined()

    def _complete_if_joined(self) -> None:
        if not self.rebalancing or not all(member.joined for member in self.members.values()):
            return
        self.rebalancing = False
        self.generation += 1
        self._assign()
        for member in self.members.values():
            member.changed.fire()

    def _assign(self) -> None:
        """Hand out the partitions in turn, as the client's round-robin assignor does."""
        self._assigned_counts = self._counts()
        shares: dict[str, list[Partition]] = {name: [] for name in sorted(self.members)}
        order, turn = list(shares), 0
        for topic, count in self._assigned_counts.items():
            for number in range(count):
                for _ in order:
                    name = order[turn % len(order)]
                    turn += 1
                    if topic in self.members[name].topics:
                        shares[name].append(Partition(topic, number))
                        break
        for name, share in shares.items():
            self.members[name].share = frozenset(share)

    def _counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic that a member reads and that exists."""
        counts = self.cluster.partition_counts()
        topics = sorted({topic for member in self.members.values() for topic in member.topics})
        return {topic: counts[topic] for topic in topics if topic in counts}

    def _watch(self, member: Member) -> None:
        """Take a heartbeat of the member now and then; remove it when its session has ended."""
        runtime = self.cluster.runtime

        def beat() -> None:
            if not self.is_member(member):
                return
            now = runtime.now()
            if member.heartbeats() and now - member.polled_at <= max(REBALANCE_TIMEOUT_S, member.session_s):
                member.seen_at = now
            elif now - member.seen_at >= member.session_s:
                self.leave(member)
                return
            runtime.call_at(now + member.session_s / HEARTBEATS_A_SESSION, beat)

        beat()

    # Offsets.

    def commit(self, partition: Partition, offset: CommittedOffset) -> None:
        """Commit an offset outside any transaction."""
        self._written += 1
        self._numbers[partition] = self._written
        self.committed[partition] = offset

    def settled(self, partition: Partition) -> CommittedOffset | None:
        """Return the committed offset.

        Raises:
            PassingError: an open transaction has an offset of this partition.
        """
        if any(partition in offsets for offsets in self._pending.values()):
            raise PassingError(f"the offset of {partition} is part of an open transaction")
        return self.committed.get(partition)

    def add_pending(self, transaction: Transaction, offsets: Mapping[Partition, CommittedOffset]) -> None:
        """Keep offsets until their transaction has ended."""
        self._written += 1
        numbered = {partition: (self._written, offset) for partition, offset in offsets.items()}
        self._pending.setdefault(transaction, {}).update(numbered)

    def end_pending(self, transaction: Transaction, *, committed: bool) -> None:
        """Commit or drop the offsets of a transaction that has ended; one that was written later stays."""
        offsets = self._pending.pop(transaction)
        for partition, (number, offset) in offsets.items():
            if committed and number > self._numbers.get(partition, 0):
                self._numbers[partition] = number
                self.committed[partition] = offset

    def delete_offsets(self, topic: str) -> None:
        """Drop the committed offsets of a topic that is deleted, and those that open transactions have of it."""
        self.committed = _without(self.committed, topic)
        self._pending = {transaction: _without(offsets, topic) for transaction, offsets in self._pending.items()}


def _without(offsets: Mapping[Partition, T], topic: str) -> dict[Partition, T]:
    return {at: offset for at, offset in offsets.items() if at.topic != topic}
