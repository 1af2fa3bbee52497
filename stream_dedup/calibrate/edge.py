"""The pairs at the edge: what a person should look at to set the limit.

Lists under the present rules: the **least similar duplicates** (a little further, and they would have been
unique), the **most similar beyond the limit** (a little nearer, and they would not), and those **missed**: within the
limit, and yet no duplicates, because no look-up reaches them. With labels there is a fourth: duplicates whose match is
not of their family, the most similar first. Of a flood of equal texts one pair is shown: no two
pairs of a list have the same earlier article, nor the same two signatures.

A pair is shown where it first differs: the passage around it, from each text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.calibrate.figures import Measured
from stream_dedup.calibrate.nearest import NOWHERE
from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.model import Status

BEFORE = 20
"""Characters shown before the first difference: to know the place."""
SHOWN = 160
"""Characters shown of each text."""


class EdgeList(StrEnum):
    """Which list a pair is in."""

    DUPLICATE = "duplicate"
    MISSED = "missed"
    BEYOND = "beyond"
    DENIED = "denied"


TITLES = {
    EdgeList.DUPLICATE: "Least similar duplicates: are they right?",
    EdgeList.MISSED: "Within the limit, but missed: no look-up reaches the earlier one",
    EdgeList.BEYOND: "Most similar beyond the limit: are they no duplicates?",
    EdgeList.DENIED: "Most similar duplicates that the labels deny: is a label missing?",
}


ONLY_IF_ANY = frozenset((EdgeList.MISSED, EdgeList.DENIED))
"""Lists of which nothing is said where they are empty: most reports have none."""


class Edge(NamedTuple):
    """A pair by the numbers of its entries: the article judged, and the earlier one."""

    later: int
    earlier: int
    distance: int


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair to be judged by eye: ids, distance, similarity, and a passage of each text."""

    kind: str
    side: EdgeList
    earlier: str
    later: str
    distance: int
    similarity: float
    earlier_passage: str
    later_passage: str
    lengths: tuple[int, int]


def at_edge(measured: Measured, rows: I64, kind: Status, signatures: U8, most: int) -> dict[EdgeList, list[Edge]]:
    """The lists of one kind of text, each with the pairs nearest to the edge first, ``most`` at most."""
    limit = measured.rules.reach(kind)
    step = measured.step_of(limit)
    judged = measured.judged(rows, step, limit)
    within = measured.judged(rows, -1, limit)
    denied = judged & _denied(measured, rows, step)
    return {
        EdgeList.DUPLICATE: _edges(measured, rows[judged], step, signatures, (-1, most)),
        EdgeList.MISSED: _edges(measured, rows[within & ~judged], -1, signatures, (1, most)),
        EdgeList.BEYOND: _edges(measured, rows[~within], -1, signatures, (1, most)),
        EdgeList.DENIED: _edges(measured, rows[denied], step, signatures, (1, most)),
    }


def _denied(measured: Measured, rows: I64, step: int) -> NDArray[np.bool_]:
    """Whose match is of another family; nobody's where there are no labels."""
    if measured.labels is None:
        return np.zeros(len(rows), np.bool_)
    family = measured.labels.family
    other: NDArray[np.bool_] = family[measured.near.queries[rows]] != family[measured.near.matches[rows, step]]
    return other


def _edges(measured: Measured, rows: I64, step: int, signatures: U8, order: tuple[int, int]) -> list[Edge]:
    """The first of these rows, by distance rising (1) or falling (-1), without repeating one another."""
    direction, most = order
    near = measured.near
    rows = rows[near.distances[rows, step] != NOWHERE]
    ordered = rows[np.argsort(direction * near.distances[rows, step].astype(np.int64), kind="stable")]
    chosen: list[Edge] = []
    seen: set[object] = set()
    for row in ordered.tolist():
        if len(chosen) == most:
            break
        edge = Edge(int(near.queries[row]), int(near.matches[row, step]), int(near.distances[row, step]))
        marks = set(_marks(edge, signatures))
        if seen.isdisjoint(marks):
            chosen.append(edge)
        seen |= marks
    return chosen


def _marks(edge: Edge, signatures: U8) -> Iterator[object]:
    yield edge.earlier
    yield signatures[edge.earlier].tobytes(), signatures[edge.later].tobytes()


def passages(earlier: str, later: str) -> tuple[str, str]:
    """What to show of two texts: from a little before their first difference on."""
    one, other = " ".join(earlier.split()), " ".join(later.split())
    start = max(0, _common(one, other) - BEFORE)
    return _passage(one, start), _passage(other, start)


def _common(one: str, other: str) -> int:
    """Characters that both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _passage(text: str, start: int) -> str:
    # Where one text is the beginning of the other, its end is shown.
    start = max(0, min(start, len(text) - BEFORE))
    shown = text[start : start + SHOWN]
    return ("…" if start else "") + shown + ("…" if start + SHOWN < len(text) else "")
