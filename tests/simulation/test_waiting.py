"""A worker that waits for a broker to begin its partitions does not wait when it is to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stream_dedup.errors import UserError
from stream_dedup.ports import PassingError, PortError, RefusedByBrokerError
from tests.memory.offsets import MemoryOffsets
from tests.simulation.plan import plan_of
from tests.simulation.run import stores_in_memory
from tests.simulation.worker_process import WorkerProcess
from tests.simulation.world import SimulatedWorld

SEED = 1
BEGUN_S = 8.0
"""Virtual seconds after which the worker waits."""
SOON_S = 5.0
"""Virtual seconds for its end, fewer than are left of its wait for a broker."""

Start = Callable[[PortError], tuple[SimulatedWorld, WorkerProcess]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """A worker whose look-ups of topic ids all fail."""

    def started(error: PortError) -> tuple[SimulatedWorld, WorkerProcess]:
        def topic_ids(_self: MemoryOffsets, _names: Iterable[str]) -> dict[str, bytes]:
            raise error

        monkeypatch.setattr(MemoryOffsets, "topic_ids", topic_ids)
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        world.start(world.slots[0])
        world.slots[0].is_wanted = False
        process = world.slots[0].running
        assert process is not None
        return world, process

    with stores_in_memory():
        yield started


@pytest.mark.expect_log("no Kafka broker answers")
def test_a_worker_that_waits_for_a_broker_stops_in_order(start: Start) -> None:
    """At once, not after its wait for a broker, and without an error."""
    world, process = start(PassingError("no broker answers"))
    world.run_until(BEGUN_S)
    process.stop.set()
    world.run_until(BEGUN_S + SOON_S)
    assert not process.is_running
    assert (process.error, process.main.error) == (None, None)


def test_the_error_of_another_thread_is_the_one_that_is_told(start: Start) -> None:
    """A missing right ends the worker at once; it is not told as a broker that is away."""
    world, process = start(RefusedByBrokerError("a right is missing"))
    world.run_until(BEGUN_S)
    assert not process.is_running
    assert isinstance(process.error, UserError)
    assert "a right is missing" in str(process.error)
