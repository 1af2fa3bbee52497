"""The pairs at the edge of the limit, for a person to judge.

There are three lists under the present rules: the **least similar duplicates**, the **most similar pairs beyond the
limit**, and the pairs **missed**: within the limit, but no look-up reaches the earlier article. With labels there is a
fourth: the most similar duplicates whose match is not of their family. A flood of equal texts gives one pair: no two
pairs of a list have the same earlier article, or the same two signatures.

Of each text a pair shows the passage around the first difference.
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
"""Characters shown before the first difference."""
SHOWN = 160
"""Characters shown of each text."""


class EdgeList(StrEnum):
    """The list that a pair is in."""

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
"""Lists that a report omits if they are empty, as they mostly are."""


class Edge(NamedTuple):
    """A pair as numbers of entries: the judged article and the earlier one."""

    later: int
    earlier: int
    distance: int


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair for a person to judge: ids, distance, similarity, and a passage of each text."""

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
    """Return the lists of one kind of text: in each at most ``most`` pairs, those nearest to the edge first."""
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
    """Return which articles have a match of another family; none without labels."""
    if measured.labels is None:
        return np.zeros(len(rows), np.bool_)
    family = measured.labels.family
    other: NDArray[np.bool_] = family[measured.near.queries[rows]] != family[measured.near.matches[rows, step]]
    return other


def _edges(measured: Measured, rows: I64, step: int, signatures: U8, order: tuple[int, int]) -> list[Edge]:
    """Return the first pairs of these rows, by rising (1) or falling (-1) distance, without repetitions."""
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
    """Return a passage of each text, from a little before their first difference on."""
    one, other = " ".join(earlier.split()), " ".join(later.split())
    start = max(0, _common(one, other) - BEFORE)
    return _passage(one, start), _passage(other, start)


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _passage(text: str, start: int) -> str:
    # If one text is the beginning of the other, show its end.
    start = max(0, min(start, len(text) - BEFORE))
    shown = text[start : start + SHOWN]
    return ("…" if start else "") + shown + ("…" if start + SHOWN < len(text) else "")
