"""What is special about confluent-kafka: settings, errors, and what it does with records beside kafka-python."""

from __future__ import annotations

import gc
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from kafka.structs import ConsumerGroupMetadata

from stream_dedup.config.load import load_config
from stream_dedup.config.model import MAX_RECORD_BYTES, Config, KafkaConfig
from stream_dedup.core.model import SourceOffset
from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import UserError
from stream_dedup.kafka.admin import AdminConnection
from stream_dedup.kafka.clients import check_client
from stream_dedup.kafka.confluent import client
from stream_dedup.kafka.confluent.client import (
    PositionGone,
    client_errors,
    error_of,
    make_member,
    make_sender,
    next_events,
    port_error_of,
    record_of,
)
from stream_dedup.kafka.confluent.sink import ConfluentSink
from stream_dedup.kafka.confluent.source import ASSIGNED_WITHIN_S, PROOF_MAGIC, ConfluentSource, generation_of
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES, HEADER_ALLOWANCE_BYTES
from stream_dedup.kafka.source import GroupSource
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    NotAMemberError,
    Output,
    Partition,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
    SourceRecord,
    UnreadableError,
)
from tests.contract.conftest import Group
from tests.contract.kafka_world import CLIENTS, WAIT_LIMIT_S, KafkaWorld
from tests.contract.members import join, read, start_at, values
from tests.waiting import wait_until

NOWHERE = "127.0.0.1:1"


def config_of(**kafka: object) -> Config:
    return load_config(None, {"kafka": {"brokers": NOWHERE, "client": "confluent", **kafka}}, {})


def made(monkeypatch: pytest.MonkeyPatch, **keys: object) -> list[dict[str, Any]]:
    """The settings of a consumer and of a producer with these keys of the configuration."""
    kafka: KafkaConfig = config_of(**keys).kafka
    seen: list[dict[str, Any]] = []
    for kind in ("Consumer", "Producer"):
        monkeypatch.setattr(client, kind, seen.append)
    make_member(kafka)
    make_sender(kafka, lambda *_: None, DEFAULT_RECORD_BYTES)
    return seen


# The choice.


def test_a_client_that_is_not_installed_is_an_error_that_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of it as long as it is not chosen."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UserError, match=r"stream-dedup\[confluent\]"):
        check_client(config_of())
    check_client(config_of(client="kafka-python"))


# Settings.


def test_every_client_keeps_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """No topic is made, no offset is committed or reset, aborted records are not read, and no record is sent twice."""
    consumer, producer = made(monkeypatch)
    assert consumer["allow.auto.create.topics"] is producer["allow.auto.create.topics"] is False
    assert consumer["enable.auto.commit"] is False
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["isolation.level"] == "read_committed"
    assert producer["enable.idempotence"] is True
    assert consumer["receive.message.max.bytes"] > 2 * (100 << 20)  # the largest batch of a broker, by default


def test_added_partitions_are_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client looks its topics up anew every few seconds, in place of every five minutes."""
    assert {settings["topic.metadata.refresh.interval.ms"] for settings in made(monkeypatch)} == {5_000}


def test_keys_reach_the_clients_by_their_other_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of the connection's security, the client id, the rack and the compression."""
    files = {name: tmp_path / name for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
    for path in files.values():
        path.touch()
    passwords = {"sasl_password_file": "secret", "ssl_password_file": "of the key"}
    for name, password in passwords.items():
        (tmp_path / name).write_text(password, "utf-8")
    tls: dict[str, object] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "user",
        "ssl_check_hostname": False,
        **{name: str(tmp_path / name) for name in (*files, *passwords)},
    }
    consumer, producer = made(monkeypatch, client_id="news", client_rack="zone-b", compression="zstd", **tls)
    expected = {
        "client.id": "news",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "user",
        "sasl.password": "secret",
        "ssl.ca.location": str(files["ssl_cafile"]),
        "ssl.certificate.location": str(files["ssl_certfile"]),
        "ssl.key.location": str(files["ssl_keyfile"]),
        "ssl.key.password": "of the key",
        "ssl.endpoint.identification.algorithm": "none",
    }
    for settings in (consumer, producer):
        assert expected.items() <= settings.items()
    assert consumer["client.rack"] == "zone-b"
    assert producer["compression.type"] == "zstd"


def test_the_name_in_a_certificate_is_checked_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one["ssl.endpoint.identification.algorithm"] == "https" for one in made(monkeypatch))


@pytest.mark.parametrize("seconds", [0.001, 1, 30, 900])
def test_a_sink_is_made_for_any_time_of_a_transaction(seconds: float) -> None:
    """Without a broker it ends with an error that passes; the client takes no request that outlasts a transaction."""
    sink = ConfluentSink(config_of(transaction_timeout_s=seconds, broker_wait_s=0.1), "id")
    with closing(sink), pytest.raises(PassingError):
        sink.renew()


def test_a_record_waits_for_room_in_the_client() -> None:
    """Each is taken once, in order; where no room comes, the transaction fails with an error that passes."""
    has_room, taken = iter([True, False, False, True]), []

    def produce(_topic: str, value: bytes, *_: object, **__: object) -> None:
        if not next(has_room, False):
            raise BufferError
        taken.append(value)

    producer: Any = SimpleNamespace(produce=produce, purge=lambda: None, poll=lambda _wait_s: None)
    with closing(ConfluentSink(config_of(), "id")) as sink:
        sink._producers = [producer]
        sink.send(outputs("unique", 0)[:2])
        sink._delivery_s = 0.01
        with pytest.raises(PassingError, match=r"no room for another record within 0.01 s"):
            sink.send(outputs("unique", 0)[2:])
    assert taken == [b"value", b""]


def test_offsets_that_the_client_does_not_give_up_in_time() -> None:
    """A coordinator that goes away keeps it waiting beyond its time-out, which would hold the worker's partitions.

    The transaction fails with an error that passes.
    """
    released, returned = threading.Event(), threading.Event()

    def send_offsets(*_arguments: object) -> None:
        released.wait(WAIT_LIMIT_S)
        returned.set()

    producer: Any = SimpleNamespace(
        send_offsets_to_transaction=send_offsets, purge=lambda: None, poll=lambda _wait_s: None
    )
    with closing(ConfluentSink(config_of(transaction_timeout_s=1), "id")) as sink:
        sink._producers = [producer]
        with pytest.raises(PassingError, match="did not take the offsets within 1 s"):
            sink.send_offsets({}, Membership(frozenset(), 1, None))
        assert not returned.is_set()
        released.set()


@pytest.mark.parametrize("call", ["renew", "begin", "send", "send_offsets", "flush", "commit", "abort"])
def test_a_call_that_fails_keeps_neither_its_producer_nor_what_its_caller_has(call: str) -> None:
    """A producer that lives on fences the next one; a caller has a batch of outputs."""
    before, batches = _producers(), list[weakref.ref[_Batch]]()
    membership = Membership(frozenset(), 1, Consumer({"group.id": "group"}).consumer_group_metadata())
    offsets = {Partition("articles", 0): CommittedOffset(SourceOffset(5), None, None)}
    given: dict[str, tuple[object, ...]] = {"send": (outputs("unique", 0),), "send_offsets": (offsets, membership)}

    def fail(sink: ConfluentSink) -> None:
        batch = _Batch()
        batches.append(weakref.ref(batch))
        with pytest.raises(PortError):
            getattr(sink, call)(*given.get(call, ()))

    with closing(ConfluentSink(config_of(broker_wait_s=0.1), "id")) as sink:
        for _ in range(3):
            if call != "renew":
                sink._producers = [sink._connect("id")]  # was not initialised: it takes nothing
                sink._note_failure(KafkaError(KafkaError._MSG_TIMED_OUT), cast("Message", None))
            fail(sink)
            sink._discard()
    gc.collect()
    assert (_producers() <= before, [batch() for batch in batches]) == (True, [None] * 3)


class _Batch:
    """What a caller works on."""


def _producers() -> int:
    return sum(type(found) is Producer for found in gc.get_objects())


class _Fails:
    """A client whose call fails after a time."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self.thread: threading.Thread | None = None

    def call(self) -> None:
        self.thread = threading.current_thread()
        time.sleep(self._after_s)
        raise ValueError


@pytest.mark.parametrize(("after_s", "error"), [(0.0, ValueError), (0.3, TimeoutError)])
def test_a_call_that_fails_lets_go_of_its_client_at_once(after_s: float, error: type[Exception]) -> None:
    """In time or late, without a garbage collection, which a worker seldom makes."""
    failing = _Fails(after_s)
    left = weakref.ref(failing)
    gc.disable()
    try:
        with pytest.raises(error):
            client.within(0.1, failing.call)
        del failing
        wait_until(lambda: left() is None, WAIT_LIMIT_S, "the client is let go of")
    finally:
        gc.enable()


def no_new_thread(_thread: threading.Thread) -> None:
    """What a system does where no thread can be started."""
    raise RuntimeError("can't start new thread")


def test_offsets_that_no_thread_can_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction fails with an error that passes."""
    with closing(ConfluentSink(config_of(), "id")) as sink, monkeypatch.context() as full:
        sink._producers = [sink._connect("id")]
        full.setattr(threading.Thread, "start", no_new_thread)
        with pytest.raises(PassingError):
            sink.send_offsets({}, Membership(frozenset(), 1, None))


def test_a_failure_is_told_where_no_thread_asks_for_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the call itself, not that of the thread."""
    with closing(ConfluentSink(config_of(), "id")) as sink, monkeypatch.context() as full:
        sink._producers = [sink._connect("id")]
        full.setattr(threading.Thread, "start", no_new_thread)
        with pytest.raises(PortError, match="_STATE"):
            sink.begin()


@pytest.mark.parametrize("largest", [1024, 1 << 20, MAX_RECORD_BYTES])
def test_a_producer_is_made_for_records_of_any_size(largest: int) -> None:
    """The client's own limits depend on each other."""
    kafka = config_of().kafka
    make_sender(kafka, lambda *_: None, largest)


# Errors.


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, FencedError),
        (KafkaError.PRODUCER_FENCED, FencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, FencedError),
        (KafkaError.ILLEGAL_GENERATION, NotAMemberError),
        (KafkaError.UNKNOWN_MEMBER_ID, NotAMemberError),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLargeError),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, RefusedByBrokerError),
        (KafkaError.FENCED_INSTANCE_ID, RefusedByBrokerError),
        (KafkaError._BAD_MSG, PassingError),
        (KafkaError._TIMED_OUT, PassingError),
        (KafkaError._TRANSPORT, PassingError),
        (KafkaError.UNSTABLE_OFFSET_COMMIT, PassingError),
    ],
)
def test_what_an_error_becomes(code: int, kind: type[PortError]) -> None:
    """As with kafka-python, where the broker sent it."""
    with pytest.raises(PortError) as raised, client_errors():
        raise KafkaException(KafkaError(code, "the reason"))
    assert type(raised.value) is kind
    assert "the reason" in str(raised.value)


def test_an_error_of_the_broker_has_the_name_that_it_has_with_kafka_python() -> None:
    error = port_error_of(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Fetch failed"))
    assert "TopicAuthorizationFailedError" in str(error)


def test_a_fatal_error_that_came_out_as_another_is_found() -> None:
    """Its cause is the client's error; without one it is an error that passes."""
    wrapped = SystemError("returned a result with an exception set")
    wrapped.__cause__ = KafkaException(KafkaError(KafkaError._FENCED, "newer"))
    assert isinstance(port_error_of(error_of(wrapped)), FencedError)
    assert isinstance(port_error_of(error_of(SystemError("returned NULL"))), PassingError)


def test_a_truncation_is_told_from_a_position_that_is_gone() -> None:
    truncated = KafkaError(KafkaError._LOG_TRUNCATION).str()
    assert PositionGone(Partition("articles", 0), f"Reset to INVALID.: {truncated} (broker 1)").is_truncated
    assert not PositionGone(Partition("articles", 0), "Broker: Offset out of range").is_truncated


# Proofs, records.


@pytest.mark.parametrize("generation", [-1, 0, 7, 70_000])
def test_the_generation_in_a_proof(generation: int) -> None:
    assert generation_of(PROOF_MAGIC + struct.pack("=i", generation) + b"group\0member\0") == generation


@pytest.mark.parametrize("proof", [None, b"", b"CGMDv9:\1\0\0\0", "CGMDv2:"])
def test_a_proof_that_is_not_understood_has_no_generation(proof: object) -> None:
    assert generation_of(proof) == -1


def test_a_header_name_that_is_not_utf_8_is_named() -> None:
    """The client raises, and has dropped the headers: the error says where, and which client reads them."""

    def headers() -> None:
        raise SystemError("returned a result with an exception set")

    parts: dict[str, object] = {"topic": "articles", "partition": 0, "offset": 7, "timestamp": (1, 0)}
    message: Any = SimpleNamespace(
        **{name: lambda value=value: value for name, value in parts.items()}, leader_epoch=lambda: 0, headers=headers
    )
    with pytest.raises(UnreadableError, match=r'articles, partition 0: .* offset 7 .* kafka\.client = "kafka-python"'):
        record_of(message)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError._BAD_MSG, "another in-sync replica the leader"),
        (KafkaError._BAD_COMPRESSION, "another in-sync replica the leader"),
        (KafkaError.INVALID_MSG, "another in-sync replica the leader"),
        (KafkaError._NOT_IMPLEMENTED, "a release that knows this format"),
    ],
)
def test_records_that_cannot_be_decoded_are_named(code: int, remedy: str) -> None:
    """Topic, partition, offset, the client's reason and what to do; the client would go on behind them."""
    failed = Message("articles", 3, 41, error=KafkaError(code, "failed CRC32C check"))
    consumer: Any = SimpleNamespace(poll=lambda _wait_s: failed, consume=lambda _count, _wait_s: [])
    with pytest.raises(UnreadableError) as raised:
        next_events(consumer, 1, 10)
    for part in ("topic articles, partition 3", "offset 41", "failed CRC32C check", "No record was skipped", remedy):
        assert part in str(raised.value)


@pytest.fixture
def worlds(broker: DevBroker) -> Iterator[dict[str, KafkaWorld]]:
    with ExitStack() as stack:
        yield {name: KafkaWorld(broker.bootstrap, stack, client=name) for name in CLIENTS}


Worlds = dict[str, KafkaWorld]
AWKWARD: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (b"key", b"value", [("a", b"1"), ("b", b""), ("a", b"2")]),
    (None, b"", []),
    (b"", None, [("名", b"\xff")]),
]


def outputs(topic: str, written_ms: int) -> list[Output]:
    return [Output(topic, key, value, headers, written_ms) for key, value, headers in AWKWARD]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("writer", "reader"), [("confluent", "confluent"), ("confluent", "kafka-python"), ("kafka-python", "confluent")]
)
def test_records_are_the_same_with_either_client(worlds: Worlds, writer: str, reader: str) -> None:
    """Empty and absent keys and values, names that repeat, names and values of any letters, and the time."""
    topic, group, written_ms = (
        worlds[reader].name("articles"),
        worlds[reader].name("group"),
        time.time_ns() // 1_000_000,
    )
    worlds[reader].make_topic(topic)
    worlds[reader].make_log(group)
    sink = worlds[writer].ports(group, f"{group}-writer").sink
    sink.renew()
    sink.begin()
    sink.send(outputs(topic, written_ms))
    sink.flush()
    sink.commit()
    source = worlds[reader].ports(group, f"{group}-reader").source
    join(worlds[reader], source, [Partition(topic, 0)])
    source.begin(Partition(topic, 0), start_at(0))
    found = read(worlds[reader], source, len(AWKWARD))
    assert [as_output(record) for record in found] == outputs(topic, written_ms)
    assert {record.leader_epoch for record in found} == {0}


def as_output(record: SourceRecord) -> Output:
    return Output(record.topic, record.key, record.value, list(record.headers), record.timestamp)  # type: ignore[arg-type]


def test_a_key_goes_to_the_partition_that_the_other_client_chooses(worlds: Worlds) -> None:
    """Else the articles of one key would be in two partitions after the client was changed."""
    keys, chosen = [f"key {number}".encode() for number in range(40)], {}
    for name, world in worlds.items():
        topic, group = world.name(f"keys-of-{name}"), world.name(f"group-of-{name}")
        world.make_topic(topic, partitions=6)
        world.make_log(group)
        sink = world.ports(group, f"{group}-writer").sink
        sink.renew()
        sink.begin()
        sink.send(Output(topic, key, b"value", [], time.time_ns() // 1_000_000) for key in keys)
        sink.flush()
        sink.commit()
        wait_until(lambda: len(world.committed_records(topic)) == len(keys), WAIT_LIMIT_S, "they are written")  # noqa: B023
        chosen[name] = {record.key: record.partition for record in world.committed_records(topic)}
    assert chosen["confluent"] == chosen["kafka-python"]
    assert len(set(chosen["confluent"].values())) > 1


def test_many_records_for_a_topic_of_small_batches(broker: DevBroker) -> None:
    """The client does not divide a batch that the topic refuses: none is larger than what each output topic takes."""
    largest = 1_024
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client="confluent")
        topic, group = world.name("unique"), world.name("group")
        world.make_topic(topic, largest_batch=largest + HEADER_ALLOWANCE_BYTES)
        world.make_log(group)
        config = config_of(brokers=broker.bootstrap, group=group)
        sink = stack.enter_context(closing(ConfluentSink(config, f"{group}-writer", record_bytes=largest)))
        sink.renew()
        sink.begin()
        sink.send([Output(topic, None, b"x" * 900, [], time.time_ns() // 1_000_000)] * 100)
        sink.flush()
        sink.commit()


def test_workers_of_either_client_share_a_group(worlds: Worlds) -> None:
    """A rollout changes the client of one worker after the other."""
    one, other = (worlds[name] for name in CLIENTS)
    topic, group = one.name("articles"), one.name("group")
    one.make_topic(topic, partitions=2)
    one.make_log(group)
    sources = [world.ports(group, f"{group}-{name}").source for name, world in worlds.items()]
    for source in sources:
        source.join([topic])

    def shared() -> bool:
        for source in sources:
            source.poll(0.1)
        found = [membership.partitions for source in sources if (membership := source.membership()) is not None]
        return sorted(map(len, found)) == [1, 1] and len(frozenset().union(*found)) == 2

    other.wait_until(shared, "each has one partition")
    for source in sources:
        membership = source.membership()
        assert membership is not None
        partition = next(iter(membership.partitions))
        start = CommittedOffset(start_at(5).offset, b"0123456789abcdef", 0)
        source.commit_start(partition, start)
        found = [reader.committed(partition) for reader in sources]
        assert found == [start, start]


@pytest.fixture
def group(worlds: Worlds) -> Group:
    """A group whose members have confluent-kafka."""
    return group_of(worlds["confluent"])


def group_of(world: KafkaWorld) -> Group:
    """A group with a topic of three records."""
    name, topic = world.name("group"), world.name("articles")
    world.make_log(name)
    made_id = world.make_topic(topic)
    world.write(Partition(topic, 0), [b"0", b"1", b"2"])
    return Group(world, name, topic, "none", made_id)


def test_a_late_report_of_a_position_that_is_gone_is_not_believed(group: Group) -> None:
    """It may be about a position that was left: the partition is asked, and read on without a gap or a repetition."""
    source = group.member().source
    assert isinstance(source, ConfluentSource)
    join(group.world, source, [group.partition])
    source.begin(group.partition, start_at(1))
    assert values(read(group.world, source, 2)) == [b"1", b"2"]
    source._gone[group.partition] = PositionGone(group.partition, "Broker: Offset out of range")
    group.world.write(group.partition, [b"3"])
    assert values(read(group.world, source, 1)) == [b"3"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_start_is_not_committed_under_a_later_generation(worlds: Worlds, client: str) -> None:
    """The group has gone on, and the worker does not know it yet: its partition may be another member's."""
    group = group_of(worlds[client])
    source = group.member().source
    assert isinstance(source, GroupSource)
    membership = join(group.world, source, [group.partition])
    before, proof = membership.generation - 1, membership.proof
    if isinstance(proof, ConsumerGroupMetadata):
        proof = proof._replace(generation_id=before)
    source._membership = replace(membership, generation=before, proof=proof)
    with pytest.raises(NotAMemberError, match="IllegalGeneration"):
        source.commit_start(group.partition, start_at(3))
    assert source.committed(group.partition) is None


def source_of(config: Config) -> ConfluentSource:
    return ConfluentSource(config, "worker", AdminConnection(config.kafka))


def test_a_leader_that_does_not_answer_is_asked_once_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """The polling thread takes one time-out for all partitions whose positions are reported gone, each in its turn."""
    source, asked = source_of(config_of()), []

    def bounds(at: Partition) -> tuple[int, int]:
        asked.append(at.number)
        raise PassingError(str(at))

    monkeypatch.setattr(source, "_bounds", bounds)
    monkeypatch.setattr(source, "_next_events", lambda _wait_s: [])
    for at in (Partition("articles", number) for number in range(3)):
        source._positions[at], source._gone[at] = start_at(0), PositionGone(at, "Broker: Offset out of range")
    with closing(source):
        for _ in range(4):
            source.poll(0)
    assert asked == [0, 1, 2, 0]


def test_partitions_that_the_client_does_not_start_take_one_limit_together() -> None:
    """Each of them was waited for in turn: 64 partitions held up a poll for half a minute."""
    source = source_of(config_of())
    failure = KafkaException(KafkaError(KafkaError._STATE))
    never = SimpleNamespace(
        seek=lambda _at: (_ for _ in ()).throw(failure), assign=lambda _at: None, resume=lambda _at: None
    )
    with closing(source):
        consumer, source._consumer = source._consumer, never  # type: ignore[assignment]
        for at in (Partition("articles", number) for number in range(64)):
            source._positions[at] = start_at(0, epoch=0)
            source._starting.add(at)
        begun = time.monotonic()
        source._start()
        assert time.monotonic() - begun < 3 * ASSIGNED_WITHIN_S
        assert len(source._gone) == 64
        source._consumer = consumer
