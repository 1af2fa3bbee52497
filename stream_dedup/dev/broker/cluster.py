"""A development cluster: several nodes of Kafka on this machine, each in both roles (broker and controller).

Every topic of it has as many replicas as there are nodes, and an acknowledged record is on two of them
(``min.insync.replicas``), Kafka's own topics included. So one of three nodes may be away and nothing stops; a second
one stops every write until it is back.

Every node is a ``JvmBroker`` with a data folder and a keeper of its own; nodes are counted from 1, as in ``node.id``.
What the interface of a broker says is done to all nodes.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stream_dedup.dev.broker.base import BrokerSettings, DevBroker, free_ports, new_cluster_id
from stream_dedup.dev.broker.jvm import JvmBroker

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

    def node(self, number: int) -> JvmBroker:
        """Return one node; they count from 1."""
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
