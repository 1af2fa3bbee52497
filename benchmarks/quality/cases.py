"""Hard cases: pairs of own writing that must stay apart, or be caught, or are a matter of taste.

Their texts and reasons stand in ``tests/quality/hard_cases``; the tests hold the verdicts of seed 0. Here: of how many
hash seeds the verdict is the one wanted, and the distance of the two signatures. A pair near the limit is judged by the
luck of the seed.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

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
    rows = []
    for case, own in zip(CASES, zip(*by_seed, strict=True), strict=True):
        distances = [one.distance for one in own]
        shown = "–" if np.isnan(distances).any() else f"{fmean(distances):.0f} ({min(distances)}–{max(distances)})"
        marks = ["taste"] * ("taste" in case) + ["wrong at seed 0"] * ("known" in case)
        wanted = ", ".join((case["want"], *marks))
        rows.append([case["name"], profile_of(case), wanted, f"{sum(one.right for one in own)} of {len(own)}", shown])
    head = ("case", "profile", "to be", "seeds right", "distance, bits")
    return f"## Hard cases\n\n{__doc__.split(chr(10), 2)[2].strip()}\n\n{report.table(head, rows)}", []


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
