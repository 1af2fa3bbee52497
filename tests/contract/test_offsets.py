"""The contracts of ``GroupOffsets`` and ``TopicReader``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stream_dedup.ports import OffsetGoneError, Partition
from tests.contract.conftest import ONE_CLIENT, Group
from tests.contract.members import join, start_at, values
from tests.contract.world import World

pytestmark = ONE_CLIENT


def test_the_ids_of_the_topics_that_exist(world: World, group: Group) -> None:
    found = group.member().offsets.topic_ids([group.topic, world.name("missing")])
    assert found == {group.topic: group.topic_id}


def test_the_ids_of_all_topics(world: World, group: Group) -> None:
    """Those of a topic of articles and of a log are among them; the broker's own are not, and nor is a deleted one."""
    gone = world.name("gone")
    world.make_topic(gone)
    ports = group.member()
    join(world, ports.source, [group.partition])  # the broker has a topic of offsets now
    world.delete_topic(gone)
    found = ports.offsets.topic_ids(None)
    assert found[group.topic] == group.topic_id
    assert world.log_topic(group.name) in found
    assert gone not in found
    assert not [name for name in found if name.startswith("__")]
    assert ports.offsets.topic_ids([]) == {}


def test_a_topic_that_is_recreated_has_another_id_and_begins_at_0(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    world.delete_records(group.partition, 1)
    world.delete_topic(group.topic)
    topic_id = world.make_topic(group.topic)
    ports = group.member()
    assert topic_id != group.topic_id
    assert ports.offsets.topic_ids([group.topic]) == {group.topic: topic_id}
    world.write(group.partition, [b"anew"])
    join(world, ports.source, [group.partition])
    assert ports.source.beginning(group.partition) == 0


def test_the_offsets_of_a_deleted_topic_go_with_it(world: World, group: Group) -> None:
    """Those that are committed, and those that an open transaction would commit."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    ports.source.commit_start(group.partition, start_at(3, group.topic_id))
    ports.sink.renew()
    ports.sink.begin()
    ports.sink.send_offsets({group.partition: start_at(7, group.topic_id)}, membership)
    assert world.committed_offsets(group.name) == {group.partition: start_at(3, group.topic_id)}
    world.delete_topic(group.topic)
    world.wait_until(lambda: world.committed_offsets(group.name) == {}, "the broker has dropped what was committed")
    ports.sink.commit()
    ports.sink.renew()
    assert world.committed_offsets(group.name) == {}


def test_the_committed_offsets_are_all_those_of_the_group(world: World, make_group: Callable[..., Group]) -> None:
    """Each with the topic id beside it, or none."""
    group = make_group(partitions=2)
    ports = group.member()
    assert ports.offsets.committed() == {}
    other = Partition(group.topic, 1)
    world.set_offset(group.name, group.partition, start_at(3, group.topic_id))
    world.set_offset(group.name, other, start_at(5))
    assert ports.offsets.committed() == {group.partition: start_at(3, group.topic_id), other: start_at(5)}


def test_an_offset_of_an_open_transaction_is_not_among_them(world: World, group: Group) -> None:
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    ports.sink.renew()
    ports.sink.begin()
    ports.sink.send_offsets({group.partition: start_at(3)}, membership)
    assert ports.offsets.committed() == {}


def test_the_partitions_of_the_topics_that_exist(world: World, group: Group) -> None:
    topic = world.name("wide")
    world.make_topic(topic, partitions=2)
    found = world.topic_reader().partitions([topic, world.name("missing"), group.topic])
    assert sorted(found) == sorted([Partition(topic, 0), Partition(topic, 1), group.partition])


def test_the_bounds_include_open_transactions_and_begin_after_what_was_deleted(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    world.delete_records(group.partition, 1)
    world.open_transaction(group.partition, [b"2"])
    assert world.topic_reader().bounds([group.partition]) == {group.partition: (1, 3)}


def test_the_committed_records_of_the_ranges_are_read(world: World, group: Group) -> None:
    """From each first offset up to, not including, the second; also a range that ends with a marker."""
    world.write(group.partition, [b"0", b"1"])
    world.open_transaction(group.partition, [b"aborted"]).abort()
    world.open_transaction(group.partition, [b"committed"]).commit()
    other = Partition(group.output, 0)
    world.write(other, [b"a", b"b", b"c"])
    reader = world.topic_reader()
    end = reader.bounds([group.partition])[group.partition][1]
    found = list(reader.read({group.partition: (1, end), other: (0, 2)}))
    assert values(one for one in found if one.topic == group.topic) == [b"1", b"committed"]
    assert values(one for one in found if one.topic == group.output) == [b"a", b"b"]


def test_an_empty_range_yields_nothing(world: World, group: Group) -> None:
    assert list(world.topic_reader().read({group.partition: (0, 0)})) == []


def test_a_second_read_of_the_same_reader_begins_anew(world: World, group: Group) -> None:
    """Also where the first was left before its end."""
    world.write(group.partition, [b"0", b"1"])
    reader = world.topic_reader()
    assert next(iter(reader.read({group.partition: (0, 2)}))).value == b"0"
    assert values(reader.read({group.partition: (0, 2)})) == [b"0", b"1"]


def test_a_range_whose_first_offset_is_deleted_is_an_error(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    world.delete_records(group.partition, 1)
    with pytest.raises(OffsetGoneError):
        list(world.topic_reader().read({group.partition: (0, 2)}))
