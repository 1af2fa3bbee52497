"""What the source makes of each error of its client, and of a topic that was recreated, without a broker."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UserError
from stream_dedup.ports import (
    ArticleSource,
    CommittedOffset,
    Membership,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    PortError,
    RefusedByBrokerError,
    SourceChangedError,
    SourceRecord,
    UnreadableError,
)
from stream_dedup.worker.assignments import AssignmentOwner, PolledBatch
from stream_dedup.worker.source import ERROR_PAUSE_S, SETTLE_PAUSE_S, SETTLE_S, BatchSource
from stream_dedup.worker.watches import TopicWatch
from tests.worker.clocks import ManualClock

AT, OTHER = Partition("articles", 0), Partition("articles", 1)
TOPIC_ID, NEW_ID = uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes
WAIT_S = 0.1


class Client:
    """A client of two partitions; ``error`` is raised by the next poll, ``offsets`` are the committed ones."""

    def __init__(self) -> None:
        self.member: Membership | None = Membership(frozenset({AT, OTHER}), 1, "proof")
        self.error: PortError | None = None
        self.offsets: dict[Partition, CommittedOffset | PortError] = {}
        self.begun: dict[Partition, CommittedOffset] = {}
        self.records: dict[Partition, Sequence[SourceRecord]] = {}
        self.committed_starts: dict[Partition, CommittedOffset] = {}
        self.joined: list[tuple[str, ...]] = []
        self.at: dict[Partition, int] = {}
        """How far a partition was read; without it, to where it began."""

    def join(self, topics: Sequence[str]) -> None:
        self.joined.append(tuple(topics))

    def membership(self) -> Membership | None:
        return self.member

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        assert wait_s == WAIT_S
        error, self.error = self.error, None
        if error is not None:
            raise error
        records, self.records = self.records, {}
        return records

    def hold(self) -> None:
        self.begun.clear()

    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        self.begun[partition] = start

    def pause(self, partitions: Collection[Partition]) -> None:
        raise AssertionError(partitions)

    def positions(self) -> dict[Partition, CommittedOffset]:
        return {
            at: CommittedOffset(SourceOffset(self.at.get(at, start.offset)), None, 7)
            for at, start in self.begun.items()
        }

    def committed(self, partition: Partition) -> CommittedOffset | None:
        found = self.offsets.get(partition)
        if isinstance(found, PortError):
            raise found
        return found

    def commit_start(self, partition: Partition, start: CommittedOffset) -> None:
        self.committed_starts[partition] = start

    def beginning(self, partition: Partition) -> SourceOffset:
        return SourceOffset(10 + partition.number)

    def lag(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self.member = None


class World:
    """A source with that client; the world itself is the watch of its topic ids."""

    def __init__(self) -> None:
        self.client = Client()
        self.ids = {"articles": TOPIC_ID}
        self.topics: tuple[str, ...] = ("articles",)
        self.later_ids: dict[str, bytes] | None = None
        """Ids from the second look-up on, None if they stay."""
        self.latest_ids = dict(self.ids)
        self.logged: frozenset[tuple[bytes, int]] = frozenset()
        self.forgotten_before = SourceOffset(0)
        self.owner = AssignmentOwner(self.client.membership, 100, 1 << 20)
        self.clock = ManualClock()
        self.source = BatchSource(
            load_config(None, {}, {}).kafka,
            client=cast("ArticleSource", self.client),
            clock=self.clock,
            watch=cast("TopicWatch", self),
            assignments=self.owner,
            logged_partitions=lambda: self.logged,
            forgotten_before=lambda _topic_id, _partition: self.forgotten_before,
        )

    def fresh_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        ids, self.ids = self.ids, self.later_ids or self.ids
        return {name: ids[name] for name in names if name in ids}

    def poll(self) -> list[PolledBatch]:
        return self.source.poll(WAIT_S)

    def records(self, *offsets: int) -> None:
        records: Any = [
            SimpleNamespace(offset=offset, leader_epoch=0, key=None, value=b"{}", headers=[], timestamp=0)
            for offset in offsets
        ]
        self.client.records = {AT: records}


@pytest.fixture
def world() -> World:
    """A source that works: both partitions have begun."""
    made = World()
    made.poll()
    assert made.owner.current is not None
    assert not made.owner.current.ended
    assert set(made.client.begun) == {AT, OTHER}
    return made


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            OffsetGoneError([AT]),
            RefusedError,
            "articles-0: the source no longer has .* offsets set .*--group",
        ),
        (SourceChangedError("articles-0"), RefusedError, "lost records that were read"),
        (
            UnreadableError(AT, 7, "bad checksum", "Mend it"),
            CorruptError,
            "articles, partition 0: .*offset 7 .*sum",
        ),
        (RefusedByBrokerError("no right to read"), UserError, "refuses this client: no right to read"),
    ],
)
def test_each_error_is_told_as_what_it_is(
    world: World, error: PortError, raised: type[StreamDedupError], message: str
) -> None:
    """With the remedy, where there is one."""
    world.client.error = error
    with pytest.raises(raised, match=message):
        world.poll()


@pytest.mark.parametrize("error", [OffsetGoneError([AT]), SourceChangedError("articles-0")])
def test_a_topic_that_was_recreated_is_no_lost_record(world: World, error: PortError) -> None:
    """A recreated topic may show as an offset out of range, or as a truncation: the assignment begins anew."""
    former = world.owner.current
    world.ids = {"articles": NEW_ID}
    world.client.error = error
    world.poll()
    world.latest_ids = world.ids
    world.poll()
    assert world.owner.current is not former
    assert {at: start.topic_id for at, start in world.client.begun.items()} == {AT: NEW_ID, OTHER: NEW_ID}


def test_an_error_of_an_assignment_that_is_over_counts_for_nothing(world: World) -> None:
    """Settling sets another offset."""
    world.client.member = None
    world.client.error = OffsetGoneError([AT])
    assert world.poll() == []


def test_a_topic_recreated_drops_what_was_polled(world: World) -> None:
    """The look-up has seen another id: the records of this poll may be of either topic."""
    world.records(10, 11)
    world.latest_ids = {"articles": NEW_ID}
    assert world.poll() == []
    assert world.owner.current is None


def test_records_of_a_lost_membership_are_dropped(world: World) -> None:
    """A poll during which the partitions are given back, or given anew, yields no batch."""
    world.records(10, 11)
    world.client.member = Membership(frozenset({AT}), 2, "proof")
    assert world.poll() == []
    assert world.owner.current is None
    world.poll()
    assert set(world.client.begun) == {AT}


def test_a_position_behind_records_that_nobody_is_given_is_committed_once(world: World) -> None:
    """As soon as nothing of its partition is in flight, with the topic's id; one that goes back is not committed."""
    world.records(10, 11)
    (of_at,) = world.poll()
    assert of_at.next == CommittedOffset(SourceOffset(12), TOPIC_ID, 0)  # with the leader epoch of the last record
    world.client.at = {AT: 14, OTHER: 13}
    (other,) = world.source.passed()
    assert (other.polled.partition, other.polled.next) == (OTHER, CommittedOffset(SourceOffset(13), TOPIC_ID, 7))
    assert (len(other.polled.records), len(other.judgements)) == (0, 0)
    assert world.source.passed() == []
    world.owner.release(of_at)
    (passed,) = world.source.passed()
    assert (passed.polled.partition, passed.polled.next.offset) == (AT, 14)
    for batch in (other, passed):
        world.owner.release(batch.polled)
    assert world.source.passed() == []
    world.client.at = {AT: 13, OTHER: 12}
    assert world.source.passed() == []


def test_no_position_is_committed_of_an_assignment_that_has_ended(world: World) -> None:
    """Nor before the first has begun, nor of a membership that the assignment does not know yet."""
    world.client.at = {AT: 14}
    assert world.owner.current is not None
    (passed,) = world.source.passed()
    world.owner.end(world.owner.current, "for this test")
    world.client.at = {AT: 15, OTHER: 15}
    assert world.source.passed() == []
    world.owner.release(passed.polled)
    assert world.source.passed() == []


def test_nothing_begins_before_every_batch_is_released(world: World) -> None:
    """While a batch of the former assignment is in flight, nothing is held, settled or polled."""
    world.records(10, 11)
    (batch,) = world.poll()
    world.client.member = Membership(frozenset({AT}), 2, "proof")
    begun = dict(world.client.begun)
    for _ in range(3):
        assert world.poll() == []
    assert world.owner.current is not None
    assert (world.owner.current.ended, world.client.begun) == (True, begun)
    world.owner.release(batch)
    world.poll()
    assert set(world.client.begun) == {AT}


@pytest.mark.parametrize("error", [OffsetGoneError([AT]), SourceChangedError("articles-0")])
def test_an_ending_assignment_does_not_spin_on_an_error(world: World, error: PortError) -> None:
    """While a batch of it is in flight the client may raise the same error at once, poll after poll."""
    world.records(10, 11)
    (batch,) = world.poll()
    world.owner.end(batch.assignment, "a test")
    begun = world.clock.now
    world.client.error = error
    assert world.poll() == []
    assert world.owner.current is not None
    assert (world.owner.current.ended, world.clock.now) == (True, begun + ERROR_PAUSE_S)


@pytest.mark.expect_log("cannot be read yet")
@pytest.mark.parametrize("error", [PassingError("an open transaction"), NotAMemberError("generation 1")])
def test_a_partition_that_cannot_settle_holds_up_no_other(error: PortError) -> None:
    """It is tried again in the next poll."""
    world = World()
    world.client.offsets[AT] = error
    world.poll()
    assert set(world.client.begun) == {OTHER}
    world.client.offsets[AT] = CommittedOffset(SourceOffset(5), TOPIC_ID, 3)
    world.poll()
    assert world.client.begun[AT] == CommittedOffset(SourceOffset(5), TOPIC_ID, 3)


@pytest.mark.expect_log("cannot be read yet")
def test_partitions_that_cannot_settle_hold_up_no_poll() -> None:
    """However many they are: a member that does not poll falls out of its group."""
    world = World()
    many = [Partition("articles", number) for number in range(1_000)]
    world.client.member = Membership(frozenset(many), 1, "proof")
    world.client.offsets = dict.fromkeys(many, PassingError("an open transaction"))
    began = world.clock.now
    world.poll()
    assert SETTLE_S < world.clock.now - began <= SETTLE_S + 2 * SETTLE_PAUSE_S


@pytest.mark.parametrize(
    "offsets",
    [
        {},
        pytest.param(
            {OTHER: CommittedOffset(SourceOffset(500), NEW_ID)},
            marks=pytest.mark.expect_log("recreated; begins at its beginning"),
        ),
    ],
)
def test_where_a_partition_begins(offsets: dict[Partition, CommittedOffset]) -> None:
    """At its committed offset; where there is none, or of another topic, at its beginning, committed at once."""
    world = World()
    world.logged = frozenset({(NEW_ID, OTHER.number)})
    world.client.offsets = {AT: CommittedOffset(SourceOffset(5), None), **offsets}
    world.poll()
    beginning = CommittedOffset(SourceOffset(11), TOPIC_ID)
    assert world.client.begun == {AT: CommittedOffset(SourceOffset(5), None), OTHER: beginning}
    assert world.client.committed_starts == {OTHER: beginning}


def test_an_offset_below_what_is_forgotten_is_refused() -> None:
    """Those articles were judged; the error names the way out. The first offset that is not forgotten is taken."""
    world = World()
    world.client.offsets[AT] = CommittedOffset(SourceOffset(5), TOPIC_ID)
    world.forgotten_before = SourceOffset(6)
    with pytest.raises(RefusedError, match=r"every article below 6 was logged, judged and trimmed.* --to logged"):
        world.poll()
    assert AT not in world.client.begun
    world.forgotten_before = SourceOffset(5)
    world.poll()
    assert world.client.begun[AT] == CommittedOffset(SourceOffset(5), TOPIC_ID)


def test_lost_offsets_of_a_trimmed_partition_are_not_set_to_the_beginning() -> None:
    """Where the beginning is forgotten the error offers only what would not be refused."""
    world = World()
    world.logged = frozenset({(TOPIC_ID, 1)})
    world.forgotten_before = SourceOffset(6)
    with pytest.raises(RefusedError, match=r"Set them: .* --to logged") as raised:
        world.poll()
    assert "--to beginning" not in str(raised.value)


def test_lost_offsets_are_refused() -> None:
    """The log has articles of the partition, and the group has no offset of it."""
    world = World()
    world.logged = frozenset({(TOPIC_ID, 1)})
    with pytest.raises(RefusedError, match=r"no committed offset for articles-1, .* offsets set "):
        world.poll()


def test_an_offset_of_a_deleted_topic_that_was_set_again_is_refused() -> None:
    """The log has articles of the topic as it is now: its offset was there, for it is committed before the first."""
    world = World()
    world.logged = frozenset({(TOPIC_ID, 1)})
    world.client.offsets[OTHER] = CommittedOffset(SourceOffset(500), NEW_ID)
    with pytest.raises(RefusedError, match="the committed offset of a deleted topic for articles-1"):
        world.poll()
    assert OTHER not in world.client.committed_starts


@pytest.mark.expect_log("does not exist|was recreated")
@pytest.mark.parametrize("recreated", [True, False])
def test_offsets_of_a_deleted_topic_are_not_lost(recreated: bool) -> None:
    """A topic is deleted after its id was looked up, and its offsets with it: the recreated topic is waited for."""
    world = World()
    world.logged = frozenset({(TOPIC_ID, 0), (TOPIC_ID, 1)})
    world.later_ids = {"articles": NEW_ID} if recreated else {"other": NEW_ID}
    world.poll()
    assert world.client.begun == {}
    world.ids = world.later_ids = world.latest_ids = {"articles": NEW_ID}
    world.poll()
    world.poll()
    assert {at: start.topic_id for at, start in world.client.begun.items()} == {AT: NEW_ID, OTHER: NEW_ID}


def test_a_missing_right_to_read_offsets_is_told() -> None:
    """It shows when a partition settles, and not in a poll."""
    world = World()
    world.client.offsets[AT] = RefusedByBrokerError("no right to describe the group")
    with pytest.raises(UserError, match="refuses this client: no right to describe the group"):
        world.poll()


@pytest.mark.expect_log("no topic matches")
def test_it_joins_with_the_topics_that_match(caplog: pytest.LogCaptureFixture) -> None:
    """With none it waits and says so once; with others it joins again; with none left it waits for the last ones."""
    world = World()
    world.topics, began = (), world.clock.monotonic()
    assert world.poll() == world.poll() == []
    assert world.clock.monotonic() - began == pytest.approx(2 * WAIT_S)
    assert world.client.joined == []
    (warning,) = caplog.records
    assert warning.getMessage() == "no topic matches topics.input; waiting for a topic to be created"
    for topics in (("articles",), ("articles",), ("articles", "more"), (), ("more",)):
        world.topics = topics
        world.poll()
    assert world.client.joined == [("articles",), ("articles", "more"), ("more",)]
    assert world.source.topics == ("more",)


def test_a_partition_that_another_member_has_begun_meanwhile_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stood still between its look at the offset and that at the log finds both at its next try."""
    begun = CommittedOffset(SourceOffset(0), TOPIC_ID)
    looks = iter([None, begun, begun])
    monkeypatch.setattr(world.client, "committed", lambda _partition: next(looks))
    logged = frozenset({(TOPIC_ID, AT.number)})
    with pytest.raises(PassingError, match="another member"):
        world.source.start_of(AT, TOPIC_ID, lambda: logged)
    assert world.source.start_of(AT, TOPIC_ID, lambda: logged) == begun
