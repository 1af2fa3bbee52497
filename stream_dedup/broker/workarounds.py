"""Workarounds for defects of kafka-python: one function for each, and no workaround anywhere else.

Each defect was seen with kafka-python 3.0.12 on Kafka 4.3.1, and most workarounds use names that are not public. If
such a name no longer exists, the workaround raises at once instead of silently doing nothing. pyproject.toml admits
only the version that these were run against; ``tests/broker/test_workarounds.py`` says for each how to find out whether
a newer version still needs it.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from kafka import OffsetAndMetadata
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    NoError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.record.default_records import DefaultRecordBatch

from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.structs import ConsumerGroupMetadata

log = logging.getLogger(__name__)


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
    connect = _private(KafkaNetSocket, "sock_connect")

    async def closing_connect(self: KafkaNetSocket, net: Any, sock: socket.socket, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        try:
            return await connect(self, net, sock, *args, **named)
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = closing_connect


def _close_sockets_without_handshake() -> None:
    handshake = _private(KafkaSSLTransport, "handshake")
    close = _private(KafkaSSLTransport, "_close")

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
    make = _private(KafkaTCPTransport, "__init__")
    close_transport = _private(KafkaTCPTransport, "_close")
    close_loop = _private(NetworkSelector, "close")

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
    receive = _private(transport, "_sock_recv")

    def receive_data_first(self: KafkaTCPTransport) -> tuple[bytes, KafkaError | None]:
        data, error = receive(self)
        return data, None if data else error

    transport._sock_recv = receive_data_first  # noqa: SLF001 - no public place to change this


class RawName(str):
    """A header's name that is not UTF-8: text with escapes to read, and the bytes that came when it is sent."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> RawName:
        """Make a name of these bytes."""
        name = cls(raw, "utf-8", "backslashreplace")
        name.raw = raw
        return name

    def encode(self, *_: object) -> bytes:
        """Return the bytes that came, in whatever encoding."""
        return self.raw


class _NameBuffer(bytes):
    """Bytes whose parts are decoded to names."""

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - as that of bytes
        part = super().__getitem__(at)
        return _NameBuffer(part) if isinstance(part, bytes) else part

    def decode(self, *_: object) -> str:
        try:
            return super().decode()
        except UnicodeDecodeError:
            return RawName.of(bytes(self))


@cache
def read_any_header_name() -> None:
    """Read records whose header names are not UTF-8; done once for the process.

    Neither the broker nor every client requires it, and this client calls the whole batch corrupt: one record of such a
    producer would end every consumer. A batch with such a name is read again, in a buffer that decodes any name.
    """
    read = _private(DefaultRecordBatch, "_read_msg")

    def read_leniently(self: DefaultRecordBatch) -> Any:  # noqa: ANN401 - the client's record
        try:
            return read(self)
        except UnicodeDecodeError:
            self._buffer = _NameBuffer(self._buffer)
            return read(self)

    DefaultRecordBatch._read_msg = read_leniently  # noqa: SLF001 - no public place to change this


def keep_transaction_requests(producer: KafkaProducer) -> None:
    """Keep the requests of a transaction from being lost while its coordinator is away.

    The client takes a request from its queue and waits for a connection to the coordinator. If there is none yet, it
    puts the request back; but if the wait fails with an error (connection refused), it drops the request, and a commit
    waits for the answer to a request that was never sent. This makes a failed wait return "not yet".
    """
    client = _private(producer, "_sender", "_client")
    wait = _private(client, "await_ready")

    def await_ready(node_id: int | str, timeout_ms: float) -> bool:
        try:
            return bool(wait(node_id, timeout_ms=timeout_ms))
        except KafkaError as error:
            log.debug("node %s: %r", node_id, error)
            return False

    client.await_ready = await_ready


def end_sender(producer: KafkaProducer) -> None:
    """End the thread of a producer that gave up closing because something was left to send."""
    _private(producer, "_sender", "force_close")()


class _UntakenJoin:
    """A join of the client's, never done in its eyes: it takes the outcome, and then forgets the join by itself."""

    is_done = False

    def __init__(self, join: Any) -> None:  # noqa: ANN401 - the client is untyped
        self.add_callback = join.add_callback
        self.add_errback = join.add_errback


@cache
def take_finished_joins() -> None:
    """Let the client take the outcome of a join that ends between two polls; done once for the process.

    A poll whose time runs out leaves the join to go on. If it has ended when the next poll looks, the client ignores
    the outcome and joins anew, which makes every other member join again: with short polls on a busy machine, members
    rejoin one after the other for minutes. An unfinished join is waited for, so this shows every join as unfinished.
    """

    def get(self: BaseCoordinator) -> _UntakenJoin | None:
        if "_join_task" not in vars(self):
            raise AttributeError(name="_join_task", obj=self)
        join: _UntakenJoin | None = vars(self)["_join_task"]
        return join

    def replace(self: BaseCoordinator, join: Any) -> None:  # noqa: ANN401 - the client is untyped
        vars(self)["_join_task"] = None if join is None else _UntakenJoin(join)

    BaseCoordinator._join_task = property(get, replace)  # noqa: SLF001 - no public place to change this


def keep_rejoining(consumer: KafkaConsumer) -> None:
    """Complete a rejoin that has begun.

    The client rejoins after the metadata of the topics has changed, but clears the reason once it has computed an
    assignment: if the time of a poll runs out just then, the join is never completed, without an error. The client does
    not clear the flag that this sets.
    """
    _private(consumer, "_coordinator", "_join_task")
    if _private(consumer, "_coordinator", "rejoining"):
        _private(consumer, "_coordinator", "request_rejoin")()


def refuse_unauthorized_topics(consumer: KafkaConsumer) -> None:
    """Raise for topics that the client may not describe: it leaves them out, and is given no partition of them.

    Raises:
        TopicAuthorizationFailedError: names the topics.
    """
    refused = _private(consumer, "_cluster", "unauthorized_topics") & (consumer.subscription() or set())
    if refused:
        raise TopicAuthorizationFailedError(", ".join(sorted(refused)))


def drop_fetched(consumer: KafkaConsumer) -> None:
    """Drop the records that the client has fetched and not returned, and the errors; the caller seeks every partition.

    The client sets the records of a paused partition aside, returns them later only in some states, and fetches no more
    of that partition: it would stay silent, without an error. It keeps an error for the next poll, too, though it may
    be about a position that was left.
    """
    fetcher = _private(consumer, "_fetcher")
    for name in ("_next_partition_records", "_next_in_line_exception_metadata", "_cached_log_truncation"):
        _private(fetcher, name)
        setattr(fetcher, name, None)
    _private(fetcher, "_paused_partition_records").clear()
    _private(fetcher, "_paused_completed_fetches").clear()


def drop_fetched_of(consumer: KafkaConsumer, partition: TopicPartition) -> None:
    """Drop what was fetched of one paused partition; the caller seeks it afterwards.

    A fetch that was under way when the partition was paused is set aside when it ends. The client would return its
    records if the new position is the old one, even where the topic was made again in between.
    """
    fetcher = _private(consumer, "_fetcher")
    _private(fetcher, "_paused_partition_records").pop(partition, None)
    _private(fetcher, "_paused_completed_fetches").pop(partition, None)
    completed = _private(fetcher, "_completed_fetches")
    for fetch in [one for one in completed if one.topic_partition == partition]:
        completed.remove(fetch)


def return_set_aside(consumer: KafkaConsumer) -> None:
    """Let the next poll return what was set aside of partitions that are not paused any more.

    The client sets the records of a paused partition aside and fetches no more of that partition. It returns them only
    while no records of another partition are in line, and takes records that were all returned for such: where another
    partition went on meanwhile, the resumed one would stay silent, without an error.
    """
    fetcher = _private(consumer, "_fetcher")
    _private(fetcher, "_paused_partition_records")
    in_line = _private(fetcher, "_next_partition_records")
    if in_line is not None and not in_line:
        fetcher._next_partition_records = None  # noqa: SLF001 - no public place to change this


def seek_with_epoch(consumer: KafkaConsumer, partition: TopicPartition, offset: int, epoch: int) -> None:
    """Seek, and let the client compare the leader epoch of the record before the offset: ``seek`` takes no epoch.

    Raises:
        KeyError: the partition is not assigned.
    """
    assigned = _private(consumer, "_subscription", "assignment")
    assigned[partition].seek(OffsetAndMetadata(offset, "", epoch))


def forget_offset_fetches(consumer: KafkaConsumer) -> None:
    """Let the next request for a committed offset be a new one.

    After a request whose time ran out, the client answers the next one with the late response to the first: the offset
    may be from before a commit that the caller has waited for.
    """
    _private(consumer, "_coordinator", "_offset_fetch_futures").clear()


def commit_as_member(
    consumer: KafkaConsumer,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    member: ConsumerGroupMetadata,
    limit_ms: int,
) -> None:
    """Commit offsets under the membership that the caller knows.

    The client commits, and tries again, under the generation of the moment: after a rebalance that the caller does not
    know of yet, the broker would take offsets of a partition that another member has by now.

    Raises:
        KafkaError: not within the limit, or refused; ``CommitFailedError`` if the group has gone on.
    """
    coordinator = _private(consumer, "_coordinator")
    present = _private(coordinator, "generation_if_stable")
    send = _private(coordinator, "_send_offset_commit_request")

    async def send_as_member(committed: Any) -> Any:  # noqa: ANN401 - the client is untyped
        found = present()
        if found is not None and (found.generation_id, found.member_id) != (member.generation_id, member.member_id):
            msg = f"generation {member.generation_id} of the group has ended"
            raise CommitFailedError(msg)
        return await send(committed)

    coordinator._send_offset_commit_request = send_as_member  # noqa: SLF001 - no public place to change this
    try:
        consumer.commit(offsets, timeout_ms=limit_ms)
    finally:
        coordinator._send_offset_commit_request = send  # noqa: SLF001 - as above


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
    result = _private(producer, "_transaction_manager", "send_offsets_to_transaction")(offsets, membership)
    _private(producer, "_sender", "wakeup")()
    if not result.wait(timeout_ms=limit_s * 1_000):
        msg = f"the group did not take the offsets within {limit_s:g} s"
        raise KafkaTimeoutError(msg)


def drop_refused_offsets(producer: KafkaProducer) -> None:
    """Forget offsets that the group refused: the client would commit them with the next transaction."""
    _private(producer, "_transaction_manager", "_pending_txn_offset_commits").clear()


def error_of_producer(producer: KafkaProducer) -> KafkaError | None:
    """Return the error that led to the producer's error state; the client only repeats that there was one."""
    error: KafkaError | None = _private(producer, "_transaction_manager", "last_error")
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


def describe_topic_settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return every setting of each topic, defaults included.

    ``describe_configs`` drops the error of each topic and returns no settings for it, whether the right is missing or
    the broker does not know a new topic yet.

    Raises:
        KafkaError: the error of a topic.
    """
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    request = _private(admin, "_describe_configs_request")(resources)
    response = admin._manager.run(_private(admin, "_manager", "send"), request)  # noqa: SLF001
    for result in response.results:
        error = for_code(result.error_code)
        if error is not NoError:
            msg = f"topic {result.resource_name}: {error.__name__}"
            raise error(msg)
    return {result.resource_name: {one.name: one.value for one in result.configs} for result in response.results}


def _private(owner: object, *path: str) -> Any:  # noqa: ANN401 - the client is untyped
    """Return the attribute behind names that are not public.

    Raises:
        UserError: a name does not exist.
    """
    for name in path:
        if not hasattr(owner, name):
            msg = (
                f"the installed kafka-python has no {_name(owner)}.{name}, which this program relies on: "
                "install the version that its pyproject.toml names"
            )
            raise UserError(msg)
        owner = getattr(owner, name)
    return owner


def _name(owner: object) -> str:
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__
