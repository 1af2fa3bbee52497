"""The port ``ArticleSource`` in memory: a member of the group that reads its partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    SourceChangedError,
    SourceRecord,
)
from tests.memory.broker import Cluster
from tests.memory.group import Member, Proof
from tests.memory.partition import PartitionLog
from tests.memory.runtime import Connection, Signal, hooked, poll_until


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """How a worker takes part in its group."""

    group: str
    client_id: str
    session_s: float = 10.0


@dataclass(slots=True, eq=False)
class _Reading:
    """A partition that has begun."""

    offset: int
    log: PartitionLog | None
    """The partition that was read, until its topic was recreated."""
    is_changed: bool = False
    """Whether its leader has other records before the offset than those that were read or committed."""


class MemorySource:
    """The articles of the partitions that the group assigns to this worker."""

    def __init__(self, cluster: Cluster, connection: Connection, settings: MemberSettings) -> None:
        """Nothing joins before the first poll after ``join``."""
        self.connection = connection
        self._cluster = cluster
        self._settings = settings
        self._group = cluster.group(settings.group)
        self._topics: tuple[str, ...] = ()
        self._is_to_join = False
        self._member: Member | None = None
        self._membership: Membership | None = None
        self._reading: dict[Partition, _Reading] = {}
        self._watched: list[PartitionLog] = []
        self._paused: frozenset[Partition] = frozenset()
        self._is_closed = False
        self._changed = Signal()

    @hooked("source.join")
    def join(self, topics: Sequence[str]) -> None:
        self._topics, self._is_to_join = tuple(topics), True
        self._give_up()

    @hooked("source.membership")
    def membership(self) -> Membership | None:
        return self._membership

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        return poll_until(self._cluster.runtime, self._changed, wait_s, self._poll_once) or {}

    @hooked("source.hold")
    def hold(self) -> None:
        self._reading.clear()

    @hooked("source.begin")
    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        self._check_assigned(partition)
        topic = self._cluster.topics.get(partition.topic)
        log = None if topic is None else topic.partitions[partition.number]
        changed = (
            log is not None and start.leader_epoch is not None and log.end_of_epoch(start.leader_epoch) < start.offset
        )
        self._reading[partition] = _Reading(start.offset, log, changed)
        self._watch()

    @hooked("source.pause")
    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused = frozenset(partitions)

    def positions(self) -> Mapping[Partition, CommittedOffset]:
        return {
            partition: CommittedOffset(
                SourceOffset(reading.offset),
                None,
                None if reading.log is None else reading.log.epoch_before(reading.offset),
            )
            for partition, reading in self._reading.items()
        }

    @hooked("source.committed")
    def committed(self, partition: Partition) -> CommittedOffset | None:
        return self._group.settled(partition)

    @hooked("source.commit_start")
    def commit_start(self, partition: Partition, start: CommittedOffset) -> None:
        self._check_assigned(partition)
        self._group.check(self._proof())
        self._group.commit(partition, start)

    @hooked("source.beginning")
    def beginning(self, partition: Partition) -> SourceOffset:
        return SourceOffset(self._cluster.partition(partition).start)

    def lag(self) -> dict[str, int]:
        lags: dict[str, int] = {}
        for partition, reading in self._reading.items():
            end = reading.offset if reading.log is None else reading.log.end
            lags[partition.topic] = lags.get(partition.topic, 0) + max(0, end - reading.offset)
        return lags

    def _check_assigned(self, partition: Partition) -> None:
        if self._membership is None or partition not in self._membership.partitions:
            raise NotAMemberError(f"{partition} is not assigned")

    @hooked("source.close")
    def close(self) -> None:
        self._is_closed = True
        self._membership = None
        self._reading.clear()
        self._watch()
        if self._member is not None:
            self._group.leave(self._member)

    # The group.

    def _proof(self) -> object:
        return None if self._membership is None else self._membership.proof

    def _take_part(self) -> None:
        """Join, find out about a rebalance, or take the share of a new generation."""
        member, group = self._member, self._group
        if member is not None:
            member.polled_at = self._cluster.runtime.now()
            member.topics = self._topics
        joins, self._is_to_join = self._is_to_join, False
        if joins or member is None or not group.is_member(member) or (group.rebalancing and not member.joined):
            self._give_up()
            self._member = member = group.join(member, self._make_member)
        if group.rebalancing:
            return
        proof = Proof(member.id, group.generation)
        if proof != self._proof():
            self._give_up()
            self._membership = Membership(member.share, group.generation, proof)

    def _give_up(self) -> None:
        self._membership = None
        self._reading.clear()

    def _make_member(self, member_id: str) -> Member:
        now = self._cluster.runtime.now()
        heartbeats: Callable[[], bool] = lambda: not self._is_closed and self.connection.heartbeats()  # noqa: E731
        settings = self._settings
        return Member(
            member_id, settings.client_id, self._topics, settings.session_s, heartbeats, self._changed, now, now
        )

    # Records.

    @hooked("source.poll")
    def _poll_once(self) -> dict[Partition, Sequence[SourceRecord]]:
        if not self._topics or self._is_closed:
            return {}
        self._take_part()
        return self._fetch()

    def _fetch(self) -> dict[Partition, Sequence[SourceRecord]]:
        found: dict[Partition, Sequence[SourceRecord]] = {}
        gone: list[Partition] = []
        left = self.connection.most_records()
        for partition, reading in self._reading.items():
            if partition in self._paused:
                continue
            log = self._current(partition, reading)
            if log is None:
                continue
            if not log.holds(reading.offset):
                gone.append(partition)
                continue
            records, reading.offset = log.read(reading.offset, left)
            if records:
                found[partition] = records
                left -= len(records)
            if left <= 0:
                break
        if gone and not found:
            raise OffsetGoneError(gone)
        return found

    def _current(self, partition: Partition, reading: _Reading) -> PartitionLog | None:
        """Return the partition of this name now, None of none; it may be another one than was read.

        Raises:
            SourceChangedError: it is another one and this client notices, or its leader lost what was read.
        """
        topic = self._cluster.topics.get(partition.topic)
        log = None if topic is None or partition.number >= len(topic.partitions) else topic.partitions[partition.number]
        is_other = log is not None and reading.log is not None and log is not reading.log
        if reading.is_changed or (is_other and self.connection.notices()):
            raise SourceChangedError(
                f"{partition}: the records before offset {reading.offset} are others than those that were read"
            )
        if log is not None and log is not reading.log:
            reading.log = log
            self._watch()
        return log

    def _watch(self) -> None:
        """Be woken by the partitions that have begun."""
        for log in self._watched:
            log.changed.remove(self._changed)
        self._watched = [reading.log for reading in self._reading.values() if reading.log is not None]
        for log in self._watched:
            log.changed.append(self._changed)
