"""The topic of a log in memory, before it is read (``worker.opening.LogTopic``)."""

from __future__ import annotations

import uuid

from stream_dedup.core.model import LogOffset
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.kafka.rules_log import FoundLog, PreparedLog
from stream_dedup.ports import FingerprintLog
from tests.memory.broker import Cluster
from tests.memory.log import MemoryLog
from tests.memory.runtime import Connection, hooked


class MemoryLogTopic:
    """The log topic of one group."""

    def __init__(self, cluster: Cluster, connection: Connection, group: str, topic: str) -> None:
        self.connection = connection
        self._cluster = cluster
        self._group = group
        self._topic = topic

    @hooked("log-topic.find")
    def find(self) -> FoundLog:
        committed = dict(self._cluster.group(self._group).committed)
        topic = self._cluster.topics.get(self._topic)
        if topic is None:
            return FoundLog(self._topic, None, LogOffset(0), LogOffset(0), committed)
        log = topic.partitions[0]
        return FoundLog(self._topic, topic.id, LogOffset(log.start), LogOffset(log.end), committed)

    def check(self) -> None:
        """Topics in memory are as they must be."""

    @hooked("log-topic.prepare")
    def prepare(self) -> PreparedLog:
        if self._topic not in self._cluster.topics:
            raise UnavailableError(f"topic {self._topic} is gone")
        return PreparedLog(self._cluster.topics[self._topic].id, DEFAULT_RECORD_BYTES)

    @hooked("log-topic.exists")
    def exists(self, topic_id: uuid.UUID) -> bool:
        return any(topic.id == topic_id.bytes for topic in self._cluster.topics.values())

    @hooked("log-topic.connect")
    def connect(self) -> FingerprintLog:
        return MemoryLog(self._cluster, self.connection, self._topic)
