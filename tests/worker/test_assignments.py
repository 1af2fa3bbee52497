"""The life of an assignment: each transition of the table, and each that the table does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import CommittedOffset, Membership, Partition
from stream_dedup.worker.assignments import Assignment, AssignmentOwner, PolledBatch

AT = Partition("articles", 0)


class Group:
    """A group of one member, whose membership the test sets."""

    def __init__(self) -> None:
        self.membership: Membership | None = Membership(frozenset({AT}), 1, "proof")


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def owner(group: Group) -> AssignmentOwner:
    return AssignmentOwner(lambda: group.membership, max_batches=2, max_bytes=100)


def batch(assignment: Assignment, size_bytes: int = 10, at: Partition = AT) -> PolledBatch:
    records: list[Any] = []
    topic_id, none = b"t" * 16, np.empty(0, np.int64)
    return PolledBatch(
        assignment, at, topic_id, records, none, size_bytes, 0.0, CommittedOffset(SourceOffset(0), topic_id)
    )


def begun(owner: AssignmentOwner, group: Group) -> Assignment:
    assert group.membership is not None
    return owner.begin(group.membership)


def test_it_works_from_its_begin_to_its_end(owner: AssignmentOwner, group: Group) -> None:
    """Without a batch in flight an ended assignment is over at once, and the next one may begin."""
    assert (owner.current, owner.batches) == (None, 0)
    first = begun(owner, group)
    assert (owner.current, first.ended, owner.is_working(first)) == (first, False, True)
    owner.end(first, "for this test")
    assert (owner.current, first.ended, owner.is_working(first)) == (None, True, False)
    second = begun(owner, group)
    assert (owner.is_working(first), owner.is_working(second)) == (False, True)


def test_a_begin_waits_for_every_batch_of_the_assignment_before(owner: AssignmentOwner, group: Group) -> None:
    """Until the last batch is released the assignment is ending, and none begins."""
    assignment = begun(owner, group)
    batches = [batch(assignment), batch(assignment)]
    assert all(map(owner.reserve, batches))
    owner.end(assignment, "for this test")
    owner.release(batches[0])
    assert (owner.current, assignment.ended) == (assignment, True)
    with pytest.raises(RuntimeError, match="batches of another may be in flight"):
        begun(owner, group)
    owner.release(batches[1])
    assert owner.current is None
    begun(owner, group)


def test_a_lost_membership_ends_it_before_anyone_says_so(owner: AssignmentOwner, group: Group) -> None:
    """``is_working`` follows the group at once, and a new membership of the same partitions does not revive it."""
    assignment = begun(owner, group)
    group.membership = None
    assert not owner.is_working(assignment)
    group.membership = Membership(frozenset({AT}), 1, "proof")
    assert not owner.is_working(assignment)


def test_an_end_that_comes_late_ends_no_other(owner: AssignmentOwner, group: Group) -> None:
    """A batch of an assignment that is over fails late: the present one goes on. A second end changes nothing."""
    first = begun(owner, group)
    owner.end(first, "for this test")
    second = begun(owner, group)
    owner.end(first, "again")
    assert owner.is_working(second)


def test_nothing_is_taken_for_an_ended_assignment(owner: AssignmentOwner, group: Group) -> None:
    """A batch that was polled while its assignment ended is not counted, so nobody has to release it."""
    assignment = begun(owner, group)
    held = batch(assignment)
    assert owner.reserve(held)
    owner.end(assignment, "for this test")
    assert not owner.reserve(batch(assignment))
    owner.release(held)
    assert not owner.reserve(batch(assignment))
    assert (owner.current, owner.batches) == (None, 0)


def test_the_batches_in_flight_are_limited(owner: AssignmentOwner, group: Group) -> None:
    """By number and by bytes; a release makes room and is counted as progress."""
    assignment = begun(owner, group)
    large, small = batch(assignment, 100), batch(assignment)
    assert owner.reserve(large)
    crowded = [owner.crowded([AT])]
    owner.release(large)
    crowded.append(owner.crowded([AT]))
    assert owner.reserve(small)
    crowded.append(owner.crowded([AT]))
    assert (crowded, owner.batches, owner.released) == ([{AT}, frozenset(), {AT}], 1, 1)


def test_partitions_that_are_held_up_leave_room_for_the_others(group: Group) -> None:
    """Batches of a partition may stay in flight for as long as an article takes: two leave a third of the limit."""
    owner = AssignmentOwner(lambda: group.membership, max_batches=24, max_bytes=10_000)
    assignment = begun(owner, group)
    held_up, other = [Partition("articles", number) for number in (1, 2)], Partition("articles", 3)
    for _ in range(100):
        for at in {*held_up} - owner.crowded(held_up):
            assert owner.reserve(batch(assignment, at=at))
    assert owner.batches == 16
    through = 0
    while not owner.crowded([other]):
        assert owner.reserve(batch(assignment, at=other))
        through += 1
    assert through == 4
    assert owner.crowded([*held_up, other]) == {*held_up, other}


@pytest.mark.parametrize(("partitions", "polls"), [(1, 4), (4, 2), (8, 1), (9, 2), (16, 1), (64, 1)])
def test_many_partitions_have_as_many_polls_in_flight_as_eight(group: Group, partitions: int, polls: int) -> None:
    """Each poll brings a batch of each: with eight for all, 64 partitions were paused within a poll until it left."""
    owner = AssignmentOwner(lambda: group.membership, max_batches=8, max_bytes=10_000)
    assignment = begun(owner, group)
    every = [Partition("articles", number) for number in range(partitions)]
    counted = 0
    while not owner.crowded(every):
        for at in every:
            assert owner.reserve(batch(assignment, at=at))
        counted += 1
    assert counted == polls


@pytest.mark.parametrize("size", [1, 1_000])
def test_partitions_that_wait_for_a_schema_never_stop_the_others(group: Group, size: int) -> None:
    """Twenty of 64 go beyond the limit, by number or by bytes, and stay there; of each other one a batch goes on."""
    held = through = 0
    owner = AssignmentOwner(lambda: group.membership, max_batches=32, max_bytes=60_000, held=lambda: held)
    assignment = begun(owner, group)
    every = [Partition("articles", number) for number in range(64)]
    for poll in range(40):
        polled = [batch(assignment, size, at) for at in every if at not in owner.crowded(every)]
        for one in polled:
            assert owner.reserve(one)
        for one in polled:
            if one.partition.number < 20:
                held += 1
            else:
                owner.release(one)
                through += poll >= 30
    assert through == 10 * 44
    assert held == owner.batches < 300
    held = 0
    assert owner.crowded(every) == {*every}, "the limit is reached"
