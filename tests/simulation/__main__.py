"""Runs schedules: ``python -m tests.simulation --seeds 10000 --first 0``, or one of them again with ``--seed``."""

from __future__ import annotations

import argparse
import itertools
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import xxhash

from tests.simulation.plan import plan_of
from tests.simulation.plant_table import seeds_needed, write_table
from tests.simulation.plants import MOST_SEEDS, PLANTS
from tests.simulation.run import Outcome, run_plan
from tests.simulation.shrink import command_of, shrink

CHUNK = 20
"""Seeds that a process takes at once."""
MOST_SHOWN = 5
"""Failing schedules that are shrunk and shown."""
TRACE_LINES = 60
"""Last lines of the trace that are printed."""
PROGRESS_S = 30.0
"""Seconds between two lines of progress."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one schedule, and print its story")
    parser.add_argument("--drop", default="", help="with --seed: events to leave out, by number, joined by commas")
    parser.add_argument("--seeds", type=int, default=10_000, help="number of schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--plants",
        nargs="?",
        choices=("all", "stale"),
        const="all",
        help="look for each planted defect, or only for those that their seed finds no more; write the page's table",
    )
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if chosen.seed is not None:
        dropped = frozenset(int(number) for number in chosen.drop.split(",") if number)
        outcome = run_plan(plan_of(chosen.seed).without(dropped))
        tell(outcome)
        return 1 if outcome.found else 0
    if chosen.plants:
        return find_plants(chosen.jobs, seeds_needed() if chosen.plants == "stale" else {})
    return run_seeds(range(chosen.first, chosen.first + chosen.seeds), chosen.jobs)


def run_seeds(seeds: range, jobs: int) -> int:
    """Run many schedules; show the first that fail, shrunk; return the exit code."""
    begun, failing = time.monotonic(), []
    said = begun
    for done, (seed, found) in enumerate(outcomes(seeds, jobs), 1):
        if found:
            failing.append(seed)
            print(f"seed {seed}: {found[0]}\n  {command_of(seed)}", flush=True)
        if time.monotonic() - said > PROGRESS_S:
            said = time.monotonic()
            print(f"{done} of {len(seeds)} schedules, {len(failing)} failed", file=sys.stderr, flush=True)
    for seed in failing[:MOST_SHOWN]:
        outcome, dropped = shrink(plan_of(seed))
        print(f"\nseed {seed}, shrunk: {command_of(seed, dropped)}")
        tell(outcome)
    taken = time.monotonic() - begun
    print(f"{len(seeds)} schedules in {taken:.0f} s in {jobs} processes: {len(failing)} failed")
    return 1 if failing else 0


def find_plants(jobs: int, known: Mapping[str, int]) -> int:
    """Look for each plant, and write the table; return the exit code.

    ``known`` has the seeds that plants are said to need: the last of them is tried first.
    """
    run_plan(plan_of(1))  # the processes share what is compiled; its indexes are in memory, so that they may fork
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        needed: dict[str, int | None] = {}
        for name, count in pool.imap_unordered(partial(_seeds_needed, known), range(len(PLANTS))):
            needed[name] = count
            print(f"{name}: {count or 'not found'}", flush=True)
    write_table(needed)
    return 1 if None in needed.values() else 0


def _seeds_needed(known: Mapping[str, int], number: int) -> tuple[str, int | None]:
    """Return the name of a plant and the seeds until it is found; those that fail without it do not count."""
    plant = PLANTS[number]
    hint = [known[plant.name] - 1] if plant.name in known else []
    for seed in itertools.chain(hint, range(MOST_SEEDS)):
        with plant.make():
            is_found = bool(run_plan(plan_of(seed)).found)
        if is_found and not run_plan(plan_of(seed)).found:
            return plant.name, seed + 1
    return plant.name, None


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each seed with what is wrong with its schedule."""
    if jobs == 1:
        yield from map(faults_of, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(faults_of, seeds, chunksize=CHUNK)


def faults_of(seed: int) -> tuple[int, list[str]]:
    """Run the schedule of a seed; return the seed, and what is wrong."""
    return seed, run_plan(plan_of(seed)).found


def tell(outcome: Outcome) -> None:
    """Print the story of a schedule."""
    plan = outcome.plan
    print(f"{plan.workers} workers, topics of {plan.topics} partitions, rules {plan.rules}, worker {plan.worker}")
    print(*(f"  event {number}: {event}" for number, event in enumerate(plan.events)), sep="\n")
    print(*outcome.notes, sep="\n")
    if outcome.found:
        print("the last points:")
        print(*(f"  {actor}: {what}" for actor, what in outcome.trace[-TRACE_LINES:]), sep="\n")
    digest = xxhash.xxh3_64_hexdigest(repr(outcome.trace).encode())
    print(f"ended at {outcome.ended_at:.2f} s after {len(outcome.trace)} points (trace {digest})")
    print(*(outcome.found or ["nothing is wrong"]), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
