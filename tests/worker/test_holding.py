"""Batches that wait for a schema: what goes on, what is held, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.entry import make_batch
from stream_dedup.core.fingerprinter import checksum, rejected_columns
from stream_dedup.core.model import LogOffset, Verdict
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.errors import UserError
from stream_dedup.ports import Partition
from stream_dedup.registry.values import FRAME_BYTES
from stream_dedup.worker.assignments import Assignment, AssignmentState
from stream_dedup.worker.health import Health
from stream_dedup.worker.holding import HELD_LOOK_S
from tests.logs import START_TIME, record
from tests.registry.records import frame
from tests.worker.engine_world import MAKER, TOPIC_ID, FakeSchemas, World

KNOWN, LATER, GONE = 1, 2, 3
"""Schemas: that are there, that come later, that nobody has."""


@pytest.fixture
def schemas() -> FakeSchemas:
    made = FakeSchemas()
    made.there = {KNOWN}
    return made


@pytest.fixture
def world(tmp_path: Path, schemas: FakeSchemas) -> Iterator[World]:
    made = World(tmp_path, schemas, "avro")
    yield made
    made.index.close()


@pytest.fixture
def assignment(world: World) -> Assignment:
    return world.begin()


def value(schema: int, text: str) -> bytes:
    return frame(schema, b'{"text": "%s"}' % text.encode())


def fingerprint(world: World) -> list[int]:
    """Make the entries of everything that was submitted; return the offsets at which it began."""
    begun = sorted(world.columns)
    for offset in begun:
        values = [one.value or b"" for one in world.submitted[offset]]
        made = MAKER([RawRecord(None, one[FRAME_BYTES:], "x") for one in values])
        world.columns.pop(offset).set_result(
            replace(made, checksums=np.array([checksum(one) for one in values], np.uint64))
        )
    world.steps()
    return begun


def offsets(world: World) -> list[int]:
    return [int(offset) for judged in world.judged for offset in judged.polled.offsets]


def test_what_comes_before_goes_on_and_the_rest_waits(
    world: World, schemas: FakeSchemas, assignment: Assignment
) -> None:
    """The later batches of the partition wait behind it, another partition does not; all of it in source order."""
    world.poll(assignment, 10, value(KNOWN, "a"), value(LATER, "b"))
    world.poll(assignment, 12, value(KNOWN, "c"))
    world.poll(assignment, 50, value(KNOWN, "d"), partition=1)
    assert fingerprint(world) == [10, 50]
    assert sorted(offsets(world)) == [10, 50]
    assert (world.engine.held, schemas.wanted) == (2, frozenset({LATER}))
    assert [judged.polled.next.offset for judged in world.judged if judged.polled.partition.number == 0] == [11]
    assert world.judged[0].polled.next.leader_epoch == 3
    schemas.learn(LATER)
    world.step()
    assert fingerprint(world) == [11, 12]
    assert [offset for offset in offsets(world) if offset < 50] == [10, 11, 12]
    assert (world.engine.held, schemas.wanted) == (0, frozenset())


def test_one_partition_waits_for_one_schema_after_the_other(
    world: World, schemas: FakeSchemas, assignment: Assignment
) -> None:
    """Each is asked for when its turn comes."""
    world.poll(assignment, 0, value(LATER, "a"), value(GONE, "b"), value(KNOWN, "c"))
    assert schemas.wanted == frozenset({LATER})
    schemas.learn(LATER)
    world.step()
    assert fingerprint(world) == [0]
    assert schemas.wanted == frozenset({GONE})
    schemas.learn(GONE)
    world.step()
    assert fingerprint(world) == [1]
    assert offsets(world) == [0, 1, 2]


@pytest.mark.expect_log("articles-0-0: the schema registry does not know schema 3, .*reject articles-0-0")
def test_a_rejection_in_the_log_lets_the_partition_go_on(
    world: World, schemas: FakeSchemas, assignment: Assignment, caplog: pytest.LogCaptureFixture
) -> None:
    """The record that it is of is not decoded, and leaves with the verdict that the log has; those behind it follow."""
    held = value(GONE, "b")
    schemas.miss(GONE)
    world.poll(assignment, 0, held, value(KNOWN, "c"))
    assert (fingerprint(world), world.engine.held) == ([], 1)
    reason = UNKNOWN_SCHEMA.format(id=GONE)
    columns = rejected_columns(RawRecord(b"key", held, "x"), InputFormat(), reason, world.index.rules.scheme.widths)  # type: ignore[union-attr]
    batch = make_batch(columns, TOPIC_ID, "articles", 0, [0], read_to=LogOffset(1))
    world.unread.append(record(1, START_TIME + 1, batch))
    world.appended.append([0])  # its log offset is taken
    world.steps()
    assert world.engine.held == 1, "nobody looks again yet"
    world.clock.now += HELD_LOOK_S
    world.steps()
    assert fingerprint(world) == [1]
    (judged,) = world.judged
    assert [one.verdict for one in judged.judgements] == [Verdict.REJECTED, Verdict.UNIQUE]
    assert judged.judgements[0].reason == reason
    assert world.appended == [[0], [1]]
    assert len([line for line in caplog.messages if "does not know schema" in line]) == 1


@pytest.mark.parametrize("reads_keys", [True, False])
def test_the_schema_of_a_key_is_waited_for_where_keys_are_read(
    tmp_path: Path, schemas: FakeSchemas, reads_keys: bool
) -> None:
    """Elsewhere a key is not decoded, whatever its first bytes are."""
    world = World(tmp_path, schemas, "avro", reads_keys=reads_keys)
    world.poll(world.begin(), 0, value(KNOWN, "a"), key=frame(LATER, b""))
    assert (world.engine.held, schemas.wanted) == ((1, frozenset({LATER})) if reads_keys else (0, frozenset()))
    schemas.learn(LATER)
    world.step()
    assert fingerprint(world) == [0]
    world.index.close()


def test_held_batches_are_dropped_with_their_assignment(
    world: World, schemas: FakeSchemas, assignment: Assignment
) -> None:
    """The next assignment begins once they are; it has them from the source again."""
    world.poll(assignment, 0, value(LATER, "a"))
    world.poll(assignment, 1, value(KNOWN, "b"))
    assert (world.assignments.batches, world.engine.held) == (2, 2)
    world.assignments.end(assignment, "for this test")
    assert world.assignments.state is AssignmentState.ENDING
    world.step()
    assert (world.assignments.state, world.engine.held) == (AssignmentState.IDLE, 0)
    schemas.learn(LATER)
    again = world.begin()
    world.poll(again, 0, value(LATER, "a"))
    assert fingerprint(world) == [0]


def test_the_parts_of_a_batch_count_as_much_as_it(world: World, assignment: Assignment) -> None:
    """So the limits of what is in flight hold."""
    world.poll(assignment, 0, value(KNOWN, "a"), value(KNOWN, "b"), value(LATER, "c"))
    head, rest = world.engine._pending[0].polled, world.engine._holding._held[Partition("articles", 0)][0]
    assert (head.size_bytes, rest.size_bytes) == (66, 34)
    assert (head.offsets.tolist(), rest.offsets.tolist()) == ([0, 1], [2])
    assert (head.next.offset, rest.next.offset) == (2, 3)
    assert world.assignments._in_flight == (2, 100)


def test_batches_that_wait_are_no_lack_of_progress(world: World, schemas: FakeSchemas, assignment: Assignment) -> None:
    """A probe that kills a worker which waits for the registry would have it wait elsewhere."""
    health = Health(world.clock, world.assignments, 10, answered=lambda: True, held=lambda: world.engine.held)
    world.poll(assignment, 0, value(LATER, "a"))
    for _ in range(40):
        world.clock.now += 0.5
        health.check()
    assert health.problem is None
    schemas.learn(LATER)
    world.step()
    for _ in range(40):
        world.clock.now += 0.5
        health.check()
    assert health.problem is not None


def test_how_many_partitions_wait_and_for_what(world: World, schemas: FakeSchemas, assignment: Assignment) -> None:
    """Those whose schema is unknown, and those that the registry did not answer."""
    world.poll(assignment, 0, value(LATER, "a"))
    world.poll(assignment, 0, value(GONE, "a"), partition=1)
    world.poll(assignment, 0, value(GONE, "a"), partition=2)
    assert world.engine._holding.waiting() == (0, 3)
    schemas.unknown = {GONE}
    assert world.engine._holding.waiting() == (2, 1)


@pytest.mark.parametrize(
    ("fmt", "first", "said"),
    [
        ("json", frame(17, b"\x02\x06abc"), "set input.format to avro, protobuf or json-schema"),
        ("json", b"Obj\x01\x04\x16avro.schema", "an Avro file"),
        ("avro", b'{"text": "one"}', "set input.format to json"),
    ],
)
def test_another_format_is_not_rejected_away(tmp_path: Path, fmt: str, first: bytes, said: str) -> None:
    """The worker stops before it logs anything, and names the record and what to set."""
    world = World(tmp_path, None, fmt)
    batch = world.poll(world.begin(), 0, first, first)
    world.columns.pop(0).set_result(MAKER([RawRecord(None, b"?", "x")] * len(batch.records)))
    with pytest.raises(UserError, match=said) as refused:
        world.steps()
    assert str(refused.value).startswith("articles-0-0: the value is ")
    assert world.appended == []
    world.index.close()


def test_a_stray_value_of_another_format_is_rejected(tmp_path: Path) -> None:
    """Where an article of the topic was accepted, before it or beside it, such a value is a record as any other."""
    world = World(tmp_path)
    assignment = world.begin()
    stray = frame(17, b"\x02\x06abc")
    together = world.poll(assignment, 0, stray, b'{"text": "one"}')
    world.fingerprint(together)
    world.steps()
    alone = world.poll(assignment, 2, stray)
    world.fingerprint(alone)
    world.steps()
    verdicts = [one.verdict for judged in world.judged for one in judged.judgements]
    assert verdicts == [Verdict.REJECTED, Verdict.UNIQUE, Verdict.REJECTED]
    world.index.close()
