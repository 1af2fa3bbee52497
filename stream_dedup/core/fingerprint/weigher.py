"""Sums and weights of features that are counted by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.core.fingerprint.weights import Sums, heaviest, idf_of, sums_of, weigh
from stream_dedup.core.scheme import Features

if TYPE_CHECKING:
    from stream_dedup.core.fingerprint.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a text."""

    name: str
    """The feature as text, with tokens by their names."""
    count: int
    """Occurrences in the text, multiplied by the weights of fields and key sentences."""
    weight: int
    hash: bytes
    """256 bits, bit 0 the high bit of byte 0."""


class Weigher:
    """Computes sums from counts of features, for long or for short text."""

    def __init__(self, settings: Features, seed: int) -> None:
        """Load nothing yet."""
        self._settings, self._seed = settings, seed

    @cached_property
    def _table(self) -> Vocabulary:
        from stream_dedup.core.fingerprint.vocabulary import Vocabulary  # noqa: PLC0415 - loads the compiler

        return Vocabulary(idf_of(self._settings), self._seed)

    def warm(self) -> None:
        """Load the table of IDF."""
        if self._settings.kind == "words":
            self._table.numbers_of([""])

    def sums(self, counts: Sequence[Counter[str]]) -> Sums:
        """Return the sums of each text, and the sum of its squared weights."""
        self._table.make_room()
        rows = self._table.numbers_of(chain.from_iterable(counts))
        times = np.fromiter(chain.from_iterable(map(Counter.values, counts)), np.int64, len(rows))
        ends = np.cumsum(list(map(len, counts)), dtype=np.intp)
        return sums_of(times, self._table.idf.take(rows), self._table.hashes.take(rows, axis=0), ends, self._settings)

    def features(self, counts: Counter[str]) -> list[Feature]:
        """Return the features of one text that count, heaviest first."""
        self._table.make_room()
        rows = self._table.numbers_of(counts)
        names, times = list(counts), np.array(list(counts.values()), np.int64)
        weights, hashes = weigh(times, self._table.idf[rows], self._settings), self._table.hashes[rows]
        order = heaviest(weights, hashes, self._settings.top_k or len(names)).tolist()
        return [Feature(names[at], int(times[at]), int(weights[at]), hashes[at].tobytes()) for at in order]
