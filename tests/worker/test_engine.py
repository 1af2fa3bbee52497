"""The engine with a log in memory: which batches are appended, judged and dropped, when, and what it reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.core.arrays import I64
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import Basis, Forgotten, LogRecord, Trim, make_batch
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.core.rules import Rules
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.index import FORGOTTEN, UNLOGGED
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import (
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
)
from stream_dedup.worker.assignments import Assignment, PolledBatch
from stream_dedup.worker.engine import GATHER_S, IDLE_WAIT_S, note_applied
from tests.logs import SCHEME, START_TIME, record
from tests.worker.engine_world import BROKER_WAIT_S, MAKER, OTHER_ID, TOPIC_ID, Sent, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.index.close()


@pytest.fixture
def assignment(world: World) -> Assignment:
    return world.begin()


def test_batches_of_a_partition_leave_in_the_order_in_which_they_were_polled(
    world: World, assignment: Assignment
) -> None:
    """A later batch that is fingerprinted first waits for the earlier one, and each leaves once."""
    batches = [world.poll(assignment, 0, b'{"text": "one"}'), world.poll(assignment, 1, b'{"text": "two"}')]
    world.fingerprint(batches[1])
    world.steps()
    assert world.appended == []
    world.fingerprint(batches[0])
    world.steps()
    assert world.appended == [[0], [1]]
    assert [judged.polled for judged in world.judged] == batches


def test_a_batch_that_takes_long_holds_up_its_partition_alone(world: World, assignment: Assignment) -> None:
    """The batches of another partition are logged, judged and handed on meanwhile."""
    slow, fast = (
        world.poll(assignment, 10, b'{"text": "one"}'),
        world.poll(assignment, 20, b'{"text": "two"}', partition=1),
    )
    world.fingerprint(fast)
    world.steps()
    assert [judged.polled for judged in world.judged] == [fast]
    world.fingerprint(slow)
    world.steps()
    assert [judged.polled for judged in world.judged] == [fast, slow]


def before_fingerprinting(_world: World, _batch: PolledBatch) -> None:
    pass


def before_the_look_up(world: World, batch: PolledBatch) -> None:
    world.ids = None
    world.fingerprint(batch)
    world.steps()


def before_judging(world: World, batch: PolledBatch) -> None:
    world.fingerprint(batch)
    world.engine._receive_batches()
    world.engine._append_fingerprinted()


def test_fingerprinted_batches_wait_for_others(world: World, assignment: Assignment) -> None:
    """They are appended and judged together."""
    batches = [world.poll(assignment, 10 * number, b"a", partition=number) for number in range(3)]
    for batch in batches[:2]:
        world.fingerprint(batch)
        world.step()
    assert world.appended == []
    world.fingerprint(batches[2])
    world.step()
    assert world.appended == [[0], [10], [20]]
    assert [judged.polled for judged in world.judged] == batches


def test_a_fingerprinted_batch_waits_for_others_for_a_moment_only(world: World, assignment: Assignment) -> None:
    """Then the engine wakes by itself; what is fingerprinted later waits for a moment, too."""
    waits: list[float] = []
    wake: Any = world.engine.wake
    vars(wake)["wait"] = waits.append
    batches = [world.poll(assignment, 10 * number, b"a", partition=number) for number in range(3)]
    for number in (1, 2):
        world.fingerprint(batches[number])
        world.step()
        world.clock.now += 0.75 * GATHER_S
        world.step()
        assert len(world.appended) == number - 1
        assert waits[-1] == pytest.approx(0.25 * GATHER_S)
        world.clock.now += 0.5 * GATHER_S
        world.step()
        world.step()
        assert (len(world.appended), waits[-1]) == (number, IDLE_WAIT_S)


@pytest.mark.parametrize("reach", [before_fingerprinting, before_the_look_up, before_judging])
def test_a_batch_whose_assignment_ends_is_dropped_once(
    world: World, assignment: Assignment, reach: Callable[[World, PolledBatch], None]
) -> None:
    """At whatever step it is: it is not judged, its work is cancelled, and the next assignment may begin then."""
    ended = world.poll(assignment, 0, b'{"text": "one"}')
    work = world.columns[0]
    reach(world, ended)
    world.membership = None
    world.steps()
    assert (world.assignments.current, world.assignments.batches) == (None, 0)
    assert work.done()
    following = world.poll(world.begin(), 1, b'{"text": "two"}')
    world.ids = {"articles": TOPIC_ID}
    world.fingerprint(following)
    world.steps()
    assert [judged.polled for judged in world.judged] == [following]


@pytest.mark.parametrize("reach", [before_fingerprinting, before_the_look_up, before_judging])
def test_a_batch_that_is_forgotten_meanwhile_is_neither_logged_nor_judged(
    world: World, assignment: Assignment, reach: Callable[[World, PolledBatch], None]
) -> None:
    """A worker is held up; others log, judge and commit its articles, and a trim forgets them. It begins anew.

    What it had appended by then comes behind the trim, and is no article.
    """
    late = world.poll(assignment, 0, b'{"text": "one"}')
    trim = Trim(LogOffset(0), START_TIME, Basis(1, LogOffset(1), (Forgotten(TOPIC_ID, 0, SourceOffset(1)),)))
    world.unread.append(record(1, START_TIME + 1, trim))
    world.appended.append([])
    reach(world, late)
    world.ids = {"articles": TOPIC_ID}
    world.steps()
    assert world.index.stats().articles == 0
    assert (world.judged, world.assignments.current) == ([], None)


def test_nothing_is_appended_before_the_topic_was_looked_up(world: World, assignment: Assignment) -> None:
    """A batch waits for a look-up that began after it was polled."""
    world.ids = None
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}'))
    world.steps()
    assert (world.appended, world.judged) == ([], [])
    world.ids = {"articles": TOPIC_ID}
    world.steps()
    assert (world.appended, len(world.judged)) == ([[0]], 1)


def test_a_batch_that_waits_is_looked_for_only_when_the_log_was_read_further(
    world: World, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up for each partition in each round took a tenth of a worker with 32 partitions."""
    world.poll(assignment, 0, b"waits")
    sought: list[int] = []
    look_up = world.index.logged_positions

    def count(topic_id: bytes, partition: int, offsets: I64) -> I64:
        sought.append(partition)
        return look_up(topic_id, partition, offsets)

    monkeypatch.setattr(world.index, "logged_positions", count)
    world.steps()
    world.steps()
    assert sought == []
    world.fingerprint(world.poll(assignment, 10, b"another", partition=1))
    world.steps()
    assert [judged.polled.partition.number for judged in world.judged] == [1]
    assert sought.count(0) == 1


@pytest.mark.expect_log("was recreated after it was read")
def test_a_batch_of_a_topic_that_was_recreated_is_not_appended(world: World, assignment: Assignment) -> None:
    """The source begins again instead."""
    world.ids = {"articles": OTHER_ID}
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}'))
    world.steps()
    assert (world.appended, world.judged) == ([], [])
    assert not world.assignments.is_working(assignment)


@pytest.mark.expect_log("is retried")
def test_a_failed_append_is_made_again(world: World, assignment: Assignment) -> None:
    """The batch leaves once, and its texts count once."""
    world.fails = 2
    batch = world.poll(assignment, 0, b'{"text": "one"}')
    world.fingerprint(batch)
    world.steps()
    assert world.appended == [[0]]
    assert [judged.polled for judged in world.judged] == [batch]
    samples = [sample for metric in world.metrics.texts.collect() for sample in metric.samples]
    assert sum(sample.value for sample in samples if sample.name.endswith("_total")) == len(batch.records)


@pytest.mark.parametrize("kind", [RefusedByBrokerError, RecordTooLargeError])
def test_an_append_that_the_broker_refuses_is_told_at_once(
    world: World, assignment: Assignment, kind: type[PortError]
) -> None:
    """A missing right or a limit of the topic is something to change, not a broker that is away."""
    world.fails, world.failure = 100, kind("the reason")
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}'))
    with pytest.raises(UserError, match="refuses appends: the reason"):
        world.steps()


@pytest.mark.expect_log("is retried")
def test_appends_that_fail_for_ever_end_the_worker_beside_one_that_is_in_the_log(
    world: World, assignment: Assignment
) -> None:
    """A batch that was appended long ago, and waits for others, says nothing of the appends after it."""
    world.unread_limit = 0
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}'))
    world.steps()
    assert world.appended == [[0]]
    world.fails = 100
    world.fingerprint(world.poll(assignment, 0, b'{"text": "two"}', partition=1))
    world.steps()
    world.steps()
    world.clock.sleep(BROKER_WAIT_S)
    with pytest.raises(UnavailableError, match="appends to the log failed in a row"):
        world.steps()


@pytest.mark.expect_log("is retried")
def test_a_worker_waits_as_long_as_it_is_configured_to_for_a_broker_that_refuses_connections(
    world: World, assignment: Assignment
) -> None:
    """Each append without a connection fails within seconds; many of them are no reason to stop early."""
    world.fails = 20
    batch = world.poll(assignment, 0, b'{"text": "one"}')
    world.fingerprint(batch)
    while world.fails:
        world.clock.sleep(BROKER_WAIT_S / 100)
        world.step()
    world.steps()
    assert [judged.polled for judged in world.judged] == [batch]


@pytest.mark.expect_log("is retried")
def test_a_trim_that_fails_is_an_append_that_fails(world: World) -> None:
    """The producer is renewed, and the trimmer forgets the append; a trim that the broker refuses ends the worker."""
    world.trims.append(Sent(PassingError("the broker was away")))
    world.step()
    assert (world.renewed, world.trims) == (1, [])
    world.trims.append(Sent(RefusedByBrokerError("no right to write")))
    with pytest.raises(UserError, match="refuses appends: no right to write"):
        world.step()


@pytest.mark.expect_log("is retried")
def test_trims_that_fail_now_and_then_do_not_end_a_worker_without_partitions(world: World) -> None:
    """Six failures in months, each made good by the next round, are not six in a row; six in a row end the worker."""
    for _ in range(10):
        world.trims[:] = [Sent(PassingError("the broker was away"))]
        world.step()
        world.trims[:] = [Sent(None)]
        world.step()
        assert world.trims == []
    for _ in range(5):
        world.trims[:] = [Sent(PassingError("the broker was away"))]
        world.step()
    world.clock.sleep(BROKER_WAIT_S)
    world.trims[:] = [Sent(PassingError("the broker was away"))]
    with pytest.raises(UnavailableError, match="6 appends to the log failed in a row"):
        world.step()


def test_a_log_that_grows_faster_than_it_is_applied_does_not_hold_up_the_rest(
    world: World, assignment: Assignment
) -> None:
    """A round of the engine ends though there is always more to read, and the batch that is fingerprinted is logged."""
    rules, sent = world.index.rules, 0

    def endless() -> list[LogRecord]:
        nonlocal sent
        world.clock.now += 0.3
        sent += 1
        assert sent < 1000, "the round does not end"
        assert rules is not None
        return [record(sent, START_TIME + sent, rules)]

    batch = world.poll(assignment, 0, b'{"text": "one"}')
    world.fingerprint(batch)
    world.tail.next_records = endless
    world.step()
    world.step()
    assert world.appended == [[0]]


def test_articles_that_are_logged_are_not_logged_again(world: World, assignment: Assignment) -> None:
    """Only the others are fingerprinted and appended; the verdicts are those of the whole batch, in its order."""
    world.fingerprint(world.poll(assignment, 1, b'{"text": "one"}'))
    world.steps()
    again = world.poll(assignment, 0, b'{"text": "zero"}', b'{"text": "one"}', b'{"text": "two"}')
    assert [record.offset for record in world.submitted[0]] == [0, 2]
    made = MAKER([RawRecord(None, value, "x") for value in (b'{"text": "zero"}', b'{"text": "two"}')])
    world.columns.pop(0).set_result(made)
    world.steps()
    assert world.appended == [[1], [0], [2]]
    assert world.judged[-1].polled is again
    assert len(world.judged[-1].judgements) == 3


def test_an_article_that_another_worker_logs_meanwhile_is_not_logged_again(
    world: World, assignment: Assignment
) -> None:
    """Of a batch that was fingerprinted as a whole, the rows are appended that are still not in the log."""
    values = (b'{"text": "zero"}', b'{"text": "one"}', b'{"text": "two"}')
    batch = world.poll(assignment, 0, *values)
    other = MAKER([RawRecord(None, values[1], "x")])
    world._append(make_batch(other, TOPIC_ID, "articles", 0, [1]))
    world.steps()
    world.fingerprint(batch)
    world.steps()
    assert world.appended == [[1], [0], [2]]
    assert [judged.polled for judged in world.judged] == [batch]


def test_another_article_than_was_logged_is_refused(world: World, assignment: Assignment) -> None:
    """Its value does not have the logged checksum."""
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}'))
    world.steps()
    with pytest.raises(RefusedError, match="not the article that was logged there"):
        world.poll(assignment, 0, b'{"text": "other"}')


def test_a_batch_that_is_forgotten_before_its_topic_was_looked_up_is_not_judged(
    world: World, assignment: Assignment
) -> None:
    """It was in the log, and waited; the trim that forgets it ends its assignment, and not the worker."""
    late = world.poll(assignment, 0, b'{"text": "one"}')
    world.fingerprint(late)
    world.engine._append_fingerprinted()
    world.ids = None
    world.steps()
    trim = Trim(LogOffset(0), START_TIME + 1, Basis(1, LogOffset(2), (Forgotten(TOPIC_ID, 0, SourceOffset(1)),)))
    world.unread.append(record(2, START_TIME + 2, trim))
    world.ids = {"articles": TOPIC_ID}
    world.steps()
    assert world.index.forgotten_before(TOPIC_ID, 0) == 1
    assert (world.judged, world.assignments.current) == ([], None)


def test_articles_that_a_trim_has_forgotten_are_not_logged_again(
    world: World, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was frozen before its append holds them: its assignment ends, and no row of them is appended."""
    batch = world.poll(assignment, 0, b'{"text": "one"}', b'{"text": "two"}')
    monkeypatch.setattr(world.index, "logged_positions", lambda *_: np.array([FORGOTTEN, UNLOGGED]))
    world.fingerprint(batch)
    world.steps()
    assert [offset for offsets in world.appended for offset in offsets if offset == 0] == []
    assert (world.judged, world.assignments.current) == ([], None)


def test_what_is_logged_is_published_once_it_is_applied(world: World, assignment: Assignment) -> None:
    """With the log offset, so that the source knows as of when."""
    assert world.engine.logged == (LogOffset(1), frozenset())
    world.fingerprint(world.poll(assignment, 0, b'{"text": "one"}', partition=7))
    world.steps()
    assert world.engine.logged == (LogOffset(2), frozenset({(TOPIC_ID, 7)}))


RULES = Rules(SCHEME, distance=3)


def test_a_change_of_rules_is_logged_where_it_takes_force(caplog: pytest.LogCaptureFixture) -> None:
    """Each change is one line with old and new values, from the first rules on; void and repeated ones are none."""
    second, third = replace(RULES, revision=2, distance=5), replace(RULES, revision=3, distance=5, observe=True)
    payloads = [RULES, second, replace(RULES, revision=2, distance=9), third, third]
    metrics = Metrics(CollectorRegistry())
    with caplog.at_level(logging.INFO):
        note_applied([record(7 + at, 0, payload) for at, payload in enumerate(payloads)], RULES, metrics)
    assert [one.getMessage() for one in caplog.records] == [
        "rules: revision 2 in force from log offset 8 on: distance: 3 -> 5",
        "rules: revision 3 in force from log offset 10 on: observe: no -> yes",
    ]
    assert {one.levelno for one in caplog.records} == {logging.INFO}
    assert metrics.log_records.labels("rules")._value.get() == len(payloads)
