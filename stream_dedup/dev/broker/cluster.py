"""A development cluster: several nodes of Kafka on this machine, each in both roles (broker and controller).

Every topic of it has as many replicas as there are nodes, and an acknowledged record is on two of them
(``min.insync.replicas``), Kafka's own topics included. So one of three nodes may be away and nothing stops; a second
one stops every write until it is back.

Every node is a ``JvmBroker`` with a data folder and a keeper of its own; nodes are counted from 1, as in ``node.id``.
What the interface of a broker says is done to all nodes; ``*_node`` do it to one.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType

from stream_dedup.dev.broker.base import (
    IN_SYNC_LIMIT_S,
    POLL_S,
    READY_LIMIT_S,
    BrokerSettings,
    DevBroker,
    admin_of,
    free_ports,
    new_cluster_id,
    wait_until_ready,
)
from stream_dedup.dev.broker.jvm import JvmBroker
from stream_dedup.errors import UnavailableError

T = TypeVar("T")
Leaders = Mapping[TopicPartition, int]
"""The node that leads each partition, -1 for none."""

REPLICAS_IN_SYNC = 2
"""Replicas that have a record before it is acknowledged: with three nodes one may be away."""


class DevCluster(DevBroker):
    """Nodes of Kafka that form one cluster; the constructor makes their folders and keepers, and starts nothing.

    With ``settings.port`` the nodes have that port and the next ones.
    """

    def __init__(self, settings: BrokerSettings, java: str, jars: Path) -> None:
        self.nodes = settings.nodes
        free = free_ports(2 * self.nodes)
        controllers, chosen = free[: self.nodes], free[self.nodes :]
        ports = [settings.port + number for number in range(self.nodes)] if settings.port else chosen
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        cluster_id = new_cluster_id()
        self._nodes: list[JvmBroker] = []
        for number, (port, controller) in enumerate(zip(ports, controllers, strict=True), 1):
            listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"}
            own = {"node.id": str(number), "controller.quorum.voters": voters, **listeners}
            properties = {**_replicated(self.nodes), **own, **settings.properties}
            data = None if settings.data is None else settings.data / f"node-{number}"
            node = replace(settings, port=port, data=data, properties=properties, cluster_id=cluster_id)
            self._nodes.append(JvmBroker(node, java, jars))
        self.bootstrap = ",".join(node.bootstrap for node in self._nodes)
        self.description = f"{self.nodes} nodes, each {self._nodes[0].description}"

    def launch(self) -> None:
        """Start every node that does not run."""
        for node in self._nodes:
            if not node.running():
                node.launch()

    def running(self) -> bool:
        """Return whether every node runs."""
        return all(node.running() for node in self._nodes)

    def restart(self) -> None:
        """Start all nodes again on the same data and ports; stop those that run."""
        self.thaw()
        self.stop()
        self.start()

    def stop(self) -> None:
        """Shut every node down, one after the other."""
        self._each(JvmBroker.stop)

    def kill(self) -> None:
        """Kill every node with SIGKILL."""
        self._each(JvmBroker.kill)

    def freeze(self) -> None:
        """Stop every node with SIGSTOP."""
        self._each(JvmBroker.freeze)

    def thaw(self) -> None:
        """Continue every node with SIGCONT."""
        self._each(JvmBroker.thaw)

    def close(self) -> None:
        """End every node and remove everything that they made, except a data folder of the caller."""
        self._each(JvmBroker.close)

    def log_tail(self) -> str:
        """Return the end of the log of every node that does not run, else of all."""
        ended = [node for node in self._nodes if not node.running()] or self._nodes
        return "\n".join(node.log_tail() for node in ended)

    def kill_node(self, number: int) -> None:
        """Kill one node with SIGKILL; keep its data."""
        self._node(number).kill()

    def stop_node(self, number: int) -> None:
        """Shut one node down; keep its data."""
        self._node(number).stop()

    def start_node(self, number: int) -> None:
        """Start one node again on its data, and wait until it answers and the cluster lists all that run.

        Raises:
            UnavailableError: it ended, or did not answer in time; the message shows the end of its log.
        """
        node = self._node(number)
        node.launch()
        running = sum(other.running() for other in self._nodes)
        if not wait_until_ready(node.bootstrap, node.running, READY_LIMIT_S, running):
            msg = f"node {number} at {node.bootstrap} did not join its cluster; its log ends:\n{node.log_tail()}"
            raise UnavailableError(msg)

    def wait_in_sync(self) -> None:
        """Wait until every replica of every partition is in sync.

        Raises:
            UnavailableError: one is not within ``IN_SYNC_LIMIT_S``.
        """
        self._wait(lambda admin: not _behind(admin), "every replica in sync")

    def wait_leaders(self, done: Callable[[Leaders], bool]) -> None:
        """Wait until the leaders of all partitions are as ``done`` says.

        Raises:
            UnavailableError: they are not within ``IN_SYNC_LIMIT_S``.
        """
        self._wait(lambda admin: done(_leaders(admin)), "leaders elected")

    def leaders(self) -> Leaders:
        """Return the node that leads each partition, -1 for none."""
        return self._ask(_leaders)

    def move_leaders(self) -> None:
        """Make the next replica of every partition its leader, as a reassignment of an operator does."""
        self._ask(_move_leaders)

    def _ask(self, ask: Callable[[KafkaAdminClient], T]) -> T:
        """Ask a node that runs; ask again while the answer is an error, as that of a node that was just killed."""
        found: list[T] = []

        def answered(admin: KafkaAdminClient) -> bool:
            found.append(ask(admin))
            return True

        self._wait(answered, "an answer")
        return found[-1]

    def _wait(self, done: Callable[[KafkaAdminClient], bool], what: str) -> None:
        deadline = time.monotonic() + IN_SYNC_LIMIT_S
        running = ",".join(node.bootstrap for node in self._nodes if node.running())
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaError), admin_of(running) as admin:
                while time.monotonic() < deadline:
                    if done(admin):
                        return
                    time.sleep(POLL_S)
        msg = f"the cluster at {self.bootstrap}: not within {IN_SYNC_LIMIT_S} s: {what}"
        raise UnavailableError(msg)

    def _node(self, number: int) -> JvmBroker:
        return self._nodes[number - 1]

    def _each(self, act: Callable[[JvmBroker], None]) -> None:
        for node in self._nodes:
            act(node)


def _replicated(nodes: int) -> dict[str, str]:
    """Return the properties that replicate every topic to all nodes."""
    replicas, in_sync = str(nodes), str(min(REPLICAS_IN_SYNC, nodes))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # On one busy machine a controller may not get a core for the 1 and 2 s of the defaults.
        "controller.quorum.election.timeout.ms": "3000",
        "controller.quorum.fetch.timeout.ms": "6000",
    }


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
