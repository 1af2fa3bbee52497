"""The development cluster: three nodes, of which one may be away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.config.load import load_config
from stream_dedup.config.model import KafkaConfig
from stream_dedup.dev.broker import DevCluster
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer
from tests.nodes import Leaders, leaders, move_leaders, start_node, wait_in_sync, wait_leaders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PARTITIONS = 3
ANSWER_S = 30.0
"""For a leader to be elected and a record to be acknowledged."""


@pytest.fixture
def kafka(cluster: DevCluster) -> KafkaConfig:
    return load_config(overrides={"kafka": {"brokers": cluster.bootstrap}}, environment={}).kafka


@pytest.fixture
def new_topic(kafka: KafkaConfig, topic_name: Callable[..., str]) -> str:
    """A topic made without a replication factor."""
    topic = topic_name()
    with closing(make_admin(kafka)) as admin:
        admin.create_topics({topic: {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    return topic


def write(kafka: KafkaConfig, topic: str, values: list[bytes]) -> None:
    """Write a value to each partition in turn, each acknowledged by all replicas in sync."""
    with closing(make_producer(kafka, acks="all")) as producer:
        sent = [producer.send(topic, value, partition=at % PARTITIONS) for at, value in enumerate(values)]
        for future in sent:
            future.get(timeout=ANSWER_S)


def read(kafka: KafkaConfig, topic: str, count: int) -> list[bytes]:
    with closing(make_consumer(kafka)) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        return sorted(next(consumer).value for _ in range(count))


def leaders_of(found: Leaders, topic: str) -> list[int]:
    return [leader for at, leader in sorted(found.items()) if at.topic == topic]


def test_topics_are_replicated(kafka: KafkaConfig, new_topic: str) -> None:
    """A topic made without a replication factor is on all nodes, and two of them acknowledge a record."""
    resource = ConfigResource(ConfigResourceType.TOPIC, new_topic)
    with closing(make_admin(kafka)) as admin:
        found = admin.describe_topics([new_topic])[0]
        settings = admin.describe_configs([resource], config_filter="all")["topic"][new_topic]
    assert [sorted(partition["replica_nodes"]) for partition in found["partitions"]] == [[1, 2, 3]] * PARTITIONS
    assert settings["min.insync.replicas"]["value"] == "2"


def test_a_node_may_be_killed(cluster: DevCluster, kafka: KafkaConfig, new_topic: str) -> None:
    """A node is killed: writes go on without it, it comes back with its data, and no record is lost."""
    write(kafka, new_topic, [b"a", b"b", b"c"])
    cluster.node(1).kill()
    assert not cluster.running()
    wait_leaders(cluster, partial(_leads_nothing, topic=new_topic, number=1))
    write(kafka, new_topic, [b"d", b"e", b"f"])
    start_node(cluster, 1)
    wait_in_sync(cluster)
    assert cluster.running()
    assert read(kafka, new_topic, 6) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def _leads_nothing(found: Leaders, topic: str, number: int) -> bool:
    return not {number, -1} & set(leaders_of(found, topic))


def test_leaders_move(cluster: DevCluster, kafka: KafkaConfig, new_topic: str) -> None:
    """Every partition gets another leader, and records are written and read as before."""
    wait_in_sync(cluster)
    before = leaders_of(leaders(cluster), new_topic)
    move_leaders(cluster)
    wait_leaders(cluster, partial(_all_moved, topic=new_topic, before=before))
    write(kafka, new_topic, [b"a", b"b", b"c"])
    assert read(kafka, new_topic, 3) == [b"a", b"b", b"c"]


def _all_moved(found: Leaders, topic: str, before: list[int]) -> bool:
    return all(now not in (then, -1) for now, then in zip(leaders_of(found, topic), before, strict=True))
