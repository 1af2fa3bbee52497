"""Comments: which changed ones are found, and which unrelated ones are.

For each seed: one comment of each pair is held, the other asks; recall is the share that finds its own, by the pair's
Jaccard similarity over three characters. A false pair is one of distinct comments with an exact Jaccard
similarity below 0.3 over three characters of the normalised text, each comment asking for those before
it. Comments that are the same when normalised stand there once.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.quality import data, report
from benchmarks.quality.labelled import Labelled, Sides
from benchmarks.quality.ours import Pairs, Way
from benchmarks.quality.report import Aim

CLASSES = ((0.9, 1.0), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7))
"""Jaccard similarities; the lower border belongs to the class, 1 too."""
NAMES = ("≥ .9", ".8–.9", ".7–.8", ".6–.7")
AIMS = (1.0, 0.998, 0.985, 0.85)
FALSE_AIMS = {"zh": 1, "en": 4}
"""False pairs in 8 million, mean over the seeds."""
EIGHT_MILLION = 8_000_000

MAIN = Way("comment", "comment")
WAYS = (
    MAIN,
    Way("comment, 64 look-ups", "comment", probes=64),
    Way("comment, 256 look-ups", "comment", probes=256),
    Way("comment, 8 tables, 64 look-ups", "comment", tables=8, probes=64),
    Way("comment, 16 tables, 64 look-ups", "comment", tables=16, probes=64),
)
PAIRS, ALL = "pairs", "all"
UNRELATED = ("zh", "en", ALL)
"""Some of the Chinese comments, all English ones, all Chinese ones."""
SETS = {PAIRS: Sides(("a",), ("b",))} | {name: Sides((name,), (name,), by_main=name == ALL) for name in UNRELATED}


class Figures(NamedTuple):
    """Of one way: a value for each seed."""

    recall: list[list[float]]
    false: dict[str, list[float]]
    """By set: false pairs in 8 million."""


def measure(seeds: list[int]) -> tuple[str, list[Aim]]:
    """The section of the report, and its aims."""
    found = Labelled(texts_of, SETS, WAYS, data.COMMENT_SHINGLE).found(seeds, "comments")
    unlike = {name: data.Similarity(texts_of(name), texts_of(name), data.COMMENT_SHINGLE) for name in UNRELATED}
    figures = {way: _figures(by_seed, unlike) for way, by_seed in found.items()}
    return _section(figures, seeds), _aims(figures[MAIN.name])


def texts_of(name: str) -> list[str]:
    if name in {"a", "b"}:
        return data.comment_pairs().a if name == "a" else data.comment_pairs().b
    return data.sample() if name == "zh" else data.comments("zh" if name == ALL else name)


def _count(name: str) -> int:
    n = len(texts_of(name))
    return n * (n - 1) // 2


def _figures(by_seed: list[dict[str, Pairs]], unlike: dict[str, data.Similarity]) -> Figures:
    false = {}
    for name in by_seed[0].keys() & set(UNRELATED):
        counts = [unlike[name].unlike([(a, b) for a, b in one[name].tolist()]) for one in by_seed]
        false[name] = [count * EIGHT_MILLION / _count(name) for count in counts]
    return Figures([_recall(one[PAIRS]) for one in by_seed], false)


def _recall(pairs: Pairs) -> list[float]:
    likeness = np.array(data.comment_pairs().jaccard)
    hit = np.zeros(len(likeness), bool)
    hit[pairs[pairs[:, 0] == pairs[:, 1], 0]] = True
    return [float(hit[_class(likeness, least, below)].mean()) for least, below in CLASSES]


def _class(likeness: np.ndarray, least: float, below: float) -> np.ndarray:
    return (likeness >= least) & ((likeness < below) | (below == 1))


def _section(figures: dict[str, Figures], seeds: list[int]) -> str:
    likeness = np.array(data.comment_pairs().jaccard)
    counts = [f"{int(_class(likeness, *borders).sum()):,}" for borders in CLASSES]
    head = ["Jaccard", *NAMES, *(f"false in 8 million, {data.NAMES[name]}" for name in data.LANGUAGES)]
    rows = [["pairs", *counts, *(f"{_count(name):,}" for name in data.LANGUAGES)]]
    for name, one in figures.items():
        classes = map(report.shares, zip(*one.recall, strict=True))
        rows.append([name, *classes, *(report.numbers(one.false[language]) for language in data.LANGUAGES)])
    n, every = len(texts_of(ALL)), report.numbers(figures[MAIN.name].false[ALL])
    return "\n".join(
        [
            f"## Comments\n\n{__doc__.split(chr(10), 2)[2].strip()}\n",
            report.table(head, rows),
            f"\nAmong all {n:,} distinct Chinese comments, {_count(ALL):,} pairs: {every} in 8 million.",
            f"\nSeeds {seeds[0]} to {seeds[-1]}; the package has none.",
        ]
    )


def _aims(figures: Figures) -> list[Aim]:
    means = map(fmean, zip(*figures.recall, strict=True))
    aims = [
        Aim(f"comments, Jaccard {name}: mean", mean, least=least)
        for name, mean, least in zip(NAMES, means, AIMS, strict=True)
    ]
    for language, most in FALSE_AIMS.items():
        name = f"comments: false pairs in 8 million, {data.NAMES[language]}"
        aims.append(Aim(name, fmean(figures.false[language]), most=most, digits=1))
    return aims
