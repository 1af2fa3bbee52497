"""Slow tasks and their lanes: what goes on meanwhile, and what is given back."""

import weakref
from concurrent.futures import Future
from pathlib import Path

import pytest

from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool import FingerprintPool, driver, process
from stream_dedup.pool.tasks import Task, TaskQueue
from tests.pool.children import RECORDS, WAITING_STEP, same, take_step, wait_until_gone, waiting_for
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
        slow, behind = pool.submit([waiting_for(done)], lane="a"), pool.submit(RECORDS, lane="a")
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
def test_many_slow_articles_start_no_more_than_twice_the_processes(slow: RawRecord) -> None:
    """However many lanes are slow. A close ends them all."""
    pool = FingerprintPool(1)
    futures = [pool.submit([slow], lane=lane) for lane in range(4)]
    wait_until(lambda: all(future.running() for future in futures[:2]), LIMIT_S, "two articles are slow")
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
    tasks = {lane: Task([], Future(), lane) for lane in ("a", "b", "c")}
    for task in tasks.values():
        queue.put(task)
    queue.hold("a")
    queue.hold("a")
    assert queue.take() is tasks["b"]
    queue.release("a")
    assert queue.take() is tasks["c"]
    queue.release("a")
    assert queue.take() is tasks["a"]
    queue.close()
    assert queue.take() is None


def test_a_queue_that_is_closed_cancels_what_comes() -> None:
    """A task that is handed in while the pool closes is no task that waits for ever."""
    queue = TaskQueue()
    waiting, late = Task([], Future(), None), Task([], Future(), None)
    queue.put(waiting)
    queue.close()
    queue.put(late)
    assert [task.future.cancelled() for task in (waiting, late)] == [True, True]
    assert len(queue) == 0
