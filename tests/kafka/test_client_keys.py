"""Keys of the Kafka client on a broker: what they change there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.record.default_records import DefaultRecordBatch

from stream_dedup.config.model import Config
from stream_dedup.kafka.admin import AdminConnection, described_group
from stream_dedup.kafka.connection import make_consumer
from stream_dedup.kafka.kafka_python.source import KafkaSource
from stream_dedup.kafka.produce import produce_lines
from stream_dedup.kafka.topics import create_topics
from stream_dedup.ports import Membership
from tests.waiting import wait_until

POLL_S = 0.05
LIMIT_S = 60
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Their numbers in the attributes of a batch of records."""


def changed(config: Config, section: str, **keys: object) -> Config:
    return config.model_copy(update={section: getattr(config, section).model_copy(update=keys)})


def joined(config: Config, instance: str) -> KafkaSource:
    kafka = changed(config, "kafka", group_instance_id=instance)
    source = KafkaSource(kafka, f"{config.kafka.group}-{instance}", AdminConnection(config.kafka))
    source.join(config.topics.input)
    return source


def memberships(sources: Sequence[KafkaSource], partitions: int) -> list[Membership]:
    """Poll until together they have all partitions."""

    def found() -> list[Membership]:
        for source in sources:
            source.poll(POLL_S)
        return [membership for source in sources if (membership := source.membership()) is not None]

    def shared() -> bool:
        of_all = found()
        return len(of_all) == len(sources) and sum(len(one.partitions) for one in of_all) == partitions

    wait_until(shared, LIMIT_S, f"{len(sources)} members share {partitions} partitions")
    return found()


@pytest.mark.slow
def test_a_static_member_comes_back_without_a_rebalance(config: Config, admin: KafkaAdminClient) -> None:
    """It has its partitions again; those of the others, and the generation of the group, have not changed.

    The group has the names by which status and the settling of transactions know a worker.
    """
    config = changed(config, "topics", partitions=4)
    create_topics(admin, config)
    with closing(joined(config, "one")) as staying:
        leaving = joined(config, "two")
        before = memberships([staying, leaving], 4)
        names = {(one.client_id, one.instance_id) for one in described_group(admin, config.kafka.group)[1]}
        leaving.close()
        with closing(joined(config, "two")) as returned:
            after = memberships([staying, returned], 4)
    assert names == {(f"{config.kafka.group}-{instance}", instance) for instance in ("one", "two")}
    assert after[0] is before[0]
    assert (after[1].partitions, after[1].generation) == (before[1].partitions, before[1].generation)


@pytest.mark.parametrize(("compression", "codec"), CODECS.items())
def test_records_are_compressed(
    config: Config, admin: KafkaAdminClient, compression: str, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of records that the broker delivers have the codec of ``kafka.compression``."""
    create_topics(admin, config)
    topic = config.topics.input[0]
    compressed = changed(config, "kafka", compression=compression)
    assert produce_lines(compressed, topic, [b"ferry " * 100] * 10, None, lambda _count: None) == 10
    found: set[int] = set()
    read = DefaultRecordBatch.__iter__

    def noting(batch: DefaultRecordBatch) -> Any:  # noqa: ANN401 - the client is untyped
        found.add(batch.compression_type)
        return read(batch)

    monkeypatch.setattr(DefaultRecordBatch, "__iter__", noting)
    at = TopicPartition(topic, 0)
    with closing(make_consumer(config.kafka)) as consumer:
        consumer.assign([at])
        consumer.seek(at, 0)
        wait_until(lambda: sum(map(len, consumer.poll(200).values())) == 10, LIMIT_S, "the records come")
    assert found == {codec}
