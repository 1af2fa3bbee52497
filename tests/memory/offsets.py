"""The ports ``GroupOffsets`` and ``TopicReader`` in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stream_dedup.ports import CommittedOffset, OffsetGoneError, Partition, PassingError, SourceRecord
from tests.memory.broker import Cluster
from tests.memory.runtime import Connection, Signal, hooked

READ_WAIT_S = 120.0
"""A reader waits so long for transactions that are open."""
READ_RECORDS = 500
"""Records that a reader fetches at once."""


class MemoryOffsets:
    """Requests about the group's offsets and the topics."""

    def __init__(self, cluster: Cluster, connection: Connection, group: str) -> None:
        self.connection = connection
        self._cluster = cluster
        self._group = cluster.group(group)

    @hooked("offsets.topic_ids")
    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        return self._cluster.topic_ids(names)

    @hooked("offsets.committed")
    def committed(self) -> dict[Partition, CommittedOffset]:
        return dict(self._group.committed)

    @hooked("offsets.close")
    def close(self) -> None:
        """There is no connection to close."""


class MemoryTopicReader:
    """Reads topics from offset to offset."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self.connection = connection
        self._cluster = cluster

    @hooked("reader.partitions")
    def partitions(self, names: Iterable[str]) -> list[Partition]:
        counts = self._cluster.partition_counts()
        return [Partition(name, number) for name in names for number in range(counts.get(name, 0))]

    @hooked("reader.bounds")
    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        logs = {partition: self._cluster.partition(partition) for partition in partitions}
        return {partition: (log.start, log.end) for partition, log in logs.items()}

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[SourceRecord]:
        for partition, (begin, end) in ranges.items():
            position = begin
            while position < end:
                records, position = self._read(partition, position, end)
                yield from records

    @hooked("reader.close")
    def close(self) -> None:
        """There is no connection to close."""

    @hooked("reader.read")
    def _read(self, partition: Partition, position: int, end: int) -> tuple[list[SourceRecord], int]:
        """Return the next records up to an end; wait where a transaction is open."""
        runtime, log = self._cluster.runtime, self._cluster.partition(partition)
        deadline, changed = runtime.now() + READ_WAIT_S, Signal()
        while True:
            if not log.holds(position):
                raise OffsetGoneError([partition])
            records, reached = log.read(position, READ_RECORDS, end)
            if reached > position:
                return list(records), reached
            left = deadline - runtime.now()
            if left <= 0:
                raise PassingError(f"{partition}: nothing came from offset {position} on")
            log.changed.append(changed)
            runtime.wait(changed, left)
            log.changed.remove(changed)
