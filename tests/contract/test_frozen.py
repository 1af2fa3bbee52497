"""What a source does while its brokers are frozen: they take connections and requests, and answer none.

Each member has many partitions: what waits for each of them in turn would hold up the thread that polls for a minute,
and the group would take the partitions away.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from stream_dedup.dev.broker import DevBroker
from stream_dedup.ports import ArticleSource, Partition, PassingError
from tests.contract.kafka_world import CLIENTS, KafkaWorld
from tests.contract.members import POLL_S, join, read, start_at

PARTITIONS = 64
BACKLOG = 5
LAG_LIMIT_S = 1.0
CALL_LIMIT_S = 20.0
"""A call with questions to the broker has a limit of a second or two for all of them; the machine may be busy."""


@dataclass(frozen=True)
class Paused:
    """A member with every partition of a topic, all paused, and another one that has not joined."""

    source: ArticleSource
    partitions: list[Partition]
    topic_id: bytes
    other: ArticleSource


def paused(world: KafkaWorld) -> Paused:
    """Return a member that has read one record, with a backlog in its last partition, of which it knows."""
    group, topic = world.name("group"), world.name("articles")
    world.make_log(group)
    topic_id = world.make_topic(topic, PARTITIONS)
    source, other = (world.ports(group, f"{group}-{name}").source for name in ("one", "other"))
    partitions = [Partition(topic, number) for number in range(PARTITIONS)]
    join(world, source, partitions)
    source.commit_start(partitions[0], start_at(0, topic_id))
    world.write(partitions[0], [b"read"])
    for partition in partitions:
        source.begin(partition, start_at(0, topic_id))
    read(world, source, 1)
    source.pause(partitions)
    world.write(partitions[-1], [b"waits"] * BACKLOG)
    world.wait_until(lambda: source.lag() == {topic: BACKLOG}, "the backlog is known")
    return Paused(source, partitions, topic_id, other)


def assert_never_waits_for_each(member: Paused) -> None:
    source, topic = member.source, member.partitions[0].topic
    taken_s = []
    for _ in range(3):
        begun = time.monotonic()
        assert source.lag() == {topic: BACKLOG}
        taken_s.append(time.monotonic() - begun)
    assert min(taken_s) < LAG_LIMIT_S  # a question to the broker takes longer each time
    for partition in member.partitions:
        source.begin(partition, start_at(0, member.topic_id, epoch=0))
    begun = time.monotonic()
    with pytest.raises(PassingError):
        source.commit_start(member.partitions[0], start_at(0, member.topic_id))
    assert time.monotonic() - begun < CALL_LIMIT_S
    absent = [f"absent-{number}" for number in range(9)]
    for call in [partial(source.poll, POLL_S)] * 3 + [partial(member.other.join, absent)]:
        begun = time.monotonic()
        call()
        assert time.monotonic() - begun < CALL_LIMIT_S, call


def test_no_call_of_the_polling_thread_waits_for_each_partition(own_broker: DevBroker) -> None:
    """The lag is what was known, at once; every other call ends within some seconds, for one partition or for all."""
    with ExitStack() as stack:
        members = [paused(KafkaWorld(own_broker.bootstrap, stack, client=client)) for client in CLIENTS]
        stack.callback(own_broker.thaw)  # before anything is closed
        own_broker.freeze()
        for member in members:
            assert_never_waits_for_each(member)
