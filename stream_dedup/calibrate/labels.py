"""What the user says about his articles: which one is a copy of which, and how well the verdicts fit that.

A field names the original's id. Articles that are linked by it, directly or over others, are one **family**, and so are
articles of one id; an article whose field is missing, null or empty is linked to none. Of those asked for:

* an article **should be found** if one of its family stands earlier;
* an article **is found rightly** if it is judged a duplicate and its match is of its family;
* precision is the share of those found rightly among those judged duplicates, recall their share among those that
  should be found, F1 the harmonic mean of the two. Of nothing there is no share: None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64


@dataclass(frozen=True, slots=True)
class Score:
    """How one setting does against the labels."""

    judged: int
    right: int
    due: int

    @property
    def precision(self) -> float | None:
        """Share of the judged that are right."""
        return self.right / self.judged if self.judged else None

    @property
    def recall(self) -> float | None:
        """Share of the due that are found."""
        return self.right / self.due if self.due else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both."""
        return 2 * self.right / (self.judged + self.due) if self.judged + self.due else None


def families(ids: Sequence[str], originals: Sequence[str | None]) -> I64:
    """Number of each article's family."""
    parent: dict[str, str] = {}
    for article, original in zip(ids, originals, strict=True):
        mine = _root(parent, article)
        if original:
            parent[mine] = _root(parent, original)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(_root(parent, article), len(numbers)) for article in ids], np.int64)


def should_be_found(family: I64) -> NDArray[np.bool_]:
    """Which articles have one of their family before them."""
    due = np.ones(len(family), np.bool_)
    due[np.unique(family, return_index=True)[1]] = False
    return due


def score(judged: NDArray[np.bool_], own: I64, matched: I64, due: NDArray[np.bool_]) -> Score:
    """Score of verdicts.

    Args:
        judged: which articles are judged duplicates.
        own: family of each.
        matched: family of each one's match; anything where it is not judged.
        due: which ones should be found.
    """
    return Score(int(judged.sum()), int((judged & (own == matched)).sum()), int(due.sum()))


def _root(parent: dict[str, str], name: str) -> str:
    """The name that stands for a family; shortens the way for the next one."""
    root = parent.setdefault(name, name)
    while parent[root] != root:
        root = parent[root]
    while parent[name] != root:
        parent[name], name = root, parent[name]
    return root
