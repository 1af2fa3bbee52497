"""The ends of partitions that are asked for on another thread: known, kept while nobody answers, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

from stream_dedup.config.model import KafkaConfig
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.admin import AdminConnection
from stream_dedup.kafka.source import AskedEnds
from stream_dedup.ports import Partition
from tests.waiting import wait_until

ONE, OTHER = Partition("articles", 0), Partition("articles", 1)
LIMIT_S = 30.0


class Broker:
    """Answers with its ends, or raises."""

    def __init__(self) -> None:
        self.ends = {ONE: 5, OTHER: 7}
        self.error: Exception | None = None
        self.asked: list[set[Partition]] = []

    def client(self) -> Broker:
        return self

    def list_partition_offsets(
        self, specs: Mapping[TopicPartition, Any], **_level: object
    ) -> dict[TopicPartition, Any]:
        self.asked.append({Partition(*at) for at in specs})
        if self.error is not None:
            raise self.error
        return {at: SimpleNamespace(offset=self.ends[Partition(*at)]) for at in specs}


@pytest.fixture
def broker() -> Broker:
    return Broker()


def ends_of(broker: Broker) -> AskedEnds:
    return AskedEnds(cast("AdminConnection", broker))


def ends_with(asked: AskedEnds, expected: Mapping[Partition, int]) -> None:
    wait_until(lambda: asked.known([ONE, OTHER]) == expected, LIMIT_S, f"the ends are {expected}")


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError(), UnknownTopicOrPartitionError(), UnavailableError("away"), OSError()]
)
def test_what_was_known_stays_while_nobody_answers(broker: Broker, error: Exception) -> None:
    """All partitions are in one request; the next answer replaces the ends."""
    asked = ends_of(broker)
    ends_with(asked, {ONE: 5, OTHER: 7})
    broker.error, broker.ends[ONE] = error, 9
    questions = len(broker.asked)
    wait_until(lambda: bool(asked.known([ONE, OTHER])) and len(broker.asked) > questions + 1, LIMIT_S, "it is asked")
    assert asked.known([ONE, OTHER]) == {ONE: 5, OTHER: 7}
    broker.error = None
    ends_with(asked, {ONE: 9, OTHER: 7})
    assert all(one == {ONE, OTHER} for one in broker.asked)
    wait_until(lambda: asked.known([OTHER]) == {OTHER: 7}, LIMIT_S, "what is not asked for is forgotten")


def test_a_system_without_threads_holds_up_no_caller(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look asks again."""
    asked = ends_of(broker)
    with monkeypatch.context() as without:
        without.setattr(Thread, "start", _no_thread)
        assert asked.known([ONE, OTHER]) == {}
    ends_with(asked, broker.ends)


def _no_thread(_thread: Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_client_that_is_closed_while_it_connects_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it connect again."""
    connection = AdminConnection(KafkaConfig(brokers="nowhere:9092"))
    closed = []

    def connect(_kafka: KafkaConfig) -> SimpleNamespace:
        connection.close()
        return SimpleNamespace(close=lambda: closed.append(True))

    monkeypatch.setattr("stream_dedup.kafka.admin.make_admin", connect)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="closed"):
            connection.client()
    assert set(closed) == {True}
