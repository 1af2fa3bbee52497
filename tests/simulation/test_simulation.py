"""Schedules of several workers, run in virtual time: every promise holds at the end of each."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.amount import FULL
from tests.simulation.happenings import change_rules
from tests.simulation.plan import LENGTH_S, plan_of
from tests.simulation.run import run_plan, stores_in_memory
from tests.simulation.shrink import command_of, shrink
from tests.simulation.world import SimulatedWorld

SEEDS = 3_000 if FULL else 60
BEGUN_S = 10.0
"""Virtual seconds after which a worker has begun, also one that was started twice."""
SHARE = 10
"""Seeds of one test: the processes of a run share them out."""


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Workers warn of what is done to them; nobody reads it, and it takes time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.slow if first else ()) for first in range(0, SEEDS, SHARE)]
)
def test_every_article_leaves_once_with_the_verdict_of_the_log(first: int) -> None:
    """Whatever crashes, freezes, is lost, comes late, is made again, deleted or set (``checker`` has the promises)."""
    for seed in range(first, first + SHARE):
        if run_plan(plan_of(seed)).found:
            smallest, dropped = shrink(plan_of(seed))
            story = "\n".join([*smallest.notes, *smallest.found])
            pytest.fail(f"seed {seed}; run it again: {command_of(seed, dropped)}\n{story}")


def test_a_seed_gives_one_schedule() -> None:
    """The same points in the same order, whichever schedule ran before."""
    first = run_plan(plan_of(3))
    run_plan(plan_of(4))
    assert run_plan(plan_of(3)).trace == first.trace
    assert first.trace


def test_a_worker_that_starts_while_other_rules_are_applied(tmp_path: Path) -> None:
    """It was configured with the old ones, so it is refused, and its operator starts it with the new ones."""
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(3), workers=1, events=(), writes=()), tmp_path)
        (slot,) = world.slots
        world.start(slot)
        world.run_until(BEGUN_S)
        world.kill(slot, restart_s=LENGTH_S)
        world.start(slot)
        change_rules(world, {"observe": True})
        world.run_until(world.scheduler.now() + BEGUN_S)
    assert [note for note in world.notes if "the rules in force in" in note]
    assert slot.running is not None
    assert slot.running.worker is not None
    assert slot.running.worker.ready
