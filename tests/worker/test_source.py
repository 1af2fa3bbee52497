"""The source on a real broker: polled as the worker does it, without the rest of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from stream_dedup.dev.broker import DevBroker
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.record import record_bytes
from stream_dedup.ports import CommittedOffset, Partition, PassingError
from stream_dedup.worker.source import RECORD_BYTES, BatchSource
from tests.kafka.operating import delete_topic
from tests.waiting import wait_until
from tests.worker.pipeline import Pipeline, pipeline
from tests.worker.source_reader import LIMIT_S, Reader

PARTITIONS = 3
RECORDS = 90
EACH = RECORDS // PARTITIONS
BATCH = 10
RECREATED = "recreated"
Logged = Callable[[], frozenset[tuple[bytes, int]]]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def made(broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str], stack: ExitStack) -> Pipeline:
    made = stack.enter_context(
        pipeline(broker.bootstrap, tmp_path, topic_name("pipe"), partitions=PARTITIONS, worker={"batch_records": BATCH})
    )
    fill(made, "first")
    return made


@pytest.fixture
def admin(made: Pipeline) -> Iterator[KafkaAdminClient]:
    with closing(make_admin(made.config().kafka)) as client:
        yield client


@pytest.fixture
def make_reader(made: Pipeline, admin: KafkaAdminClient, stack: ExitStack) -> Callable[..., Reader]:
    log_topic = made.config().log_topic
    return partial(Reader, made, stack, topic_ids(admin, [log_topic])[log_topic])


def fill(made: Pipeline, mark: str) -> None:
    made.produce((b"%d" % number, f"{mark}-{number}".encode()) for number in range(RECORDS))


def present_id(made: Pipeline, admin: KafkaAdminClient) -> bytes:
    return topic_ids(admin, [made.topic])[made.topic]


def test_a_batch_counts_the_memory_of_its_records(make_reader: Callable[..., Reader]) -> None:
    """Small ones take most of it beside their bytes, which alone would let four times the limit be in flight."""
    reader = make_reader()
    reader.poll_until(lambda: len(reader.offsets()) == PARTITIONS, "records of each partition")
    for batch in reader.batches:
        assert batch.size_bytes == sum(map(record_bytes, batch.records)) + RECORD_BYTES * len(batch.records)


def test_an_end_at_every_poll(make_reader: Callable[..., Reader]) -> None:
    """Resyncs as fast as the polls come leave nothing out once they end."""
    reader = make_reader()
    reader.poll_until(lambda: reader.read() > 0, "records")
    for _ in range(10):
        reader.begun()
        reader.end()
        reader.poll()
    reader.begun()
    reader.end()
    reader.read_all({})


@pytest.mark.parametrize("resumed_before_the_poll", [False, True])
def test_pause_ends_with_its_assignment(make_reader: Callable[..., Reader], resumed_before_the_poll: bool) -> None:
    """A pause that was on at a end does not stay, on whichever side of the next poll it is lifted."""
    reader = make_reader()
    reader.poll_until(lambda: reader.read() > 0, "records")
    reader.pause(paused=True)
    reader.poll()
    reader.end()
    if resumed_before_the_poll:
        reader.pause(paused=False)
    reader.poll()
    reader.pause(paused=False)
    reader.read_all({})


@pytest.mark.timeout(120)
def test_second_member_joins_and_leaves(make_reader: Callable[..., Reader]) -> None:
    """A pause is on when another member comes, and when it goes: its partitions come back with all their records."""
    first = make_reader()
    first.poll_until(lambda: first.read() > 0, "records")
    first.pause(paused=True)
    second = make_reader()

    def shared() -> bool:
        second.poll()
        return bool(second.offsets()) and len(first.begun().membership.partitions) < PARTITIONS

    first.poll_until(shared, "two members share the partitions")
    first.pause(paused=False)
    share = {at: list(range(EACH)) for at in first.begun().membership.partitions}
    assert first.begun().membership.partitions.isdisjoint(second.assignment.membership.partitions)

    def read_share() -> bool:
        second.poll()
        return first.read() >= EACH * len(share)

    first.poll_until(read_share, "the share's records")
    assert first.offsets() == share
    first.pause(paused=True)
    second.left.close()
    first.poll_until(lambda: len(first.begun().membership.partitions) == PARTITIONS, "everything is back")
    first.pause(paused=False)
    first.read_all({})


@pytest.mark.expect_log("cannot be read yet")
def test_partition_in_hand_is_held(make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose fetched records are half given out is not settled at once after a end: it comes in time."""
    reader = make_reader()
    reader.poll_until(lambda: reader.read() > 0, "records")
    in_hand = reader.batches[-1].partition
    assert len(reader.offsets()[in_hand]) < EACH
    hold(monkeypatch, lambda partition: partition == in_hand)
    reader.end()
    reader.poll_until(lambda: reader.read() == RECORDS - EACH, "the others are read to their end")
    monkeypatch.undo()
    reader.read_all({})


def hold(monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Partition], bool]) -> list[Partition]:
    """Keep partitions from being settled until ``monkeypatch.undo``; gives the tries."""
    of, held = BatchSource.start_of, []

    def slow(self: BatchSource, partition: Partition, topic_id: bytes, logged: Logged) -> CommittedOffset:
        if wanted(partition):
            held.append(partition)
            raise PassingError
        return of(self, partition, topic_id, logged)

    monkeypatch.setattr(BatchSource, "start_of", slow)
    return held


def test_an_end_in_the_middle_of_settling(
    made: Pipeline, make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread's end between the settling of two partitions: both begin anew."""
    of, left = BatchSource.start_of, [1, 2, 3]
    reader = make_reader()

    def with_end(self: BatchSource, partition: Partition, topic_id: bytes, logged: Logged) -> CommittedOffset:
        offset = of(self, partition, topic_id, logged)
        if partition == made.partitions()[1] and left:
            left.pop()
            reader.end()
        return offset

    monkeypatch.setattr(BatchSource, "start_of", with_end)
    reader.poll_until(lambda: not left, "settling was disturbed three times")
    reader.read_all({})


@pytest.mark.expect_log(RECREATED)
def test_recreated_with_the_same_length(
    made: Pipeline, admin: KafkaAdminClient, make_reader: Callable[..., Reader]
) -> None:
    """A topic recreated and filled to the old length between two polls is read from its beginning."""
    reader = make_reader()
    reader.read_all({})
    reader.commit(dict.fromkeys(made.partitions(), EACH))
    old = present_id(made, admin)
    delete_topic(admin, made.topic)
    admin.create_topics([NewTopic(made.topic, PARTITIONS, 1)])
    wait_until(lambda: topic_ids(admin, [made.topic]).get(made.topic) not in (None, old), LIMIT_S, "recreated")
    fill(made, "second")
    reader.batches.clear()
    new = present_id(made, admin)

    def come() -> bool:
        return (
            sum(len(batch.records) for batch in reader.batches if reader.owner.is_working(batch.assignment)) >= RECORDS
        )

    reader.poll_until(come, "the new topic's records")
    assert reader.offsets() == {at: list(range(EACH)) for at in made.partitions()}
    current = [batch for batch in reader.batches if batch.assignment is reader.assignment]
    assert {batch.topic_id for batch in current} == {new}
    assert all((record.value or b"").startswith(b"second-") for batch in current for record in batch.records)
