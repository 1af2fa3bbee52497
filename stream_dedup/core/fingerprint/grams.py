"""Numbers for units and pairs of units, and a cache of their hashes.

The number of a unit of one character is its code point; a longer unit has a number above all code points. The number
of a gram is made of two units; the first is 0 if the gram is one unit. No output may depend on these numbers.

The hash of a gram never changes, so hashes are cached. The slot of a gram is computed from its number, for all grams of
a batch at once; a gram replaces the one that was in its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U64
from stream_dedup.core.model import SIGNATURE_BYTES

SLOT_BITS = 18
"""The cache has 2 to this power slots, 10 MB: enough for the frequent grams of comments, and most others."""
UNIT_BITS = 21
WORD_BASE = 0x110000
"""Number of the first unit of more than one character."""
MAX_WORDS = 1 << 18
"""Most longer units when a batch begins: if there are more, units and hashes are cleared."""
MAX_NEW_WORDS = (1 << UNIT_BITS) - WORD_BASE - MAX_WORDS
"""Most longer units that a batch may add: some 700,000."""

_UNIT_MASK = (1 << UNIT_BITS) - 1
# 2**64 over the golden ratio: neighbours are spread evenly over the slots (Knuth 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Units:
    """Numbers of units."""

    def __init__(self) -> None:
        """Start without longer units."""
        self._number: dict[str, int] = {}
        self._words: list[str] = []

    def make_room(self) -> bool:
        """Clear the longer units if there are too many; return whether they were cleared."""
        if len(self._words) <= MAX_WORDS:
            return False
        self._number.clear()
        self._words.clear()
        return True

    def numbers(self, units: Sequence[str]) -> list[int]:
        """Return the number of each unit; number those that are new."""
        return [ord(unit) if len(unit) == 1 else self._number.get(unit) or self._learn(unit) for unit in units]

    def names(self, grams: U64) -> list[str]:
        """Return the names of grams, which are given in rising order."""
        first, second = grams >> np.uint64(UNIT_BITS), grams & np.uint64(_UNIT_MASK)
        words = (first >= WORD_BASE) | (second >= WORD_BASE)
        # Most are of single characters: these are decoded at once, three characters for each gram.
        points = np.stack((first, np.full_like(first, ord(" ")), second), axis=1).astype("<u4")
        points[words] = ord(" ")
        joined = points.tobytes().decode("utf-32-le")
        singles = int(np.searchsorted(grams, np.uint64(_UNIT_MASK), side="right"))
        names = list(joined[2 : 3 * singles : 3])
        names += [joined[start : start + 3] for start in range(3 * singles, len(joined), 3)]
        for at in np.flatnonzero(words).tolist():
            names[at] = self.name(int(grams[at]))
        return names

    def name(self, gram: int) -> str:
        """Return the name of a gram, as in ``features.grams_of``."""
        second = self._unit(gram & _UNIT_MASK)
        return f"{self._unit(gram >> UNIT_BITS)} {second}" if gram > _UNIT_MASK else second

    def _unit(self, number: int) -> str:
        return chr(number) if number < WORD_BASE else self._words[number - WORD_BASE]

    def _learn(self, word: str) -> int:
        number = WORD_BASE + len(self._words)
        self._words.append(word)
        self._number[word] = number
        return number


class Hashes:
    """A cache of the hashes of grams."""

    def __init__(self, units: Units, hashes_of: Callable[[Sequence[str]], bytes]) -> None:
        """Start with an empty cache."""
        self._units, self._hashes_of = units, hashes_of
        # No gram is 0.
        self._grams = np.zeros(1 << SLOT_BITS, np.uint64)
        self._kept = np.zeros((1 << SLOT_BITS, SIGNATURE_BYTES), np.uint8)

    def clear(self) -> None:
        """Clear the cache, because the numbers of units have changed."""
        self._grams[:] = 0

    def of(self, grams: U64) -> U8:
        """Return the hash of each gram, one row for each."""
        slots = (grams * _SPREAD >> np.uint64(64 - SLOT_BITS)).astype(np.intp)
        found = self._kept.take(slots, axis=0)
        missing = np.flatnonzero(self._grams.take(slots) != grams)
        if len(missing):
            found[missing] = self._learn(grams[missing], slots[missing])
        return found

    def _learn(self, grams: U64, slots: NDArray[np.intp]) -> U8:
        new, first, back = np.unique(grams, return_index=True, return_inverse=True)
        hashes = np.frombuffer(self._hashes_of(self._units.names(new)), np.uint8).reshape(-1, SIGNATURE_BYTES)
        # Of two grams with one slot the last is kept in both arrays: NumPy assigns in order.
        self._grams[slots[first]] = new
        self._kept[slots[first]] = hashes
        return hashes[back]


def is_pair(grams: U64) -> NDArray[np.bool_]:
    """Whether each gram is a pair."""
    return grams > np.uint64(_UNIT_MASK)


def is_pair_of_words(grams: U64) -> NDArray[np.bool_]:
    """Whether each gram is a pair of units of more than one character."""
    base = np.uint64(WORD_BASE)
    return (grams >> np.uint64(UNIT_BITS) >= base) & (grams & np.uint64(_UNIT_MASK) >= base)
