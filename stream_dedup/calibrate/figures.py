"""Makes the figures of a report from the nearest earlier entries: histogram, table, suggestion.

Long and short text have limits of their own and never match, so each has its own figures.
A **step** is a length of the plan of look-ups (see ``nearest``), a **cell** one step with one limit. In exact search
the limit k fixes the step, so a limit has one cell; in directed search it has one for each step.

**Labels** name the original of an article. Articles that a label links, directly or through others, are one **family**,
and so are articles of one id; an article whose field is missing, null or empty has no link. Of the measured articles:

* an article **should be found** if an earlier article is of its family;
* an article **is found rightly** if it is judged a duplicate and its match is of its family;
* precision is the share of articles found rightly among the duplicates, recall their share among the articles that
  should be found, F1 the harmonic mean of the two. A share of zero articles is None.

Without labels the limit lies in the **valley** of the histogram. If there are duplicates, the distances make two hills:
one at small distances, and a higher one where the nearest entry is an unrelated article.

* The counts are smoothed first (a moving mean): single bits have gaps by chance.
* The valley is the dip that is deepest below the lower one of its two shoulders.
* It must fall to half of that shoulder, and each side must hold enough articles; otherwise there is no valley. The
  limit of a flat valley is its middle, which is furthest from both hills.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.calibrate.nearest import NOWHERE, MeasuredSearch, Nearest
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
WINDOW_SHARE = 50
"""The moving mean is over one 50th of all distances, rounded up to an odd number: 7 of 257, 3 of 65."""
MOST_OF_SHOULDER = 0.5
"""How high the bottom may be: half the lower hill. With less of a dip the hills are one."""
FLAT = 0.1
"""What counts as bottom: up to a tenth of the way from it to the lower shoulder."""
LEAST_ARTICLES = 10
"""Articles on each side: fewer make no hill."""
LEAST_SHARE = 0.005
"""And as a share of all: with a hundred thousand articles ten are stragglers."""
SCORES = "Precision / recall / F1"


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one setting by the labels: articles judged duplicates, found rightly, and to be found."""

    judged: int
    right: int
    due: int

    @property
    def precision(self) -> float | None:
        """Share of the duplicates that are found rightly."""
        return self.right / self.judged if self.judged else None

    @property
    def recall(self) -> float | None:
        """Share of the articles to be found that are found rightly."""
        return self.right / self.due if self.due else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / (self.judged + self.due) if self.judged + self.due else None


@dataclass(frozen=True, slots=True)
class Valley:
    """A flat bottom from distance ``low`` to ``high`` with so many ``articles``; ``limit`` is its middle."""

    low: int
    high: int
    limit: int
    articles: int


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one setting for the measured articles.

    ``duplicates`` is their number; ``within`` is the number if every earlier entry were compared, so the two differ by
    the duplicates that the look-ups miss. ``compared`` is the mean number of entries in the posting lists that an
    article's look-ups read, once all articles are logged.
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

    def rows(self) -> dict[int, list[Cell]]:
        """Return the cells of each limit, by rising limits; in each row by the steps."""
        limits = sorted({cell.limit for cell in self.cells})
        return {limit: [cell for cell in self.cells if cell.limit == limit] for limit in limits}


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

    def score(self, labels: Labels, rows: I64, step: int, limit: int) -> Score:
        """Return the score of the verdicts at a step and a limit."""
        queries, judged = self.near.queries[rows], self.judged(rows, step, limit)
        right = judged & (labels.family[queries] == labels.family[self.near.matches[rows, step]])
        return Score(int(judged.sum()), int(right.sum()), int(labels.due[queries].sum()))


def figures(measured: Measured, rows: I64, kind: Status, articles: int) -> Figures:
    """Return the figures of the articles in these rows; ``articles`` is the number of all of this kind."""
    near, width = measured.near, measured.search.width
    nearest = near.distances[rows, -1]
    known = nearest[nearest != NOWHERE]
    histogram = np.bincount(known, minlength=width + 1)
    limit, least = measured.rules.reach(kind), measured.rules.least_equal(kind)
    reached = near.ranks[rows] < measured.search.lengths[measured.step_of(limit)]
    limits, every = _limits(measured.rules), range(len(measured.search.lengths))
    valley = find_valley(histogram)
    curves = tuple(tuple(int(measured.judged(rows, step, bits).sum()) for bits in limits) for step in every)
    labels, scores = measured.labels, None
    if labels is not None:
        scores = tuple(tuple(measured.score(labels, rows, step, bits) for bits in limits) for step in every)
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
        curves=curves,
        scores=scores,
        cells=_cells(measured, rows, {limit, suggestion.limit}, curves, scores),
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


def _cells(
    measured: Measured,
    rows: I64,
    also: set[int],
    curves: tuple[tuple[int, ...], ...],
    scores: tuple[tuple[Score, ...], ...] | None,
) -> tuple[Cell, ...]:
    limits = sorted(also | set(LIMITS)) if measured.rules.directed else _limits(measured.rules)
    every = range(len(measured.search.lengths))
    return tuple(
        Cell(
            lookups=measured.search.lengths[step],
            limit=limit,
            duplicates=curves[step][limit],
            within=int(measured.judged(rows, -1, limit).sum()),
            compared=float(measured.near.compared[rows, step].mean()) if len(rows) else 0.0,
            score=None if scores is None else scores[step][limit],
        )
        for limit in limits
        for step in (every if measured.rules.directed else (measured.step_of(limit),))
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
    shares = f"F1 {one.f1:.3f} (precision {one.precision:.3f}, recall {one.recall:.3f})"
    return Suggestion(
        limit,
        measured.search.lengths[step],
        (f"the labels: {shares}, the best of all limits and look-ups that were tried",),
    )


class SettingsTable(NamedTuple):
    """What each setting would have decided, as text; a star marks the present one."""

    title: str
    rows: list[list[str]]
    """The first one is the head."""
    note: str


def settings_tables(figures: Figures) -> Iterator[SettingsTable]:
    """Yield the duplicates under each setting, with its cost, and precision, recall and F1 where there are labels."""
    note = "* the present setting; compared: entries in the posting lists that an article's look-ups read"
    if figures.exact:
        head = ["k", "look-ups", "duplicates", "compared"]
        rows = [
            [_mark(cell, figures), f"{cell.lookups:,}", f"{cell.duplicates:,}", f"{cell.compared:,.1f}"]
            for cell in figures.cells
        ]
        if figures.scores is not None:
            head.append(SCORES)
            rows = [[*row, _score(cell)] for row, cell in zip(rows, figures.cells, strict=True)]
        yield SettingsTable("What each distance k would have decided", [head, *rows], note)
        return
    head = ["limit", *(f"{lookups:,}{'*' if lookups == figures.lookups else ''}" for lookups in figures.steps)]
    lines, own = figures.rows(), figures.lookups
    rows = [
        [_mark(line[0], figures), *(f"{cell.duplicates:,}" for cell in line), f"{line[0].within:,}"]
        for line in lines.values()
    ]
    rows.append(["cost", *(f"{cell.lookups / own:.2g}x" for cell in lines[figures.limit]), ""])
    rows.append(["compared", *(f"{cell.compared:,.1f}" for cell in lines[figures.limit]), ""])
    title = "Duplicates under each limit (rows) and number of look-ups (columns); all: with no look-up missing any"
    yield SettingsTable(title, [[*head, "all"], *rows], f"{note}; cost: look-ups beside the present {own:,}")
    if figures.scores is not None:
        rows = [[_mark(line[0], figures), *map(_score, line)] for line in lines.values()]
        yield SettingsTable(f"{SCORES} by the labels", [head, *rows], "* the present setting")


def _mark(cell: Cell, figures: Figures) -> str:
    return f"{cell.limit}" + ("*" if cell.limit == figures.limit else "")


def _score(cell: Cell) -> str:
    """Return the shares with three decimals and no zero before them."""
    score = cell.score
    shares = () if score is None else (score.precision, score.recall, score.f1)
    return "/".join("-" if share is None else f"{share:.3f}".removeprefix("0") for share in shares)


def families(ids: Iterable[str], originals: Sequence[str | None]) -> I64:
    """Return the number of each article's family."""
    parent: dict[str, str] = {}
    for article, original in zip(ids, originals, strict=True):
        mine = _root(parent, article)
        if original:
            parent[mine] = _root(parent, original)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(_root(parent, article), len(numbers)) for article in ids], np.int64)


def should_be_found(family: I64) -> NDArray[np.bool_]:
    """Return which articles have an earlier article of their family."""
    due = np.ones(len(family), np.bool_)
    due[np.unique(family, return_index=True)[1]] = False
    return due


def _root(parent: dict[str, str], name: str) -> str:
    """Return the representative of a family, and shorten the links to it."""
    root = parent.setdefault(name, name)
    while parent[root] != root:
        root = parent[root]
    while parent[name] != root:
        parent[name], name = root, parent[name]
    return root


def find_valley(histogram: I64) -> Valley | None:
    """Return the valley of counts by distance, or None."""
    smooth = smoothed(histogram)
    # Lower shoulder of each distance: the lesser of the highest counts before and after it.
    left = np.maximum.accumulate(smooth)
    right = np.maximum.accumulate(smooth[::-1])[::-1]
    shoulder = np.minimum(left, right)
    before = np.cumsum(histogram)
    least = max(LEAST_ARTICLES, LEAST_SHARE * int(before[-1]))
    inside = (before >= least) & (before[-1] - before >= least)
    depth = np.where(inside, shoulder - smooth, -1.0)
    bottom = int(depth.argmax())
    if depth[bottom] <= 0 or smooth[bottom] > MOST_OF_SHOULDER * shoulder[bottom]:
        return None
    flat = inside & (smooth <= smooth[bottom] + FLAT * depth[bottom])
    low, high = _flat_range(flat, bottom)
    return Valley(low, high, (low + high) // 2, int(histogram[low : high + 1].sum()))


def smoothed(histogram: I64) -> NDArray[np.float64]:
    """Return the moving mean; at the ends it is over fewer counts."""
    window = np.ones(-(-len(histogram) // WINDOW_SHARE) | 1)
    sums = np.convolve(histogram, window, "same")
    return sums / np.convolve(np.ones(len(histogram)), window, "same")


def _flat_range(flat: NDArray[np.bool_], at: int) -> tuple[int, int]:
    """Return the first and the last of the adjacent distances at which ``flat`` is true."""
    breaks = np.flatnonzero(~flat)
    after = np.searchsorted(breaks, at)
    low = int(breaks[after - 1]) + 1 if after else 0
    high = int(breaks[after]) - 1 if after < len(breaks) else len(flat) - 1
    return low, high
