"""The committer's reaction to each outcome of a transaction."""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka import ConsumerGroupMetadata, KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError, NoOffsetForPartitionError
from prometheus_client import CollectorRegistry

from stream_dedup.broker.client import make_consumer
from stream_dedup.broker.group_offsets import committed_offsets
from stream_dedup.broker.topics import ensure_topics
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.model import Judgement, Verdict
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.worker import committer as module
from stream_dedup.worker.batches import Assignment, JudgedBatch, PolledBatch
from stream_dedup.worker.committer import Committer, CommitterParts
from stream_dedup.worker.watchdog import Watchdog
from tests.waiting import wait_until

AT = TopicPartition("articles", 0)


class GivenUp:
    """A record that the client gave up."""

    exception = KafkaTimeoutError("expired")

    def get(self, timeout: float) -> None:
        assert timeout > 0
        raise self.exception

    def failed(self) -> bool:
        return True


class Producer:
    """A producer that commits whatever became of the records, as the client does."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def send(self, *_: object, **__: object) -> GivenUp:
        self._calls.append("send")
        return GivenUp()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self._calls.append(name)


@pytest.mark.expect_log("no longer a member of the group")
def test_offsets_that_were_refused_are_not_committed_with_the_next(config: Config, admin: KafkaAdminClient) -> None:
    """The transaction of an ended assignment is aborted; the next transaction commits its own offsets only.

    The client keeps the offsets that the group refused and would send them again, so articles that now belong to
    another worker and never left would be skipped.
    """
    config = config.model_copy(update={"topics": config.topics.model_copy(update={"partitions": 2})})
    ensure_topics(admin, config)
    (topic,) = config.topics.input
    with closing(make_consumer(config.kafka, group_id=config.kafka.group)) as consumer:
        wait_until(
            lambda: consumer.partitions_for_topic(topic), 30, "the topic is known: else nothing of it is assigned"
        )
        consumer.subscribe([topic])
        wait_until(lambda: _joined(consumer), 30, "the consumer is a member")
        member = consumer.group_metadata()
        former = Assignment(member._replace(generation_id=member.generation_id + 1), frozenset())
        now = Assignment(member, frozenset())
        dropped: list[PolledBatch] = []
        resynced: list[Assignment] = []
        committer = Committer(replace(parts(dropped, resynced), config=config, transactional_id=config.kafka.group))
        for assignment, partition in ((former, 0), (now, 1)):
            polled = polled_batch(assignment, TopicPartition(topic, partition), b"one", b"two")
            committer.submit(JudgedBatch(polled, [Judgement(Verdict.UNIQUE)] * 2, [1] * 2, [False] * 2))
            committer.step()
        committer.close()
    assert resynced == [former]
    assert {at.partition: offset for at, (offset, _) in committed_offsets(admin, config.kafka.group).items()} == {1: 2}


def _joined(consumer: KafkaConsumer) -> bool:
    with suppress(NoOffsetForPartitionError):  # it is a member, and nobody has committed yet
        consumer.poll(100)
    return bool(consumer.assignment())


class Acknowledged:
    """A record that the broker has."""

    def get(self, timeout: float) -> None:
        assert timeout > 0

    def failed(self) -> bool:
        return False


class Broker:
    """A producer whose records all arrive; ``records`` are their topics, values and verdicts."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes, bytes]] = []

    def send(self, topic: str, *, value: bytes, headers: list[tuple[str, bytes]], **_: object) -> Acknowledged:
        self.records.append((topic, value, dict(headers)["dedup.verdict"]))
        return Acknowledged()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def a_record(offset: int, value: bytes) -> Any:  # noqa: ANN401 - the client has no types
    return SimpleNamespace(
        topic="articles", partition=0, offset=offset, timestamp=0, timestamp_type=0, key=None, value=value, headers=[]
    )


def polled_batch(assignment: Assignment, partition: TopicPartition, *values: bytes) -> PolledBatch:
    records = [a_record(offset, value) for offset, value in enumerate(values)]
    return PolledBatch(assignment, partition, b"t" * 16, records, np.arange(len(values), dtype=np.int64), 2, 0.0)


def parts(dropped: list[PolledBatch], resynced: list[Assignment]) -> CommitterParts:
    return CommitterParts(
        config=load_config(None, {"kafka": {"max_record_bytes": 1024}}, {}),
        transactional_id="g-1",
        scheme_id="s",
        watchdog=Watchdog(),
        metrics=Metrics(CollectorRegistry()),
        drop=dropped.append,
        resync=resynced.append,
        on_step=lambda _: None,
    )


@pytest.mark.expect_log("outcome of a transaction is unknown")
def test_a_record_that_was_given_up_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would commit offsets whose records it gave up: the committer does not ask it to."""
    calls: list[str] = []
    monkeypatch.setattr(module, "make_producer", lambda *_, **__: Producer(calls))
    assignment = Assignment(ConsumerGroupMetadata("g", 1, "m"), frozenset([AT]))
    dropped: list[PolledBatch] = []
    resynced: list[Assignment] = []
    committer = Committer(parts(dropped, resynced))
    polled = polled_batch(assignment, AT, b"{}")
    committer.submit(JudgedBatch(polled, [Judgement(Verdict.UNIQUE)], [1], [False]))
    committer.step()
    assert "send" in calls
    assert "commit_transaction" not in calls
    assert calls[-2:] == ["close", "init_transactions"]  # a new producer: the broker aborts what is open
    assert (dropped, resynced) == ([polled], [assignment])


def test_where_rules_observe_every_verdict_goes_to_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejected records too, with their bytes; only the value of a record too large for a topic is left out."""
    broker = Broker()
    monkeypatch.setattr(module, "make_producer", lambda *_, **__: broker)
    assignment = Assignment(ConsumerGroupMetadata("g", 1, "m"), frozenset([AT]))
    polled = polled_batch(assignment, AT, b"one", b"{broken", b"x" * 2048, b"{broken too")
    rejected = Judgement(Verdict.REJECTED, reason="unreadable")
    judgements = [Judgement(Verdict.DUPLICATE), rejected, rejected, rejected]
    dropped: list[PolledBatch] = []
    committer = Committer(parts(dropped, []))
    committer.submit(JudgedBatch(polled, judgements, [1, 0, 0, 0], [True, True, True, False]))
    committer.step()
    assert broker.records == [
        ("unique", b"one", b"duplicate"),
        ("unique", b"{broken", b"rejected"),
        ("unique", b"", b"rejected"),
        ("rejected", b"{broken too", b"rejected"),
    ]
    assert dropped == [polled]
