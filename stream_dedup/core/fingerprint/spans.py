"""Several texts as spans of one array of code points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I64, U32


class Spans(NamedTuple):
    """Texts as spans of one array of code points."""

    points: U32
    spans: I64
    """Begin and end of each text, shape (n, 2)."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Spans:
        """Return texts, one behind the other."""
        points, lengths = points_of(texts)
        ends = np.cumsum(lengths)
        return cls(points, np.stack((ends - lengths, ends), axis=1))

    @property
    def sizes(self) -> I64:
        """Characters of each text."""
        return self.spans[:, 1] - self.spans[:, 0]

    def first(self, n: int) -> Spans:
        """Return the first n texts."""
        return Spans(self.points, self.spans[:n])

    def text(self, row: int) -> str:
        """Return one text."""
        return text_of(self.points[slice(*self.spans[row].tolist())])

    def replaced(self, texts: Mapping[int, str]) -> Spans:
        """Return the same with other texts in some rows."""
        if not texts:
            return self
        others = Spans.of(list(texts.values()))
        spans = self.spans.copy()
        spans[list(texts)] = others.spans + len(self.points)
        return Spans(np.concatenate((self.points, others.points)), spans)


def points_of(texts: Sequence[str]) -> tuple[U32, I64]:
    """Return the code points of texts, joined, and how many each has."""
    joined = "".join(texts)
    # NumPy copies the characters as they are; encoding them takes three times as long.
    points = np.array([joined]).view(np.uint32)[: len(joined)]
    return points, np.fromiter(map(len, texts), np.int64, len(texts))


def text_of(points: U32) -> str:
    """Return the text of code points."""
    return points.tobytes().decode("utf-32-le", "surrogatepass")
