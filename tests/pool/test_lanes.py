"""Slow tasks and their lanes: what goes on meanwhile, and what is given back."""

import gc
import weakref
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.reasons import KILLED_TWICE
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError
from stream_dedup.pool import FingerprintPool, driver, process
from stream_dedup.pool import tasks as pool_tasks
from stream_dedup.pool.tasks import (
    LEAST_SHARE_WORK,
    MOST_TOGETHER_RECORDS,
    MOST_TOGETHER_WORK,
    RECORD_WORK,
    Task,
    TaskQueue,
)
from tests.pool.children import (
    DYING_STEP,
    RECORDS,
    WAITING_STEP,
    Observed,
    same,
    take_step,
    wait_until_gone,
    waiting_for,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("light")]

LIMIT_S = 200
"""Longest wait for what must happen."""


class Records(list[RawRecord]):
    """Records that can be watched: a plain list has no weak references."""


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children take the waiting step, a task is slow at once, and a close waits for none."""
    take_step(monkeypatch, WAITING_STEP)
    monkeypatch.setattr(driver, "SLOW_S", 0.2)
    monkeypatch.setattr(process, "CLOSE_WAIT_S", 0.2)


@pytest.fixture
def slow(tmp_path: Path) -> RawRecord:
    """A record that is never done."""
    return waiting_for(tmp_path / "never")


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_an_article_that_takes_long_holds_up_no_other_lane(tmp_path: Path) -> None:
    """Another process takes the place of its process until it is done; what is in order behind the article waits."""
    done = tmp_path / "done"
    with FingerprintPool(1) as pool:
        slow = pool.submit([waiting_for(done)], lane="a")
        wait_until(slow.running, LIMIT_S, "the slow article is begun")
        behind = pool.submit(RECORDS, lane="a")
        others = [pool.submit(RECORDS, lane=lane) for lane in ("b", None, "b")]
        for other in others:
            assert same(other.result(LIMIT_S), EntryMaker()(RECORDS))
        assert slow.running()
        assert not behind.running()
        assert len(pool.pids) == 2
        done.touch()
        assert same(behind.result(LIMIT_S), EntryMaker()(RECORDS))
        wait_until(lambda: len(pool.pids) == 1, LIMIT_S, "the process that is one too many ends")


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_an_article_that_takes_long_holds_up_no_lane_whose_records_came_with_it(tmp_path: Path) -> None:
    """Its process is given up, and the records of each lane are done again by themselves."""
    observed, done = Observed(), tmp_path / "done"
    with FingerprintPool(1, observer=observed) as pool:
        slow, *others = pool.submit_all([([waiting_for(done)], "a"), (RECORDS, "b"), (RECORDS[:1], "c")])
        assert same(others[0].result(LIMIT_S), EntryMaker()(RECORDS))
        assert same(others[1].result(LIMIT_S), EntryMaker()(RECORDS[:1]))
        assert slow.running()
        done.touch()
        assert same(slow.result(LIMIT_S), EntryMaker()([waiting_for(done)]))
    assert observed.restarts == Counter(late=1)
    assert not observed.poisoned


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_what_is_done_with_other_lanes_can_be_cancelled(slow: RawRecord) -> None:
    """While it is done, and when it waits to be done again. A close cancels it, too."""
    pool = FingerprintPool(1)
    futures = pool.submit_all([([slow], lane) for lane in range(6)])
    wait_until(lambda: not len(pool._tasks), LIMIT_S, "they are begun together")
    assert futures[0].cancel()
    wait_until(futures[2].running, LIMIT_S, "two articles are done by themselves")
    assert len(pool._tasks) == 3
    assert futures[4].cancel()
    assert len(pool._tasks) == 2
    pool.close()
    assert [future.cancelled() for future in futures] == [True, False, False, True, True, True]
    for future in futures[1:3]:
        with pytest.raises(UnavailableError, match="closing"):
            future.result(LIMIT_S)


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_no_process_is_started_while_the_pool_closes(slow: RawRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is given up then is not done again."""
    started: list[driver.Driver] = []
    start = driver.Driver._start

    def note(made: driver.Driver) -> None:
        started.append(made)
        start(made)

    monkeypatch.setattr(driver.Driver, "_start", note)
    monkeypatch.setattr(process, "CLOSE_WAIT_S", LIMIT_S)
    pool = FingerprintPool(1)
    pool.warm()
    futures = pool.submit_all([([slow], lane) for lane in range(2)])
    wait_until(lambda: not len(pool._tasks), LIMIT_S, "they are begun together")
    pool.close()
    assert all(future.cancelled() for future in futures)
    assert len(started) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_lanes_that_are_slow_together_are_given_up_once(tmp_path: Path) -> None:
    """Although none is slow by itself: else each poll would cost a process and ``SLOW_S``."""
    observed = Observed()

    def poll(number: int) -> None:
        done = tmp_path / f"{number}"
        first, other = pool.submit_all([([waiting_for(done)], "a"), (RECORDS, "b")])
        wait_until(
            lambda: first.running() or observed.restarts["late"] > number, LIMIT_S, "it is given up, or by itself"
        )
        done.touch()
        first.result(LIMIT_S)
        assert same(other.result(LIMIT_S), EntryMaker()(RECORDS))

    with FingerprintPool(1, observer=observed) as pool:
        for number in range(3):
            poll(number)
    assert observed.restarts == Counter(late=1)


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_records_that_were_given_up_are_not_kept(tmp_path: Path) -> None:
    """By the error, whose traceback knows them."""
    done = tmp_path / "done"
    with FingerprintPool(1) as pool:
        given = [Records([waiting_for(done)]), Records(RECORDS)]
        references = [weakref.ref(records) for records in given]
        futures = pool.submit_all(list(zip(given, "ab", strict=True)))
        del given
        futures[1].result(LIMIT_S)
        done.touch()
        futures[0].result(LIMIT_S)
        gc.disable()
        try:
            wait_until(lambda: not any(reference() for reference in references), 10, "the records are given back")
        finally:
            gc.enable()


@pytest.mark.slow
def test_a_record_that_kills_its_process_is_found_among_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rejected and no other, and only its own lane has records done one by one."""
    take_step(monkeypatch, DYING_STEP)
    observed, crashing = Observed(), RawRecord(b"c", b'{"text": "segfault"}', "t-0-5")
    with FingerprintPool(1, observer=observed) as pool:
        parts = [[crashing], RECORDS, RECORDS[1:]]
        found = [future.result(LIMIT_S) for future in pool.submit_all(list(zip(parts, "abc", strict=True)))]
    assert list(found[0].reasons) == [KILLED_TWICE]
    for part, columns in zip(parts[1:], found[1:], strict=True):
        assert same(columns, EntryMaker()(part))
    assert observed.restarts == Counter(killed=3)  # together, and twice by itself
    assert observed.poisoned == Counter(killed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_many_slow_articles_start_no_more_than_twice_the_processes(slow: RawRecord) -> None:
    """However many lanes are slow. A close ends them all."""
    pool = FingerprintPool(1)
    futures = []
    for lane in range(2):
        futures.append(pool.submit([slow], lane=lane))
        wait_until(futures[-1].running, LIMIT_S, "the article is begun")
    wait_until(lambda: len(pool.pids) == 2, LIMIT_S, "an article is slow")
    futures += [pool.submit([slow], lane=lane) for lane in (2, 3)]
    pids = pool.pids
    assert len(pids) == 2
    assert [future.running() for future in futures] == [True, True, False, False]
    pool.close()
    wait_until_gone(pids)
    assert [future.cancelled() for future in futures] == [False, False, True, True]


@pytest.mark.slow
@pytest.mark.usefixtures("step")
def test_records_are_given_back_at_once(slow: RawRecord) -> None:
    """Those of a cancelled task do not wait for its turn: thousands may be queued behind what an ended assignment left.

    And a driver that waits for work keeps nothing of the work before.
    """
    with FingerprintPool(1) as pool:
        assert all(reference() is None for reference in done_and_dropped(pool))
        running = pool.submit([slow], lane="a")
        wait_until(running.running, LIMIT_S, "the slow article is begun")
        queued = [Records(RECORDS) for _ in range(2_000)]
        futures = [pool.submit(records, lane="a") for records in queued]
        held = [weakref.ref(records) for records in queued]
        del queued
        assert all(future.cancel() for future in futures)
        assert [reference for reference in held if reference() is not None] == []
        assert not running.cancel()


def done_and_dropped(pool: FingerprintPool) -> list[weakref.ref[Records]]:
    """Return references to records that were done, once they are given back."""
    records = Records(RECORDS)
    references = [weakref.ref(records)]
    future = pool.submit(records)
    del records
    future.result(LIMIT_S)
    wait_until(lambda: references[0]() is None, LIMIT_S, "the records are given back")
    return references


def test_tasks_begin_in_order_but_for_held_lanes() -> None:
    """A lane that is held twice is released twice."""
    queue = TaskQueue()
    tasks = {lane: Task([], Future(), lane, is_apart=True) for lane in ("a", "b", "c")}
    queue.put(*tasks.values())
    queue.hold("a")
    queue.hold("a")
    assert queue.take() == [tasks["b"]]
    queue.release("a")
    assert queue.take() == [tasks["c"]]
    queue.release("a")
    assert queue.take() == [tasks["a"]]
    queue.close()
    assert queue.take() == []


def test_little_work_is_done_together() -> None:
    """Of all lanes, in order; a task without a lane by itself, and so what is to be."""
    queue = TaskQueue(2)
    tasks = [Task(RECORDS, Future(), lane) for lane in ("a", "b", "a", None, "b", None)]
    apart = Task(RECORDS, Future(), "a", is_apart=True)
    queue.put(*tasks, apart)
    assert queue.take() == [tasks[at] for at in (0, 1, 2, 4)]
    assert [queue.take() for _ in range(3)] == [[tasks[3]], [tasks[5]], [apart]]


@pytest.mark.parametrize(("processes", "shares"), [(1, [8]), (2, [4, 2, 2]), (3, [2, 2, 2, 2]), (8, [2, 2, 2, 2])])
def test_much_work_is_shared_out(processes: int, shares: list[int]) -> None:
    """Each process gets its share of what is left, but no less than is worth a process."""
    queue = TaskQueue(processes)
    half = RawRecord(b"a", bytes(LEAST_SHARE_WORK // 2 - RECORD_WORK), "t-0-0")
    queue.put(*(Task([half], Future(), lane) for lane in range(8)))
    assert [len(queue.take()) for _ in shares] == shares
    assert not queue


def test_what_was_slow_is_done_again_first() -> None:
    """Its lane has waited longest."""
    queue = TaskQueue()
    later, again = Task(RECORDS, Future(), "a"), [Task(RECORDS, Future(), lane) for lane in ("a", "b")]
    queue.put(later)
    queue.put_apart(again)
    taken = [queue.take() for _ in range(3)]
    assert [[task.future for task in together] for together in taken] == [[task.future] for task in (*again, later)]


def test_tasks_of_a_held_lane_are_in_no_share() -> None:
    """Else one process took all that is left, and the others had nothing to do while the lane is held."""
    queue = TaskQueue(2)
    half = [RawRecord(b"a", bytes(LEAST_SHARE_WORK // 2 - RECORD_WORK), "t-0-0")]
    slow, quick = ([Task(half, Future(), lane) for _ in range(4)] for lane in ("a", "b"))
    queue.put(*slow, *quick)
    queue.hold("a")
    assert queue.take() == quick[:2]
    assert queue.take() == quick[2:]
    queue.release("a")
    assert queue.take() == slow[:2]


def test_a_lane_that_was_slow_is_done_with_no_other_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends one article that takes long may send more: each would cost the others a process and ``SLOW_S``."""
    queue, now = TaskQueue(), [100.0]
    monkeypatch.setattr(pool_tasks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    queue.hold("a")
    queue.release("a")  # its article took long
    for lanes in (("a", "b", "a"), ("b", "a", "b")):
        tasks = [Task(RECORDS, Future(), lane) for lane in lanes]
        queue.put(*tasks)
        assert [queue.take() for _ in range(2)] == [tasks[::2], tasks[1:2]]
    now[0] += pool_tasks.APART_S
    tasks = [Task(RECORDS, Future(), lane) for lane in ("a", "b", "a")]
    queue.put(*tasks)
    assert queue.take() == tasks


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ([RECORDS[0]] * (MOST_TOGETHER_RECORDS - 1), [RECORDS[0]], True),
        ([RECORDS[0]] * MOST_TOGETHER_RECORDS, [RECORDS[0]], False),
        (
            [RawRecord(b"a", bytes(MOST_TOGETHER_WORK - 2 * RECORD_WORK - 1), "t-0-0")],
            [RawRecord(b"b", b" ", "t-0-1")],
            True,
        ),
        (
            [RawRecord(b"a", bytes(MOST_TOGETHER_WORK - 2 * RECORD_WORK), "t-0-0")],
            [RawRecord(b"b", b" ", "t-0-1")],
            False,
        ),
    ],
)
def test_what_is_done_together_is_limited(first: list[RawRecord], second: list[RawRecord], together: bool) -> None:
    """In records and in work; a task beyond the limit is done alone."""
    queue = TaskQueue()
    tasks = [Task(records, Future(), "a") for records in (first, second)]
    queue.put(*tasks)
    assert queue.take() == tasks[: 1 + together]


@pytest.mark.slow
def test_tasks_that_are_done_together_have_their_own_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where a record of one of them kills its process, and where one is cancelled before."""
    take_step(monkeypatch, WAITING_STEP)
    take_step(monkeypatch, DYING_STEP)
    observed, ready = Observed(), tmp_path / "ready"
    crashing = RawRecord(b"c", b'{"text": "segfault"}', "t-0-5")
    with FingerprintPool(1, observer=observed) as pool:
        begun = pool.submit([waiting_for(ready)], lane="a")
        wait_until(begun.running, LIMIT_S, "the first article is begun")
        parts = [RECORDS[:1], RECORDS[1:], [crashing], RECORDS]
        futures = [pool.submit(part, lane="a") for part in parts]
        cancelled = pool.submit(RECORDS, lane="a")
        assert cancelled.cancel()
        ready.touch()
        found = [future.result(LIMIT_S) for future in futures]
    for part, columns in zip(parts, found, strict=True):
        if part[0] is crashing:
            assert list(columns.reasons) == [KILLED_TWICE]
        else:
            assert same(columns, EntryMaker()(part))
    assert observed.works == 2  # the first article, and all tasks behind it
    assert observed.poisoned == Counter(killed=1)


@pytest.mark.slow
def test_tasks_that_fail_together_all_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A caller that waits for any of them learns why."""
    take_step(monkeypatch, WAITING_STEP)
    ready = tmp_path / "ready"
    with FingerprintPool(1) as pool:
        begun = pool.submit([waiting_for(ready)], lane="a")
        wait_until(begun.running, LIMIT_S, "the first article is begun")
        futures = [pool.submit(RECORDS, lane="a") for _ in range(3)]
        monkeypatch.setattr(driver.Driver, "columns", refused)
        ready.touch()
        for future in futures:
            with pytest.raises(UnavailableError, match="no process"):
                future.result(LIMIT_S)


def refused(*_: object, **__: object) -> None:
    """Raise what a driver without a process raises."""
    msg = "no process"
    raise UnavailableError(msg)


def test_a_queue_that_is_closed_cancels_what_comes() -> None:
    """A task that is handed in while the pool closes is no task that waits for ever."""
    queue = TaskQueue()
    waiting, late = Task([], Future(), None), Task([], Future(), None)
    queue.put(waiting)
    queue.close()
    queue.put(late)
    assert [task.future.cancelled() for task in (waiting, late)] == [True, True]
    assert len(queue) == 0
