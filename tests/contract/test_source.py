"""The contract of ``ArticleSource``: membership, and the records of partitions that have begun."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka import connection as client
from stream_dedup.kafka.confluent import client as confluent_client
from stream_dedup.ports import (
    ArticleSource,
    CommittedOffset,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    PortError,
    SourceChangedError,
)
from tests.contract.conftest import Group
from tests.contract.members import is_quiet, join, read, start_at, values, wait_for_generation, wait_for_members
from tests.contract.world import World

UNKNOWN_EPOCH = -1
MORE_THAN_A_POLL = 600
"""Records; a poll returns at most ``worker.batch_records``, 500."""


def joined(world: World, group: Group) -> ArticleSource:
    """The source of the one member of a group."""
    source = group.member().source
    join(world, source, [group.partition])
    return source


def reading(world: World, group: Group, offset: int = 0) -> ArticleSource:
    """The same, with the partition begun."""
    source = joined(world, group)
    source.begin(group.partition, start_at(offset, group.topic_id))
    return source


def poll_until_error(world: World, source: ArticleSource) -> PortError:
    """Poll until it raises; return the error."""
    raised: list[PortError] = []

    def fails() -> bool:
        try:
            source.poll(0.1)
        except PortError as error:
            raised.append(error)
        return bool(raised)

    world.wait_until(fails, "poll raises an error")
    return raised[0]


@pytest.fixture
def short_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that are made look up their topics twice a second, in place of every five seconds."""
    for module in (client, confluent_client):
        monkeypatch.setattr(module, "METADATA_MS", 500)


# Membership.


def test_one_member_is_given_every_partition(world: World, make_group: Callable[..., Group]) -> None:
    """Before its first assignment it has no membership, and its generation is not below 0."""
    group = make_group(partitions=2)
    source = group.member().source
    assert source.membership() is None
    membership = join(world, source, [Partition(group.topic, 0), Partition(group.topic, 1)])
    assert membership.generation >= 0
    assert source.membership() is membership


def test_two_members_share_the_partitions_under_a_later_generation(
    world: World, make_group: Callable[..., Group]
) -> None:
    """No partition is with both; when one leaves, the other has all again, under a still later generation."""
    group = make_group(partitions=2)
    partitions = [Partition(group.topic, 0), Partition(group.topic, 1)]
    one, other = group.member().source, group.member().source
    alone = join(world, one, partitions)
    other.join([group.topic])
    first, second = wait_for_members(world, [one, other], partitions)
    assert len(first.partitions) == len(second.partitions) == 1
    assert first.generation == second.generation > alone.generation
    other.close()
    assert other.membership() is None
    assert wait_for_members(world, [one], partitions)[0].generation > first.generation


def test_members_of_different_topics_are_given_what_they_read(world: World, make_group: Callable[..., Group]) -> None:
    """A topic that one member reads is with that member: workers are given another ``topics.input`` one by one."""
    group, added = make_group(partitions=2), world.name("added")
    world.make_topic(added, 3)
    partitions = [*(Partition(group.topic, number) for number in range(2)), *(Partition(added, at) for at in range(3))]
    old, new = group.member().source, group.member().source
    join(world, old, partitions[:2])
    new.join([group.topic, added])
    of_old, of_new = wait_for_members(world, [old, new], partitions)
    assert len(of_old.partitions) == 1
    assert {partition.topic for partition in of_old.partitions} == {group.topic}
    assert set(partitions[2:]) < of_new.partitions


def test_joining_again_replaces_the_topics(world: World, make_group: Callable[..., Group]) -> None:
    """The membership ends at once, and the next one has the partitions of the new topics, of which all are held.

    The other member goes on with its own topic. What was read before is read again only from where it begins.
    """
    group, added = make_group(), world.name("added")
    added_id = world.make_topic(added)
    one, other, partition = group.member().source, group.member().source, Partition(added, 0)
    join(world, one, [group.partition])
    one.begin(group.partition, start_at(0, group.topic_id))
    world.write(group.partition, [b"0", b"1"])
    assert values(read(world, one, 2)) == [b"0", b"1"]
    one.join([group.topic, added])
    assert one.membership() is None
    with pytest.raises(NotAMemberError):
        one.begin(group.partition, start_at(0, group.topic_id))
    wait_for_members(world, [one], [group.partition, partition])
    world.write(group.partition, [b"2"])
    world.write(partition, [b"3"])
    assert is_quiet(one)
    one.begin(group.partition, start_at(2, group.topic_id))
    one.begin(partition, start_at(0, added_id))
    assert sorted(values(read(world, one, 2)), key=str) == [b"2", b"3"]
    other.join([group.topic])
    wait_for_members(world, [one, other], [group.partition, partition])
    one.join([added])
    of_one, of_other = wait_for_members(world, [one, other], [group.partition, partition])
    assert [list(each.partitions) for each in (of_one, of_other)] == [[partition], [group.partition]]


def test_a_revocation_ends_the_membership_before_the_next_begins(
    world: World, make_group: Callable[..., Group]
) -> None:
    """A third member joins: the first one has none until the second, which does not poll, gives its partitions back."""
    group = make_group(partitions=3)
    partitions = [Partition(group.topic, number) for number in range(3)]
    one, silent, third = (group.member().source for _ in range(3))
    for source in (one, silent):
        source.join([group.topic])
    wait_for_members(world, [one, silent], partitions)
    third.join([group.topic])
    world.wait_until(lambda: not third.poll(0.1) and not one.poll(0.1) and one.membership() is None, "it ends")
    wait_for_members(world, [one, silent, third], partitions)


@pytest.mark.usefixtures("short_look_ups")
def test_topics_that_are_made_later_are_waited_for(world: World, group: Group) -> None:
    """A member of a topic that does not exist yet is given its partitions once it does."""
    source, topic = group.member().source, world.name("later")
    source.join([group.topic, topic])
    wait_for_members(world, [source], [group.partition])
    world.make_topic(topic)
    wait_for_members(world, [source], [group.partition, Partition(topic, 0)])


@pytest.mark.usefixtures("short_look_ups")
def test_partitions_that_are_added_are_assigned_and_begin_at_their_beginning(
    world: World, make_group: Callable[..., Group]
) -> None:
    """No member is restarted for it, none waits for the other, and records that were written before are not lost."""
    group = make_group()
    one, other = group.member().source, group.member().source
    for source in (one, other):
        source.join([group.topic])
    wait_for_members(world, [one, other], [group.partition])
    world.add_partitions(group.topic, 3)
    partitions = [Partition(group.topic, number) for number in range(3)]
    for partition in partitions:
        world.write(partition, [str(partition.number).encode()])
    found = []
    for source, membership in zip((one, other), wait_for_members(world, [one, other], partitions), strict=True):
        for partition in membership.partitions:
            assert source.committed(partition) is None
            source.begin(partition, start_at(source.beginning(partition), group.topic_id))
        found += values(read(world, source, len(membership.partitions)))
    assert set(found) == {b"0", b"1", b"2"}


# Records.


def test_a_partition_is_held_until_it_begins(world: World, group: Group) -> None:
    """It yields nothing, and then everything from its start on, in order."""
    world.write(group.partition, [b"0", b"1", b"2"])
    source = joined(world, group)
    assert is_quiet(source)
    source.begin(group.partition, start_at(1, group.topic_id))
    assert [(record.offset, record.value) for record in read(world, source, 2)] == [(1, b"1"), (2, b"2")]


def test_only_committed_records_are_seen(world: World, group: Group) -> None:
    """Records of an aborted transaction never come; markers and aborted records leave gaps in the offsets."""
    world.write(group.partition, [b"before"])
    world.open_transaction(group.partition, [b"aborted"]).abort()
    world.open_transaction(group.partition, [b"committed"]).commit()
    world.write(group.partition, [b"after"])
    found = read(world, reading(world, group), 3)
    assert values(found) == [b"before", b"committed", b"after"]
    assert [record.offset for record in found] == [0, 3, 5]


def test_an_open_transaction_holds_back_what_is_behind_it(world: World, group: Group) -> None:
    """Its records and all later ones come when it ends."""
    world.write(group.partition, [b"before"])
    transaction = world.open_transaction(group.partition, [b"open"])
    world.write(group.partition, [b"behind"])
    source = reading(world, group)
    assert values(read(world, source, 1)) == [b"before"]
    assert is_quiet(source)
    transaction.commit()
    assert values(read(world, source, 2)) == [b"open", b"behind"]


def test_records_of_another_rebalance_are_held_too(world: World, group: Group) -> None:
    """A partition that has begun is held again by the next membership, though the same member keeps it."""
    one, other = group.member().source, group.member().source
    join(world, one, [group.partition])
    one.begin(group.partition, start_at(0, group.topic_id))
    other.join([group.topic])
    shared = wait_for_members(world, [one, other], [group.partition])[0]
    other.close()
    # Whichever of both had the partition.
    wait_for_generation(world, one, shared.generation + 1)
    world.write(group.partition, [b"0"])
    assert is_quiet(one)
    one.begin(group.partition, start_at(0, group.topic_id))
    assert values(read(world, one, 1)) == [b"0"]


def test_hold_stops_and_begin_goes_back(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    source = reading(world, group)
    read(world, source, 2)
    world.write(group.partition, [b"2"])
    source.hold()
    assert is_quiet(source)
    source.begin(group.partition, start_at(1, group.topic_id))
    assert values(read(world, source, 2)) == [b"1", b"2"]


def test_pause_stops_fetching_and_keeps_the_membership_and_the_position(world: World, group: Group) -> None:
    world.write(group.partition, [b"0"])
    source = reading(world, group)
    read(world, source, 1)
    membership = source.membership()
    source.pause([group.partition])
    world.write(group.partition, [b"1"])
    assert is_quiet(source)
    source.pause([])
    assert values(read(world, source, 1)) == [b"1"]
    assert source.membership() is membership


def test_a_pause_of_one_partition_holds_up_no_other(world: World, make_group: Callable[..., Group]) -> None:
    """Whether the partition begins before the pause or after it; the next call replaces the pause."""
    group = make_group(partitions=2)
    source, paused, other = group.member().source, Partition(group.topic, 0), Partition(group.topic, 1)
    join(world, source, [paused, other])
    source.pause([paused])
    for partition in (paused, other):
        source.begin(partition, start_at(0, group.topic_id))
        world.write(partition, [str(partition.number).encode()])
    assert values(read(world, source, 1)) == [b"1"]
    assert is_quiet(source)
    source.pause([other])
    assert values(read(world, source, 1)) == [b"0"]
    source.pause([paused])
    for partition in (paused, other):
        world.write(partition, [str(partition.number).encode()])
    assert values(read(world, source, 1)) == [b"1"]
    assert is_quiet(source)


def test_what_was_fetched_before_a_pause_comes_after_it(world: World, make_group: Callable[..., Group]) -> None:
    """Another partition goes on meanwhile, and is read to its end; a fetch has more records than a poll returns."""
    group = make_group(partitions=2)
    source, paused, other = group.member().source, Partition(group.topic, 0), Partition(group.topic, 1)
    join(world, source, [paused, other])
    written = [str(number).encode() for number in range(MORE_THAN_A_POLL)]
    world.write(paused, written)
    for partition in (paused, other):
        source.begin(partition, start_at(0, group.topic_id))
    found = values(read(world, source, 1))
    source.pause([paused])
    assert is_quiet(source)
    world.write(other, [b"other"])
    assert values(read(world, source, 1)) == [b"other"]
    source.pause([])
    found += values(read(world, source, MORE_THAN_A_POLL - len(found)))
    assert found == written


def test_the_lag_is_none_when_everything_was_returned(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    source = reading(world, group)
    read(world, source, 2)
    assert source.lag() == {group.topic: 0}


def test_the_lag_counts_what_is_written_to_a_paused_partition(world: World, group: Group) -> None:
    """Nothing is fetched of it: a worker whose batches do not leave would show the lag of the moment it got stuck."""
    world.write(group.partition, [b"0"])
    source = reading(world, group)
    read(world, source, 1)
    source.pause([group.partition])
    world.write(group.partition, [b"1", b"2"])
    world.wait_until(lambda: source.lag() == {group.topic: 2}, "the lag is that of the partition now")


def test_the_end_of_a_transaction_is_no_lag(world: World, group: Group) -> None:
    """Transactions end with a record that nobody is given: an idle topic would seem to have articles that wait."""
    world.open_transaction(group.partition, [b"committed"]).commit()
    source = reading(world, group)
    read(world, source, 1)
    world.wait_until(lambda: not source.poll(0.1) and source.lag() == {group.topic: 0}, "the lag is 0")


def test_the_position_is_behind_what_was_returned_and_not_behind_what_was_fetched(
    world: World, make_group: Callable[..., Group]
) -> None:
    """None of a held partition. A fetch has more records than a poll returns."""
    group = make_group(partitions=2)
    source, other = group.member().source, Partition(group.topic, 1)
    join(world, source, [group.partition, other])
    world.write(group.partition, [str(number).encode() for number in range(MORE_THAN_A_POLL)])
    assert source.positions() == {}
    source.begin(group.partition, start_at(0, group.topic_id))
    last = read(world, source, 1)[-1]
    assert last.offset < MORE_THAN_A_POLL - 1
    assert source.positions() == {group.partition: CommittedOffset(SourceOffset(last.offset + 1), None, 0)}
    source.hold()
    assert source.positions() == {}


def test_the_position_passes_markers_and_aborted_records(world: World, group: Group) -> None:
    """It stops before an open transaction. Committed alone, under the membership, it is where reading goes on."""
    ports, partition = group.member(), group.partition
    source, sink = ports.source, ports.sink
    membership = join(world, source, [partition])
    source.begin(partition, start_at(0, group.topic_id))
    world.open_transaction(partition, [b"committed"]).commit()
    world.open_transaction(partition, [b"aborted", b"too"]).abort()
    last = world.open_transaction(partition, [b"last"])
    assert values(read(world, source, 1)) == [b"committed"]
    world.wait_until(
        lambda: not source.poll(0.1) and source.positions()[partition].offset == 5, "it is at the open one"
    )
    assert is_quiet(source)
    epoch = source.positions()[partition].leader_epoch
    assert epoch in {0, UNKNOWN_EPOCH}
    assert source.positions() == {partition: start_at(5, epoch=epoch)}
    sink.renew()
    sink.begin()
    sink.send_offsets({partition: start_at(5, group.topic_id, epoch)}, membership)
    sink.flush()
    sink.commit()
    known = start_at(5, group.topic_id, None if epoch == UNKNOWN_EPOCH else epoch)
    world.wait_until(lambda: _committed(source, group) == known, "it is committed")
    source.hold()
    source.begin(partition, known)
    last.commit()
    assert values(read(world, source, 1)) == [b"last"]


def test_deleted_records_that_come_next_are_an_error(world: World, group: Group) -> None:
    """The error names the partition; its beginning is then where records are."""
    world.write(group.partition, [b"0", b"1", b"2"])
    world.delete_records(group.partition, 2)
    source = reading(world, group)
    error = poll_until_error(world, source)
    assert isinstance(error, OffsetGoneError)
    assert error.partitions == {group.partition}
    assert source.beginning(group.partition) == 2
    source.begin(group.partition, start_at(2, group.topic_id))
    assert values(read(world, source, 1)) == [b"2"]


def test_a_start_past_the_end_is_an_error(world: World, group: Group) -> None:
    world.write(group.partition, [b"0"])
    assert isinstance(poll_until_error(world, reading(world, group, offset=9)), OffsetGoneError)


def test_a_start_that_its_leader_epoch_never_reached_is_a_changed_source(world: World, group: Group) -> None:
    """The partition was truncated below the committed offset: its epoch ends before it."""
    world.write(group.partition, [b"0"])
    source = joined(world, group)
    epoch = 0
    source.begin(group.partition, start_at(9, group.topic_id, epoch))
    assert isinstance(poll_until_error(world, source), SourceChangedError)


def test_a_start_under_the_leader_epoch_of_the_record_before_it_is_read_from(world: World, group: Group) -> None:
    world.write(group.partition, [b"0", b"1"])
    source = reading(world, group)
    before = read(world, source, 2)[0]
    source.hold()
    source.begin(group.partition, start_at(before.offset + 1, group.topic_id, before.leader_epoch))
    assert values(read(world, source, 1)) == [b"1"]


def test_a_partition_of_another_member_does_not_begin(world: World, group: Group) -> None:
    """Nor is an offset committed for it, nor before the first assignment."""
    source = group.member().source
    with pytest.raises(NotAMemberError):
        source.begin(group.partition, start_at(0, group.topic_id))
    join(world, source, [group.partition])
    other = Partition(group.topic, 7)
    with pytest.raises(NotAMemberError):
        source.begin(other, start_at(0, group.topic_id))
    with pytest.raises(NotAMemberError):
        source.commit_start(other, start_at(0, group.topic_id))


# Committed offsets.


def test_there_is_no_committed_offset_at_first_and_then_the_one_that_was_committed(world: World, group: Group) -> None:
    source = joined(world, group)
    assert source.committed(group.partition) is None
    start = start_at(3, group.topic_id, epoch=0)
    source.commit_start(group.partition, start)
    assert source.committed(group.partition) == start


def test_an_offset_that_was_set_by_hand_has_no_topic_id(world: World, group: Group) -> None:
    world.set_offset(group.name, group.partition, start_at(5))
    assert joined(world, group).committed(group.partition) == start_at(5)


def test_an_offset_in_an_open_transaction_is_waited_for(world: World, group: Group) -> None:
    """It is not known until the transaction ends; then it is the one that was committed."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    ports.sink.renew()
    ports.sink.begin()
    ports.sink.send_offsets({group.partition: start_at(4, group.topic_id)}, membership)
    with pytest.raises(PassingError):
        ports.source.committed(group.partition)
    ports.sink.commit()
    world.wait_until(lambda: _committed(ports.source, group) == start_at(4, group.topic_id), "the offset is known")


def _committed(source: ArticleSource, group: Group) -> object:
    try:
        return source.committed(group.partition)
    except PassingError:
        return None
