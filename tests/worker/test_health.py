"""Whether the worker makes progress, with a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stream_dedup.worker.assignments import AssignmentOwner
from stream_dedup.worker.health import CHECK_S, STOPPED_S, Health
from tests.worker.clocks import ManualClock

LIMIT_S = 30.0


class Watched:
    """A health, its clock, and what it looks at."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.assignments: Any = SimpleNamespace(batches=0, released=0)
        self.answered = True
        self.health = Health(self.clock, cast("AssignmentOwner", self.assignments), LIMIT_S, lambda: self.answered)

    def run(self, seconds: float, *rounds: str) -> str | None:
        """Let time pass, in which these threads complete rounds; return the problem at its end."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += CHECK_S
            for thread in rounds:
                self.health.completed(thread)
            self.health.check()
        return self.health.problem


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


def test_batches_that_do_not_leave_are_named(watched: Watched) -> None:
    """Batches are in flight and none is committed or dropped, though every thread completes its rounds."""
    watched.run(LIMIT_S, "engine")
    watched.assignments.batches = 3
    assert watched.run(LIMIT_S, "engine") is None
    assert (
        watched.run(CHECK_S, "engine")
        == "3 batches are in flight, and none was committed for 30 s (worker.watchdog_s 30)"
    )
    watched.assignments.released = 1
    assert watched.run(CHECK_S, "engine") is None


def test_waiting_for_a_broker_is_no_fault(watched: Watched) -> None:
    """While no broker answers, batches may stay; that time does not count."""
    watched.assignments.batches = 3
    watched.answered = False
    assert watched.run(10 * LIMIT_S, "engine") is None
    watched.answered = True
    assert watched.run(LIMIT_S, "engine") is None
    assert watched.run(CHECK_S, "engine") is not None


def test_a_broker_that_is_away_now_and_then_hides_no_standstill(watched: Watched) -> None:
    """One look-up in ten fails: the time in between adds up."""
    watched.assignments.batches = 3
    for _ in range(12):
        watched.answered = False
        watched.run(LIMIT_S / 100, "engine")
        watched.answered = True
        watched.run(LIMIT_S / 10, "engine")
    assert watched.health.problem is not None


def test_time_in_which_the_process_did_not_run_does_not_count(watched: Watched) -> None:
    """A process that was stopped for an hour and goes on is healthy."""
    watched.assignments.batches = 3
    watched.run(LIMIT_S / 2, "engine")
    watched.clock.now += 3600 + STOPPED_S
    watched.health.check()
    assert watched.health.problem is None
    assert watched.run(LIMIT_S) is not None
