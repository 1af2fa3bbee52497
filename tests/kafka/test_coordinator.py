"""Requests to coordinators that were killed, and are back, on three nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TypeVar

import pytest
from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.protocol.admin import ElectionType

from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.dev.broker import DevCluster
from stream_dedup.kafka.admin import committed_offsets, described_group
from stream_dedup.kafka.connection import discard, make_admin, make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.hanging_transactions import open_transactions
from stream_dedup.kafka.offsets import alter_offsets
from tests.nodes import start_node, wait_in_sync, wait_leaders
from tests.waiting import wait_until

T = TypeVar("T")

STALE_S = 30
"""A new coordinator answers as of its high watermark, for up to a second: without what was committed just before."""

TRANSACTIONS = 8
"""So that each of the two partitions of their topic has one."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_group_whose_coordinator_was_killed(cluster: DevCluster, config: Config) -> None:
    """Another node becomes the coordinator, and every client asks it.

    One that knew the coordinator before; and one that is made while no other is chosen yet, as that of a worker which
    starts at that moment.
    """
    kafka = config.kafka.model_copy(update={"brokers": cluster.bootstrap, "broker_wait_s": 60})
    group, at = kafka.group, TopicPartition(config.topics.input[0], 0)

    def asked(ask: Callable[[], T]) -> T:
        return patiently(kafka, "the group", ask)

    def answers(client: KafkaAdminClient) -> object:
        offsets = asked(lambda: committed_offsets(client, group))
        return {at: known.offset for at, known in offsets.items()}, asked(lambda: described_group(client, group))

    with ExitStack() as stack:
        known = stack.enter_context(closing(make_admin(kafka)))
        known.create_topics([at.topic], wait_for_metadata=True)
        asked(lambda: alter_offsets(known, group, {at: OffsetAndMetadata(7, "", -1)}))
        expected = {at: 7}, ("Empty", ())
        assert answers(known) == expected
        coordinator = known._manager.run(known._find_coordinator_id, group)
        cluster.node(coordinator).kill()
        try:
            made = stack.enter_context(closing(make_admin(kafka)))
            wait_until(lambda: answers(made) == expected, STALE_S, "the group as it was")
            assert answers(known) == expected
        finally:
            start_node(cluster, coordinator)
            wait_in_sync(cluster)
        assert answers(made) == answers(known) == expected


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_transactions_of_a_broker_that_was_down_when_the_client_was_made(cluster: DevCluster, config: Config) -> None:
    """It is named while it is down; once it is the coordinator of open transactions again, they are listed."""
    kafka = config.kafka.model_copy(update={"brokers": cluster.bootstrap, "broker_wait_s": 60})
    names = [f"{kafka.group}-{number}" for number in range(TRANSACTIONS)]
    with ExitStack() as stack:
        known = stack.enter_context(closing(make_admin(kafka)))
        known.create_topics([config.topics.unique], wait_for_metadata=True)
        producers = [_producer(stack, kafka, name) for name in names]
        (described,) = known.describe_topics(["__transaction_state"])
        down = described["partitions"][0]["replica_nodes"][0]
        cluster.node(down).kill()
        try:
            made = stack.enter_context(closing(make_admin(kafka)))
            wait_until(lambda: open_transactions(made).down == (down,), STALE_S, "the node is known to be down")
        finally:
            start_node(cluster, down)
            wait_in_sync(cluster)
        patiently(kafka, "leaders", lambda: known.elect_leaders(ElectionType.PREFERRED, raise_errors=False))
        wait_leaders(cluster, lambda leaders: leaders[TopicPartition("__transaction_state", 0)] == down)
        for producer in producers:
            producer.begin_transaction()
            producer.send(config.topics.unique, value=b"{}").get(timeout=STALE_S)

        def all_listed() -> bool:
            found = open_transactions(made)
            return not found.silent and not found.down and set(names) <= set(found.ongoing)

        wait_until(all_listed, STALE_S, "the transactions of every coordinator")
        described = patiently(kafka, "transactions", lambda: made.describe_transactions(names))
        assert down in {one.coordinator_id for one in described.values()}


def _producer(stack: ExitStack, kafka: KafkaConfig, transactional_id: str) -> KafkaProducer:
    producer = make_producer(kafka, transactional_id=transactional_id)
    stack.callback(discard, producer)
    producer.init_transactions()
    return producer
