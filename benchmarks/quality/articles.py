"""Revision pairs, Chinese and English: which edited articles are found, and which unrelated ones are.

For each seed: the old revisions are held, all new ones ask. Recall is the share of the new revisions that find their
own old one. A false pair is a text that finds one of another pair, or one of the other articles, with which it has an
exact Jaccard similarity below 0.3 over shingles of five characters of the normalised text.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.quality import data, report
from benchmarks.quality.labelled import Labelled, Sides
from benchmarks.quality.ours import Pairs, Way
from benchmarks.quality.report import Aim

EDITED = (0, 0.01, 0.05, 0.10, 0.20, 0.30)
"""Borders of the classes of edited share; the last one belongs to its class."""
CLASSES = tuple(f"{round(a * 100)}–{round(b * 100)} %" for a, b in pairwise(EDITED))

MAIN = Way("article", "article")
WAYS = (
    MAIN,
    Way("article, 64 look-ups", "article", probes=64),
    Way("article, 8 tables, 64 look-ups", "article", tables=8, probes=64),
    Way("article, 16 tables, 64 look-ups", "article", tables=16, probes=64),
    Way("simhash, k = 3", "simhash", k=3),
    Way("simhash, k = 11", "simhash", k=11),
)
AIMS = {"zh": (1.0, 1.0, 1.0, 0.995, 0.975), "en": (1.0, 1.0, 1.0, 0.998, 0.97)}
FALSE_AIM = 0
"""Most false pairs of any seed."""
OTHERS_AIM = 1.0
"""Most false pairs among all others, in 9.7 million; mean over the seeds."""
OTHERS, AMONG = "articles", "among"
SETS = {
    "zh": Sides(("zh old",), ("zh new",)),
    "en": Sides(("en old",), ("en new",)),
    # All revisions against the other articles.
    OTHERS: Sides(("articles",), ("zh old", "zh new", "en old", "en new")),
    # The other articles against each other.
    AMONG: Sides(("articles",), ("articles",)),
}


class Figures(NamedTuple):
    """Of one way: a value for each seed."""

    recall: dict[str, list[list[float]]]
    """By language: a share for each class."""
    false: dict[str, list[int]]
    """By set."""


def measure(seeds: list[int]) -> tuple[str, list[Aim]]:
    """The section of the report, and its aims."""
    found = Labelled(texts_of, SETS, WAYS, data.ARTICLE_SHINGLE).found(seeds, "articles")
    unlike = {name: _similarity(name) for name in SETS}
    figures = {way: _figures(by_seed, unlike) for way, by_seed in found.items()}
    return _section(figures, seeds), _aims(figures[MAIN.name])


def texts_of(part: str) -> list[str]:
    if part == "articles":
        return data.articles()
    language, side = part.split()
    revisions = data.revisions(language)
    return revisions.old if side == "old" else revisions.new


def _sides(name: str) -> tuple[list[str], list[str]]:
    """Texts held, and texts that ask."""
    held, asking = ([text for part in parts for text in texts_of(part)] for parts in SETS[name][:2])
    return held, asking


def _similarity(name: str) -> data.Similarity:
    held, asking = _sides(name)
    return data.Similarity(asking, held, data.ARTICLE_SHINGLE)


def _figures(by_seed: list[dict[str, Pairs]], unlike: dict[str, data.Similarity]) -> Figures:
    recall = {language: [_recall(one[language], language) for one in by_seed] for language in data.LANGUAGES}
    false = {}
    for name in SETS:
        others = [one[name] for one in by_seed]
        if name in data.LANGUAGES:
            others = [pairs[pairs[:, 0] != pairs[:, 1]] for pairs in others]
        false[name] = [unlike[name].unlike([(a, b) for a, b in pairs.tolist()]) for pairs in others]
    return Figures(recall, false)


def _recall(pairs: Pairs, language: str) -> list[float]:
    change = np.array(data.revisions(language).change)
    hit = np.zeros(len(change), bool)
    hit[pairs[pairs[:, 0] == pairs[:, 1], 0]] = True
    classes = np.minimum(np.searchsorted(EDITED, change, side="right") - 1, len(CLASSES) - 1)
    return [float(hit[classes == number].mean()) for number in range(len(CLASSES))]


def _section(figures: dict[str, Figures], seeds: list[int]) -> str:
    parts = [f"## Revision pairs\n\n{__doc__.split(chr(10), 2)[2].strip()}\n"]
    for language in data.LANGUAGES:
        n = len(data.revisions(language).old)
        rows = [_recall_row(name, one, language) for name, one in figures.items()]
        told = f"{data.NAMES[language]}, {n} pairs; false pairs among {n * (n - 1):,}:"
        parts += [told, "", report.table(("edited", *CLASSES, "false pairs"), rows), ""]
    every, articles = (len(texts) for texts in reversed(_sides(OTHERS)))
    head = (
        "false pairs",
        f"revisions × articles: {every * articles:,}",
        f"articles: {articles * (articles - 1) // 2:,}",
    )
    rows = [[name, *(report.numbers(one.false[which]) for which in (OTHERS, AMONG))] for name, one in figures.items()]
    told = f"All {every:,} revisions, old and new, against {articles:,} other articles, and those among themselves:"
    parts += [told, "", report.table(head, rows), ""]
    parts.append(f"Seeds {seeds[0]} to {seeds[-1]}; the package has none.")
    return "\n".join(parts)


def _recall_row(name: str, figures: Figures, language: str) -> list[str]:
    classes = zip(*figures.recall[language], strict=True)
    return [name, *map(report.shares, classes), report.numbers(figures.false[language])]


def _aims(figures: Figures) -> list[Aim]:
    aims = []
    for language in data.LANGUAGES:
        name = data.NAMES[language]
        means = map(fmean, zip(*figures.recall[language], strict=True))
        aims += [
            Aim(f"{name}, {edited} edited: mean", mean, least=least)
            for edited, mean, least in zip(CLASSES, means, AIMS[language], strict=True)
        ]
        most = max(figures.false[language])
        aims.append(Aim(f"{name}: false pairs of any seed", most, most=FALSE_AIM, digits=0))
    others = fmean(map(sum, zip(figures.false[OTHERS], figures.false[AMONG], strict=True)))
    return [*aims, Aim("false pairs among all others: mean", others, most=OTHERS_AIM, digits=1)]
