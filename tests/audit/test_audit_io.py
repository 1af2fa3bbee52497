"""The audit on a Kafka broker: the work of a worker, done by hand. ``test_run`` and ``test_audit`` have each fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Thread

import numpy as np
import pytest
import xxhash
from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition

from stream_dedup.audit.reference import plain_log
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import Headers, offset_metadata
from stream_dedup.core.model import Verdict
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.clients import connect_log, kafka_audit_ports
from stream_dedup.kafka.connection import make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.topics import ensure_topics
from tests.headers import output_headers
from tests.kafka.operating import delete_topic
from tests.logs import REJECTED, batch

A = 0xFFFF_0000_FFFF_0000
FAR = 0x0123_4567_89AB_CDEF


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


@dataclass
class World:
    """A group's topics, and the steps of a worker done by hand."""

    config: Config
    admin: KafkaAdminClient

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.config.topics.input[0], 0)

    def produce(self, *ranges: range) -> None:
        """Records ``value N`` in one transaction for each range; a marker follows each."""
        settings = {"transactional_id": self.config.kafka.group + "-source"}
        with closing(make_producer(self.config.kafka, **settings)) as producer:
            producer.init_transactions()
            for numbers in ranges:
                producer.begin_transaction()
                for number in numbers:
                    producer.send(self.source.topic, value=b"value %d" % number, partition=0)
                producer.flush()
                producer.commit_transaction()

    def log(self, *payloads: object) -> None:
        with closing(connect_log(self.config)) as log:
            for payload in payloads:
                log.append_now(payload)  # type: ignore[arg-type]

    def batch(self, offsets: list[int], prints: list[int | None]) -> Batch:
        topic_id = topic_ids(self.admin, [self.source.topic])[self.source.topic]
        width = rules_of(self.config).scheme.sketch_bytes
        made = batch(offsets, prints, topic_id=topic_id, topic=self.source.topic, sketch_bytes=width)
        sums = [xxhash.xxh3_64_intdigest(b"value %d" % offset) for offset in offsets]
        return replace(made, checksums=np.array(sums, np.uint64))

    def outputs(self) -> Iterator[tuple[str, bytes, Headers]]:
        """What a worker without faults writes: topic, value, headers."""
        topics = self.config.topics
        names = {Verdict.UNIQUE: topics.unique, Verdict.DUPLICATE: topics.duplicate, Verdict.REJECTED: topics.rejected}
        with closing(connect_log(self.config)) as waiting:
            log = plain_log(waiting.read_all(quiet))
        for index, judged in log.judgements():
            at = log.coordinates(index)
            print_ = int(log.entries.fingerprints[index])
            headers = output_headers(judged, print_, log.scheme_id(), self.source.topic, at, 1)
            yield names[judged.verdict], b"value %d" % at.offset, headers

    def write(self, outputs: list[tuple[str, bytes, Headers]], committed: int) -> None:
        """Outputs and the committed offset, in one transaction."""
        with closing(self.output_producer()) as producer:
            producer.begin_transaction()
            send(producer, outputs)
            producer.commit_transaction()
        self.commit(committed)

    def output_producer(self, number: int = 0) -> KafkaProducer:
        producer = make_producer(self.config.kafka, transactional_id=f"{self.config.kafka.group}-{number}")
        producer.init_transactions()
        return producer

    def commit(self, offset: int, topic_id: bytes | None = None) -> None:
        present = topic_id or topic_ids(self.admin, [self.source.topic])[self.source.topic]
        request = {self.source: OffsetAndMetadata(offset, offset_metadata(present), -1)}
        group = self.config.kafka.group
        patiently(self.config.kafka, "offsets", lambda: self.admin.alter_group_offsets(group, request))

    def audit(self) -> AuditReport:
        with kafka_audit_ports(self.config) as ports:
            return run_audit(self.config, AuditOptions(), ports, quiet)


def send(producer: KafkaProducer, outputs: list[tuple[str, bytes, Headers]]) -> None:
    for topic, value, headers in outputs:
        producer.send(topic, value=value, headers=headers)


def counts(found: AuditReport) -> dict[str, int]:
    return {kind: count for kind, count in found.found.items() if count}


@pytest.fixture
def world(config: Config, admin: KafkaAdminClient) -> World:
    """Two groups of three records, logged in two batches with the marker at offset 3 between them."""
    ensure_topics(admin, config)
    made = World(config, admin)
    made.produce(range(3), range(4, 7))
    made.log(rules_of(config), made.batch([0, 1, 2], [A, FAR, REJECTED]), made.batch([4, 5, 6], [A ^ 1, A, FAR]))
    return made


def test_open_transaction_is_waited_for(world: World) -> None:
    """Outputs that are written but not committed yet are read when their transaction ends."""
    outputs = list(world.outputs())
    found: list[AuditReport] = []
    with closing(world.output_producer(1)) as producer:
        producer.begin_transaction()
        send(producer, outputs)
        producer.flush()
        world.commit(8)
        auditor = Thread(target=lambda: found.append(world.audit()))
        auditor.start()
        auditor.join(timeout=1)
        assert auditor.is_alive()
        producer.commit_transaction()
        auditor.join(timeout=30)
    assert [counts(report) for report in found] == [{}]


def test_topic_recreated(world: World) -> None:
    """Articles of a deleted topic without an output are counted as such, whatever the new topic of the name holds."""
    world.write(list(world.outputs())[:4], committed=5)
    old = topic_ids(world.admin, [world.source.topic])[world.source.topic]
    delete_topic(world.admin, world.source.topic)
    ensure_topics(world.admin, world.config)
    assert counts(world.audit()) == {"source gone": 2}
    world.commit(5, old)
    assert counts(world.audit()) == {"source gone": 2}


def test_command(world: World, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The table, JSON, and the exit code."""
    outputs = list(world.outputs())
    world.write(outputs, committed=8)
    assert run(["audit", *flags, "--sample=3", "--seed=5"]) == EXIT_OK
    told = capsys.readouterr().out
    assert "--seed 5" in told
    assert "nothing is wrong" in told
    world.write(outputs[:1], committed=8)
    assert run(["audit", *flags]) == EXIT_FOUND
    assert f"twice: {world.config.topics.unique}-0-" in capsys.readouterr().out
    assert run(["audit", *flags, "--json"]) == EXIT_FOUND
    values = json.loads(capsys.readouterr().out)
    assert (values["twice"], values["missing"], values["articles_in_the_log"]) == (1, 0, 6)
    assert run(["audit", *flags, "--allow-repeats"]) == EXIT_OK


@pytest.mark.parametrize("since", ["yesterday", "5x", "2026-13-01"])
def test_unreadable_since(flags: list[str], since: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A time that cannot be read is an error of use."""
    assert run(["audit", *flags, f"--since={since}"]) == EXIT_USER
    assert "ISO time" in capsys.readouterr().err
