"""Sums of counted features: their hashes, and the tables of known features.

The hash of a feature is 256 bits: XXH3-128 of its UTF-8 bytes with seed 2n, then with seed 2n + 1, where n is the
scheme's ``seed``, each in canonical (big-endian) byte order.

The hash and the IDF of a feature never change. They are kept in a table, one for long and one for short text, and
looked up for a whole batch at once. A table that has more than ``MAX_KNOWN_WORDS`` features when a chunk begins is
cleared, so it never has more than that plus the features of one chunk. The table saves time and changes no result: no
output may depend on a row number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import xxhash

from stream_dedup.core.arrays import I64
from stream_dedup.core.fingerprint.weights import Sums, heaviest, idf_of, sums_of, weigh
from stream_dedup.core.model import SIGNATURE_BYTES
from stream_dedup.core.scheme import Features

MAX_KNOWN_WORDS = 1 << 18
"""Most features in a table: the vocabulary of some 10,000 articles, about 40 MB with the words themselves."""


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


def feature_hash(name: str, seed: int = 0) -> bytes:
    """Return the 256-bit hash of a feature."""
    return feature_hashes((name,), seed)


def feature_hashes(names: Iterable[str], seed: int = 0) -> bytes:
    """Return the hashes of features, joined."""
    digest, first, second = xxhash.xxh3_128_digest, 2 * seed, 2 * seed + 1
    raw = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join([digest(one, first) + digest(one, second) for one in raw])


class Weigher:
    """Computes sums from counts of features, for long or for short text."""

    def __init__(self, settings: Features, seed: int) -> None:
        self._settings = settings
        self._idf = idf_of(settings)
        self._table = _FeatureTable(self._idf, seed)

    def warm(self) -> None:
        """Load the table of IDF."""
        if self._settings.kind == "words":
            self._idf("")

    def sums(self, counts: Sequence[Counter[str]]) -> Sums:
        """Return the sums of each text, and the sum of its squared weights."""
        self._table.make_room()
        rows = self._table.rows(counts)
        times = np.fromiter(chain.from_iterable(map(Counter.values, counts)), np.int64, len(rows))
        ends = np.cumsum(list(map(len, counts)), dtype=np.intp)
        return sums_of(times, self._table.idf.take(rows), self._table.hashes.take(rows, axis=0), ends, self._settings)

    def features(self, counts: Counter[str]) -> list[Feature]:
        """Return the features of one text that count, heaviest first."""
        self._table.make_room()
        rows = self._table.rows([counts])
        names, times = list(counts), np.array(list(counts.values()), np.int64)
        weights, hashes = weigh(times, self._table.idf[rows], self._settings), self._table.hashes[rows]
        order = heaviest(weights, hashes, self._settings.top_k or len(names)).tolist()
        return [Feature(names[at], int(times[at]), int(weights[at]), hashes[at].tobytes()) for at in order]


class _Numbers(dict[str, int]):
    """The number of each name: 0 for the first that was asked for, and so on."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


class _FeatureTable:
    """Hash and IDF of each known feature, by row."""

    def __init__(self, idf: Callable[[str], int], seed: int) -> None:
        self._idf, self._seed = idf, seed
        self._row_of = _Numbers()
        self.hashes = np.empty((1024, SIGNATURE_BYTES), np.uint8)
        self.idf = np.empty(1024, np.int64)

    def make_room(self) -> None:
        """Clear the table if it has too many features."""
        if len(self._row_of) > MAX_KNOWN_WORDS:
            self._row_of.clear()

    def rows(self, counts: Iterable[Collection[str]]) -> I64:
        """Return the row of each feature of each text, in order; add the features that are missing."""
        known = len(self._row_of)
        rows = np.array(list(map(self._row_of.__getitem__, chain.from_iterable(counts))), np.int64)
        if len(self._row_of) > known:
            self._learn(list(islice(reversed(self._row_of), len(self._row_of) - known))[::-1])
        return rows

    def _learn(self, names: list[str]) -> None:
        """Add the features that have the last rows."""
        end = len(self._row_of)
        start = end - len(names)
        self._grow(end)
        joined = np.frombuffer(feature_hashes(names, self._seed), np.uint8)
        self.hashes[start:end] = joined.reshape(-1, SIGNATURE_BYTES)
        self.idf[start:end] = list(map(self._idf, names))

    def _grow(self, size: int) -> None:
        more = max(size, 2 * len(self.idf)) - len(self.idf)
        if size > len(self.idf):
            self.hashes = np.concatenate((self.hashes, np.empty((more, SIGNATURE_BYTES), np.uint8)))
            self.idf = np.concatenate((self.idf, np.empty(more, np.int64)))
