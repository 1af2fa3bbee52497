"""Requests for a group whose coordinator was killed, on three nodes."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest
from kafka import KafkaAdminClient

from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_offsets import committed_offsets
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.workarounds.private import private
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevCluster


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_group_whose_coordinator_was_killed(cluster: DevCluster, config: Config) -> None:
    """Another node becomes the coordinator, and every client asks it.

    One that knew the coordinator before; and one that is made while no other is chosen yet, as that of a worker which
    starts at that moment.
    """
    kafka = config.kafka.model_copy(update={"brokers": cluster.bootstrap, "broker_wait_s": 60})
    group = kafka.group

    def offsets_of(client: KafkaAdminClient) -> object:
        return patiently(kafka, "committed offsets", lambda: committed_offsets(client, group))

    with ExitStack() as stack:
        known = stack.enter_context(closing(make_admin(kafka)))
        assert offsets_of(known) == {}
        coordinator = known._manager.run(private(known, "_find_coordinator_id"), group)
        cluster.kill_node(coordinator)
        try:
            made = stack.enter_context(closing(make_admin(kafka)))
            told = made._manager.run(private(made, "_find_coordinator_id"), group)
            assert told == coordinator
            assert offsets_of(made) == offsets_of(known) == {}
        finally:
            cluster.start_node(coordinator)
            cluster.wait_in_sync()
        assert offsets_of(made) == offsets_of(known) == {}
