"""What every development broker has: interface, settings and limits, ports, a data folder, the check of its start.

Ports: the kernel gives outgoing connections ports of the ephemeral range (from 32768 on Linux). A client may take such
a port while a broker restarts, so the ports of brokers are below that range.

A data folder belongs to the caller: it is made if it is missing, and its mode and owner are never changed. The broker
runs as the caller, in a container too, so it has the caller's permissions.

Whether a broker answers is checked first by a request on a bare socket, because a Kafka client logs every failed
connection, and all connections fail while a broker starts. An admin request decides.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka.client_workarounds import construct

KAFKA_VERSION = "4.3.1"
DEFAULT_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CLUSTER_ID = "c3RyZWFtLWRlZHVwLWRldg"
"""The cluster id of every development broker, 16 bytes in URL-safe base64: a data folder fits each of them."""

BROKERS_VARIABLE = "STREAM_DEDUP_TEST_BROKERS"
"""Environment: addresses of a broker that runs already, to be used instead of one of our own."""
IMAGE_VARIABLE = "STREAM_DEDUP_BROKER_IMAGE"
"""Environment: the container image, instead of ``DEFAULT_IMAGE``."""

READY_LIMIT_S = 90
"""Start to first answer, seconds: 7 to 10 are usual on two idle cores; the rest is for busy ones."""
STOP_LIMIT_S = 30
"""Orderly stop, seconds: a broker flushes its logs in 1 to 5; after that it is killed."""
FORMAT_LIMIT_S = 60
"""Formatting the data folder, seconds: about 1 is usual."""
INSTALL_LIMIT_S = 600
"""Maven's download of 44 MB of jars, seconds: the same line, and 46 requests that may be slow."""
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
    A ``short_lived`` broker starts with less processor time, and is slower later. ``nodes`` above 1 are a cluster.
    """

    port: int | None = None
    data: Path | None = None
    heap_mib: int = HEAP_MIB
    properties: Mapping[str, str] = field(default_factory=dict)
    short_lived: bool = False
    nodes: int = 1


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


FIRST_PORT, LAST_PORT = 20_000, 32_000
TRIES = 200
"""Hardly any of the 12,000 ports are taken: so many failures mean that something else is wrong."""


def free_ports(count: int) -> list[int]:
    """Return different ports on loopback on which no process listens now.

    Raises:
        OSError: too few free ports were found.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT), TRIES):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether no process listens on a port now."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((host, port))
        except OSError:
            return False
    return True


def usable_folder(folder: Path) -> Path:
    """Return the absolute path of the folder if the caller can read and write it and its entries.

    Raises:
        UserError: the folder cannot be made, or it or an entry of it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        denied = [path for path in (folder, *folder.iterdir()) if not os.access(path, os.R_OK | os.W_OK)]
    except OSError as error:
        raise UserError(
            f"data folder {folder}: cannot be used ({error.strerror}); name one of your own with --data"
        ) from error
    if denied:
        remedy = f"name another with --data, or take it over with: chown -R {os.geteuid()} {folder}"
        raise UserError(
            f"data folder {folder}: {denied[0]} cannot be read and written by user {os.geteuid()}; {remedy}"
        )
    return folder.absolute()


class DevBroker:
    """A broker for development. Use it as a context manager, or call ``start`` and ``close``.

    The methods are the contract of every implementation; one suite of tests checks all of them.

    This one runs already, so it can be used, but not be stopped or killed; those that are started here are subclasses.
    """

    bootstrap: str
    """The address for clients, ``127.0.0.1:PORT``; of a cluster those of all nodes, with commas."""
    nodes: int = 1
    """The number of nodes that must answer before it counts as started."""
    description: str = f"named by {BROKERS_VARIABLE}"
    """For messages: ``Kafka 4.3.1 from Maven's jars``."""

    def __init__(self, bootstrap: str) -> None:
        """``bootstrap`` is its address; ``start`` finds out whether it answers."""
        self.bootstrap = bootstrap

    def start(self) -> None:
        """Start the broker and wait until it answers.

        Raises:
            UnavailableError: the broker ended, or did not answer in time; the message shows the end of its log.
        """
        self.launch()
        limit_s = READY_LIMIT_S * self.nodes  # they share the cores
        if not wait_until_ready(self.bootstrap, self.running, limit_s, self.nodes):
            what = f"did not answer within {limit_s} s" if self.running() else "ended before it was ready"
            msg = f"the development broker ({self.description}) at {self.bootstrap} {what}; its log ends:\n"
            raise UnavailableError(msg + self.log_tail())

    def restart(self) -> None:
        """Start the broker again on the same data and port; stop it first if it runs."""
        if self.running():
            self.thaw()
            self.stop()
        self.start()

    def launch(self) -> None:
        """Start the broker without waiting for an answer; nothing where it runs already."""

    def running(self) -> bool:
        """Return whether the broker runs; a frozen broker runs."""
        return True

    def stop(self) -> None:
        """Shut the broker down within ``STOP_LIMIT_S``; return when it has ended. Its data stay."""
        self._refuse("stopped")

    def kill(self) -> None:
        """Kill the broker with SIGKILL; return when it has ended. Its data stay."""
        self._refuse("killed")

    def freeze(self) -> None:
        """Stop the broker from answering; its connections stay open."""
        self._refuse("frozen")

    def thaw(self) -> None:
        """Undo ``freeze``; does nothing to a broker that is not frozen."""

    def close(self) -> None:
        """End the broker and remove everything that it made, except a data folder of the caller.

        It may be called at any time and more than once.
        """

    def log_tail(self) -> str:
        """Return the end of the broker's log."""
        return "(its log is where it runs)"

    def __enter__(self) -> Self:
        """Start the broker; remove everything that a failed start made."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self, what: str) -> None:
        raise UserError(
            f"the broker at {self.bootstrap} is {self.description} and cannot be {what} from here: unset it"
        )


POLL_S = 0.1
"""Seconds between two tries: short beside a start of 7 s, long enough to leave the cores to the broker."""
PROBE_LIMIT_S = 2.0
"""One bare request, seconds: a proxy in front of a container may accept a connection and say nothing."""
ADMIN_LIMIT_MS = 10_000
"""One admin request, milliseconds: the first one waits for the broker's registration."""

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Length, request ApiVersions, version 0, correlation 1, no client id: answered by every Kafka."""


def wait_until_ready(bootstrap: str, running: Callable[[], bool], limit_s: float, nodes: int = 1) -> bool:
    """Wait for an answer to an admin request that lists at least so many nodes.

    Returns:
        False if the broker ended (``running`` returned false) or the time ran out.
    """
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and running():
        answers = sum(_answers_probe(address) for address in bootstrap.split(","))
        if answers >= min(nodes, bootstrap.count(",") + 1) and _answers_admin(bootstrap, nodes):
            return True
        time.sleep(POLL_S)
    return False


def _answers_probe(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_LIMIT_S) as connection:
            connection.sendall(_API_VERSIONS)
            return len(connection.recv(4)) > 0
    except OSError:
        return False


def _answers_admin(bootstrap: str, nodes: int) -> bool:
    try:
        with admin_of(bootstrap) as admin:
            return len(admin.describe_cluster()["brokers"]) >= nodes
    except KafkaError:
        return False


@contextlib.contextmanager
def admin_of(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """Yield an admin client for the block; nothing of it is left, not even if a node is away."""
    limits = {"request_timeout_ms": ADMIN_LIMIT_MS, "bootstrap_timeout_ms": ADMIN_LIMIT_MS}
    admin = construct(KafkaAdminClient, {"bootstrap_servers": bootstrap.split(","), **limits}, [])
    try:
        yield admin
    finally:
        with contextlib.suppress(KafkaError):
            admin.close()
