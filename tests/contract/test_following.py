"""The contracts of ``TopicFollower`` and ``MarkedSink``."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from stream_dedup.ports import (
    FencedError,
    MarkedSink,
    OffsetGoneError,
    Output,
    Partition,
    PassingError,
    PublishedMark,
    RecordTooLargeError,
    TopicFollower,
)
from tests.contract.conftest import ONE_CLIENT, Group
from tests.contract.members import values
from tests.contract.world import World

pytestmark = ONE_CLIENT

POLL_S = 0.1
STORE_ID, OTHER_STORE_ID = b"id of the store!", b"another store's."


def follow(world: World, partition: Partition, offset: int) -> TopicFollower:
    follower = world.topic_follower()
    follower.follow({partition: offset})
    return follower


def read(world: World, follower: TopicFollower, count: int) -> list[bytes | None]:
    """Poll until ``count`` records came; return their values."""
    found: list[bytes | None] = []

    def enough() -> bool:
        for records in follower.poll(POLL_S).values():
            found.extend(values(records))
        return len(found) >= count

    world.wait_until(enough, f"{count} records are polled")
    return found


def test_records_are_followed_from_an_offset_on(world: World, group: Group) -> None:
    """What is there, and what comes later; the position is behind what was returned."""
    world.write(group.partition, [b"0", b"1"])
    follower = follow(world, group.partition, 1)
    assert read(world, follower, 1) == [b"1"]
    world.write(group.partition, [b"2"])
    assert read(world, follower, 1) == [b"2"]
    assert follower.positions() == {group.partition: 3}


def test_only_committed_records_are_followed(world: World, group: Group) -> None:
    """None of an open transaction, and none behind it; the position moves over markers and aborted records."""
    transaction = world.open_transaction(group.partition, [b"open"])
    world.write(group.partition, [b"behind"])
    follower = follow(world, group.partition, 0)
    assert [follower.poll(POLL_S) for _ in range(5)] == [{}] * 5
    assert follower.positions() == {group.partition: 0}
    transaction.abort()
    assert read(world, follower, 1) == [b"behind"]
    world.open_transaction(group.partition, [b"committed"]).commit()
    assert read(world, follower, 1) == [b"committed"]
    end = world.topic_reader().bounds([group.partition])[group.partition][1]

    def is_at_the_end() -> bool:
        assert follower.poll(POLL_S) == {}
        return follower.positions() == {group.partition: end}

    world.wait_until(is_at_the_end, "the position moves over the marker")


def test_another_follow_replaces_the_first(world: World, make_group: Callable[..., Group]) -> None:
    group = make_group(partitions=2)
    other = Partition(group.topic, 1)
    world.write(group.partition, [b"0", b"1"])
    world.write(other, [b"a", b"b"])
    follower = follow(world, group.partition, 0)
    assert read(world, follower, 2) == [b"0", b"1"]
    follower.follow({other: 1})
    assert read(world, follower, 1) == [b"b"]
    assert follower.positions() == {other: 2}


@pytest.mark.parametrize("offset", [0, 9])
def test_an_offset_that_is_not_there_is_an_error(world: World, group: Group, offset: int) -> None:
    """Deleted, or past the end; the follower goes on with another offset."""
    world.write(group.partition, [b"0", b"1"])
    world.delete_records(group.partition, 1)
    follower = follow(world, group.partition, offset)
    found: list[OffsetGoneError] = []

    def is_gone() -> bool:
        try:
            follower.poll(POLL_S)
        except OffsetGoneError as error:
            found.append(error)
        return bool(found)

    world.wait_until(is_gone, "the offset is missed")
    assert found[0].partitions == {group.partition}
    follower.follow({group.partition: 1})
    assert read(world, follower, 1) == [b"1"]


def test_a_topic_that_is_not_there_is_an_empty_answer(world: World, group: Group) -> None:
    """The other partitions are followed meanwhile."""
    world.write(group.partition, [b"0"])
    follower = world.topic_follower()
    follower.follow({group.partition: 0, Partition(world.name("missing"), 0): 0})
    assert read(world, follower, 1) == [b"0"]


class Publishing:
    """A topic, and sinks that publish on it."""

    def __init__(self, world: World, group: Group) -> None:
        self._world = world
        self._mark_group = f"{group.name}.clusters"
        self._id = f"{group.name}-{uuid.uuid4().hex}"
        self.topic = group.output

    def sink(self) -> MarkedSink:
        return self._world.marked_sink(self.topic, self._mark_group, self._id)

    def output(self, value: bytes) -> Output:
        return Output(self.topic, b"key", value, [], self._world.time_ms())

    def seen(self, *expected: bytes) -> None:
        records = self._world.committed_records
        self._world.wait_until(lambda: values(records(self.topic)) == list(expected), f"{expected} are seen")


@pytest.fixture
def publishing(world: World, group: Group) -> Publishing:
    return Publishing(world, group)


def test_a_mark_is_committed_with_its_records(publishing: Publishing) -> None:
    """A first start has none; another start, and another process, find the last one."""
    sink = publishing.sink()
    assert sink.renew() is None
    sink.publish([publishing.output(b"0"), publishing.output(b"1")], PublishedMark(STORE_ID, 2))
    sink.publish([publishing.output(b"2")], PublishedMark(STORE_ID, 7))
    publishing.seen(b"0", b"1", b"2")
    assert sink.renew() == PublishedMark(STORE_ID, 7)
    assert publishing.sink().renew() == PublishedMark(STORE_ID, 7)


def test_a_mark_may_go_back_and_belong_to_another_store(publishing: Publishing) -> None:
    sink = publishing.sink()
    sink.renew()
    sink.publish([publishing.output(b"0")], PublishedMark(STORE_ID, 9))
    sink.publish([publishing.output(b"1")], PublishedMark(OTHER_STORE_ID, 1))
    assert sink.renew() == PublishedMark(OTHER_STORE_ID, 1)


def test_a_tombstone_is_published(world: World, publishing: Publishing) -> None:
    sink = publishing.sink()
    sink.renew()
    sink.publish([Output(publishing.topic, b"key", None, [], world.time_ms())], PublishedMark(STORE_ID, 1))
    world.wait_until(lambda: len(world.committed_records(publishing.topic)) == 1, "it is seen")
    record = world.committed_records(publishing.topic)[0]
    assert (record.key, record.value) == (b"key", None)


def test_a_publication_without_an_answer_is_settled_by_renew(world: World, publishing: Publishing) -> None:
    """The broker carried it out: its mark is the last one, and its records are there once."""
    sink = publishing.sink()
    sink.renew()
    with pytest.raises(PassingError):
        world.publish_without_answer(sink, [publishing.output(b"0")], PublishedMark(STORE_ID, 1))
    assert sink.renew() == PublishedMark(STORE_ID, 1)
    publishing.seen(b"0")


def test_a_publication_that_fails_leaves_neither_records_nor_mark(world: World, group: Group) -> None:
    """A record is too large: the one before it and the mark are not committed; the sink goes on after ``renew``."""
    small = world.name("small")
    world.make_topic(small, largest_batch=2_000)
    sink = world.marked_sink(small, f"{group.name}.clusters", f"{group.name}-{uuid.uuid4().hex}")
    sink.renew()
    outputs = [Output(small, b"key", value, [], world.time_ms()) for value in (b"fits", b"x" * 5_000)]
    with pytest.raises(RecordTooLargeError):
        sink.publish(outputs, PublishedMark(STORE_ID, 1))
    assert sink.renew() is None
    sink.publish(outputs[:1], PublishedMark(STORE_ID, 2))
    world.wait_until(lambda: values(world.committed_records(small)) == [b"fits"], "the next one is seen")


def test_a_second_publisher_fences_the_first(publishing: Publishing) -> None:
    one, other = publishing.sink(), publishing.sink()
    one.renew()
    one.publish([publishing.output(b"0")], PublishedMark(STORE_ID, 1))
    assert other.renew() == PublishedMark(STORE_ID, 1)
    with pytest.raises(FencedError):
        one.publish([publishing.output(b"of the first")], PublishedMark(STORE_ID, 2))
    other.publish([publishing.output(b"1")], PublishedMark(OTHER_STORE_ID, 2))
    publishing.seen(b"0", b"1")
