"""Workarounds for the connections of every client: sockets that it abandons, responses that it drops."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from stream_dedup.broker.workarounds.private import private


@contextmanager
def closed_when_not_made() -> Iterator[Callable[..., KafkaNetClient]]:
    """Yield the ``kafka_client`` for a constructor in the block; close it if the constructor fails.

    A constructor that finds no broker raises and leaves its event loop to the garbage collector: a socket pair, and
    in the admin client and the consumer a thread that runs on. Every try to find a broker would leave another.
    An interrupted constructor (a signal that ends the program) is not closed: closing waits for the thread, which may
    wait for a name server.
    """
    made: list[KafkaNetClient] = []

    def make(**settings: Any) -> KafkaNetClient:  # noqa: ANN401 - the client's own settings
        made.append(KafkaNetClient(**settings))
        return made[-1]

    try:
        yield make
    except Exception:
        for client in made:
            client.close()
        raise


@cache
def close_abandoned_sockets() -> None:
    """Close the sockets that the client leaves to the garbage collector; done once for the process.

    The client abandons the socket of a connection that fails while it is made (connecting is refused or given up, the
    TLS handshake fails), and of a connection that is closed with unsent data. Its classes are changed, because a
    constructor connects before there is an object to change.
    """
    _close_refused_sockets()
    _close_sockets_without_handshake()
    _close_sockets_with_unsent_data()


def _close_refused_sockets() -> None:
    connect = private(KafkaNetSocket, "sock_connect")

    async def closing_connect(self: KafkaNetSocket, net: Any, sock: socket.socket, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            return await connect(self, net, sock, *args, **named)
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = closing_connect


def _close_sockets_without_handshake() -> None:
    handshake = private(KafkaSSLTransport, "handshake")
    close = private(KafkaSSLTransport, "_close")

    async def closing_handshake(self: KafkaSSLTransport) -> None:
        try:
            await handshake(self)
        except BaseException:
            close(self)
            raise

    KafkaSSLTransport.handshake = closing_handshake


def _close_sockets_with_unsent_data() -> None:
    """Close, with the event loop of a client, every connection that was made on it."""
    transports: WeakKeyDictionary[NetworkSelector, WeakSet[KafkaTCPTransport]] = WeakKeyDictionary()
    make = private(KafkaTCPTransport, "__init__")
    close_transport = private(KafkaTCPTransport, "_close")
    close_loop = private(NetworkSelector, "close")

    def noting_make(self: KafkaTCPTransport, net: NetworkSelector, *args: Any, **named: Any) -> None:  # noqa: ANN401
        make(self, net, *args, **named)
        transports.setdefault(net, WeakSet()).add(self)

    def closing_close(self: NetworkSelector) -> None:
        for transport in list(transports.pop(self, ())):
            close_transport(transport)
        close_loop(self)

    KafkaTCPTransport.__init__ = noting_make
    NetworkSelector.close = closing_close


@cache
def deliver_last_response() -> None:
    """Deliver what a broker sends just before it closes the connection; done once for the process.

    The client reads until the connection has no more data. If it also reads the end of the connection, it drops the
    data: a broker that refuses a password and closes the connection then looks like one that is away. This leaves the
    end of the connection, or the error, to the next read, which finds it again.
    """
    for transport in (KafkaTCPTransport, KafkaSSLTransport):
        _keep_data_before_end(transport)


def _keep_data_before_end(transport: type[KafkaTCPTransport]) -> None:
    receive = private(transport, "_sock_recv")

    def receive_data_first(self: KafkaTCPTransport) -> tuple[bytes, KafkaError | None]:
        data, error = receive(self)
        return data, None if data else error

    transport._sock_recv = receive_data_first  # noqa: SLF001 - no public place to change this
