"""The workarounds for kafka-python: refused where its inside is another one, and when each can go.

When a newer version is admitted, take each workaround out in turn and run the test that it is there for:

* ``ask_anew``: test_coordinator.py, and the tests below of an admin client
* ``construct`` and ``close_abandoned_sockets``: the tests below that look at open sockets, and at refusals
* ``deliver_last_response``: test_what_a_broker_sends_before_it_closes_is_delivered below
* ``read_any_header_name``: test_a_header_name_that_is_not_utf_8_is_kept below
* ``keep_transaction_requests``: test_commit_that_begins_while_the_broker_is_away below
* ``end_sender``: test_committer.py (a producer that is given up while records are left to send)
* ``keep_rejoining``: test_source.py::test_second_member_joins_and_leaves, some thirty times
* ``take_finished_joins``: the same test beside three busy processes, some ten times
* ``RoundRobinAssignor``: contract/test_source.py::test_members_of_different_topics_are_given_what_they_read
* ``drop_fetched``: test_source.py::test_partition_in_hand_is_held
* ``drop_fetched_of``: test_what_is_set_aside_of_a_partition_is_dropped below, which shows what the client keeps
* ``return_set_aside``: contract/test_source.py::test_what_was_fetched_before_a_pause_comes_after_it
* ``seek_with_epoch``: contract/test_truncated.py, where ``seek`` alone would read on
* ``position_of``: no defect, but ``position`` asks the brokers; contract/test_source.py's tests of the position
* ``name_undecoded``: test_undecoded.py, and contract/test_damaged.py, whose second read would not end
* ``commit_for_member``: contract/test_frozen.py, and test_confluent.py::test_a_start_is_not_committed_under_a_later_...
* ``stable_offset``: contract/test_source.py::test_an_offset_in_an_open_transaction_is_waited_for
* ``drop_refused_offsets``: contract/test_sink.py::test_refused_offsets_are_not_committed_later
* ``refuse_unauthorized_topics``: contract/test_refused.py::test_an_article_topic_that_may_not_be_read
* ``send_offsets_within``: contract/test_sink.py::test_offsets_of_a_topic_that_is_gone_do_not_block_for_ever
* ``error_of_producer``: test_the_reason_of_a_producer_is_told_where_the_call_names_none below
"""

import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NotControllerError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.dev.broker import DevBroker
from stream_dedup.dev.broker.base import free_ports
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka import client_workarounds, consumer_workarounds
from stream_dedup.kafka import connection as client_module
from stream_dedup.kafka.admin import committed_offsets, topic_ids
from stream_dedup.kafka.client_workarounds import refusal_in
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer
from stream_dedup.kafka.consumer_workarounds import RoundRobinAssignor
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.kafka_python.sink import KafkaSink
from stream_dedup.kafka.record import record_bytes
from stream_dedup.ports import RefusedByBrokerError
from tests.waiting import wait_until

LIMIT_S = 60


def test_the_version_is_the_one_that_was_verified() -> None:
    """Another one: do as this file's head says, then change the constant and the version in pyproject.toml."""
    assert version("kafka-python") == client_workarounds.VERSION


@pytest.mark.parametrize("make", [make_admin, make_consumer, make_producer])
def test_no_client_of_another_version_is_made(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[KafkaConfig], object]
) -> None:
    """The error names the version to install."""
    monkeypatch.setattr("kafka.__version__", "3.1.0")
    with pytest.raises(UserError, match=rf"3\.1\.0 is installed.*=={client_workarounds.VERSION}'"):
        make(KafkaConfig())


def test_a_header_name_that_is_not_utf_8_is_kept() -> None:
    """One such record is readable, and so are those beside it; what is sent on has the name's bytes as they came."""
    consumer_workarounds.read_any_header_name()
    names = [consumer_workarounds.RawName.of(raw) for raw in (b"trace", b"\xff\xfe", "\u540d".encode())]
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset, name in enumerate(names):
        builder.append(offset, 1, b"key", b"value", [(name, b"x")])
    records = list(DefaultRecordBatch(bytes(builder.build())))
    assert [record.headers[0][0] for record in records] == ["trace", "\\xff\\xfe", "\u540d"]
    assert [record.headers[0][0].encode("utf-8") for record in records] == [b"trace", b"\xff\xfe", "\u540d".encode()]
    assert [(record.key, record.value, record.offset) for record in records] == [
        (b"key", b"value", n) for n in range(3)
    ]
    assert record_bytes(records[1]) == record_bytes(records[0]) - len(b"trace") + len(b"\xff\xfe")


def test_what_is_set_aside_of_a_partition_is_dropped() -> None:
    """Fetched records of one partition go, parsed or not; those of others stay."""
    one, other = TopicPartition("articles", 0), TopicPartition("articles", 1)
    fetches = {at: SimpleNamespace(topic_partition=at) for at in (one, other)}
    fetcher = SimpleNamespace(
        _paused_partition_records=dict(fetches),
        _paused_completed_fetches=dict(fetches),
        _completed_fetches=deque(fetches.values()),
    )
    consumer_workarounds.drop_fetched_of(SimpleNamespace(_fetcher=fetcher), one)
    assert list(fetcher._paused_partition_records) == list(fetcher._paused_completed_fetches) == [other]
    assert list(fetcher._completed_fetches) == [fetches[other]]


def test_the_reason_of_a_producer_is_told_where_the_call_names_none() -> None:
    """A call that times out on a producer in an error state raises what led to that state."""

    def time_out() -> None:
        raise KafkaTimeoutError

    refusal = TopicAuthorizationFailedError("unique")
    producer: Any = SimpleNamespace(
        _transaction_manager=SimpleNamespace(last_error=refusal), begin_transaction=time_out
    )
    sink = KafkaSink(Config(), "group-member")
    sink._producers = [producer]
    with pytest.raises(RefusedByBrokerError, match="TopicAuthorizationFailedError"):
        sink.begin()


def test_a_refused_connection_is_not_yet_a_connection() -> None:
    """The client waits for its coordinator again, instead of dropping the request."""

    def refuse(_node: int, timeout_ms: float) -> bool:
        raise KafkaConnectionError(str(timeout_ms))

    client = SimpleNamespace(await_ready=refuse)
    client_workarounds.keep_transaction_requests(SimpleNamespace(_sender=SimpleNamespace(_client=client)))
    assert client.await_ready(1, timeout_ms=5) is False


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(240)
def test_commit_that_begins_while_the_broker_is_away(own_broker: DevBroker) -> None:
    """The commit is done when the broker is back: no request of the transaction is lost."""
    at = TopicPartition("articles", 0)
    kafka = load_config(overrides={"kafka": {"brokers": own_broker.bootstrap, "group": "group"}}, environment={}).kafka
    with closing(make_admin(kafka)) as admin:
        admin.create_topics([NewTopic(at.topic, 1, 1)])
    producer = make_producer(kafka, transactional_id="committing")
    with closing(producer), ThreadPoolExecutor(1) as thread:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(at.topic, b"article").get(LIMIT_S)
        producer.send_offsets_to_transaction({at: OffsetAndMetadata(7, "", -1)}, "group")
        own_broker.kill()
        connections = producer._sender._client._manager._conns
        wait_until(lambda: not any(one.connected for one in connections.values()), LIMIT_S, "the broker is away")
        commit = thread.submit(producer.commit_transaction)
        own_broker.restart()
        commit.result(LIMIT_S)
    with closing(make_admin(kafka)) as admin:
        wait_until(
            lambda: [known.offset for known in committed_offsets(admin, "group").values()] == [7],
            LIMIT_S,
            "the offset is committed",
        )


def open_sockets() -> set[str]:
    """Return the sockets that this process holds open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of this loop
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


@contextmanager
def stranger() -> Iterator[str]:
    """Yield the address of a server that speaks neither Kafka nor TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    with accepted:
                        accepted.sendall(b"220 ready\r\n")
                        accepted.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def nobody() -> Iterator[str]:
    """Yield an address at which connections are refused."""
    yield f"127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize(
    ("server", "protocol", "reason"),
    [(nobody, "PLAINTEXT", "cannot reach a Kafka broker"), (stranger, "SSL", r"by SSL: \[SSL: WRONG_VERSION_NUMBER\]")],
    ids=["refused", "no TLS handshake"],
)
@pytest.mark.parametrize("make", [make_admin, make_consumer, make_producer])
def test_a_client_that_is_not_made_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[KafkaConfig], object],
    server: Callable[[], AbstractContextManager[str]],
    protocol: str,
    reason: str,
) -> None:
    """No socket stays open and no thread runs on after a constructor that reached no broker; the error says why."""
    monkeypatch.setattr(client_module, "BOOTSTRAP_TIMEOUT_MS", 200)
    sockets, threads = open_sockets(), set(threading.enumerate())
    with server() as address, pytest.raises(UnavailableError, match=reason) as refused:
        make(KafkaConfig.model_validate({"brokers": address, "security_protocol": protocol}))
    assert refused.value.__cause__ is not None  # holds the frames of the client, and with them its objects

    def nothing_is_left() -> bool:  # those of other tests may still come and go
        return open_sockets() <= sockets and set(threading.enumerate()) <= threads

    wait_until(nothing_is_left, LIMIT_S, "no socket and no thread is left")


def tls_failed(reason: ssl.SSLError) -> KafkaConnectionError:
    """Return the client's error for a TLS handshake that failed: the reason is in its text and its context alone."""
    try:
        raise reason
    except ssl.SSLError:
        error = KafkaConnectionError(f"Handshake failed: {reason}")
        error.__context__ = reason
        return error


REFUSALS = {
    "password": SaslAuthenticationFailedError("SaslAuthenticationFailedError: Authentication failed"),
    "mechanism": UnsupportedSaslMechanismError(),
    "certificate": ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
    "client's certificate": ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] certificate required"),
}


def test_what_a_broker_refuses_is_found_in_the_error_of_a_connection() -> None:
    """By itself, in the context of a handshake that failed, or in the error of a read, where TLS ends with an alert."""
    for refusal in REFUSALS.values():
        assert refusal_in(refusal) is refusal
        assert refusal_in(KafkaConnectionError(refusal)) is refusal
        if isinstance(refusal, ssl.SSLError):
            assert refusal_in(tls_failed(refusal)) is refusal


def test_a_broker_that_goes_away_refuses_nothing() -> None:
    """Nor does a handshake that ends in the middle, or a broker that fails at it: the client tries again."""
    ended = ssl.SSLEOFError(8, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol")
    failed = SaslAuthenticationFailedError("UnknownServerError: None")
    for error in (tls_failed(ended), KafkaConnectionError(ended), KafkaConnectionError("socket disconnected"), failed):
        assert refusal_in(error) is None


def test_an_interrupted_constructor_does_not_wait_for_its_thread() -> None:
    """A signal ends a program whose client waits for a name server, or for anything else that takes long."""
    answered, made = threading.Event(), list[KafkaNetClient]()

    def interrupted(kafka_client: Callable[[], KafkaNetClient]) -> None:
        made.append(kafka_client())
        made[0]._net.start()
        made[0]._net.call_soon_threadsafe(answered.wait)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as thread:
        constructing = thread.submit(client_workarounds.construct, interrupted, {}, [])
        try:
            assert isinstance(constructing.exception(LIMIT_S), KeyboardInterrupt)
        finally:
            answered.set()
    made[0].close()


def test_a_connection_with_unsent_data_is_closed_with_its_client() -> None:
    """The client leaves the socket open when the connection is closed, and the workaround closes it with the loop."""
    client_workarounds.close_abandoned_sockets()
    ours, theirs = socket.socketpair()
    with theirs:
        loop = NetworkSelector()
        connection = KafkaTCPTransport(loop, ours)
        connection._write_buffer.append(b"unsent")
        connection.close()
        assert ours.fileno() != -1, "the client closes it now: the workaround can go"
        loop.close()
        assert ours.fileno() == -1


@pytest.mark.parametrize("transport", [KafkaTCPTransport, KafkaSSLTransport])
def test_what_a_broker_sends_before_it_closes_is_delivered(transport: type[KafkaTCPTransport]) -> None:
    """Data comes first, the end of the connection with the next read."""
    client_workarounds.deliver_last_response()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        with theirs:
            theirs.sendall(b"wrong password")
        reading = SimpleNamespace(_sock=ours)
        assert transport._sock_recv(reading) == (b"wrong password", None)
        data, error = transport._sock_recv(reading)
        assert (data, type(error)) == (b"", KafkaConnectionError)


def test_the_outcome_of_a_finished_join_is_taken() -> None:
    """A join that ended between two polls looks unfinished, and hands its outcome to the poll that waits for it."""
    consumer_workarounds.take_finished_joins()
    coordinator = object.__new__(ConsumerCoordinator)
    coordinator._join_task = Future().success(b"assignment")
    taken: list[bytes] = []
    coordinator._join_task.add_callback(taken.append)
    assert (coordinator._join_task.is_done, taken) == (False, [b"assignment"])
    coordinator._join_task = None
    assert coordinator._join_task is None


def test_an_admin_client_asks_anew(config: Config, admin: KafkaAdminClient) -> None:
    """Brokers that it was told of before, and that are not there any more, are not asked."""
    kafka, topic, (port,) = config.kafka, config.topics.unique, free_ports(1)
    gone = SimpleNamespace(error_code=0, node_id=99, host="127.0.0.1", port=port)

    def ask() -> object:
        return patiently(kafka, "committed offsets", lambda: committed_offsets(admin, kafka.group))

    assert ask() == {}
    admin._manager.cluster.add_coordinator(gone, CoordinatorType.GROUP, kafka.group, synthesize_node_id=False)
    assert ask() == {}
    admin._controller_id = 98
    patiently(kafka, "topics", lambda: admin.create_topics([topic], wait_for_metadata=True))
    assert topic in topic_ids(admin, [topic])


@pytest.mark.parametrize("times", [2, 4])
def test_a_controller_that_moves_is_waited_for(
    config: Config, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The client asks a second time, and then raises an error that is no Kafka error."""
    manager, topic = admin._manager, config.topics.unique
    send = manager.send
    refused = [NotControllerError.errno] * times

    async def moving(request: object, **node: int) -> object:
        if isinstance(request, CreateTopicsRequest) and refused:
            return SimpleNamespace(topics=[SimpleNamespace(error_code=refused.pop())])
        return await send(request, **node)

    monkeypatch.setattr(manager, "send", moving)
    with pytest.raises(NotControllerError, match="active controller"):
        admin.create_topics([topic])
    patiently(config.kafka, "topics", lambda: admin.create_topics([topic], wait_for_metadata=True))
    assert (topic in topic_ids(admin, [topic]), refused) == (True, [])


def test_a_controller_that_no_broker_knows_is_an_unavailable_broker(
    config: Config, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ``broker_wait_s``: a command ends with its exit code for that, not with a traceback."""

    async def nobody(*_: object, **__: object) -> object:
        return SimpleNamespace(controller_id=1, topics=[SimpleNamespace(error_code=NotControllerError.errno)])

    monkeypatch.setattr(admin._manager, "send", nobody)
    kafka = config.kafka.model_copy(update={"broker_wait_s": 0.3})
    with pytest.raises(UnavailableError, match="active controller"):
        patiently(kafka, "topics", lambda: admin.create_topics(["topic"]))


def test_a_connection_that_was_just_closed_is_an_error_that_passes(admin: KafkaAdminClient) -> None:
    """Any other error of the interpreter's stays what it is: it is a bug."""
    for raised, expected in (("Transport closed for writes", KafkaConnectionError), ("other", RuntimeError)):

        async def fails(raised: str = raised) -> None:
            raise RuntimeError(raised)

        with pytest.raises(expected):
            admin._manager.run(fails)


def test_a_broker_that_an_admin_client_does_not_know(admin: KafkaAdminClient) -> None:
    """It may have come back, or be the leader that a partition does not have: an error that passes; it is asked for."""
    manager = admin._manager
    manager.cluster._need_update = False
    with pytest.raises(NodeNotReadyError):
        manager.get_connection(-1)
    assert manager.cluster._need_update


@pytest.mark.parametrize("instances", [(None, None, None), ("b", "a", None)])
def test_members_of_the_same_topics_are_given_what_the_client_would_give(instances: Sequence[str | None]) -> None:
    """The workaround for the assignor changes nothing where it is not needed.

    Workers with and without it, which are in one group while a release is rolled out, agree.
    """
    counts = {"one": {0, 1, 2}, "two": {0, 1}, "gone": None}
    cluster = SimpleNamespace(partitions_for_topic=counts.get)
    members = [
        SimpleNamespace(member_id=name, group_instance_id=instance, metadata=SimpleNamespace(topics=list(counts)))
        for name, instance in zip("zxy", instances, strict=True)
    ]
    ours, theirs = (
        {name: share.encode() for name, share in assignor.assign(cluster, members).items()}
        for assignor in (RoundRobinAssignor, RoundRobinPartitionAssignor)
    )
    assert ours == theirs
