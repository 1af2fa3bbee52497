"""``stream-dedup broker``: a real Kafka broker for development, in the foreground."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from stream_dedup.cli.options import WholeNumber
from stream_dedup.cli.output import write_lines
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.errors import UnavailableError

ENDS = (signal.SIGINT, signal.SIGTERM)
"""The signals that end the command."""
LOOK_S = 1.0
"""Between two looks whether the broker still runs, seconds; Ctrl-C is noticed at once."""
MAX_PORT = 65_535
MAX_NODES = 5
"""Each takes some 350 MB; more than five show nothing that three do not."""


@click.command()
@click.option(
    "--port",
    type=WholeNumber(1, MAX_PORT),
    help="Port on 127.0.0.1; a free one where not given. Several nodes have this one and the next.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps topics and records for the next time; where not given, they go with the broker.",
)
@click.option(
    "--nodes",
    type=WholeNumber(1, MAX_NODES),
    default=1,
    show_default=True,
    help="Nodes; several are a cluster that replicates every topic to all of them, with min.insync.replicas of 2.",
)
def command(port: int | None, data: Path | None, nodes: int) -> None:
    """Start a Kafka broker for development; Ctrl-C ends it.

    It is Apache Kafka 4.3.1 on 127.0.0.1: in a container where a Docker engine answers and the image is
    there or can be pulled (STREAM_DEDUP_BROKER_IMAGE names another than apache/kafka:4.3.1), else from
    Maven's jars, which needs Java 17, as several nodes always do. When it answers, its address is printed:
    of several nodes all addresses, with commas.

    One machine, no security: not for data that matters.
    """
    with find_broker(BrokerSettings(port=port, data=data, nodes=nodes), own=True) as broker, _heard() as heard:
        write_lines(broker.bootstrap)
        write_lines(f"Kafka is ready at {broker.bootstrap}, {broker.description}; Ctrl-C ends it.", err=True)
        while not select.select([heard], [], [], LOOK_S)[0]:
            if not broker.running():
                raise UnavailableError(f"the development broker ended by itself; its log ends:\n{broker.log_tail()}")


@contextmanager
def _heard() -> Iterator[socket.socket]:
    """Yield what can be read once a signal has come, whichever thread it came to; from here on none ends it."""
    heard, told = socket.socketpair()
    with heard, told:
        told.settimeout(0)
        signal.set_wakeup_fd(told.fileno())
        for number in ENDS:
            signal.signal(number, lambda *_: None)
        try:
            yield heard
        finally:
            signal.set_wakeup_fd(-1)
