"""How the sink on kafka-python sends a transaction: its thread sleeps meanwhile, and few requests do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.admin import NewTopic
from kafka.errors import IllegalStateError
from kafka.net.connection import KafkaConnection
from kafka.partitioner import DefaultPartitioner
from kafka.producer.transaction_manager import (
    AddOffsetsToTxnHandler,
    AddPartitionsToTxnHandler,
    TransactionManager,
)
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.structs import ConsumerGroupMetadata

from stream_dedup.broker import workarounds
from stream_dedup.broker.adapter import KafkaSink
from stream_dedup.broker.adapter import sink as adapter_sink
from stream_dedup.broker.client import make_admin, make_consumer
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import UserError
from stream_dedup.ports import Output, PassingError
from tests.waiting import wait_until

TOPIC = "unique"
RECORDS = 50
MOST_BYTES = 400
"""The client's limit on a request, in place of a megabyte."""
LIMIT_S = 60.0
PARTITIONS = 4


class ProducerInPlace:
    """A producer of the client as the workarounds see it: it counts wake-ups, and notes what it is given and asked."""

    def __init__(self, *known: str) -> None:
        self.wakes = 0
        self.sent: list[str] = []
        self.by_client: list[str] = []
        self.added: list[TopicPartition] = []
        self.config = {"max_request_size": MOST_BYTES}
        self._sender = SimpleNamespace(wakeup=self._count)
        self._metadata = SimpleNamespace(
            partitions_for_topic=lambda topic: {0} if topic in known else None,
            available_partitions_for_topic=lambda _topic: {0},
            topics=lambda: known,
        )
        self._accumulator = SimpleNamespace(append=self._append)
        self._transaction_manager = SimpleNamespace(maybe_add_partition_to_transaction=self._add, last_error=None)

        self.is_open = True
        self.begin_transaction = self.commit_transaction = self.abort_transaction = lambda: None

    def _add(self, at: TopicPartition) -> None:
        if not self.is_open:
            msg = "Cannot call send in state READY"
            raise IllegalStateError(msg)
        self.added.append(at)

    def send(self, topic: str, *_record: object, **_time: object) -> object:
        self.by_client.append(topic)
        return SimpleNamespace(failed=lambda: False, get=lambda timeout: timeout)

    def _append(self, at: TopicPartition, *_record: object) -> tuple[object, bool, bool, bool]:
        self.sent.append(at.topic)
        return SimpleNamespace(failed=lambda: False, get=lambda timeout: timeout), False, True, False

    def _count(self) -> None:
        self.wakes += 1


def test_the_thread_sleeps_while_records_are_handed_over() -> None:
    """It is woken when it is to send, and looks up a topic that is not known before its record."""
    producer: Any = ProducerInPlace(TOPIC)
    held = workarounds.HeldSender(producer, workarounds.OnePartition())
    for _ in range(3):
        held.send(TOPIC, b"key", b"article", [], 0)
    assert (producer.sent, producer.wakes) == ([TOPIC] * 3, 0)
    held.wake()
    assert producer.wakes == 1
    held.send("not known", None, b"article", [], 0)
    assert (producer.sent, producer.by_client) == ([TOPIC] * 3, ["not known"])


def test_the_thread_is_woken_once_for_what_is_handed_over_in_a_block() -> None:
    """At its end, whatever that is; not at all for nothing; and as ever where it has to look up the topic."""
    producer: Any = ProducerInPlace(TOPIC)
    with workarounds.asleep(producer, TOPIC):
        for _ in range(3):
            producer._sender.wakeup()
        assert producer.wakes == 0
    assert producer.wakes == 1
    with workarounds.asleep(producer, TOPIC):
        pass
    assert producer.wakes == 1
    with suppress(KeyError), workarounds.asleep(producer, TOPIC):
        producer._sender.wakeup()
        raise KeyError
    producer._sender.wakeup()
    assert producer.wakes == 3
    with workarounds.asleep(producer, "not known"):
        producer._sender.wakeup()
        assert producer.wakes == 4


def test_a_partition_is_added_to_each_transaction_once() -> None:
    """The client would be asked for each record, and would not be for those of the next transaction."""
    producer: Any = ProducerInPlace(TOPIC, "other")
    held = workarounds.HeldSender(producer, workarounds.OnePartition())
    for _ in range(2):
        for topic in (TOPIC, TOPIC, "other", TOPIC):
            held.send(topic, None, b"article", [], 0)
        held.end()
    assert producer.added == [TopicPartition(TOPIC, 0), TopicPartition("other", 0)] * 2


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_record_behind_a_transaction_is_refused(sink: KafkaSink, producer: ProducerInPlace, end: str) -> None:
    """The client is asked for its partition once more, and says that none is open: it would leave in the next one."""
    record = Output(TOPIC, None, b"article", [], 0)
    sink.begin()
    sink.send(record)
    getattr(sink, end)()
    producer.is_open = False
    with pytest.raises(PassingError, match="state READY"):
        sink.send(record)


def test_a_partition_that_was_chosen_again_is_added() -> None:
    producer: Any = ProducerInPlace(TOPIC)
    held = workarounds.HeldSender(producer, workarounds.OnePartition())
    for number in (0, 1, 0, 2):
        producer._metadata.available_partitions_for_topic = lambda _topic, number=number: {number}
        held.send(TOPIC, None, b"article", [], 0)
    assert producer.added == [TopicPartition(TOPIC, number) for number in (0, 1, 2)]


@given(
    st.none() | st.binary(max_size=MOST_BYTES),
    st.lists(st.tuples(st.text(max_size=30), st.binary(max_size=60)), max_size=20),
    st.integers(0, 200),
)
def test_what_the_client_finds_too_large_is_left_to_it(
    key: bytes | None, headers: list[tuple[str, bytes]], left: int
) -> None:
    """It names the size in its error. ``left``: bytes of the limit that keys, values and headers do not take."""
    taken = len(key or b"") + sum(len(name.encode()) + len(content) for name, content in headers)
    value = bytes(max(MOST_BYTES - left - taken, 0))
    producer: Any = ProducerInPlace(TOPIC)
    held = workarounds.HeldSender(producer, workarounds.OnePartition())
    held.send(TOPIC, key, value, headers, 0)
    if DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers) > MOST_BYTES:
        assert producer.by_client == [TOPIC]
    assert [*producer.by_client, *producer.sent] == [TOPIC]


def test_a_small_record_is_handed_over_directly() -> None:
    producer: Any = ProducerInPlace(TOPIC)
    held = workarounds.HeldSender(producer, workarounds.OnePartition())
    held.send(TOPIC, None, bytes(MOST_BYTES - 200), [("name", b"content")], 0)
    assert producer.sent == [TOPIC]


class KnownPartitions:
    """What the client knows of a topic."""

    def __init__(self) -> None:
        self.every, self.available = set(range(PARTITIONS)), {1, 2}

    def topics(self) -> set[str]:
        return {TOPIC}

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return self.every

    def available_partitions_for_topic(self, _topic: str) -> set[int]:
        return self.available


def chosen(partitions: workarounds.OnePartition, cluster: KnownPartitions, key: bytes | None = None) -> int:
    known: Any = cluster
    return partitions.partition(TOPIC, key, key, b"article", b"article", known)


def test_records_without_a_key_go_to_one_partition() -> None:
    """Until the thread is woken, and to one that has a leader; those with a key go where the client sends them."""
    partitions, cluster = workarounds.OnePartition(), KnownPartitions()
    producer: Any = ProducerInPlace(TOPIC)
    held = workarounds.HeldSender(producer, partitions)
    rounds = []
    for number in range(60):
        rounds.append({chosen(partitions, cluster), chosen(partitions, cluster), chosen(partitions, cluster)})
        key = b"key %d" % number
        by_client = DefaultPartitioner().partition(TOPIC, key, key, None, None, cluster)
        assert chosen(partitions, cluster, key) == by_client
        assert chosen(partitions, cluster) in rounds[-1]
        held.wake()
    assert set(map(len, rounds)) == {1}
    assert set.union(*rounds) == {1, 2}


def test_a_partition_without_a_leader_is_left() -> None:
    """Also where the topic was made again with fewer partitions, in the midst of a transaction."""
    partitions, cluster = workarounds.OnePartition(), KnownPartitions()
    cluster.available = {3}
    assert chosen(partitions, cluster) == 3
    cluster.available = {2}
    assert chosen(partitions, cluster) == 2
    cluster.available, cluster.every = set(), {0}
    assert chosen(partitions, cluster) == 0
    assert chosen(partitions, cluster) == 0


def test_many_bytes_are_sent_before_the_transaction_ends(
    monkeypatch: pytest.MonkeyPatch, sink: KafkaSink, producer: ProducerInPlace
) -> None:
    """The broker appends the first records of a large transaction while the others are handed over."""
    monkeypatch.setattr(adapter_sink, "WAKE_BYTES", 10)
    for _ in range(5):
        sink.send(Output(TOPIC, None, b"four", [], 0))
    assert producer.wakes == 1
    sink.flush()
    assert producer.wakes == 2


@pytest.fixture
def producer() -> ProducerInPlace:
    return ProducerInPlace(TOPIC)


@pytest.fixture
def sink(producer: ProducerInPlace, tmp_path: Path) -> KafkaSink:
    """A sink whose producer is in place."""
    config = load_config(None, {"kafka": {"group": "g"}, "index": {"path": str(tmp_path)}}, {})
    sink = KafkaSink(config, "g-1")
    in_place: Any = producer
    sink._producer, sink._held = in_place, workarounds.HeldSender(in_place, workarounds.OnePartition())
    return sink


@pytest.mark.parametrize(
    ("state", "is_sent"),
    [
        ({}, True),
        ({"request": False}, False),
        ({"has_error": True}, False),
        ({"has_producer_id": False}, False),
        ({"is_bumping_epoch": True}, False),
        ({"is_completing": True}, False),
    ],
)
def test_records_are_sent_beside_a_request(state: dict[str, bool], is_sent: bool) -> None:
    """Only in a transaction that goes on: in any other state the client decides what becomes of them."""
    states = {"request": True, "has_error": False, "has_producer_id": True, "is_bumping_epoch": False}
    states |= {"is_completing": False} | state
    sent: list[str] = []
    sender = SimpleNamespace(
        _maybe_send_pending_request=lambda: states["request"], _send_producer_data=lambda: sent.append("records")
    )
    manager = SimpleNamespace(**{name: lambda name=name: states[name] for name in states if name != "request"})
    producer: Any = SimpleNamespace(_sender=sender, _transaction_manager=manager)
    workarounds.send_beside_requests(producer)
    assert sender._maybe_send_pending_request() is states["request"]
    assert sent == ["records"] * is_sent


def test_partitions_are_added_before_offsets() -> None:
    """The request that adds them is the next one, and there is none where every partition was added."""
    manager = TransactionManager("g-1", 60_000, 5, (4, 0), None)
    producer: Any = SimpleNamespace(_transaction_manager=manager)
    workarounds.add_partitions_first(producer)
    assert manager._pending_requests == []
    manager._new_partitions_in_transaction.add(TopicPartition(TOPIC, 1))
    workarounds.add_partitions_first(producer)
    manager._enqueue_request(AddOffsetsToTxnHandler(manager, ConsumerGroupMetadata("g"), {}))
    kinds = [type(manager.next_request_handler(has_incomplete_batches=True)) for _ in range(2)]
    assert kinds == [AddPartitionsToTxnHandler, AddOffsetsToTxnHandler]
    assert not manager._new_partitions_in_transaction


@pytest.mark.parametrize(
    "workaround",
    [
        partial(workarounds.HeldSender, partitions=workarounds.OnePartition()),
        workarounds.send_beside_requests,
        workarounds.add_partitions_first,
    ],
)
def test_a_name_of_sending_that_is_gone_is_an_error(workaround: Callable[[Any], object]) -> None:
    with pytest.raises(UserError, match=r"kafka-python has no SimpleNamespace\._"):
        workaround(SimpleNamespace())


REQUESTS = [
    "AddPartitionsToTxnRequest",
    "AddOffsetsToTxnRequest",
    "ProduceRequest",
    "TxnOffsetCommitRequest",
    "EndTxnRequest",
]
"""Of a transaction, in order: its records go beside the requests that add its offsets."""
TRIES = 10
"""A busy broker has some requests made again."""


@pytest.mark.broker
def test_a_transaction_takes_one_request_of_each_kind(
    broker: DevBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However many records it has, of whatever topics, as long as they fit one request."""
    name = f"sending-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-{number}" for number in range(2)]
    config = load_config(
        None, {"kafka": {"brokers": broker.bootstrap, "group": name}, "index": {"path": str(tmp_path)}}, {}
    )
    with closing(make_admin(config.kafka)) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics])
    requests: list[str] = []
    send = KafkaConnection._send_request

    def noting(self: KafkaConnection, request: object, *args: object, **named: object) -> object:
        kind = type(request).__name__
        if self.config["client_id"] == name and kind in REQUESTS:
            requests.append(kind)
        return send(self, request, *args, **named)

    monkeypatch.setattr(KafkaConnection, "_send_request", noting)
    with closing(KafkaSink(config, name)) as sink:
        sink.renew()
        _transact(sink, topics)  # looks its topics up
        for _ in range(TRIES):
            time.sleep(1)  # the broker ends the one before
            before = _ends(config, topics)
            requests.clear()
            _transact(sink, topics)
            if requests == REQUESTS:
                break
    assert requests == REQUESTS
    markers = len(topics)  # one for each partition: all records of a topic went to one
    wait_until(lambda: _ends(config, topics) - before == RECORDS + markers, LIMIT_S, "the end of the transaction")


def _transact(sink: KafkaSink, topics: list[str]) -> None:
    sink.begin()
    for record in range(RECORDS):
        time.sleep(0.001)  # so long that a thread that is awake sends what is there
        sink.send(Output(topics[record % len(topics)], None, b"article", [], time.time_ns() // 1_000_000))
    sink.send_client_offsets({}, ConsumerGroupMetadata("sending"))
    sink.flush()
    sink.commit()


def _ends(config: Config, topics: list[str]) -> int:
    """Return the records of these topics, markers of transactions included."""
    with closing(make_consumer(config.kafka)) as consumer:
        at = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        return int(sum(consumer.end_offsets(at).values()))
