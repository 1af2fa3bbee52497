"""Sums and weights of features that are counted by name.

``words`` has the fast way for long text, ``short`` that for short text; this is the definition of both. The hash and
the IDF of a feature never change, so they are kept, up to a limit; no output may depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.weights import Sums, heaviest, idf_of, sums_of, weigh
from stream_dedup.core.model import SIGNATURE_BYTES
from stream_dedup.core.scheme import Features

MAX_KNOWN_WORDS = 1 << 18
"""Most features in a table: the vocabulary of some 10,000 articles, about 20 MB by number and 60 MB by name."""


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


class _KnownFeatures(dict[str, tuple[bytes, int]]):
    """Hash and IDF of each feature, computed at its first look-up."""

    def __init__(self, idf: Callable[[str], int], seed: int) -> None:
        super().__init__()
        self._idf, self._seed = idf, seed

    def __missing__(self, name: str) -> tuple[bytes, int]:
        known = self[name] = feature_hash(name, self._seed), self._idf(name)
        return known


class Weigher:
    """Computes sums from counts of features, for long or for short text."""

    def __init__(self, settings: Features, seed: int) -> None:
        """Load nothing yet."""
        self._settings = settings
        self._known = _KnownFeatures(idf_of(settings), seed)

    def sums(self, counts: Sequence[Counter[str]]) -> Sums:
        """Return the sums of each text, and the sum of its squared weights."""
        hashes, idf = self._look_up(chain.from_iterable(counts))
        times = np.fromiter(chain.from_iterable(map(Counter.values, counts)), np.int64, len(idf))
        ends = np.cumsum(list(map(len, counts)), dtype=np.intp)
        return sums_of(times, idf, hashes, ends, self._settings)

    def features(self, counts: Counter[str]) -> list[Feature]:
        """Return the features of one text that count, heaviest first."""
        hashes, idf = self._look_up(counts)
        names, times = list(counts), np.array(list(counts.values()), np.int64)
        weights = weigh(times, idf, self._settings)
        order = heaviest(weights, hashes, self._settings.top_k or len(names)).tolist()
        return [Feature(names[at], int(times[at]), int(weights[at]), hashes[at].tobytes()) for at in order]

    def _look_up(self, names: Iterable[str]) -> tuple[U8, I64]:
        if len(self._known) > MAX_KNOWN_WORDS:
            self._known.clear()
        known = list(map(self._known.__getitem__, names))
        hashes = np.frombuffer(b"".join([one for one, _ in known]), np.uint8).reshape(-1, SIGNATURE_BYTES)
        return hashes, np.array([idf for _, idf in known], np.int64)
