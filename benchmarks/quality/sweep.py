"""The sweep: recall and false duplicates by length, edit, language and template, beside MinHash, in search of cliffs.

Ours go through the whole index with the profile's defaults, each cell in a scope of its own. MinHash has 128 values
over shingles of five characters (profile comment: three), its permutations drawn anew for each seed, every pair
compared. Pair i of a cell is judged under seed i modulo the number of seeds; sets are judged under every seed.
"""

from __future__ import annotations

import fnmatch
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality import cells, data, ours, peers, sweep_report
from benchmarks.quality.cells.model import Cell, Pairs, Unlike
from benchmarks.quality.ours import Entries, Maker, Way
from benchmarks.quality.report import Aim
from benchmarks.quality.seeds import for_each
from benchmarks.quality.sweep_report import APART, FOUND, METHODS, OURS, PEER, STEADY, THRESHOLDS, Figure

SHINGLES = {"article": data.ARTICLE_SHINGLE, "comment": data.COMMENT_SHINGLE}
QUICK_LENGTHS = (64, 256, 362, 1024, 4096)
QUICK_PAIRS = 40

Flags = NDArray[np.bool_]
Verdicts = dict[str, Flags]
"""By method: of each text of a cell under one seed, whether it is called a duplicate."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cells are measured, and where their figures go."""

    cells: str = "*"
    """Pattern of names."""
    quick: bool = False
    """Every row, a quarter of the pairs, some of the lengths."""
    jsonl: Path | None = None
    compare: Path | None = None


class _Texts(NamedTuple):
    """Texts of one cell under one seed."""

    cell: Cell
    held: list[str]
    asking: list[str]


def chosen_cells(choice: Choice) -> list[Cell]:
    """The cells whose names match."""
    every = [cell for cell in cells.every() if fnmatch.fnmatch(cell.name, choice.cells)]
    if not choice.quick:
        return every
    return [_quarter(cell) for cell in every if fnmatch.fnmatch(cell.name, "length/*") <= _is_quick(cell.name)]


def _is_quick(name: str) -> bool:
    return fnmatch.fnmatch(name, "length/[ze][hn] article/*") and int(name.rsplit("/", 1)[1]) in QUICK_LENGTHS


def _quarter(cell: Cell) -> Cell:
    return replace(cell, number=max(cell.number // 4, QUICK_PAIRS)) if isinstance(cell, Pairs) else cell


def measure(seeds: list[int], choice: Choice) -> tuple[str, list[Aim]]:
    """The section of the report, and its aims."""
    figures = figures_of(seeds, choice)
    if choice.jsonl:
        sweep_report.write(choice.jsonl, figures)
    whole = not choice.quick
    if choice.compare:
        shown = sweep_report.changes(sweep_report.read(choice.compare), figures)
    else:
        shown = sweep_report.section(figures, whole=whole)
    text = f"## Sweep\n\n{__doc__.split(chr(10), 2)[2].strip()}\n\n{shown}"
    return text, sweep_report.aims(figures, whole=whole)


def figures_of(seeds: Sequence[int], choice: Choice) -> list[Figure]:
    """Every chosen cell with every seed."""
    by_seed = for_each(seeds, partial(verdicts_of, len(seeds), choice), "sweep")
    return [_figure(cell, [one[cell.name] for one in by_seed]) for cell in chosen_cells(choice)]


def verdicts_of(seeds: int, choice: Choice, seed: int) -> dict[str, Verdicts]:
    """Every chosen cell under one seed: those of its pairs that belong to it, or the whole set."""
    every: dict[str, Verdicts] = {}
    chosen = chosen_cells(choice)
    for profile, shingle in SHINGLES.items():
        own = [_texts(cell, seeds, seed) for cell in chosen if cell.profile == profile]
        for texts, flags in zip(own, _ours(profile, seed, own), strict=True):
            every[texts.cell.name] = {OURS: flags} | _minhash(shingle, seed, texts)
    return every


def _texts(cell: Cell, seeds: int, seed: int) -> _Texts:
    if isinstance(cell, Unlike):
        judged = cell.each_seed or zlib.crc32(cell.name.encode()) % seeds == seed
        whole = list(cell.make()) if judged else []
        return _Texts(cell, whole, whole)
    made = [cell.pair(at) for at in range(cell.number) if cell.each_seed or at % seeds == seed % seeds]
    return _Texts(cell, [held for held, _ in made], [asking for _, asking in made])


def _ours(profile: str, seed: int, every: list[_Texts]) -> list[Flags]:
    """All pairs through one index, all sets through another, each cell in a scope of its own."""
    maker, way = Maker(profile, seed, tables=4), Way("", profile)
    pairs = [texts for texts in every if isinstance(texts.cell, Pairs)]
    sets = [texts for texts in every if isinstance(texts.cell, Unlike)]
    held, asking = (_entries(maker, pairs, side) for side in ("held", "asking"))
    who, what = ours.found(held, asking, [way], seed)[""].T
    flags = _by_cell(pairs, who[who == what])
    held = _entries(maker, sets, "held")
    who, what = ours.found(held, held, [way], seed)[""].T
    flags |= _by_cell(sets, who[what < who])
    return [flags[texts.cell.name] for texts in every]


def _entries(maker: Maker, every: list[_Texts], side: str) -> Entries:
    scopes = [texts.cell.name for texts in every for _ in texts.held]
    return maker.entries([one for texts in every for one in getattr(texts, side)], scopes)


def _by_cell(every: list[_Texts], called: NDArray[np.int64]) -> dict[str, Flags]:
    """Of each cell's texts which are called duplicates, given the numbers of all that are."""
    flags, start = dict[str, Flags](), 0
    for texts in every:
        flags[texts.cell.name] = np.isin(np.arange(start, start + len(texts.held)), called)
        start += len(texts.held)
    return flags


def _minhash(shingle: int, seed: int, texts: _Texts) -> Verdicts:
    held = peers.sketches(texts.held, shingle, seed)
    if isinstance(texts.cell, Pairs):
        likeness = peers.equal(held, peers.sketches(texts.asking, shingle, seed))
    else:
        likeness = np.array([peers.equal(held[:at], one).max(initial=0) for at, one in enumerate(held)], float)
    return {name: likeness >= threshold for name, threshold in THRESHOLDS.items()}


def _figure(cell: Cell, by_seed: list[Verdicts]) -> Figure:
    number, steady = sum(len(one[OURS]) for one in by_seed), isinstance(cell, Pairs) and cell.each_seed
    stacked = {name: [one[name] for one in by_seed] for name in METHODS}
    shares = {name: _unsteady(np.stack(each)) if steady else _mean(each) for name, each in stacked.items()}
    wanted = STEADY if steady else FOUND if isinstance(cell, Pairs) and cell.copies else APART
    return Figure(cell.name, wanted, number, shares, cell.aim(shares[PEER]) if cell.aim else None)


def _mean(each: list[Flags]) -> float:
    every = np.concatenate(each)
    return float(every.mean()) if len(every) else 0.0


def _unsteady(flags: Flags) -> float:
    return float((flags.any(axis=0) & ~flags.all(axis=0)).mean())
