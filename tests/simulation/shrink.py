"""Shrinks a failing schedule: drops events one by one, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Plan
from tests.simulation.run import Outcome, run_plan


def shrink(plan: Plan, run: Callable[[Plan], Outcome] = run_plan) -> tuple[Outcome, frozenset[int]]:
    """Return the outcome of a failing plan with as few events as can be found, and the events that were dropped."""
    dropped: frozenset[int] = frozenset()
    outcome = run(plan)
    while True:
        for index in range(len(plan.events)):
            if index in dropped:
                continue
            smaller = run(plan.without(dropped | {index}))
            if smaller.found:
                dropped, outcome = dropped | {index}, smaller
                break
        else:
            return outcome, dropped


def command_of(seed: int, dropped: frozenset[int] = frozenset()) -> str:
    """Return the command that runs a schedule again."""
    drop = f" --drop {','.join(map(str, sorted(dropped)))}" if dropped else ""
    return f"python -m tests.simulation --seed {seed}{drop}"
