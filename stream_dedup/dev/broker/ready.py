"""Checks whether a broker answers: first a request on a bare socket, then an admin request.

The bare request comes first because a Kafka client logs every failed connection, and all connections fail while a
broker starts. The admin request decides.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.broker.workarounds import close_abandoned_sockets, closed_when_not_made

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
    close_abandoned_sockets()
    with closed_when_not_made() as make:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","),
            request_timeout_ms=ADMIN_LIMIT_MS,
            bootstrap_timeout_ms=ADMIN_LIMIT_MS,
            kafka_client=make,
        )
    try:
        yield admin
    finally:
        with contextlib.suppress(KafkaError):
            admin.close()
