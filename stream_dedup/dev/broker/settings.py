"""What a development broker is started with: settings, limits, and Kafka's own properties.

This file holds every limit of the development broker, with its unit and the reason for the number.
"""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

KAFKA_VERSION = "4.3.1"
DEFAULT_IMAGE = f"apache/kafka:{KAFKA_VERSION}"

BROKERS_VARIABLE = "STREAM_DEDUP_TEST_BROKERS"
"""Environment: addresses of a broker that runs already, to be used instead of one of our own."""
IMAGE_VARIABLE = "STREAM_DEDUP_BROKER_IMAGE"
"""Environment: the container image, instead of ``DEFAULT_IMAGE``."""

READY_LIMIT_S = 90
"""Start to first answer, seconds: 7 to 10 are usual on two idle cores; the rest is for busy ones."""
IN_SYNC_LIMIT_S = 60
"""A node that is back until its replicas have caught up, seconds: 1 to 5 are usual after a short absence."""
STOP_LIMIT_S = 30
"""Orderly stop, seconds: a broker flushes its logs in 1 to 5; after that it is killed."""
FORMAT_LIMIT_S = 60
"""Formatting the data folder, seconds: about 1 is usual."""
PULL_LIMIT_S = 300
"""Pulling the image, seconds: about 200 MB over a line of 10 Mbit/s."""
INSTALL_LIMIT_S = 600
"""Maven's download of 44 MB of jars, seconds: the same line, and 46 requests that may be slow."""
ENGINE_LIMIT_S = 10
"""One answer of the Docker engine, seconds: local, so milliseconds are usual."""
HEAP_MIB = 512
"""Java heap, MiB: enough for hundreds of partitions; 350 to 460 MB resident were seen."""
SMALL_HEAP_MIB = 256
"""Java heap of a broker that one test has for itself."""
LOG_TAIL_LINES = 30
"""Lines of the broker's log that an error shows: one Java stack with its cause."""


@dataclass(frozen=True)
class BrokerSettings:
    """What the caller chooses; the rest is the same for every development broker.

    ``port`` on loopback, None for a free one. ``data`` is the folder that keeps topics and records after the
    end; None for a temporary one. ``properties`` are added to Kafka's, by Kafka's names, and win over ours.
    A ``short_lived`` broker starts with less processor time, and is slower later. ``nodes`` above 1 are a cluster;
    ``cluster_id`` is the one that a node of it is formatted with, None for an own one.
    """

    port: int | None = None
    data: Path | None = None
    heap_mib: int = HEAP_MIB
    properties: Mapping[str, str] = field(default_factory=dict)
    short_lived: bool = False
    nodes: int = 1
    cluster_id: str | None = None


def new_cluster_id() -> str:
    """Return a cluster id in Kafka's form: a UUID in URL-safe base64, without padding."""
    while True:
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not name.startswith("-"):  # Kafka's tools would take it for an option
            return name


def server_properties(listen: str, port: int, controller_port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Return Kafka's properties for one node in both roles.

    ``listen`` is the address inside (all interfaces in a container); clients always connect to 127.0.0.1.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://{listen}:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        # One node cannot replicate.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Fewer partitions of its own: it starts and recovers faster than with 50 each.
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        # Groups form at once, and tests may let a member be lost within a second.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # A killed broker that starts again is let in when its old session has expired: 12 s with the default of 9.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # How soon a transaction past its time-out is aborted stays at the default of 10 s. Within those that a broker
        # that was killed needs to be let in again, Kafka 4.3.1 finds no leader to send the abort to, and lets it be:
        # the transaction then hangs in its topics, and its offsets stay pending, for ever.
        # A misspelt topic is an error, as it should be in production.
        "auto.create.topics.enable": "false",
        # The cleaner takes its default of 128 MiB from the heap at once, needed or not.
        "log.cleaner.dedupe.buffer.size": str(16 * 2**20),
        **extra,
    }
