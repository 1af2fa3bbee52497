"""Whether the worker makes progress, and guards over calls without a limit, with a clock of the test's own."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stream_dedup.errors import EXIT_UNAVAILABLE
from stream_dedup.kafka.clients import SystemClock
from stream_dedup.worker.assignments import AssignmentOwner
from stream_dedup.worker.health import CHECK_S, STOPPED_S, Watchdog
from tests.worker.clocks import ManualClock

LIMIT_S = 30.0


class Watched:
    """A watchdog, its clock, what it looks at, and the exit codes it ended with."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.assignments: Any = SimpleNamespace(batches=0, moving=0, released=0)
        self.answered = True
        self.codes: list[int] = []
        assignments = cast("AssignmentOwner", self.assignments)
        self.dog = Watchdog(self.clock, assignments, LIMIT_S, lambda: self.answered, self.codes.append)

    def run(self, seconds: float, *rounds: str) -> str | None:
        """Let time pass, in which these threads complete rounds; return the problem at its end."""
        end = self.clock.now + seconds
        while self.clock.now < end and not self.codes:
            self.clock.now = min(self.clock.now + CHECK_S, end)
            for thread in rounds:
                self.dog.completed(thread)
            self.dog.check()
        return self.dog.problem

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which nothing runs; the next check is late."""
        self.clock.now += seconds
        self.dog.check()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_worker_without_work_is_healthy(watched: Watched) -> None:
    """Its threads complete rounds, and nothing is in flight."""
    assert watched.run(10 * LIMIT_S, "engine", "committer") is None


def test_a_thread_that_completes_no_round_is_named(watched: Watched) -> None:
    """Whether it hangs or has ended unnoticed; when it goes on, the worker is healthy again."""
    watched.run(1, "engine", "committer")
    assert watched.run(LIMIT_S, "engine") is None
    assert (
        watched.run(CHECK_S, "engine") == "thread committer has not completed a round for 30 s (worker.watchdog_s 30)"
    )
    assert watched.run(CHECK_S, "engine", "committer") is None


def test_threads_that_end_in_order_are_no_problem(watched: Watched) -> None:
    """While the worker ends, calls alone are checked (``test_overdue``)."""
    watched.run(1, "engine")
    watched.dog.note_end()
    assert watched.run(2 * LIMIT_S) is None


def test_batches_that_do_not_leave_are_named(watched: Watched) -> None:
    """Batches are in flight and none is committed or dropped, though every thread completes its rounds."""
    watched.run(LIMIT_S, "engine")
    watched.assignments.batches = watched.assignments.moving = 3
    assert watched.run(LIMIT_S, "engine") is None
    assert (
        watched.run(CHECK_S, "engine")
        == "3 batches are in flight, and none was committed for 30 s (worker.watchdog_s 30)"
    )
    watched.assignments.released = 1
    assert watched.run(CHECK_S, "engine") is None


def test_waiting_for_a_broker_is_no_fault(watched: Watched) -> None:
    """While no broker answers, batches may stay; that time does not count."""
    watched.assignments.batches = watched.assignments.moving = 3
    watched.answered = False
    assert watched.run(10 * LIMIT_S, "engine") is None
    watched.answered = True
    assert watched.run(LIMIT_S, "engine") is None
    assert watched.run(CHECK_S, "engine") is not None


def test_a_broker_that_is_away_now_and_then_hides_no_standstill(watched: Watched) -> None:
    """One look-up in ten fails: the time in between adds up."""
    watched.assignments.batches = watched.assignments.moving = 3
    for _ in range(12):
        watched.answered = False
        watched.run(LIMIT_S / 100, "engine")
        watched.answered = True
        watched.run(LIMIT_S / 10, "engine")
    assert watched.dog.problem is not None


def test_time_in_which_the_process_did_not_run_does_not_count(watched: Watched) -> None:
    """A process that was stopped for an hour and goes on is healthy."""
    watched.assignments.batches = watched.assignments.moving = 3
    watched.run(LIMIT_S / 2, "engine")
    watched.stand_still(3600)
    assert watched.dog.problem is None
    assert watched.run(LIMIT_S) is not None


OVERDUE = r"took more than .* the worker ends"
END_LIMIT_S = 60


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.expect_log(OVERDUE)
@pytest.mark.parametrize("code", [EXIT_UNAVAILABLE, 0])
def test_overdue(watched: Watched, caplog: pytest.LogCaptureFixture, code: int) -> None:
    """An overdue guard ends the process with its exit code, and logs in one line which call hung and for how long."""
    with watched.dog.guard("a commit (broker:9092)", 10, code):
        watched.run(10)
        assert not watched.codes
        watched.run(CHECK_S)
    assert watched.codes == [code]
    assert errors(caplog) == ["a commit (broker:9092) took more than 10 s; " + _REST]


_REST = "the worker ends and can be started again, nothing is lost"


def test_in_time(watched: Watched) -> None:
    """A block that ends in time is never heard of again, however often it is entered, or if it raises."""
    for _ in range(3):
        with watched.dog.guard("a commit", 10):
            watched.run(9)
    with pytest.raises(ValueError, match="broken"), watched.dog.guard("a commit", 10):
        raise ValueError("broken")
    watched.run(100)
    assert not watched.codes


def test_standstill_counts_for_no_guard(watched: Watched) -> None:
    """Time in which the whole process stood still is given back to every guard."""
    with watched.dog.guard("polling", 10), watched.dog.guard("a commit", 2):
        watched.run(1)
        watched.stand_still(3600)
        watched.run(1)
        assert not watched.codes
    with watched.dog.guard("a commit", 2):
        watched.stand_still(3600)
        watched.stand_still(3600)
    assert not watched.codes


@pytest.mark.expect_log(OVERDUE)
def test_limit_goes_on_after_a_standstill(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """A standstill of the process extends a guard; it does not cancel it."""
    with watched.dog.guard("a commit", 2):
        watched.run(1)
        watched.stand_still(3600)
        watched.run(1 + CHECK_S)
    assert watched.codes == [EXIT_UNAVAILABLE]
    assert len(errors(caplog)) == 1


@pytest.mark.expect_log(OVERDUE)
def test_slow_tick_is_no_standstill(watched: Watched) -> None:
    """A tick that is a little late comes from a busy machine: the time counts."""
    with watched.dog.guard("a commit", STOPPED_S - 1):
        watched.stand_still(STOPPED_S)
    assert watched.codes == [EXIT_UNAVAILABLE]


@pytest.mark.expect_log(OVERDUE)
def test_nested(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """Inner guards in time do not put off the outer one."""
    with watched.dog.guard("the end of the worker", 5, 3):
        for _ in range(5):
            with watched.dog.guard("an abort", 2):
                watched.run(1)
        assert not watched.codes
        with watched.dog.guard("an abort", 2):
            watched.run(1)
    assert watched.codes == [3]
    assert errors(caplog) == ["the end of the worker took more than 5 s; " + _REST]


@pytest.mark.expect_log(OVERDUE)
def test_concurrent(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """Guards of several threads end in any order; of two that are overdue at once, one is logged."""
    polling, commit, append = (watched.dog.guard(what, 2) for what in ("polling", "a commit", "an append"))
    polling.__enter__()
    commit.__enter__()
    polling.__exit__(None, None, None)
    append.__enter__()
    watched.run(1)
    with watched.dog.guard("another commit", 2):
        commit.__exit__(None, None, None)
        append.__exit__(None, None, None)
        watched.run(2)
    assert not watched.codes
    with watched.dog.guard("polling", 1), watched.dog.guard("a commit", 1, 3):
        watched.run(1 + CHECK_S)
    assert watched.codes == [EXIT_UNAVAILABLE]
    assert errors(caplog) == ["polling took more than 1 s; " + _REST]


@pytest.mark.expect_log(OVERDUE)
def test_thread_looks() -> None:
    """``run`` checks the guards until ``stop``."""
    ended = threading.Event()
    clock = SystemClock()
    idle = cast("AssignmentOwner", SimpleNamespace(batches=0, moving=0, released=0))
    dog = Watchdog(clock, idle, LIMIT_S, lambda: True, lambda _code: ended.set())
    thread = clock.spawn("watchdog", dog.run)
    with dog.guard("a commit", 0):
        assert ended.wait(END_LIMIT_S)
    dog.stop()
    thread.join(END_LIMIT_S)
    assert not thread.is_alive()
