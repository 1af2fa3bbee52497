"""Hanging transactions on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import TransactionListing, TransactionState
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    NodeNotReadyError,
    NotCoordinatorError,
)

from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka import hanging_transactions as module
from stream_dedup.kafka.connection import discard, make_consumer, make_producer
from stream_dedup.kafka.hanging_transactions import (
    abort_hanging,
    hanging_of,
    hanging_transactions,
    open_transactions,
    transactional_ids,
)
from stream_dedup.worker import Step
from tests.waiting import wait_until
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline, pipeline

SEED = 5
LIMIT_S = 60
SESSION_S = 2
TRANSACTION_S = 600
"""Longer than the test may take: a hanging transaction ends because another worker aborts it, or not at all."""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_another_worker_takes_over_in_time(broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Another worker aborts a killed worker's transaction long before the transaction times out."""
    times = {"session_timeout_s": SESSION_S, "transaction_timeout_s": TRANSACTION_S}
    with pipeline(broker.bootstrap, tmp_path, topic_name("pipe"), partitions=2, kafka={**times}) as made:
        dying = made.start("dying", die_at=Step.OFFSETS_SENT, times=1)
        made.wait_joined("dying", 2)
        other = made.start("other")
        made.wait_joined("other", 1)
        made.wait_joined("dying", 3)
        made.produce(records(100, SEED))
        assert dying.wait(60) == -9
        made.wait_done()
        assert len(made.stamps()) == sum(made.ends().values())
        made.stop(other)
        assert "the hanging transaction of a dead worker" in made.log("other")
        made.assert_sound()


@pytest.fixture
def made(broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str]) -> Iterator[Pipeline]:
    with pipeline(broker.bootstrap, tmp_path, topic_name("pipe")) as made:
        yield made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_transaction(stack: ExitStack, made: Pipeline, transactional_id: str) -> KafkaProducer:
    """Send one record, the id itself, in a transaction that stays open."""
    producer = make_producer(made.config().kafka, transactional_id=transactional_id)
    stack.callback(discard, producer)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(made.config().topics.unique, value=transactional_id.encode()).get(timeout=LIMIT_S)
    return producer


def join_as(stack: ExitStack, kafka: KafkaConfig, made: Pipeline, member_id: str) -> None:
    consumer = stack.enter_context(
        closing(make_consumer(kafka, group_id=kafka.group, client_id=member_id, auto_offset_reset="earliest"))
    )
    consumer.subscribe([made.topic])

    def joined() -> bool:
        consumer.poll(100)
        return bool(consumer.group_metadata().generation_id > 0)

    wait_until(joined, LIMIT_S, "a member of the group")


def member(group: str) -> str:
    return f"{group}-{uuid.uuid4()}"


def test_only_transactions_of_dead_workers_hang() -> None:
    """Those of a dead worker, of either id, do; those of members and of other groups do not."""
    dead, alive = (transactional_ids(member("group")) for _ in range(2))
    others = (member("group-more"), "group-of-another-program", f"{dead[0]}-3")
    assert hanging_of("group", [*dead, *alive, *others], {alive[0]}) == {*dead}


def test_member_of_another_group_is_dead_here(made: Pipeline, stack: ExitStack) -> None:
    """Only a member of the same group keeps its transaction, not a client of that name in another group."""
    kafka = made.config().kafka
    dead = member(made.name)
    join_as(stack, kafka.model_copy(update={"group": f"{made.name}-more"}), made, dead)
    open_transaction(stack, made, dead)
    assert abort_hanging(kafka, member(made.name)) == [dead]


def test_a_coordinator_that_is_being_replaced_is_asked_again(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are given out just then, and nobody would look again before the next rebalance."""
    answers: Iterator[set[str] | KafkaError] = iter([NotCoordinatorError(), set(), GroupAuthorizationFailedError()])

    def hanging(*_: object) -> set[str]:
        answer = next(answers)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    monkeypatch.setattr(module, "hanging_transactions", hanging)
    assert abort_hanging(config.kafka, "own") == []
    with pytest.raises(GroupAuthorizationFailedError):
        abort_hanging(config.kafka, "own")


class Brokers:
    """An admin client of a cluster of which brokers are down, or do not answer."""

    def __init__(self, fenced: set[int], silent: set[int]) -> None:
        self.brokers = {1, 2, 3}
        self.fenced = fenced
        self.silent = silent

    def describe_cluster(self) -> dict[str, object]:
        return {"brokers": [{"broker_id": at, "is_fenced": at in self.fenced} for at in sorted(self.brokers)]}

    def list_transactions(self, brokers: list[int], state_filters: object) -> dict[int, list[TransactionListing]]:
        assert state_filters
        if brokers[0] in self.silent:
            raise NodeNotReadyError(brokers[0])
        return {at: [TransactionListing(f"id-{at}", at, TransactionState.ONGOING)] for at in brokers}


def test_the_brokers_are_asked_that_are_there_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that the client knew of when it was made; what is missing from the answer is named."""
    monkeypatch.setattr(module, "ANSWER_S", 0.0)
    admin = Brokers(fenced={3}, silent={2})

    def listed() -> tuple[tuple[str, ...], list[int], tuple[int, ...]]:
        found = open_transactions(cast("KafkaAdminClient", admin))
        return found.ongoing, list(found.silent), found.down

    assert listed() == (("id-1",), [2], (3,))
    with pytest.raises(NodeNotReadyError):
        hanging_transactions(cast("KafkaAdminClient", admin), "group")
    admin.fenced, admin.silent = set(), set()
    assert listed() == (("id-1", "id-2", "id-3"), [], ())
    admin.brokers.add(4)
    assert listed() == (("id-1", "id-2", "id-3", "id-4"), [], ())
