"""Runs one schedule: from its plan to the faults found at its end."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from stream_dedup.index import log_index
from tests.index.small import small_runs
from tests.simulation.auditing import audit_faults
from tests.simulation.checker import faults
from tests.simulation.happenings import happen
from tests.simulation.memory_store import MemoryDisk, MemoryStore
from tests.simulation.operator import reject_until_quiet
from tests.simulation.plan import LENGTH_S, Plan
from tests.simulation.scheduler import StalledError
from tests.simulation.world import SimulatedWorld, UnexpectedEndError

MEMORY_FOLDER = Path("/dev/shm")
"""Index folders of simulated workers are made there, one for each schedule."""


@dataclass(slots=True)
class Outcome:
    """What came of a schedule."""

    plan: Plan
    found: list[str]
    """What is wrong; empty if all is well."""
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[str, str]] = field(default_factory=list)
    ended_at: float = 0.0


def run_plan(plan: Plan) -> Outcome:
    """Run a schedule from its begin to its end."""
    parent = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="simulation-", dir=parent))
    try:
        with nullcontext() if plan.real_store else stores_in_memory(), pytest.MonkeyPatch.context() as limits:
            small_runs(limits.setattr)
            return _run(plan, root)
    finally:
        shutil.rmtree(root)


def stores_in_memory() -> AbstractContextManager[object]:
    """Let every index keep its data in memory instead of in RocksDB."""
    MemoryStore.disk = MemoryDisk()
    return patch.object(log_index, "Store", MemoryStore)


def _run(plan: Plan, root: Path) -> Outcome:
    world = SimulatedWorld(plan, root)
    try:
        found = _unfold(world)
    except (UnexpectedEndError, StalledError) as error:
        found = [str(error)]
    for process in list(world.running()):
        process.die()
    return Outcome(plan, found, world.notes, world.scheduler.trace, world.scheduler.now())


def _unfold(world: SimulatedWorld) -> list[str]:
    """Run the events and writes, heal, wait until all is quiet, stop the workers; return what is wrong."""
    for event in world.plan.events:
        world.scheduler.call_at(event.at, partial(happen, world, event))
    for write in world.plan.writes:
        world.scheduler.call_at(write.at, partial(world.write, write))
    for slot in world.slots:
        world.start(slot)
    world.run_until(LENGTH_S + 1)
    world.heal()
    reject_until_quiet(world)
    if not world.run_until_quiet():
        return ["the workers do not become quiet", *faults(world)]
    found = faults(world) + audit_faults(world)
    if not world.stop():
        found.append("the workers do not stop in order")
    return found
