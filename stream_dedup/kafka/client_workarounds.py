"""Workarounds for defects of kafka-python, but for those of its consumer: one function for each.

Each defect was seen with kafka-python 3.0.12 on Kafka 4.3.1, and most workarounds use names that are not public. If
such a name no longer exists, the workaround raises at once instead of silently doing nothing. pyproject.toml admits
only the version that these were run against; ``tests/kafka/test_workarounds.py`` says for each how to find out whether
a newer version still needs it.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakKeyDictionary, WeakSet

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoError,
    NotControllerError,
    RetriableError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.structs import ConsumerGroupMetadata


def private(owner: object, *path: str) -> Any:  # noqa: ANN401 - the client is untyped
    """Return the attribute behind names that are not public.

    Raises:
        UserError: a name does not exist.
    """
    for name in path:
        if not hasattr(owner, name):
            raise UserError(
                f"the installed kafka-python has no {_name_of(owner)}.{name}, which this program relies on: "
                "install the version that its pyproject.toml names"
            )
        owner = getattr(owner, name)
    return owner


def _name_of(owner: object) -> str:
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


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


RAISED_BARE = {
    "Failed to find active controller id!": NotControllerError,
    "Transport closed for writes": KafkaConnectionError,
}
"""What the client raises as a ``RuntimeError`` though it passes: while the controller moves, and on a connection that
has just been closed."""


def forget_after_errors(admin: KafkaAdminClient) -> None:
    """After a request that failed, let the client ask anew for coordinators, the controller, and the brokers.

    It keeps its first answers: a coordinator and a controller for its life, the brokers for five minutes. Once such a
    broker is away, or another one has its part, every request to it fails, though the error seems to pass: a client
    made in the seconds before a coordinator is replaced is of no use until it is made anew. A broker that it does not
    know, and a partition that has no leader just now, it reports by an error that does not seem to pass, and some
    errors that pass by none of its own (``RAISED_BARE``).
    """
    manager = private(admin, "_manager")
    cluster, run, connection = (private(manager, name) for name in ("cluster", "run", "get_connection"))
    coordinators = private(cluster, "_coordinators")
    private(admin, "_controller_id")

    def run_or_forget(ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401 - the client is untyped
        try:
            return run_or_fail(ask, *args)
        except KafkaError:
            coordinators.clear()
            admin._controller_id = None  # noqa: SLF001 - no public place to forget it
            raise

    def run_or_fail(ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401 - the same
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
            cluster.request_update()
            raise NodeNotReadyError(*error.args) from error

    manager.run, manager.get_connection = run_or_forget, connection_of_known


def describe_group(admin: KafkaAdminClient, group: str) -> Mapping[str, Any]:
    """Describe a group; one that is not there has no members.

    ``describe_groups`` returns the error of a group as a text, beside no members.

    Raises:
        KafkaError: the error of the group.
    """
    coordinator, request, described = (
        private(admin, name)
        for name in ("_find_coordinator_id", "_describe_groups_request", "_describe_groups_process_response")
    )

    send = private(admin, "_manager", "send")

    async def describe() -> Mapping[str, Any]:
        response = await send(request([group]), node_id=await coordinator(group))
        error = for_code(response.groups[0].error_code)
        if error not in {NoError, GroupIdNotFoundError}:
            raise error(f"group {group}: {error.__name__}")
        found: Mapping[str, Any] = described(response)[group]
        return found

    return private(admin, "_manager", "run")(describe)  # type: ignore[no-any-return] # the client is untyped


def alter_offsets(
    admin: KafkaAdminClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Mapping[TopicPartition, type[KafkaError]]:
    """Set committed offsets; return the error of each partition, ``NoError`` where there is none.

    ``alter_group_offsets`` returns the errors that pass, too.

    Raises:
        KafkaError: an error that passes.
    """
    alter = private(admin, "_async_alter_group_offsets")

    async def alter_or_raise() -> Mapping[TopicPartition, type[KafkaError]]:
        answer: Mapping[TopicPartition, type[KafkaError]] = await alter(group, offsets)
        passing = next((error for error in answer.values() if issubclass(error, RetriableError)), None)
        if passing is not None:
            raise passing(f"offsets of group {group}: {passing.__name__}")
        return answer

    return private(admin, "_manager", "run")(alter_or_raise)  # type: ignore[no-any-return] # the client is untyped


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
    request, coordinator, answers = (
        private(admin, name)
        for name in ("_alter_group_offsets_request", "_find_coordinator_id", "_alter_group_offsets_process_response")
    )
    run, send, call_soon, wait_for = (
        private(admin, "_manager", one) for one in ("run", "send", "call_soon", "wait_for")
    )
    deadline = time.monotonic() + limit_ms / 1_000

    async def commit() -> None:
        asked = request(member.group_id, offsets)
        asked.generation_id_or_member_epoch = member.generation_id
        asked.member_id, asked.group_instance_id = member.member_id, member.group_instance_id
        node = await coordinator(member.group_id)
        if time.monotonic() > deadline:
            raise KafkaTimeoutError
        for at, error in answers(await send(asked, node_id=node)).items():
            if error is not NoError:
                raise error(f"{at.topic}-{at.partition}: {error.__name__}")

    run(wait_for, call_soon(commit), limit_ms)


def describe_topic_settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return every setting of each topic, defaults included.

    ``describe_configs`` drops the error of each topic and returns no settings for it, whether the right is missing or
    the broker does not know a new topic yet.

    Raises:
        KafkaError: the error of a topic.
    """
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    request = private(admin, "_describe_configs_request")(resources)
    response = admin._manager.run(private(admin, "_manager", "send"), request)  # noqa: SLF001
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
    client = private(producer, "_sender", "_client")
    wait = private(client, "await_ready")

    def await_ready(node_id: int | str, timeout_ms: float) -> bool:
        try:
            return bool(wait(node_id, timeout_ms=timeout_ms))
        except KafkaError as error:
            log.debug("node %s: %r", node_id, error)
            return False

    client.await_ready = await_ready


def end_sender(producer: KafkaProducer) -> None:
    """End the thread of a producer that gave up closing because something was left to send."""
    private(producer, "_sender", "force_close")()


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
    result = private(producer, "_transaction_manager", "send_offsets_to_transaction")(offsets, membership)
    private(producer, "_sender", "wakeup")()
    if not result.wait(timeout_ms=limit_s * 1_000):
        raise KafkaTimeoutError(f"the group did not take the offsets within {limit_s:g} s")


def drop_refused_offsets(producer: KafkaProducer) -> None:
    """Forget offsets that the group refused: the client would commit them with the next transaction."""
    private(producer, "_transaction_manager", "_pending_txn_offset_commits").clear()


def error_of_producer(producer: KafkaProducer) -> KafkaError | None:
    """Return the error that led to the producer's error state; the client only repeats that there was one."""
    error: KafkaError | None = private(producer, "_transaction_manager", "last_error")
    return error


def initialise_producer(producer: KafkaProducer, limit_s: float) -> None:
    """Initialise the transactions, within a limit of its own: the client's is for every call.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    limit_ms = producer.config["max_block_ms"]
    producer.config["max_block_ms"] = int(limit_s * 1_000)
    try:
        producer.init_transactions()
    finally:
        producer.config["max_block_ms"] = limit_ms
