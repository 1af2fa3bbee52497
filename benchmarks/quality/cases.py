"""Hard cases: pairs of own writing that must stay apart, or be caught, or are a matter of taste.

Their texts and reasons stand in ``tests/quality/hard_cases``; the tests hold the verdicts of seed 0. Here: which
verdicts depend on the hash seed, and the distances of the two signatures. A pair near the limit is judged by the luck
of the seed.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.quality import ours, report
from benchmarks.quality.ours import Entries, Maker, Way
from benchmarks.quality.report import Aim
from benchmarks.quality.seeds import for_each
from tests.quality.cases import CASES, SIDES, made, profile_of


class Judged(NamedTuple):
    """One case under one seed."""

    right: bool
    distance: float
    """NaN where the two are of different kinds: long, short, exact."""


def measure(seeds: list[int]) -> tuple[str, list[Aim]]:
    """The section of the report; without aims, for the tests hold them."""
    by_seed = for_each(seeds, judged, "hard cases")
    every = list(zip(CASES, zip(*by_seed, strict=True), strict=True))
    head = ("profile", "to be", "cases", "right with every seed", "distances, bits")
    parts = [f"## Hard cases\n\n{__doc__.split(chr(10), 2)[2].strip()}", report.table(head, _totals(every))]
    head = ("not right with every seed", "profile", "to be", "seeds right", "distance, bits")
    rows = [_row(case, own) for case, own in every if not _steady(own)]
    return "\n\n".join([*parts, report.table(head, rows)]), []


def _totals(every: list[tuple[dict[str, Any], tuple[Judged, ...]]]) -> list[list[str]]:
    """A row for each profile and verdict wanted: how many cases, how many of them every seed judges so."""
    kinds = dict.fromkeys((profile_of(case), case["want"]) for case, _ in every)
    rows = []
    for kind in kinds:
        each = [own for case, own in every if (profile_of(case), case["want"]) == kind]
        distances = [one.distance for own in each for one in own if not np.isnan(one.distance)]
        steady = sum(map(_steady, each))
        rows.append([*kind, str(len(each)), str(steady), f"{min(distances)}–{max(distances)}"])
    return rows


def _row(case: dict[str, Any], own: tuple[Judged, ...]) -> list[str]:
    distances = [one.distance for one in own]
    shown = "–" if np.isnan(distances).any() else f"{fmean(distances):.0f} ({min(distances)}–{max(distances)})"
    marks = ["taste"] * ("taste" in case) + ["wrong at seed 0"] * ("known" in case)
    wanted = ", ".join((case["want"], *marks))
    return [case["name"], profile_of(case), wanted, f"{sum(one.right for one in own)} of {len(own)}", shown]


def _steady(own: tuple[Judged, ...]) -> bool:
    return all(one.right for one in own)


def judged(seed: int) -> list[Judged]:
    """Every case under one seed."""
    makers = {profile: Maker(profile, seed) for profile in {profile_of(case) for case in CASES}}
    every = []
    for case in CASES:
        profile = profile_of(case)
        first, second = (makers[profile].entries([made(case, side)]) for side in SIDES)
        found = ours.found(first, second, [Way("", profile)], seed)[""]
        verdict = "duplicate" if len(found) else "unique"
        every.append(Judged(verdict == case["want"], _distance(first, second)))
    return every


def _distance(first: Entries, second: Entries) -> float:
    if not np.array_equal(first.scope_hashes, second.scope_hashes):
        return float("nan")
    return int(np.bitwise_count(first.made.signatures ^ second.made.signatures).sum())
