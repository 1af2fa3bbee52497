"""The audit on a Kafka broker: the work of a worker, done by hand, whole and with each fault."""

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
from stream_dedup.core.columns import Texts
from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import Headers, offset_metadata
from stream_dedup.core.model import Verdict
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK, EXIT_USER
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.clients import connect_log, kafka_audit_ports
from stream_dedup.kafka.connection import make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.topics import ensure_topics
from tests.headers import output_headers
from tests.kafka.deleting import delete_topic
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

    def produce(self, *ranges: range, abort: bool = False) -> None:
        """Records ``value N`` in one transaction for each range; a marker follows each."""
        settings = {"transactional_id": self.config.kafka.group + "-source"}
        with closing(make_producer(self.config.kafka, **settings)) as producer:
            producer.init_transactions()
            for numbers in ranges:
                producer.begin_transaction()
                for number in numbers:
                    producer.send(self.source.topic, value=b"value %d" % number, partition=0)
                producer.flush()
                (producer.abort_transaction if abort else producer.commit_transaction)()

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
            yield names[Verdict.UNIQUE if log.observed(index) else judged.verdict], b"value %d" % at.offset, headers

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

    def audit(self, **options: object) -> AuditReport:
        with kafka_audit_ports(self.config) as ports:
            return run_audit(self.config, AuditOptions(**options), ports, quiet)  # type: ignore[arg-type]


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


def test_nothing_is_wrong(world: World) -> None:
    """Outputs as the log says them; a transaction marker between two batches is no lost article."""
    world.write(list(world.outputs()), committed=8)
    found = world.audit()
    assert (counts(found), found.articles, found.recomputed, found.outputs) == ({}, 6, 6, 6)


def test_missing_and_pending(world: World) -> None:
    """What is committed without output is missing, what is logged behind it is pending."""
    outputs = list(world.outputs())
    world.write(outputs[:2], committed=3)
    found = world.audit()
    assert counts(found) == {"missing": 1, "pending": 3}
    assert found.examples["missing"][0].startswith(f"{world.source.topic}-0-2: ")


def test_never_logged(world: World) -> None:
    """An offset moved by hand past records that were never logged lists them, and no marker nor aborted record."""
    world.produce(range(8, 10))
    world.produce(range(11, 13), abort=True)
    world.produce(range(14, 15))
    world.write(list(world.outputs()), committed=15)
    found = world.audit()
    assert counts(found) == {"missing": 3}
    assert found.examples["missing"] == [
        f"{world.source.topic}-0-{offset}: committed, but never logged" for offset in (8, 9, 14)
    ]


def test_twice_and_repeats(world: World) -> None:
    """The same outputs again are faults unless they are allowed."""
    outputs = list(world.outputs())
    world.write(outputs, committed=8)
    world.write(outputs[:2], committed=8)
    assert counts(world.audit()) == {"twice": 2}
    assert counts(world.audit(allow_repeats=True)) == {"repeats": 2}


def test_aborted_outputs_are_not_there(world: World) -> None:
    """Outputs of an aborted transaction do not count."""
    outputs = list(world.outputs())
    with closing(world.output_producer()) as producer:
        producer.begin_transaction()
        send(producer, outputs)
        producer.flush()
        producer.abort_transaction()
    world.write(outputs, committed=8)
    assert counts(world.audit()) == {}


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


def test_outputs_deleted_by_age_are_not_missing(world: World) -> None:
    """Outputs that were deleted from their topic are no faults, and are counted."""
    world.write(list(world.outputs()), committed=8)
    at = TopicPartition(world.config.topics.duplicate, 0)
    end = world.admin.list_partition_offsets({at: -1})[at].offset
    world.admin.delete_records({at: end})
    assert counts(world.audit()) == {"not kept": 3}


def test_cut_source_is_no_gap(world: World) -> None:
    """Records of the source that were deleted are not looked for."""
    world.produce(range(8, 10))
    world.write(list(world.outputs()), committed=10)
    world.admin.delete_records({world.source: 9})
    assert counts(world.audit()) == {"missing": 1}


def test_observed_outputs_and_updates(world: World) -> None:
    """From a change of rules on, outputs belong in the topic of unique articles; a re-crawl counts as an update."""
    world.produce(range(8, 10))
    rules = replace(rules_of(world.config), revision=2, observe=True, recrawl="update")
    again = world.batch([8, 9], [FAR ^ 1, A])
    ids = Texts.of([f"{world.source.topic}-0-6", f"{world.source.topic}-0-9"])
    world.log(rules, replace(again, ids=ids))
    outputs = list(world.outputs())
    topics = world.config.topics
    assert [topic for topic, _, _ in outputs[-2:]] == [topics.unique, topics.unique]
    world.write(outputs, committed=10)
    assert counts(world.audit()) == {"updates": 1}
    moved = [(topics.duplicate, value, headers) for _, value, headers in outputs[-1:]]
    world.write(moved, committed=10)
    assert counts(world.audit()) == {"updates": 1, "wrong": 1, "twice": 1}


def test_since_and_sample(world: World) -> None:
    """Only articles logged since are audited, and only the verdicts of a sample are recomputed."""
    world.write(list(world.outputs())[3:], committed=8)
    found = world.audit(since_offset=2)
    assert (counts(found), found.articles) == ({}, 3)
    assert counts(world.audit()) == {"missing": 3}
    assert world.audit(sample=2, seed=7).recomputed == 2


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


def test_no_log(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A group without a log is an error that names the remedy."""
    assert run(["audit", *flags]) == EXIT_USER
    assert "--group" in capsys.readouterr().err
