"""To which partitions the sink on kafka-python sends the records of a transaction."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic
from kafka.partitioner import DefaultPartitioner

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka.connection import make_admin, make_consumer
from stream_dedup.kafka.kafka_python.sink import KafkaSink, OnePartition
from stream_dedup.ports import Output
from tests.waiting import wait_until

TOPIC = "unique"
RECORDS = 50
LIMIT_S = 60.0
PARTITIONS = 4


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


def chosen(partitions: OnePartition, cluster: KnownPartitions, key: bytes | None = None) -> int:
    known: Any = cluster
    return partitions.partition(TOPIC, key, key, b"article", b"article", known)


def test_records_without_a_key_go_to_one_partition() -> None:
    """Until the next transaction, and to one that has a leader; those with a key go where the client sends them."""
    partitions, cluster = OnePartition(), KnownPartitions()
    rounds = []
    for number in range(60):
        rounds.append({chosen(partitions, cluster), chosen(partitions, cluster), chosen(partitions, cluster)})
        key = b"key %d" % number
        by_client = DefaultPartitioner().partition(TOPIC, key, key, None, None, cluster)
        assert chosen(partitions, cluster, key) == by_client
        assert chosen(partitions, cluster) in rounds[-1]
        partitions.forget()
    assert set(map(len, rounds)) == {1}
    assert set.union(*rounds) == {1, 2}


def test_a_topic_of_every_second_transaction_gets_records_in_all_partitions() -> None:
    """Transactions of offsets alone come between those with outputs, or outputs of another topic."""
    partitions, cluster = OnePartition(), KnownPartitions()
    cluster.available = cluster.every
    found = set()
    for _ in range(200):
        found.add(chosen(partitions, cluster))
        partitions.forget()
        partitions.forget()
    assert found == cluster.every


def test_a_partition_without_a_leader_is_left() -> None:
    """Also where the topic was recreated with fewer partitions, in the midst of a transaction."""
    partitions, cluster = OnePartition(), KnownPartitions()
    cluster.available = {3}
    assert chosen(partitions, cluster) == 3
    cluster.available = {2}
    assert chosen(partitions, cluster) == 2
    cluster.available, cluster.every = set(), {0}
    assert chosen(partitions, cluster) == 0
    assert chosen(partitions, cluster) == 0


@pytest.mark.broker
def test_records_of_a_transaction_lie_together(broker: DevBroker, tmp_path: Path) -> None:
    """A transaction of many records, of two topics, costs one marker in each."""
    name = f"sending-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-{number}" for number in range(2)]
    config = load_config(
        None, {"kafka": {"brokers": broker.bootstrap, "group": name}, "index": {"path": str(tmp_path)}}, {}
    )
    with closing(make_admin(config.kafka)) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics])
    with closing(KafkaSink(config, name)) as sink:
        sink.renew()
        for number in range(1, 4):
            sink.begin()
            now_ms = time.time_ns() // 1_000_000
            sink.send(Output(topics[at % len(topics)], None, b"article", [], now_ms) for at in range(RECORDS))
            sink.flush()
            sink.commit()
            _wait_for(config, topics, number * (RECORDS + len(topics)))


def _wait_for(config: Config, topics: list[str], expected: int) -> None:
    wait_until(lambda: _ends(config, topics) == expected, LIMIT_S, "the end of a transaction")


def _ends(config: Config, topics: list[str]) -> int:
    """Return the records of these topics, markers of transactions included."""
    with closing(make_consumer(config.kafka)) as consumer:
        at = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        return int(sum(consumer.end_offsets(at).values()))
