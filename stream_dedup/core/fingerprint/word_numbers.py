"""Numbers of many words as arrays, which processes share: a dictionary would take 40 MB in each of them.

The words are joined as UTF-8. A word is looked up by open addressing (linear probing) from the low half of its XXH3-128
on: a slot has the number of a word, from 1, and the word itself is compared. At least half of the slots are free.
``learn_kernel`` looks words up as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import xxhash

from stream_dedup.core.kept_tables import TableArrays


def packed_words(numbers: Mapping[str, int]) -> TableArrays:
    """Return the arrays of ``WordNumbers``."""
    words = [word.encode() for word in numbers]
    mask = (1 << (2 * len(words)).bit_length()) - 1
    slots = [0] * (mask + 1)
    for number, word in enumerate(words, 1):
        slot = xxhash.xxh3_128_intdigest(word) & mask
        while slots[slot]:
            slot = slot + 1 & mask
        slots[slot] = number
    return {
        "slots": np.array(slots, np.uint32),
        "text": np.frombuffer(b"".join(words), np.uint8).copy(),
        "ends": np.cumsum([0, *map(len, words)], dtype=np.uint32),
        "numbers": np.fromiter(numbers.values(), np.int64, len(words)),
    }


class WordNumbers(Mapping[str, int]):
    """The numbers of words, by word."""

    def __init__(self, arrays: TableArrays) -> None:
        """Hold the arrays of ``packed_words``."""
        self.arrays = tuple(arrays[name] for name in ("slots", "text", "ends", "numbers"))
        """Slots, text, the end of each word in it behind that of the one before, and numbers."""
        # Elements of a view are Python's numbers, and quicker than those of an array.
        self._slots, self._text, self._ends, self._numbers = (one.data for one in self.arrays)
        self._mask = len(self._slots) - 1

    def __getitem__(self, word: str) -> int:
        """Return the number of a word.

        Raises:
            KeyError: there is no such word.
        """
        raw, ends = word.encode("utf-8", "surrogatepass"), self._ends
        slot = xxhash.xxh3_128_intdigest(raw) & self._mask
        while number := self._slots[slot]:
            if self._text[ends[number - 1] : ends[number]] == raw:
                return int(self._numbers[number - 1])
            slot = slot + 1 & self._mask
        raise KeyError(word)

    def __iter__(self) -> Iterator[str]:
        """Yield the words in the order in which they were given."""
        for begin, end in zip(self._ends, self._ends[1:], strict=False):
            yield bytes(self._text[begin:end]).decode()

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._numbers)
