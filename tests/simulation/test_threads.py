"""An error that nobody foresaw, in whatever thread of the worker, ends the worker: none of them dies unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import EXIT_UNAVAILABLE
from stream_dedup.worker.assignments import JudgedBatch
from stream_dedup.worker.committer import Committer
from stream_dedup.worker.engine import Engine
from stream_dedup.worker.health import Watchdog
from stream_dedup.worker.log_tail import LogTail
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.watches import TopicWatch
from tests.simulation.plan import Write, plan_of
from tests.simulation.run import stores_in_memory
from tests.simulation.world import SimulatedWorld, UnexpectedEndError

SEED = 1
LIMIT_S = 30.0
"""Virtual seconds in which the worker must have ended."""
UNFORESEEN = "an error of this test"
CALLS = 5
"""The call that raises: the worker has begun."""
THREADS: dict[str, tuple[type, str]] = {
    "source": (BatchSource, "poll"),
    "engine": (Engine, "step"),
    "committer": (Committer, "step"),
    "log-tail": (LogTail, "_poll"),
    "topic-watch": (TopicWatch, "_look_up"),
    "watchdog": (Watchdog, "check"),
}
"""What each thread of the worker calls again and again."""


def failing(method: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def wrapped(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls == CALLS:
            raise RuntimeError(UNFORESEEN)
        return method(*arguments, **named)

    return wrapped


@pytest.mark.parametrize("thread", THREADS)
def test_an_unforeseen_error_ends_the_worker(thread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With that error as its own."""
    owner, name = THREADS[thread]
    monkeypatch.setattr(owner, name, failing(getattr(owner, name)))
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        world.start(world.slots[0])
        with pytest.raises(UnexpectedEndError, match=rf"RuntimeError\('{UNFORESEEN}'\)"):
            world.run_until(LIMIT_S)


@pytest.mark.expect_log("which ends because")
def test_an_error_of_a_worker_that_stops_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that fails while it waits for the batches in flight does not end as if it had done its work."""
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        world.start(world.slots[0])
        process = world.slots[0].running
        assert process is not None

        def fail_once_stopped(committer: Committer) -> None:
            is_stopped = process.stop.is_set()
            committer.clock.sleep(1.0)  # until the source's thread has seen the stop
            if is_stopped:
                raise RuntimeError(UNFORESEEN)

        monkeypatch.setattr(Committer, "step", fail_once_stopped)
        world.write(Write(0.0, 0, 0, ((None, b"1.0.0"),), "plain", 0.0))
        world.run_until(LIMIT_S)
        assert process.worker is not None
        assert process.worker._assignments.batches
        world.slots[0].is_wanted = False
        process.stop.set()
        world.run_until(2 * LIMIT_S)
    assert (process.is_running, str(process.error)) == (False, UNFORESEEN)


@pytest.mark.expect_log("which ends because")
def test_an_error_is_told_though_the_end_of_the_worker_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The watchdog ends the process then, and says what the worker ended with."""

    def hanging(committer: Committer) -> None:
        committer.clock.sleep(1e6)

    monkeypatch.setattr(Committer, "step", hanging)
    monkeypatch.setattr(Engine, "step", failing(Engine.step))
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        world.start(world.slots[0])
        world.slots[0].is_wanted = False
        world.run_until(2 * LIMIT_S)
    assert not list(world.running())
    assert UNFORESEEN in caplog.text


@pytest.mark.expect_log("which ends because")
def test_an_error_of_a_worker_that_stops_is_its_end_though_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of a failure: whoever started the worker does not take it for one that was done."""

    def hanging(committer: Committer) -> None:
        committer.clock.sleep(1e6)

    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        world.start(world.slots[0])
        process = world.slots[0].running
        assert process is not None
        step = Engine.step

        def fail_once_stopped(engine: Engine) -> list[JudgedBatch]:
            if process.stop.is_set():
                engine.clock.sleep(1.0)  # until the source's thread has seen the stop
                raise RuntimeError(UNFORESEEN)
            return step(engine)

        monkeypatch.setattr(Committer, "step", hanging)
        monkeypatch.setattr(Engine, "step", fail_once_stopped)
        world.write(Write(0.0, 0, 0, ((None, b"1.0.0"),), "plain", 0.0))
        world.run_until(LIMIT_S)
        world.slots[0].is_wanted = False
        process.stop.set()
        world.run_until(10 * LIMIT_S)
    assert not process.is_running
    assert str(process.error) == f"the watchdog ended the process with code {EXIT_UNAVAILABLE}"
