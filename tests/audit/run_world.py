"""A group's topics in memory, and an audit of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import xxhash

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Batch, LogRecord, Payload, decode, encode
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.ports import AuditPorts, CommittedOffset, Partition
from tests.headers import output_headers
from tests.logs import batch
from tests.memory.broker import Cluster
from tests.memory.log import MemoryLog
from tests.memory.offsets import MemoryOffsets, MemoryTopicReader
from tests.memory.partition import Message
from tests.memory.runtime import Connection, Phase
from tests.simulation.scheduler import Process, Scheduler, VirtualClock

GROUP = "g"


SOURCE, UNIQUE, REJECTED_TOPIC = Partition("articles", 0), Partition("unique", 0), Partition("rejected", 0)


KEYS = {
    "kafka": {"group": GROUP, "brokers": "memory:1"},
    "topics": {"input": ["articles"], "unique": "unique", "duplicate": "duplicate", "rejected": "rejected"},
}


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


def configured() -> Config:
    return load_config(None, KEYS, {})


@dataclass
class World:
    """A group's topics, and the steps of a worker done by hand."""

    config: Config = field(default_factory=configured)
    connection: Connection = field(default_factory=Connection)

    def __post_init__(self) -> None:
        self._scheduler = Scheduler(Random(0))
        self.cluster = Cluster(self._scheduler)
        self.topic_id = self.cluster.make_topic(SOURCE.topic)
        for topic in ("unique", "duplicate", "rejected"):
            self.cluster.make_topic(topic)
        self.cluster.make_topic(self.config.log_topic, has_append_time=True)

    def produce(self, *values: bytes) -> None:
        """Records of the source, each with a key and a header."""
        for value in values:
            message = Message(b"key", value, [("own", b"1")], 1234)
            self.cluster.append(self.cluster.partition(SOURCE), message)

    def produce_marker(self) -> None:
        """An offset without a record: an aborted transaction of one record, and its control record."""
        source = self.cluster.partition(SOURCE)
        transaction = source.begin_transaction()
        source.append(Message(b"key", b"aborted"), self.cluster.time_ms(), transaction)
        source.end_transaction(transaction, self.cluster.time_ms(), committed=False)

    def append(self, *payloads: Payload) -> None:
        """Records of the log."""
        log = self.cluster.partition(Partition(self.config.log_topic, 0))
        for payload in payloads:
            self.cluster.append(log, Message(None, encode(payload)))

    def plain(self) -> PlainLog:
        """The log as the reference reads it."""
        records = self.cluster.partition(Partition(self.config.log_topic, 0)).records
        raws = [(one, one.value or b"") for one in records]
        return plain_log(LogRecord(LogOffset(one.offset), one.timestamp, decode(raw), raw) for one, raw in raws)

    def batch(self, offsets: list[int], prints: list[int | None]) -> Batch:
        """A batch of entries of the records ``value N``."""
        width = rules_of(self.config).scheme.sketch_bytes
        made = batch(offsets, prints, topic_id=self.topic_id, sketch_bytes=width)
        sums = [xxhash.xxh3_64_intdigest(b"value %d" % offset) for offset in offsets]
        return replace(made, checksums=np.array(sums, np.uint64))

    def write(self, committed: int, *, only: Callable[[int], bool] = lambda _offset: True) -> None:
        """The outputs of the articles at these source offsets, and the committed offset."""
        plain = self.plain()
        values = {record.offset: record.value for record in self.cluster.partition(SOURCE).records}
        for index, judged in sorted(plain.judgements(), key=lambda one: plain.coordinates(one[0]).offset):
            at = plain.coordinates(index)
            if at.offset >= committed or not only(at.offset):
                continue
            print_ = int(plain.entries.fingerprints[index])
            headers = output_headers(judged, print_, plain.scheme_id(), SOURCE.topic, at, 1234)
            message = Message(b"key", values[at.offset], [("own", b"1"), *headers], self.cluster.time_ms())
            self.cluster.append(self.cluster.partition(Partition(str(judged.verdict), 0)), message)
        self.commit(committed)

    def pass_time(self) -> None:
        """Let a second pass."""
        self._scheduler.run_until(lambda: False, self._scheduler.now() + 1)

    def commit(self, offset: int) -> None:
        self.cluster.group(GROUP).commit(SOURCE, CommittedOffset(SourceOffset(offset), self.topic_id))

    def audit(self, **options: object) -> AuditReport:
        cluster, connection = self.cluster, self.connection
        ports = AuditPorts(
            log=MemoryLog(cluster, connection, self.config.log_topic),
            offsets=MemoryOffsets(cluster, connection, GROUP),
            reader=MemoryTopicReader(cluster, connection),
            clock=VirtualClock(self._scheduler, Process("audit")),
        )
        return run_audit(self.config, AuditOptions(**options), ports, quiet)  # type: ignore[arg-type]

    @contextmanager
    def at(self, call: str, phase: Phase, act: Callable[[], None]) -> Iterator[list[str]]:
        """Do something at the first such call; the list has the names of all calls."""
        calls: list[str] = []

        def hook(name: str, when: Phase) -> None:
            calls.append(name)
            if (name, when) == (call, phase) and calls.count(name) == (1 if phase is Phase.BEGIN else 2):
                act()

        self.connection.hook = hook
        yield calls
        self.connection.hook = lambda _call, _phase: None
