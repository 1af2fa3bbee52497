"""What may happen to the nodes of a development cluster: one comes back, replicas catch up, leaders move."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType

from stream_dedup.dev.broker import DevCluster
from stream_dedup.dev.broker.base import POLL_S, READY_LIMIT_S, admin_of, wait_until_ready

T = TypeVar("T")
Leaders = Mapping[TopicPartition, int]
"""The node that leads each partition, -1 for none."""

IN_SYNC_LIMIT_S = 60
"""A node that is back until its replicas have caught up, seconds: 1 to 5 are usual after a short absence."""


def start_node(cluster: DevCluster, number: int) -> None:
    """Start one node again on its data, and wait until it answers and the cluster lists all that run."""
    node = cluster.node(number)
    node.launch()
    running = len(_running(cluster))
    assert wait_until_ready(node.bootstrap, node.running, READY_LIMIT_S, running), node.log_tail()


def wait_in_sync(cluster: DevCluster) -> None:
    """Wait until every replica of every partition is in sync."""
    _wait(cluster, lambda admin: not _behind(admin), "every replica in sync")


def wait_leaders(cluster: DevCluster, done: Callable[[Leaders], bool]) -> None:
    """Wait until the leaders of all partitions are as ``done`` says."""
    _wait(cluster, lambda admin: done(_leaders(admin)), "leaders elected")


def leaders(cluster: DevCluster) -> Leaders:
    """Return the node that leads each partition, -1 for none."""
    return _ask(cluster, _leaders)


def move_leaders(cluster: DevCluster) -> None:
    """Make the next replica of every partition its leader, as a reassignment of an operator does."""
    _ask(cluster, _move_leaders)


def _running(cluster: DevCluster) -> list[str]:
    nodes = (cluster.node(number) for number in range(1, cluster.nodes + 1))
    return [node.bootstrap for node in nodes if node.running()]


def _ask(cluster: DevCluster, ask: Callable[[KafkaAdminClient], T]) -> T:
    """Ask a node that runs; ask again while the answer is an error, as that of a node that was just killed."""
    found: list[T] = []

    def answered(admin: KafkaAdminClient) -> bool:
        found.append(ask(admin))
        return True

    _wait(cluster, answered, "an answer")
    return found[-1]


def _wait(cluster: DevCluster, done: Callable[[KafkaAdminClient], bool], what: str) -> None:
    deadline = time.monotonic() + IN_SYNC_LIMIT_S
    running = ",".join(_running(cluster))
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaError), admin_of(running) as admin:
            while time.monotonic() < deadline:
                if done(admin):
                    return
                time.sleep(POLL_S)
    raise TimeoutError(f"the cluster at {cluster.bootstrap}: not within {IN_SYNC_LIMIT_S} s: {what}")


def _partitions(admin: KafkaAdminClient) -> list[tuple[str, Mapping[str, Any]]]:
    return [(topic["name"], found) for topic in admin.describe_topics() for found in topic["partitions"]]


def _behind(admin: KafkaAdminClient) -> list[str]:
    return [
        f"{topic}-{found['partition_index']}"
        for topic, found in _partitions(admin)
        if len(found["isr_nodes"]) < len(found["replica_nodes"])
    ]


def _leaders(admin: KafkaAdminClient) -> Leaders:
    return {
        TopicPartition(topic, found["partition_index"]): int(found["leader_id"]) for topic, found in _partitions(admin)
    }


def _move_leaders(admin: KafkaAdminClient) -> None:
    turned = {TopicPartition(topic, found["partition_index"]): _turned(found) for topic, found in _partitions(admin)}
    admin.alter_partition_reassignments(turned)
    admin.elect_leaders(ElectionType.PREFERRED, raise_errors=False)


def _turned(found: Mapping[str, Any]) -> list[int]:
    """Return the replicas of a partition, the one after the present leader first."""
    replicas = list(found["replica_nodes"])
    start = replicas.index(found["leader_id"]) + 1 if found["leader_id"] in replicas else 0
    return replicas[start:] + replicas[:start]
