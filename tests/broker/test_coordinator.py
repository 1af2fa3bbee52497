"""Requests for a group whose coordinator was killed, on three nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TypeVar

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition

from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_offsets import committed_offsets
from stream_dedup.broker.group_state import described_group
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.workarounds import alter_offsets
from stream_dedup.broker.workarounds.private import private
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevCluster
from tests.waiting import wait_until

T = TypeVar("T")

STALE_S = 30
"""A new coordinator answers as of its high watermark, for up to a second: without what was committed just before."""


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
        return {at: offset for at, (offset, _) in offsets.items()}, asked(lambda: described_group(client, group))

    with ExitStack() as stack:
        known = stack.enter_context(closing(make_admin(kafka)))
        known.create_topics([at.topic], wait_for_metadata=True)
        asked(lambda: alter_offsets(known, group, {at: OffsetAndMetadata(7, "", -1)}))
        expected = {at: 7}, ("Empty", ())
        assert answers(known) == expected
        coordinator = known._manager.run(private(known, "_find_coordinator_id"), group)
        cluster.kill_node(coordinator)
        try:
            made = stack.enter_context(closing(make_admin(kafka)))
            wait_until(lambda: answers(made) == expected, STALE_S, "the group as it was")
            assert answers(known) == expected
        finally:
            cluster.start_node(coordinator)
            cluster.wait_in_sync()
        assert answers(made) == answers(known) == expected
