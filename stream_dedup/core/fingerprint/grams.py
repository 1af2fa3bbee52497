"""Numbers for grams of short text, and a cache of their hashes.

A gram is a character, a pair of characters, or a trigram of a word. The number of a character is its code point; that
of a pair is made of those of both; trigrams are numbered as they come, above all pairs. No output may depend on these
numbers.

The hash of a gram never changes, so hashes are cached. The slot of a gram is computed from its number, for all grams of
a batch at once; a gram replaces the one that was in its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U64
from stream_dedup.core.fingerprint.features import trigrams_of
from stream_dedup.core.fingerprint.hashing import SPREAD
from stream_dedup.core.model import SIGNATURE_BYTES
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

SLOT_BITS = 18
"""The cache has 2 to this power slots, 10 MB: enough for the frequent grams of comments, and most others."""
POINT_BITS = 21
GRAM_BITS = 2 * POINT_BITS
FIRST_TRIGRAM = 0x110000 << POINT_BITS
"""Number of the first trigram: above those of all pairs."""
MAX_WORDS = 1 << 18
"""Most words and most trigrams when a batch begins: if there are more, words, trigrams and hashes are cleared."""
TRIGRAM = 4
"""Which of ``Features.gram_weights`` is that of a trigram."""

_POINT_MASK = (1 << POINT_BITS) - 1


class Trigrams:
    """Numbers of the trigrams of words."""

    def __init__(self) -> None:
        """Start without words."""
        self._of_word: dict[str, tuple[int, ...]] = {}
        self._number: dict[str, int] = {}
        self._names: list[str] = []

    def make_room(self) -> bool:
        """Clear everything if it is too much; return whether it was cleared."""
        if max(len(self._of_word), len(self._names)) <= MAX_WORDS:
            return False
        self._of_word.clear()
        self._number.clear()
        self._names.clear()
        return True

    def numbers(self, words: Sequence[str]) -> tuple[U64, NDArray[np.intp]]:
        """Return the numbers of the trigrams of the words, joined, and how many each word has."""
        each = [self._of_word.get(word) or self._learn(word) for word in words]
        lengths = np.fromiter(map(len, each), np.intp, len(each))
        return np.fromiter(chain.from_iterable(each), np.uint64, int(lengths.sum())), lengths

    def name(self, number: int) -> str:
        """Return the trigram of a number."""
        return self._names[number - FIRST_TRIGRAM]

    def _learn(self, word: str) -> tuple[int, ...]:
        numbers = []
        for trigram in trigrams_of(word):
            number = self._number.get(trigram)
            if number is None:
                number = self._number[trigram] = FIRST_TRIGRAM + len(self._names)
                self._names.append(trigram)
            numbers.append(number)
        return self._of_word.setdefault(word, tuple(numbers))


class Hashes:
    """A cache of the hashes of grams."""

    def __init__(self, trigrams: Trigrams, hashes_of: Callable[[Sequence[str]], bytes]) -> None:
        """Start with an empty cache."""
        self._trigrams, self._hashes_of = trigrams, hashes_of
        # No gram is 0.
        self._grams = np.zeros(1 << SLOT_BITS, np.uint64)
        self._kept = np.zeros((1 << SLOT_BITS, SIGNATURE_BYTES), np.uint8)

    def clear(self) -> None:
        """Clear the cache, because the numbers of trigrams have changed."""
        self._grams[:] = 0

    def of(self, grams: U64) -> U8:
        """Return the hash of each gram, one row for each."""
        slots = (grams * SPREAD >> np.uint64(64 - SLOT_BITS)).astype(np.intp)
        found = self._kept.take(slots, axis=0)
        missing = np.flatnonzero(self._grams.take(slots) != grams)
        if len(missing):
            found[missing] = self._learn(grams[missing], slots[missing])
        return found

    def _learn(self, grams: U64, slots: NDArray[np.intp]) -> U8:
        new, first, back = np.unique(grams, return_index=True, return_inverse=True)
        hashes = np.frombuffer(self._hashes_of(self.names(new)), np.uint8).reshape(-1, SIGNATURE_BYTES)
        # Of two grams with one slot the last is kept in both arrays: NumPy assigns in order.
        self._grams[slots[first]] = new
        self._kept[slots[first]] = hashes
        return hashes[back]

    def names(self, grams: U64) -> list[str]:
        """Return the names of grams, which are given in rising order, as ``features.grams_of`` has them."""
        pairs, trigrams = np.searchsorted(grams, (np.uint64(_POINT_MASK), np.uint64(FIRST_TRIGRAM))).tolist()
        # Characters and pairs are decoded at once, three characters for each.
        first, second = grams[:trigrams] >> np.uint64(POINT_BITS), grams[:trigrams] & np.uint64(_POINT_MASK)
        points = np.stack((first, np.full_like(first, ord(" ")), second), axis=1).astype("<u4")
        joined = points.tobytes().decode("utf-32-le", "surrogatepass")
        names = list(joined[2 : 3 * pairs : 3])
        names += [joined[start : start + 3] for start in range(3 * pairs, len(joined), 3)]
        return names + [self._trigrams.name(gram) for gram in grams[trigrams:].tolist()]


def pairs_of(first: U64, second: U64) -> U64:
    """Return the numbers of pairs of characters."""
    return first << np.uint64(POINT_BITS) | second


def classes_of(grams: U64) -> NDArray[np.intp]:
    """Return which of ``Features.gram_weights`` each gram has."""
    first, second = grams >> np.uint64(POINT_BITS), grams & np.uint64(_POINT_MASK)
    pair, han = first > 0, _is_han(second)
    other = np.where(pair, ~(han & _is_han(first)), ~han)
    classes: NDArray[np.intp] = pair.astype(np.intp) + 2 * other
    classes[grams >= np.uint64(FIRST_TRIGRAM)] = TRIGRAM
    return classes


def _is_han(points: U64) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (points >= ord(HAN_FIRST)) & (points <= ord(HAN_LAST))
    return found
