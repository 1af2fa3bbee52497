"""A worker whose batches wait for a schema polls the partitions of which it has nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from stream_dedup.registry.client import UnknownSchemaError
from stream_dedup.registry.values import Schemas
from stream_dedup.worker import holding
from stream_dedup.worker.worker import WorkerParts
from tests.simulation import worker_process
from tests.simulation.plan import plan_of
from tests.simulation.run import stores_in_memory
from tests.simulation.world import SimulatedWorld

SEED = 1
HELD_S = 12.0
"""Virtual seconds after which everything that was written is held."""


class NoSchemas:
    """What a registry has that knows none."""

    def __contains__(self, schema_id: int) -> bool:
        return False

    def load(self, _schema_id: int) -> object:
        raise UnknownSchemaError


@pytest.mark.expect_log("the schema registry does not know schema 9")
def test_it_says_how_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what decides which partitions are polled."""
    monkeypatch.setattr(holding, "schema_ids_of", lambda *_: [9])
    monkeypatch.setattr(worker_process, "WorkerParts", partial(WorkerParts, schemas=cast("Schemas", NoSchemas())))
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        for write in world.plan.writes:
            world.scheduler.call_at(write.at, partial(world.write, write))
        world.start(world.slots[0])
        world.run_until(HELD_S)
        process = world.slots[0].running
        assert process is not None
        assert process.worker is not None
        assert process.worker._assignments._held() == process.worker._assignments.batches > 0
