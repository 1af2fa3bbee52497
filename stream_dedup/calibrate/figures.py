"""Makes the figures of a report from the nearest earlier entries: histogram, table, suggestion.

Long and short text have limits of their own and never match, so each has its own figures.
A **step** is a length of the plan of look-ups (see ``nearest``), a **cell** one step with one limit. In exact search
the limit k fixes the step, so a limit has one cell; in directed search it has one for each step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_dedup.calibrate.labels import Score, score
from stream_dedup.calibrate.nearest import NOWHERE, MeasuredSearch, Nearest
from stream_dedup.calibrate.valley import Valley, find_valley
from stream_dedup.core.arrays import I64
from stream_dedup.core.model import FINGERPRINT_BITS, Status
from stream_dedup.core.rules import Rules, exact_steps, greatest_distance

LENGTHS = (1, 4, 8, 16, 32, 64, 128, 256)
"""Numbers of look-ups measured in directed search, beside that of the rules."""
LIMITS = tuple(range(8, 97, 8))
"""Limits in bits, beside the rules' own: up to a cosine of 0.38, below which texts share little but function words."""
GAIN = 0.02
"""Look-ups suffice if no further step of the plan (most double it) finds this share of duplicates more."""
LEAST_FOUND = 100
"""Fewest duplicates for which look-ups are suggested: below it ``GAIN`` is one or two articles, which is chance."""
AS_GOOD = 0.002
"""F1 values that differ by less count as equal: then fewer look-ups win."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one setting for the measured articles.

    ``duplicates`` is their number; ``within`` is the number if every earlier entry were compared, so the two differ by
    the duplicates that the look-ups miss. ``compared`` is the mean number of candidates of an article.
    """

    lookups: int
    limit: int
    duplicates: int
    within: int
    compared: float
    score: Score | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Suggested limit and look-ups, with the reasons; those of the rules where the data suggest nothing."""

    limit: int
    lookups: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one kind of text.

    ``histogram`` counts articles by the distance, in bits of ``width``, of their nearest earlier entry; ``first``
    counts those without an earlier entry of their scope. ``reached`` counts, by the same distance, the articles whose
    nearest entry the look-ups of the rules reach. ``curves`` has a row for each of ``steps``: the number of duplicates
    under each limit from 0 on. ``equal_values`` counts, by the number of equal values in their sketches, the articles
    within the limit of their nearest earlier entry; it is empty where there are no sketches. With fewer equal values
    than ``least_equal`` an entry is near within the rules' ``certain`` bits only, with fewer than ``far_least_equal``
    within their ``far`` bits only: beyond them the other figures leave it out.
    """

    kind: str
    width: int
    articles: int
    asked: int
    first: int
    limit: int
    lookups: int
    histogram: tuple[int, ...]
    equal_values: tuple[int, ...]
    least_equal: int
    far_least_equal: int
    reached: tuple[int, ...]
    steps: tuple[int, ...]
    curves: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[Score, ...], ...] | None
    cells: tuple[Cell, ...]
    valley: Valley | None
    suggestion: Suggestion

    @property
    def exact(self) -> bool:
        """Whether the search is exact: then the limit is k, which also decides the look-ups."""
        return self.width == FINGERPRINT_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The family of each entry, and whether it should be found."""

    family: I64
    due: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The input of the figures; ``rows``, in its methods, are rows of ``near`` of one kind of text."""

    rules: Rules
    search: MeasuredSearch
    near: Nearest
    labels: Labels | None

    def step_of(self, limit: int) -> int:
        """Return the step that the rules take with this limit."""
        if self.rules.directed:
            return self.search.lengths.index(self.rules.probes or 0)
        return bisect_left(exact_steps(self.rules.scheme.block_bits), limit)

    def judged(self, rows: I64, step: int, limit: int) -> NDArray[np.bool_]:
        """Return which articles are duplicates at a step and a limit."""
        found: NDArray[np.bool_] = self.near.distances[rows, step] <= limit
        return found

    def score(self, rows: I64, step: int, limit: int) -> Score | None:
        """Return the score of the verdicts at a step and a limit, or None without labels."""
        if self.labels is None:
            return None
        queries = self.near.queries[rows]
        matched = self.labels.family[self.near.matches[rows, step]]
        return score(self.judged(rows, step, limit), self.labels.family[queries], matched, self.labels.due[queries])


def figures(measured: Measured, rows: I64, kind: Status, articles: int) -> Figures:
    """Return the figures of the articles in these rows; ``articles`` is the number of all of this kind."""
    near, width = measured.near, measured.search.width
    nearest = near.distances[rows, -1]
    known = nearest[nearest != NOWHERE]
    histogram = np.bincount(known, minlength=width + 1)
    limit, least = measured.rules.reach(kind), measured.rules.least_equal(kind)
    reached = near.ranks[rows] < measured.search.lengths[measured.step_of(limit)]
    limits = _limits(measured.rules)
    valley = find_valley(histogram)
    scores = _scores(measured, rows, limits)
    suggestion = _suggest(measured, rows, limit, valley, scores)
    return Figures(
        kind=kind.name.lower(),
        width=width,
        articles=articles,
        asked=len(rows),
        first=len(rows) - len(known),
        limit=limit,
        lookups=measured.search.lengths[measured.step_of(limit)],
        histogram=tuple(histogram.tolist()),
        equal_values=_equal_values(measured, rows[near.closest[rows] <= limit]),
        least_equal=least,
        far_least_equal=max(least, measured.rules.far_min_equal or 0),
        reached=tuple(np.bincount(nearest[reached], minlength=width + 1).tolist()),
        steps=measured.search.lengths,
        curves=tuple(
            tuple(int(measured.judged(rows, step, bits).sum()) for bits in limits)
            for step in range(len(measured.search.lengths))
        ),
        scores=scores,
        cells=_cells(measured, rows, {limit, suggestion.limit}),
        valley=valley,
        suggestion=suggestion,
    )


def _equal_values(measured: Measured, rows: I64) -> tuple[int, ...]:
    values = measured.rules.scheme.sketch_values if measured.rules.directed else 0
    return tuple(np.bincount(measured.near.equal[rows], minlength=values + 1).tolist()) if values else ()


def lengths_for(rules: Rules, most: int) -> tuple[int, ...]:
    """Return the lengths of plan to measure: ``LENGTHS``, that of the rules and its double, up to ``most``."""
    own = rules.probes or 0
    return tuple(sorted({length for length in (*LENGTHS, own, 2 * own) if length <= most}))


def ceiling(rules: Rules) -> int:
    """Return the greatest limit that the figures cover."""
    if not rules.directed:
        return greatest_distance(rules.scheme.block_bits)
    return max(LIMITS[-1], rules.limit or 0, rules.short_limit or 0)


def _limits(rules: Rules) -> range:
    return range(ceiling(rules) + 1)


def _scores(measured: Measured, rows: I64, limits: Sequence[int]) -> tuple[tuple[Score, ...], ...] | None:
    if measured.labels is None:
        return None
    every = range(len(measured.search.lengths))
    whole = [[measured.score(rows, step, limit) for limit in limits] for step in every]
    return tuple(tuple(one for one in line if one is not None) for line in whole)


def _cells(measured: Measured, rows: I64, also: set[int]) -> tuple[Cell, ...]:
    limits = sorted(also | set(LIMITS)) if measured.rules.directed else range(ceiling(measured.rules) + 1)
    every = range(len(measured.search.lengths))
    return tuple(
        _cell(measured, rows, step, limit)
        for limit in limits
        for step in (every if measured.rules.directed else (measured.step_of(limit),))
    )


def _cell(measured: Measured, rows: I64, step: int, limit: int) -> Cell:
    return Cell(
        lookups=measured.search.lengths[step],
        limit=limit,
        duplicates=int(measured.judged(rows, step, limit).sum()),
        within=int(measured.judged(rows, -1, limit).sum()),
        compared=float(measured.near.compared[rows, step].mean()) if len(rows) else 0.0,
        score=measured.score(rows, step, limit),
    )


def _suggest(
    measured: Measured, rows: I64, limit: int, valley: Valley | None, scores: tuple[tuple[Score, ...], ...] | None
) -> Suggestion:
    if scores is not None and any(one.f1 for line in scores for one in line):
        return _suggest_by_labels(measured, scores)
    chosen, reason = _limit_by_valley(measured.rules, limit, valley)
    if not measured.rules.directed:
        return Suggestion(chosen, measured.search.lengths[measured.step_of(chosen)], (reason,))
    step, why = _step_for(measured, rows, chosen)
    return Suggestion(chosen, measured.search.lengths[step], (reason, why))


def _limit_by_valley(rules: Rules, limit: int, valley: Valley | None) -> tuple[int, str]:
    name = "limit" if rules.directed else "distance"
    if valley is None:
        return limit, (
            f"the distances show no valley between near-duplicates and the rest, so they suggest no {name}: judge "
            f"the pairs at the edge of {limit} and move it by them"
        )
    where = f"the distances have a valley from {valley.low} to {valley.high} bits, {valley.articles:,} articles in it"
    most = ceiling(rules)
    if valley.limit > most:
        return most, f"{where}; {most} is the greatest {name} there is, directed search reaches further"
    if valley.low <= limit <= valley.high:
        return limit, f"{where}: the present {name} of {limit} lies in it and may stay"
    return valley.limit, f"{where}: its middle, {valley.limit}, parts the two hills best"


def _step_for(measured: Measured, rows: I64, limit: int) -> tuple[int, str]:
    """Return the step of the fewest look-ups that find enough, and the reason."""
    found = [int(measured.judged(rows, step, limit).sum()) for step in range(len(measured.search.lengths))]
    within = int(measured.judged(rows, -1, limit).sum())
    if within < LEAST_FOUND:
        why = f"{within} articles within {limit} bits of an earlier one are too few to tell how many look-ups it takes"
        return measured.step_of(limit), why
    gains = [more >= GAIN * count + count for count, more in pairwise(found)]
    step = max((at + 1 for at, gains_much in enumerate(gains) if gains_much), default=0)
    counts = [f"{measured.search.lengths[at]} look-ups find {found[at]:,}" for at in range(step, len(found))]
    return step, (
        f"of {within:,} articles within {limit} bits of an earlier one {', '.join(counts)}"
        + ("" if step == len(found) - 1 else f": no step beyond {measured.search.lengths[step]} adds {GAIN:.0%}")
    )


def _suggest_by_labels(measured: Measured, scores: tuple[tuple[Score, ...], ...]) -> Suggestion:
    """Return the setting of the best F1 with the fewest look-ups, in the middle of the limits that reach it."""
    values = np.array([[one.f1 or 0.0 for one in line] for line in scores])
    if not measured.rules.directed:
        own = np.array([measured.step_of(limit) for limit in _limits(measured.rules)])
        values = np.where(np.arange(len(values))[:, np.newaxis] == own, values, 0.0)
    best = values.max(axis=1)
    step = int(np.argmax(best >= best.max() - AS_GOOD))
    at = int(values[step].argmax())
    flat = at + int(np.argmin(np.append(values[step, at:] >= best[step], False)))
    limit = (at + flat - 1) // 2
    one = scores[step][limit]
    shares = f"F1 {_share(one.f1)} (precision {_share(one.precision)}, recall {_share(one.recall)})"
    return Suggestion(
        limit,
        measured.search.lengths[step],
        (f"the labels: {shares}, the best of all limits and look-ups that were tried",),
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
