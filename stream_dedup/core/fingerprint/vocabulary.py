"""The table of known features: hash and IDF by number. Importing this file loads the compiler.

The hash and the IDF of a feature never change. They are kept in a table and looked up for a whole batch at once. A
table that has more than ``MAX_KNOWN_WORDS`` features when a batch begins is cleared, so it never has more than that
plus the features of one batch. The table saves time and changes no result: no output may depend on a number, nor on
the random seed by which features are spread over the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I32, U32
from stream_dedup.core.fingerprint import words_kernel
from stream_dedup.core.fingerprint.hashing import feature_hashes
from stream_dedup.core.fingerprint.keys_kernel import random_seed
from stream_dedup.core.fingerprint.learn_kernel import NOT_HASHED, NOT_WEIGHED, learn
from stream_dedup.core.fingerprint.weigher import MAX_KNOWN_WORDS
from stream_dedup.core.fingerprint.weights import NO_WORDS, WordIdf
from stream_dedup.core.fingerprint.words_kernel import ADDED, NAME_POINTS, ROWS
from stream_dedup.core.model import SIGNATURE_BYTES

_LEAST_SLOTS = 1 << 12
NO_WORD_IDF = WordIdf(NO_WORDS, NOT_WEIGHED, NOT_WEIGHED, root=False)
"""Knows the IDF of no word."""


class Vocabulary:
    """Hash and IDF of each known feature, by number."""

    def __init__(
        self,
        idf: Callable[[str], int],
        seed: int,
        stop_words: Callable[[], Collection[str]] = tuple,
        words: Callable[[], WordIdf] = lambda: NO_WORD_IDF,
    ) -> None:
        """Start without features.

        Args:
            idf: returns the IDF of a feature.
            seed: of the hashes.
            stop_words: returns the features that do not count.
            words: returns the IDF of features that begin with an ideograph or are ASCII, equal to ``idf``, for many at
                once.
        """
        self._idf, self._seed, self._stop_words, self._words = idf, seed, stop_words, words
        self._spread = random_seed()
        self._used = np.zeros(3, np.int64)
        self._learned = 0
        self._slots = np.zeros((_LEAST_SLOTS, 2), np.int64)
        self._names = np.empty(_LEAST_SLOTS, np.uint32)
        self._begins = np.empty(_LEAST_SLOTS // 2, np.int64)
        self.hashes = np.empty((len(self._begins), SIGNATURE_BYTES), np.uint8)
        self.idf = np.empty(len(self._begins), np.int64)
        self.counts = np.empty(len(self._begins), np.bool_)
        """Whether each feature counts; a stop word does not."""
        self.times = np.zeros(len(self._begins), np.int64)
        """Room for counts of features: all 0, and left so by whoever uses it."""

    def __len__(self) -> int:
        """Return the number of features."""
        return int(self._used[ROWS])

    def make_room(self) -> None:
        """Clear the table if it has too many features."""
        if self._used[ROWS] > MAX_KNOWN_WORDS:
            self._clear()

    def numbers(self, points: U32, starts: I32, sizes: I32) -> I32:
        """Return the number of each feature, a span of code points; add the features that are missing."""
        if self._used[ROWS] != self._learned:
            # An error ended the last call: there are features of which nothing is known.
            self._clear()
        numbers, new = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
        known, done = int(self._used[ROWS]), 0
        self._used[ADDED] = 0
        while True:
            table = (self._slots, self._names, self._begins, self._used, self._spread)
            done = words_kernel.find(points, starts, sizes, done, table, (numbers, new))
            if done == len(starts):
                break
            self._grow(int(sizes[done]))
        added = new[: self._used[ADDED]]
        if len(added):
            self._learn(known, points, starts[added], sizes[added])
        self._learned = int(self._used[ROWS])
        return numbers

    def numbers_of(self, names: Iterable[str]) -> I32:
        """Return the number of each feature, given by its name."""
        listed = list(names)
        points = np.frombuffer("".join(listed).encode("utf-32-le", "surrogatepass"), np.uint32)
        sizes = np.fromiter(map(len, listed), np.int32, len(listed))
        return self.numbers(points, np.cumsum(sizes, dtype=np.int32) - sizes, sizes)

    def _clear(self) -> None:
        self._slots[:] = 0
        self._used[:] = self._learned = 0

    def _learn(self, start: int, points: U32, starts: I32, sizes: I32) -> None:
        """Add what is known of the features that have the last numbers, spans of code points."""
        end = start + len(starts)
        hashes, idf, known = self.hashes[start:end], self.idf[start:end], self._words()
        rule = np.uint64(self._seed), known.alone, known.unknown, known.in_table
        tables = known.table, known.listed, known.others
        left = learn(points, starts, sizes, tables, rule, (hashes.view(np.uint64).reshape(-1), idf))
        made = idf >= 0
        idf[made] = known.of(idf[made])
        if left:
            others = np.flatnonzero(~made)
            names = _names(points, starts[others], sizes[others])
            long = np.flatnonzero(idf[others] == NOT_HASHED)
            joined = feature_hashes((names[at] for at in long.tolist()), self._seed)
            hashes[others[long]] = np.frombuffer(joined, np.uint8).reshape(-1, SIGNATURE_BYTES)
            idf[others] = list(map(self._idf, names))
        self.counts[start:end] = True
        if stop_words := self._stop_words():
            self.counts[start:end] = [name not in stop_words for name in _names(points, starts, sizes)]

    def _grow(self, size: int) -> None:
        """Make room for one more feature of this size, and for as many more as there are."""
        if 2 * self._used[ROWS] >= len(self._slots):
            larger = np.zeros((2 * len(self._slots), 2), np.int64)
            words_kernel.move(self._slots, self._spread, larger)
            more = len(larger) // 2
            self._begins, self.hashes, self.idf = (_longer(one, more) for one in (self._begins, self.hashes, self.idf))
            self.counts, self.times = _longer(self.counts, more), np.zeros(more, np.int64)
            # Last: where memory ran out before, the next call begins anew.
            self._slots = larger
        if self._used[NAME_POINTS] + size >= len(self._names):
            self._names = _longer(self._names, 2 * len(self._names) + size)


def _names(points: U32, starts: I32, sizes: I32) -> list[str]:
    """Return the names of features that are given by spans of code points."""
    ends = np.cumsum(sizes)
    each = np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1])
    joined = points[each].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    return [joined[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a longer array that begins with the elements of this one."""
    longer = np.empty((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
