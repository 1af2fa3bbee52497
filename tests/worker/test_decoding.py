"""Steps 2 and 3: entries of source records, the look-up of schemas, and batches that wait for a schema."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_dedup.core.columns import COLUMNS, Columns
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.entry import make_batch
from stream_dedup.core.fingerprinter import EntryMaker, checksum, rejected_columns
from stream_dedup.core.model import LogOffset, Verdict, Widths
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.errors import UserError
from stream_dedup.kafka.record import too_large_reason
from stream_dedup.ports import Partition, SourceRecord
from stream_dedup.registry.values import FRAME_BYTES, Schemas
from stream_dedup.worker.assignments import Assignment
from stream_dedup.worker.decoding import HELD_LOOK_S, SourceEntryMaker
from stream_dedup.worker.health import Watchdog
from stream_dedup.worker.watches import AWAY_RETRY_S, UNKNOWN_RETRY_S, SchemaWatch
from tests.core.texts import STORY
from tests.logs import START_TIME, record
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, frame, registry_config
from tests.worker.clocks import ManualClock
from tests.worker.engine_world import MAKER, TOPIC_ID, FakeSchemas, World

LIMIT = 2_000


def source_record(offset: int, text: str, key: bytes | None = None) -> SourceRecord:
    value = b'{"text": "%s"}' % text.encode()
    made: Any = SimpleNamespace(topic="articles", partition=3, offset=offset, key=key, value=value, headers=())
    record: SourceRecord = made
    return record


def same(a: Columns, b: Columns) -> bool:
    return all(np.array_equal(list(getattr(a, name)), list(getattr(b, name))) for name in COLUMNS)


def test_a_record_that_no_output_can_hold_is_rejected_unread() -> None:
    """Its entry says so, under its key; the others, and all where none is too large, are as without it."""
    maker = EntryMaker()
    make = SourceEntryMaker(maker, InputFormat(), LIMIT, Widths())
    sound = [source_record(0, STORY[:40]), source_record(1, "好", b"own key"), source_record(2, STORY[:60])]
    raw = [RawRecord(one.key, one.value, f"articles-3-{one.offset}") for one in sound]
    assert same(make(sound), maker(raw))
    large = source_record(7, "x" * LIMIT, b"large key")
    reason = too_large_reason(large, LIMIT)
    assert reason is not None
    rejected = rejected_columns(RawRecord(large.key, large.value, "articles-3-7"), InputFormat(), reason, Widths())
    for at in range(len(sound) + 1):
        made = make([*sound[:at], large, *sound[at:]])
        assert same(made, Columns.concat([*([maker(raw[:at])] * (at > 0)), rejected, *([maker(raw[at:])] * (at < 3))]))
        assert (made.ids[at], made.reasons[at]) == ("large key", reason)


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    made.register("a", {"schema": AVRO})
    made.register("a", {"schema": AVRO})
    yield made
    made.stop()


class Watched:
    """A watch whose look-ups the test makes, and how often it woke the engine."""

    def __init__(self, url: str) -> None:
        self.wakes = 0
        clock: Any = ManualClock()
        self.watch = SchemaWatch(clock, Schemas(registry_config(url)), self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def problem(self) -> str:
        return self.watch.problem or ""

    def look_up(self, *ids: int) -> float:
        self.watch.want(frozenset(ids))
        return self.watch._look_up()


def test_what_the_registry_has_is_there(fake: FakeRegistry) -> None:
    """The engine is woken for it; it is not asked for again, nor is what nobody wants any more."""
    made = Watched(fake.url)
    assert made.look_up(1) == UNKNOWN_RETRY_S
    assert (1 in made.watch, made.watch.is_unknown(1), made.wakes, made.watch.changes) == (True, False, 1, 1)
    made.look_up(1)
    made.look_up(2)
    made.look_up()
    assert fake.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    assert made.watch.changes == 2


def test_an_unknown_schema_may_come(fake: FakeRegistry) -> None:
    """It is asked for again and again; the others are there meanwhile."""
    fake.hidden = {2}
    made = Watched(fake.url)
    made.look_up(1, 2)
    assert (1 in made.watch, 2 in made.watch, made.watch.is_unknown(2)) == (True, False, True)
    changes = made.watch.changes
    made.look_up(1, 2)
    assert made.watch.changes == changes, "nothing new is known"
    fake.hidden = set()
    made.look_up(1, 2)
    assert (2 in made.watch, made.watch.is_unknown(2)) == (True, False)
    assert made.watch.changes > changes


@pytest.mark.expect_log("does not answer.*articles wait until it answers")
def test_a_registry_that_is_away(fake: FakeRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked more often, reported once, and unknown is what it said last."""
    fake.hidden = {2}
    made = Watched(fake.url)
    made.look_up(2)
    assert not made.problem()
    fake.stop()
    assert [made.look_up(1, 2), made.look_up(1, 2)] == [AWAY_RETRY_S] * 2
    assert made.problem()
    assert made.watch.is_unknown(2)
    assert len([line for line in caplog.messages if "does not answer" in line]) == 1
    fake.start()
    made.look_up(1, 2)
    assert (made.problem(), 1 in made.watch) == ("", True)


@pytest.mark.expect_log("does not answer: an answer that is no schema")
def test_a_schema_without_an_answer_holds_up_no_other_one(fake: FakeRegistry) -> None:
    """The next one is read, and an unknown one is known to be so; the registry is asked again as if it were away."""
    fake.hidden = {2}
    fake.schemas.insert(0, {})
    made = Watched(fake.url)
    assert made.look_up(1, 2, 3) == AWAY_RETRY_S
    assert (made.watch.is_unknown(2), 3 in made.watch) == (True, True)
    assert "no schema" in made.problem()


@pytest.mark.expect_log("does not answer")
def test_an_answer_that_a_schema_is_unknown_is_an_answer(fake: FakeRegistry) -> None:
    """The worker is ready again, though the schema is not there."""
    made = Watched(fake.url)
    fake.stop()
    made.look_up(9)
    fake.start()
    made.look_up(9)
    assert made.watch.problem is None


def test_its_thread_ends(fake: FakeRegistry) -> None:
    """By ``stop``, and with the error of a registry that refuses it."""
    made = Watched(fake.url)
    thread = threading.Thread(target=made.watch.run)
    thread.start()
    made.watch.want(frozenset({1}))
    made.watch.stop()
    thread.join(60)
    assert not thread.is_alive()
    fake.authorization = "Bearer x"
    made = Watched(fake.url)
    made.watch.want(frozenset({1}))
    with pytest.raises(UserError, match=r"refuses this client \(401\)"):
        made.watch.run()


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
    assert assignment.ended
    world.step()
    assert (world.assignments.current, world.engine.held) == (None, 0)
    schemas.learn(LATER)
    again = world.begin()
    world.poll(again, 0, value(LATER, "a"))
    assert fingerprint(world) == [0]


def test_the_parts_of_a_batch_count_as_much_as_it(world: World, assignment: Assignment) -> None:
    """So the limits of what is in flight hold."""
    world.poll(assignment, 0, value(KNOWN, "a"), value(KNOWN, "b"), value(LATER, "c"))
    head, rest = world.engine._pending[0].polled, world.engine._held._held[Partition("articles", 0)][0]
    assert (head.size_bytes, rest.size_bytes) == (66, 34)
    assert (head.offsets.tolist(), rest.offsets.tolist()) == ([0, 1], [2])
    assert (head.next.offset, rest.next.offset) == (2, 3)
    assert (world.assignments.batches, world.assignments._bytes.total()) == (2, 100)


def test_batches_that_wait_are_no_lack_of_progress(world: World, schemas: FakeSchemas, assignment: Assignment) -> None:
    """A probe that kills a worker which waits for the registry would have it wait elsewhere."""
    watchdog = Watchdog(world.clock, world.assignments, 10, answered=lambda: True)
    world.poll(assignment, 0, value(LATER, "a"))
    for _ in range(40):
        world.clock.now += 0.5
        watchdog.check()
    assert watchdog.problem is None
    schemas.learn(LATER)
    world.step()
    for _ in range(40):
        world.clock.now += 0.5
        watchdog.check()
    assert watchdog.problem is not None


def test_how_many_partitions_wait_and_for_what(world: World, schemas: FakeSchemas, assignment: Assignment) -> None:
    """Those whose schema is unknown, and those that the registry did not answer."""
    world.poll(assignment, 0, value(LATER, "a"))
    world.poll(assignment, 0, value(GONE, "a"), partition=1)
    world.poll(assignment, 0, value(GONE, "a"), partition=2)
    assert world.engine._held.waiting() == (0, 3)
    schemas.unknown = {GONE}
    assert world.engine._held.waiting() == (2, 1)


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
