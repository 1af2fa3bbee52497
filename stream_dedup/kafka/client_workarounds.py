"""Workarounds for defects of kafka-python, but for those of its consumer: one function for each.

Each defect was seen with kafka-python 3.0.12 on Kafka 4.3.1, and most workarounds use names that are not public. So
no client of another version is made (``check_version``); ``tests/kafka/test_workarounds.py`` says for each workaround
how to find out whether a newer version still needs it.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import kafka
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoError,
    NotControllerError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from stream_dedup.errors import UserError
from stream_dedup.kafka.consumer_workarounds import read_any_header_name, take_finished_joins

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.structs import ConsumerGroupMetadata

T = TypeVar("T")

VERSION = "3.0.12"
"""The version of kafka-python that the workarounds were run against."""


def check_version() -> None:
    """Refuse another kafka-python than the one whose inside is known.

    Raises:
        UserError: names the version to install.
    """
    if kafka.__version__ != VERSION:
        raise UserError(
            f"kafka-python {kafka.__version__} is installed, but this program relies on the inside of {VERSION}: "
            f"pip install 'kafka-python[crc32c,lz4,snappy,zstd]=={VERSION}'"
        )


def construct(kind: Callable[..., T], settings: dict[str, Any], refusals: list[Exception]) -> T:
    """Call the constructor of a client, on a client library that is patched; close what it has made if it fails.

    A constructor that finds no broker raises and leaves its event loop to the garbage collector: a socket pair, and
    in the admin client and the consumer a thread that runs on. Every try to find a broker would leave another.
    An interrupted constructor (a signal that ends the program) is not closed: closing waits for the thread, which may
    wait for a name server.

    It only says that it reached no broker. Why a broker refused a connection the last time (password, certificate) is
    in ``refusals`` then.

    Raises:
        UserError: another kafka-python is installed than the one whose inside is known.
    """
    check_version()
    close_abandoned_sockets()
    deliver_last_response()
    take_finished_joins()
    read_any_header_name()
    made: list[KafkaNetClient] = []

    def note(error: Exception) -> None:
        if (refusal := refusal_in(error)) is not None:
            refusals[:] = [refusal]

    def make(**own: Any) -> KafkaNetClient:  # noqa: ANN401 - the client's own settings
        client = KafkaNetClient(**own)
        made.append(client)
        connect = client._manager.get_connection

        def noting_connect(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - as the client's
            connection = connect(*args, **named)
            if not connection.init_future.is_done:
                connection.init_future.add_errback(note)
            return connection

        client._manager.get_connection = noting_connect
        return client

    try:
        return kind(**settings, kafka_client=make)
    except Exception:
        for client in made:
            client.close()
        raise


_OTHER_ERROR = re.compile(r"(?!SaslAuthenticationFailedError: )\w+Error: ")
"""How a refusal begins that is none: the broker answered with another error."""


def refusal_in(error: BaseException) -> Exception | None:
    """Return the error by which broker and client refuse each other, which may be inside of one of the client; or None.

    A TLS connection that ends in the middle means that the broker went away. The client gives any error of a SASL
    request the class of a refusal, with the class of the error before its text.
    """
    for one in (error, error.__context__, *error.args):
        if isinstance(one, SaslAuthenticationFailedError | UnsupportedSaslMechanismError):
            return None if _OTHER_ERROR.match(str(next(iter(one.args), ""))) else cast("Exception", one)
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
    connect = KafkaNetSocket.sock_connect

    async def closing_connect(self: KafkaNetSocket, net: Any, sock: socket.socket, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            return await connect(self, net, sock, *args, **named)
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = closing_connect


def _close_sockets_without_handshake() -> None:
    handshake, close = KafkaSSLTransport.handshake, KafkaSSLTransport._close

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
    make, close_transport, close_loop = KafkaTCPTransport.__init__, KafkaTCPTransport._close, NetworkSelector.close

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
    receive = transport._sock_recv

    def receive_data_first(self: KafkaTCPTransport) -> tuple[bytes, KafkaError | None]:
        data, error = receive(self)
        return data, None if data else error

    transport._sock_recv = receive_data_first


RAISED_BARE = {
    "Failed to find active controller id!": NotControllerError,
    "Transport closed for writes": KafkaConnectionError,
}
"""What the client raises as a ``RuntimeError`` though it passes: while the controller moves, and on a connection that
has just been closed."""


def ask_anew(admin: KafkaAdminClient) -> None:
    """Let the client ask anew for coordinators and the controller with each request, and for brokers it does not know.

    It keeps its first answers: a coordinator and a controller for its life. Once such a broker is away, or another one
    has its part, every request to it fails, though the error seems to pass: a client made in the seconds before a
    coordinator is replaced is of no use until it is made anew. A broker that it does not know, and a partition that has
    no leader just now, it reports by an error that does not seem to pass, and some errors that pass by none of its own
    (``RAISED_BARE``).
    """
    manager = admin._manager
    run, connection = manager.run, manager.get_connection

    def run_anew(ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401 - the client is untyped
        manager.cluster._coordinators.clear()
        admin._controller_id = None
        try:
            return run(ask, *args)
        except RuntimeError as error:
            kind = RAISED_BARE.get(str(error))
            if kind is None:
                raise
            raise kind(str(error)) from error

    def connection_of_known(node_id: int | None, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - the same
        try:
            return connection(node_id, *args, **named)
        except UnknownBrokerIdError as error:
            manager.cluster.request_update()
            raise NodeNotReadyError(*error.args) from error

    manager.run, manager.get_connection = run_anew, connection_of_known


def stable_offset(admin: KafkaAdminClient, group: str, partition: TopicPartition, limit_ms: float) -> OffsetAndMetadata:
    """Return a committed offset, below 0 where there is none; one of an open transaction is an error that passes.

    ``list_group_offsets`` returns the offset before the transaction. A consumer would wait for its end, and answers
    after a request whose time ran out with the late response to that one.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    ((_, request),) = admin._list_group_offsets_requests({group: [partition]})
    request.require_stable = True

    async def fetch() -> OffsetAndMetadata:
        response = await admin._manager.send(request, node_id=await admin._find_coordinator_id(group))
        return admin._list_group_offsets_process_response(response, group)[group][partition]

    return _within(admin, limit_ms, fetch)


def _within(admin: KafkaAdminClient, limit_ms: float, ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    manager = admin._manager
    manager.cluster._coordinators.clear()  # as ``ask_anew``, before the loop of the client begins with it
    return manager.run(manager.wait_for, manager.call_soon(ask), limit_ms)


def commit_for_member(
    admin: KafkaAdminClient,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    member: ConsumerGroupMetadata,
    limit_ms: int,
) -> None:
    """Commit offsets under the membership of a consumer; ``alter_group_offsets`` has no membership.

    One request, which is not sent once the limit is over: if it is late, the broker still refuses it when the group has
    gone on.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    deadline = time.monotonic() + limit_ms / 1_000

    async def commit() -> None:
        request = admin._alter_group_offsets_request(member.group_id, offsets)
        request.generation_id_or_member_epoch = member.generation_id
        request.member_id, request.group_instance_id = member.member_id, member.group_instance_id
        node = await admin._find_coordinator_id(member.group_id)
        if time.monotonic() > deadline:
            raise KafkaTimeoutError
        response = await admin._manager.send(request, node_id=node)
        for at, error in admin._alter_group_offsets_process_response(response).items():
            if error is not NoError:
                raise error(f"{at.topic}-{at.partition}: {error.__name__}")

    _within(admin, limit_ms, commit)


def describe_topic_settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return every setting of each topic, defaults included.

    ``describe_configs`` drops the error of each topic and returns no settings for it, whether the right is missing or
    the broker does not know a new topic yet.

    Raises:
        KafkaError: the error of a topic.
    """
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    response = admin._manager.run(admin._manager.send, admin._describe_configs_request(resources))
    for result in response.results:
        error = for_code(result.error_code)
        if error is not NoError:
            raise error(f"topic {result.resource_name}: {error.__name__}")
    return {result.resource_name: {one.name: one.value for one in result.configs} for result in response.results}


log = logging.getLogger(__name__)


def keep_transaction_requests(producer: KafkaProducer) -> None:
    """Keep the requests of a transaction from being lost while its coordinator is away.

    The client takes a request from its queue and waits for a connection to the coordinator. If there is none yet, it
    puts the request back; but if the wait fails with an error (connection refused), it drops the request, and a commit
    waits for the answer to a request that was never sent. This makes a failed wait return "not yet".
    """
    client = producer._sender._client
    wait = client.await_ready

    def await_ready(node_id: int | str, timeout_ms: float) -> bool:
        try:
            return bool(wait(node_id, timeout_ms=timeout_ms))
        except KafkaError as error:
            log.debug("node %s: %r", node_id, error)
            return False

    client.await_ready = await_ready


def end_sender(producer: KafkaProducer) -> None:
    """End the thread of a producer that gave up closing because something was left to send."""
    producer._sender.force_close()


def send_offsets_within(
    producer: KafkaProducer,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    membership: ConsumerGroupMetadata,
    limit_s: float,
) -> None:
    """Add offsets to the transaction, within a limit: the client has none, and tries for ever where a topic is gone.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    result = producer._transaction_manager.send_offsets_to_transaction(offsets, membership)
    producer._sender.wakeup()
    if not result.wait(timeout_ms=limit_s * 1_000):
        raise KafkaTimeoutError(f"the group did not take the offsets within {limit_s:g} s")


def drop_refused_offsets(producer: KafkaProducer) -> None:
    """Forget offsets that the group refused: the client would commit them with the next transaction."""
    producer._transaction_manager._pending_txn_offset_commits.clear()


def error_of_producer(producer: KafkaProducer) -> KafkaError | None:
    """Return the error that led to the producer's error state; the client only repeats that there was one."""
    error: KafkaError | None = producer._transaction_manager.last_error
    return error
