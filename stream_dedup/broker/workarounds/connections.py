"""Workarounds for the connections of every client: sockets that it abandons, errors and responses that it drops."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any, Self, cast
from weakref import WeakKeyDictionary, WeakSet

from kafka.errors import KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from stream_dedup.broker.workarounds.private import private


class NetClients:
    """Makes the ``kafka_client`` of a constructor in the block, and closes it if the block fails.

    A constructor that finds no broker raises and leaves its event loop to the garbage collector: a socket pair, and
    in the admin client and the consumer a thread that runs on. Every try to find a broker would leave another.
    An interrupted constructor (a signal that ends the program) is not closed: closing waits for the thread, which may
    wait for a name server.
    """

    def __init__(self) -> None:
        """Make nothing yet."""
        self._clients: list[KafkaNetClient] = []
        self.refusal: Exception | None = None
        """Why a broker refused a connection the last time (password, certificate): a constructor only says that it
        reached none."""

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Close what was made, if the block failed."""
        if isinstance(error, Exception):
            for client in self._clients:
                client.close()

    def make(self, **settings: Any) -> KafkaNetClient:  # noqa: ANN401 - the client's own settings
        """Make what the constructor calls its ``kafka_client``."""
        net = NetworkSelector(**settings)
        self._clients.append(KafkaNetClient(net, _NotingManager(net, self._note, **settings)))
        return self._clients[-1]

    def _note(self, error: Exception) -> None:
        self.refusal = refusal_in(error) or self.refusal


class _NotingManager(KafkaConnectionManager):  # type: ignore[misc] # the client has no types
    """Tells why a connection could not be made."""

    def __init__(self, net: NetworkSelector, note: Callable[[Exception], None], **settings: Any) -> None:  # noqa: ANN401
        self._note = note
        super().__init__(net, **settings)

    def get_connection(self, *args: Any, **named: Any) -> KafkaConnection:  # noqa: ANN401 - as the client's
        connection = super().get_connection(*args, **named)
        if not connection.init_future.is_done:
            connection.init_future.add_errback(self._note)
        return connection


def refusal_in(error: BaseException) -> Exception | None:
    """Return the error by which broker and client refuse each other, which may be inside of one of the client; or None.

    A TLS connection that ends in the middle means that the broker went away.
    """
    for one in (error, error.__context__, *error.args):
        if isinstance(one, SaslAuthenticationFailedError | UnsupportedSaslMechanismError):
            return cast("Exception", one)
        if isinstance(one, ssl.SSLError) and not isinstance(one, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return one
    return None


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
