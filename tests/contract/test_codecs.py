"""Batches of every codec of Kafka are read by every port that reads, with each client.

A codec has more than one form: the Java client and brokers cut snappy into blocks, librdkafka does not.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch

from stream_dedup.core.entry import encode
from stream_dedup.core.model import LogOffset
from stream_dedup.dev.broker import DevBroker
from stream_dedup.ports import Partition
from tests.contract.kafka_world import CLIENTS, KafkaWorld
from tests.contract.members import join, start_at, values
from tests.contract.members import read as read_source
from tests.contract.test_following import follow
from tests.contract.test_following import read as read_followed
from tests.contract.test_log import append_all, revisions
from tests.contract.test_log import read as read_log
from tests.logs import rules

pytestmark = pytest.mark.broker

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Their numbers in the attributes of a batch."""
VALUES = [b"%d " % number + b"ferry " * 20_000 for number in range(2)]
"""Several blocks of a codec that has blocks."""


@pytest.fixture
def codecs(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The codecs of the batches that kafka-python reads, by the offset of their first record."""
    found: dict[int, int] = {}
    read = DefaultRecordBatch.__iter__

    def noting(batch: DefaultRecordBatch) -> Any:  # noqa: ANN401 - the client is untyped
        found[batch.base_offset] = batch.compression_type
        return read(batch)

    monkeypatch.setattr(DefaultRecordBatch, "__iter__", noting)
    return found


def write_articles(world: KafkaWorld) -> dict[Partition, list[int]]:
    """Write the values with every codec by each client, and where the broker compresses; return the codecs."""
    every = Partition(world.name("every"), 0)
    world.make_topic(every.topic)
    for name in CODECS:
        world.write(every, VALUES, name)
        world.write_by_librdkafka(every, VALUES, name)
    by_broker = {Partition(world.name(name), 0): [number] * len(VALUES) for name, number in CODECS.items() if number}
    for at, name in zip(by_broker, list(CODECS)[1:], strict=True):
        world.make_topic(at.topic, codec=name)
        world.write(at, VALUES)
    return {every: [number for number in CODECS.values() for _ in range(2 * len(VALUES))], **by_broker}


@pytest.mark.slow
def test_articles_of_every_codec_are_read(broker: DevBroker, codecs: dict[int, int]) -> None:
    """By the sources of both clients, by a reader and by a follower."""
    with ExitStack() as stack:
        worlds = [KafkaWorld(broker.bootstrap, stack, client=client) for client in CLIENTS]
        written = write_articles(worlds[0])
        count = sum(map(len, written.values()))
        reader = stack.enter_context(closing(worlds[0].topic_reader()))
        for at, (begin, end) in reader.bounds(written).items():
            codecs.clear()
            found = values(reader.read({at: (begin, end)}))
            assert found == VALUES * (len(written[at]) // len(VALUES))
            assert codecs == {offset: written[at][offset] for offset in codecs}
            assert values_followed(worlds[0], at, len(found)) == found
        for world in worlds:
            group = world.name("group")
            world.make_log(group)
            source = world.ports(group, f"{group}-member").source
            join(world, source, sorted(written))
            for at in written:
                source.begin(at, start_at(0))
            records = read_source(world, source, count)
            assert Counter(values(records)) == Counter(VALUES * (count // len(VALUES)))


def values_followed(world: KafkaWorld, at: Partition, count: int) -> list[bytes | None]:
    return read_followed(world, follow(world, at, 0), count)


@pytest.mark.slow
def test_log_records_of_every_codec_are_read(broker: DevBroker) -> None:
    """What the log appends where the broker compresses, and copies by other programs."""
    numbers = list(range(1, 40))
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack)
        copied, appended = world.name("copied"), world.name("appended")
        world.make_log(copied)
        world.make_log(appended, codec="snappy")
        at, raw = Partition(world.log_topic(copied), 0), [encode(rules(number)) for number in numbers]
        for codec in CODECS:
            world.write(at, raw, codec)
        append_all(world.ports(appended, f"{appended}-member").log, numbers)
        for group, expected in ((copied, numbers * len(CODECS)), (appended, numbers)):
            log = world.ports(group, f"{group}-reader").log
            log.seek(LogOffset(0))
            assert revisions(read_log(world, log, len(expected))) == expected
