"""A worker whose batches wait for a schema polls the partitions of which it has nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.plan import SCHEMA_SEEDS, plan_of
from tests.simulation.registry import Registry
from tests.simulation.run import stores_in_memory
from tests.simulation.world import SimulatedWorld

HELD_S = 16.0
"""Virtual seconds after which everything that was written has left, or is held."""


@pytest.mark.expect_log("the schema registry does not know schema")
def test_it_says_how_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what decides which partitions are polled."""
    monkeypatch.setattr(Registry, "knows", lambda *_: False)
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SCHEMA_SEEDS[1][0]), workers=1, events=()), tmp_path)
        for write in world.plan.writes:
            world.scheduler.call_at(write.at, partial(world.write, write))
        world.start(world.slots[0])
        world.run_until(HELD_S)
        process = world.slots[0].running
        assert process is not None
        assert process.worker is not None
        assert process.worker._assignments.held() == process.worker._assignments.batches > 0
