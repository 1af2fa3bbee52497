"""The ports ``TopicFollower`` and ``MarkedSink`` in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stream_dedup.config.model import Config
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import (
    CommittedOffset,
    OffsetGoneError,
    Output,
    Partition,
    PassingError,
    PublishedMark,
    SourceRecord,
)
from tests.memory.broker import Cluster
from tests.memory.runtime import Connection, Signal, hooked
from tests.memory.sink import MemorySink


class MemoryTopicFollower:
    """Reads partitions without an end."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self.connection = connection
        self._cluster = cluster
        self._positions: dict[Partition, int] = {}

    @hooked("follower.follow")
    def follow(self, starts: Mapping[Partition, int]) -> None:
        self._positions = dict(starts)

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        """Wait for records up to ``wait_s`` of virtual time."""
        runtime = self._cluster.runtime
        deadline, changed = runtime.now() + wait_s, Signal()
        while True:
            before = dict(self._positions)
            try:
                found = self._poll_once()
            except PassingError:
                found, self._positions = {}, before
            left = deadline - runtime.now()
            if found or left <= 0:
                return found
            logs = [self._cluster.partition(at) for at in self._positions if at.topic in self._cluster.topics]
            for log in logs:
                log.changed.append(changed)
            runtime.wait(changed, left)
            for log in logs:
                log.changed.remove(changed)

    @hooked("follower.positions")
    def positions(self) -> Mapping[Partition, int]:
        return dict(self._positions)

    @hooked("follower.close")
    def close(self) -> None:
        """There is no connection to close."""

    @hooked("follower.poll")
    def _poll_once(self) -> dict[Partition, Sequence[SourceRecord]]:
        found: dict[Partition, Sequence[SourceRecord]] = {}
        gone: list[Partition] = []
        left = self.connection.most_records()
        for partition, offset in self._positions.items():
            if partition.topic not in self._cluster.topics or left <= 0:
                continue
            log = self._cluster.partition(partition)
            if not log.holds(offset):
                gone.append(partition)
                continue
            records, self._positions[partition] = log.read(offset, left)
            if records:
                found[partition] = records
                left -= len(records)
        if gone and not found:
            raise OffsetGoneError(gone)
        return found


class MemoryMarkedSink:
    """Transactions of records and a mark: a ``MemorySink`` whose offsets need no membership."""

    def __init__(self, cluster: Cluster, connection: Connection, topic: str, group: str, transactional_id: str) -> None:
        self.connection = connection
        self._group = cluster.group(group)
        self._partition = Partition(topic, 0)
        self._sink = MemorySink(cluster, connection, Config(), transactional_id)

    def renew(self) -> PublishedMark | None:
        self._sink.renew()
        found = self._group.settled(self._partition)
        return None if found is None or found.topic_id is None else PublishedMark(found.topic_id, int(found.offset))

    def publish(self, outputs: Iterable[Output], mark: PublishedMark) -> None:
        self._sink.begin()
        self._sink.send(outputs)
        self._sink.send_mark(
            self._group, {self._partition: CommittedOffset(SourceOffset(mark.sequence), mark.store_id)}
        )
        self._sink.flush()
        self._sink.commit()

    def close(self) -> None:
        self._sink.close()
