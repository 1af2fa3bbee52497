"""Labels, which name the original of an article, and how well the verdicts fit them.

A field holds the id of the original. Articles that it links, directly or through others, are one **family**, and so
are articles of one id; an article whose field is missing, null or empty has no link. Of the measured articles:

* an article **should be found** if an earlier article is of its family;
* an article **is found rightly** if it is judged a duplicate and its match is of its family;
* precision is the share of articles found rightly among the duplicates, recall their share among the articles that
  should be found, F1 the harmonic mean of the two. A share of zero articles is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one setting by the labels."""

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


def families(ids: Sequence[str], originals: Sequence[str | None]) -> I64:
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


def score(judged: NDArray[np.bool_], own: I64, matched: I64, due: NDArray[np.bool_]) -> Score:
    """Return the score of verdicts.

    Args:
        judged: which articles are judged duplicates.
        own: family of each article.
        matched: family of each article's match; any value where it has none.
        due: which articles should be found.
    """
    return Score(int(judged.sum()), int((judged & (own == matched)).sum()), int(due.sum()))


def _root(parent: dict[str, str], name: str) -> str:
    """Return the representative of a family, and shorten the links to it."""
    root = parent.setdefault(name, name)
    while parent[root] != root:
        root = parent[root]
    while parent[name] != root:
        parent[name], name = root, parent[name]
    return root
