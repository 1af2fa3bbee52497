"""The memory cluster as a world of the contract suite (``tests/contract/world.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random

from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.ports import (
    CommittedOffset,
    MarkedSink,
    Output,
    Partition,
    PassingError,
    PublishedMark,
    SourceRecord,
    VerdictSink,
    WorkerPorts,
)
from tests.contract.world import TRANSACTION_S
from tests.memory.broker import Cluster
from tests.memory.following import MemoryMarkedSink, MemoryTopicFollower
from tests.memory.log import MemoryLog
from tests.memory.offsets import MemoryOffsets, MemoryTopicReader
from tests.memory.partition import Message
from tests.memory.runtime import Connection, Phase
from tests.memory.sink import MemorySink, memory_sink
from tests.memory.source import MemberSettings, MemorySource
from tests.memory.transactions import Session
from tests.simulation.scheduler import Process, Scheduler, VirtualClock

DUE_S = 60.0
"""Virtual seconds in which a condition must come true."""
PAUSE_S = 0.05
"""Virtual seconds between two looks at a condition."""


class MemoryTransaction:
    """A transaction of a producer that is no worker."""

    def __init__(self, cluster: Cluster, name: str, partition: Partition, values: Sequence[bytes]) -> None:
        known = cluster.transactions.renew(name, TRANSACTION_S)
        self._cluster = cluster
        self._session = Session(known, known.epoch)
        log = cluster.partition(partition)
        self.offsets = [
            cluster.transactions.produce(self._session, log, Message(None, value, (), cluster.time_ms()))
            for value in values
        ]

    def commit(self) -> None:
        self._cluster.transactions.end(self._session, committed=True)

    def abort(self) -> None:
        self._cluster.transactions.end(self._session, committed=False)


class MemoryWorld:
    """A cluster of two brokers, in virtual time that passes while the test waits."""

    def __init__(self) -> None:
        self._scheduler = Scheduler(Random(0))
        self._cluster = Cluster(self._scheduler, nodes=2)
        self._processes = Process("test")
        self._numbers = count()

    def name(self, role: str) -> str:
        return f"{role}-{next(self._numbers)}"

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self._scheduler.now() + DUE_S
        while not condition():
            assert self._scheduler.now() < deadline, f"waited for {DUE_S:g} virtual seconds in vain: {what}"
            self._scheduler.run_to(self._scheduler.now() + PAUSE_S)

    def time_ms(self) -> int:
        return self._cluster.time_ms()

    def make_topic(self, topic: str, partitions: int = 1, largest_batch: int | None = None) -> bytes:
        return self._cluster.make_topic(topic, partitions, largest_batch)

    def add_partitions(self, topic: str, total: int) -> None:
        self._cluster.add_partitions(topic, total)

    def make_log(self, group: str) -> None:
        self._cluster.make_topic(self.log_topic(group), has_append_time=True)

    def log_topic(self, group: str) -> str:
        return f"{group}.fingerprints"

    def delete_topic(self, topic: str) -> None:
        self._cluster.delete_topic(topic)

    def delete_records(self, partition: Partition, before: int) -> None:
        self._cluster.partition(partition).delete_before(before)

    def write(self, partition: Partition, values: Sequence[bytes]) -> list[int]:
        log = self._cluster.partition(partition)
        return [self._cluster.append(log, Message(None, value, (), self.time_ms())) for value in values]

    def open_transaction(self, partition: Partition, values: Sequence[bytes]) -> MemoryTransaction:
        return MemoryTransaction(self._cluster, self.name("producer"), partition, values)

    def committed_records(self, topic: str) -> list[SourceRecord]:
        logs = self._cluster.topics[topic].partitions
        return [record for log in logs for record in log.read(log.start, len(log.records))[0]]

    def committed_offsets(self, group: str) -> Mapping[Partition, CommittedOffset]:
        return self._cluster.group(group).committed

    def set_offset(self, group: str, partition: Partition, start: CommittedOffset) -> None:
        self._cluster.group(group).commit(partition, start)

    def ports(self, group: str, member: str, transaction_timeout_s: float = TRANSACTION_S) -> WorkerPorts:
        connection, cluster = Connection(), self._cluster
        config = Config(kafka=KafkaConfig(group=group, transaction_timeout_s=transaction_timeout_s))
        return WorkerPorts(
            source=MemorySource(cluster, connection, MemberSettings(group, member)),
            log=MemoryLog(cluster, connection, self.log_topic(group)),
            sink=memory_sink(cluster, connection, config, member),
            offsets=MemoryOffsets(cluster, connection, group),
            clock=VirtualClock(self._scheduler, self._processes),
        )

    def topic_reader(self) -> MemoryTopicReader:
        return MemoryTopicReader(self._cluster, Connection())

    def topic_follower(self) -> MemoryTopicFollower:
        return MemoryTopicFollower(self._cluster, Connection())

    def marked_sink(self, topic: str, group: str, transactional_id: str) -> MemoryMarkedSink:
        return MemoryMarkedSink(self._cluster, Connection(), topic, group, transactional_id)

    def publish_without_answer(self, sink: MarkedSink, outputs: Sequence[Output], mark: PublishedMark) -> None:
        assert isinstance(sink, MemoryMarkedSink)
        with _lost_answer(sink.connection):
            sink.publish(outputs, mark)

    def commit_without_answer(self, sink: VerdictSink) -> None:
        assert isinstance(sink, MemorySink)
        with _lost_answer(sink.connection):
            sink.commit()


@contextmanager
def _lost_answer(connection: Connection) -> Iterator[None]:
    """Let the cluster carry out every commit in the block, and its answer be lost."""

    def lose_answer(call: str, phase: Phase) -> None:
        if (call, phase) == ("sink.commit", Phase.END):
            raise PassingError("the answer is lost")

    before, connection.hook = connection.hook, lose_answer
    try:
        yield
    finally:
        connection.hook = before
