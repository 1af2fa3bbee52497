"""What the sweep came to: tables of its rows and lengths, and where a length falls below its neighbours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.quality import report
from benchmarks.quality.cells.templates import CHANGED as CHANGED_FACTS
from benchmarks.quality.report import Aim

OURS, PEER = "ours", "MinHash J ≥ .5"
THRESHOLDS = {PEER: 0.5, "MinHash J ≥ .3": 0.3}
METHODS = (OURS, *THRESHOLDS)
FOUND, APART, STEADY = "found", "apart", "steady"
LENGTHS = "length"
"""First part of the names of the cells that are a length."""
DRAWN = (f"{LENGTHS}/zh ", f"{LENGTHS}/en ")
"""Those that have a table of their own."""
RIGHT = 0.01
"""Most that ours may have wrong at any length of an edit that has no column in those tables."""
DIP = 0.03
"""Most that a length may be worse than both its neighbours."""
CHANGED = 0.02
"""Least difference of two runs that a comparison shows."""
_FAMILIES = (
    "Above are the cells short of their aim. All cells by the first part of their names, the mean and the\n"
    "worst of each family; `--jsonl FILE` writes every cell:"
)
_LANGUAGES = (
    "Lengths, ours / MinHash J ≥ .5: the mean and the worst of all edits, at all lengths. Edits of Chinese and\n"
    "English that ours does not find at every length have a table, with octaves:"
)


class Figure(NamedTuple):
    """What one cell came to."""

    cell: str
    wanted: str
    """``found``, ``apart``, or ``steady``: the share of pairs whose verdict depends on the seed."""
    number: int
    """Texts that were judged, each under each seed counted."""
    shares: dict[str, float]
    """By method."""
    aim: float | None = None
    """What ours is to reach: at least of copies, at most of others; None where nothing is asked."""

    @property
    def ours(self) -> float:
        return self.shares[OURS]

    @property
    def reached(self) -> bool:
        return self.aim is None or (self.ours >= self.aim if self.wanted == FOUND else self.ours <= self.aim)

    @property
    def worse(self) -> float:
        """The share, turned so that less is better."""
        return 1 - self.ours if self.wanted == FOUND else self.ours


class Dip(NamedTuple):
    """A length that is worse than both its neighbours."""

    cell: str
    depth: float
    error: float
    """Standard error of the depth."""


def section(figures: list[Figure], *, whole: bool) -> str:
    """Every cell where some were measured; of all cells the rows short of their aim, the families, and the lengths."""
    if not whole:
        return table(figures)
    missed = table(one for one in figures if not one.reached)
    lengths = [one for one in figures if one.cell.startswith(f"{LENGTHS}/")]
    others = [one for one in figures if not one.cell.startswith(f"{LENGTHS}/")]
    parts = [missed, _FAMILIES, families(others), _LANGUAGES, languages(lengths)]
    return "\n\n".join([*parts, *_matrices(lengths), _dips(_certain(lengths))])


def aims(figures: list[Figure], *, whole: bool) -> list[Aim]:
    missed = [one.cell for one in figures if not one.reached]
    found = [Aim(f"sweep: rows short of their aim, of {len(figures)}", len(missed), most=0, digits=0)]
    for profile in ("article", "comment"):
        changed = [one for one in figures if one.cell.startswith(f"{CHANGED_FACTS}/{profile} ")]
        if changed:
            ours, peer = (fmean(one.shares[method] for one in changed) for method in (OURS, PEER))
            found.append(
                Aim(f"sweep: templates that differ in facts called duplicates, {profile}", ours, most=peer / 2)
            )
    if whole and _series(figures):
        deepest = max((dip.depth for dip in _certain(figures)), default=0)
        found.append(Aim("sweep: deepest dip between neighbouring lengths", deepest, most=DIP))
    return found


def table(figures: Iterable[Figure]) -> str:
    """One line for each cell."""
    lines = [[one.cell, one.wanted, f"{one.number:,}", *map(_share, one.shares.values()), _aim(one)] for one in figures]
    return report.table(("cell", "wanted", "texts", *METHODS, "aim"), lines)


def families(figures: Iterable[Figure]) -> str:
    """One line for the cells of a family that want the same: their mean share, and the worst one."""
    every: dict[tuple[str, str], list[Figure]] = {}
    for one in figures:
        if one.number:
            every.setdefault((one.cell.partition("/")[0], one.wanted), []).append(one)
    lines = [[*name, str(len(cells)), *_of_family(cells), _short(cells)] for name, cells in every.items()]
    shares = [f"{name}: mean, worst" for name in (OURS, PEER)]
    return report.table(("family", "wanted", "cells", *shares, "short"), lines)


def languages(lengths: Iterable[Figure]) -> str:
    """One line for each language: its lengths by profile and what is wanted."""
    every: dict[str, dict[str, list[Figure]]] = {}
    for one in lengths:
        if one.number:
            language, profile = one.cell.split("/")[1].split()
            every.setdefault(language, {}).setdefault(f"{profile}, {one.wanted}", []).append(one)
    columns = dict.fromkeys(column for own in every.values() for column in own)
    lines = [
        [language, *(" / ".join(_of_family(own[column])) if column in own else "" for column in columns)]
        for language, own in every.items()
    ]
    return report.table(("language", *columns), lines)


def _of_family(cells: list[Figure]) -> Iterator[str]:
    worst = min if cells[0].wanted == FOUND else max
    for name in (OURS, PEER):
        shares = [one.shares[name] for one in cells]
        yield f"{_share(fmean(shares))}, {_share(worst(shares))}"


def _short(cells: list[Figure]) -> str:
    return str(sum(not one.reached for one in cells) or "")


def changes(before: Iterable[Figure], after: Iterable[Figure]) -> str:
    """The cells whose share of ours differs between two runs."""
    old = {one.cell: one.ours for one in before}
    lines = [
        [one.cell, one.wanted, _share(old[one.cell]), *map(_share, one.shares.values()), _aim(one)]
        for one in after
        if one.cell in old and abs(one.ours - old[one.cell]) >= CHANGED
    ]
    return report.table(("cell", "wanted", "before", *METHODS, "aim"), lines)


def dips(figures: Iterable[Figure]) -> list[Dip]:
    """Lengths that are worse than both neighbours by more than is allowed, the deepest first."""
    found = []
    for series in _series(figures).values():
        ordered = [series[length] for length in sorted(series)]
        for before, here, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
            neighbour = max((before, after), key=lambda one: one.worse)
            depth = here.worse - neighbour.worse
            if depth > DIP:
                found.append(Dip(here.cell, depth, math.hypot(_error(here), _error(neighbour))))
    return sorted(found, key=lambda dip: -dip.depth)


def _certain(figures: Iterable[Figure]) -> list[Dip]:
    return [dip for dip in dips(figures) if dip.depth - 2 * dip.error > DIP]


def write(path: Path, figures: Iterable[Figure]) -> None:
    lines = (json.dumps(one._asdict(), ensure_ascii=False) for one in figures)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[Figure]:
    """The figures of an earlier run."""
    return [Figure(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _series(figures: Iterable[Figure]) -> dict[tuple[str, str], dict[int, Figure]]:
    """By language with profile, and edit: the figure of each length."""
    every: dict[tuple[str, str], dict[int, Figure]] = {}
    for one in figures:
        if one.cell.startswith(f"{LENGTHS}/") and one.number:
            _, where, edit, length = one.cell.split("/")
            every.setdefault((where, edit), {})[int(length)] = one
    return every


def _matrices(figures: Iterable[Figure]) -> Iterator[str]:
    """One table for each language and profile: octaves, and the edits with which ours is not right at every length."""
    every = _series(one for one in figures if one.cell.startswith(DRAWN))
    for where in dict.fromkeys(where for where, _ in every):
        own = {edit: series for (other, edit), series in every.items() if other == where}
        drawn = {edit: series for edit, series in own.items() if round(_worst(series), 3) > RIGHT}
        lengths = sorted({length for series in drawn.values() for length in series if length.bit_count() == 1})
        lines = [[f"{length:,}", *(_beside(series.get(length)) for series in drawn.values())] for length in lengths]
        right = ", ".join(edit for edit in own if edit not in drawn) or "none"
        head = f"Lengths, {where}: ours / MinHash J ≥ .5. Ours at most {RIGHT} wrong at any length: {right}."
        yield f"{head}\n\n{report.table(('characters', *drawn), lines)}"


def _worst(series: dict[int, Figure]) -> float:
    return max(one.worse for one in series.values())


def _dips(found: list[Dip]) -> str:
    head = f"Lengths that are worse than both neighbours by more than {DIP}: {len(found) or 'none'}"
    if not found:
        return f"{head}."
    lines = [[dip.cell, f"{dip.depth:.3f}", f"{dip.error:.3f}"] for dip in found]
    return f"{head}\n\n{report.table(('cell', 'by', 'standard error'), lines)}"


def _error(one: Figure) -> float:
    return math.sqrt(max(one.worse * (1 - one.worse), 1 / one.number) / one.number)


def _beside(one: Figure | None) -> str:
    return "" if one is None else f"{_share(one.ours)} / {_share(one.shares[PEER])}"


def _aim(one: Figure) -> str:
    if one.aim is None:
        return ""
    sign = "≥" if one.wanted == FOUND else "≤"
    return f"{sign} {_share(one.aim)}" if one.reached else f"**{sign} {_share(one.aim)}**"


def _share(value: float) -> str:
    return report.shares([value])
