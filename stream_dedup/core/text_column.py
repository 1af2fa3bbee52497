"""A column of texts, as a log batch holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_dedup.core.arrays import I64, U32
from stream_dedup.errors import CorruptError

_UTF8_MASK, _UTF8_INSIDE = 0xC0, 0x80  # a byte within a character of UTF-8 begins with the bits 10


def as_stored(text: str) -> str:
    """Return the text as a column would: half surrogates, which UTF-8 cannot encode, become escapes."""
    return _encoded(text).decode()


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of texts: the texts joined in UTF-8, and the end of each."""

    ends: U32
    joined: bytes

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Make a column of these texts, each as ``as_stored`` says."""
        parts = list(map(_encoded, texts))
        return cls(np.cumsum([len(part) for part in parts], dtype=np.uint32), b"".join(parts))

    @classmethod
    def concat(cls, parts: Sequence[Texts]) -> Texts:
        """Return the texts of all parts, in order."""
        sizes = np.array([len(part.joined) for part in parts], np.uint32)
        starts = np.repeat(np.cumsum(sizes, dtype=np.uint32) - sizes, [len(part.ends) for part in parts])
        return cls(np.concatenate([part.ends for part in parts]) + starts, b"".join([part.joined for part in parts]))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.ends)

    def __getitem__(self, row: int) -> str:
        """Return the text of one row."""
        return self.joined[self._start(row) : int(self.ends[row])].decode()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the texts, in order."""
        return map(self.__getitem__, range(len(self)))

    def rows(self, rows: slice | I64) -> Texts:
        """Return the texts of these rows."""
        if not isinstance(rows, slice):
            return Texts.of([self[row] for row in rows.tolist()])
        first, after, _ = rows.indices(len(self))
        if first >= after:
            return Texts.of(())
        start, end = self._start(first), int(self.ends[after - 1])
        return Texts(self.ends[first:after] - np.uint32(start), self.joined[start:end])

    def changed(self, texts: Mapping[int, str]) -> Texts:
        """Return these texts with other texts in some rows."""
        return Texts.of([texts.get(row, text) for row, text in enumerate(self)])

    def check(self, name: str) -> None:
        """Refuse texts that are not UTF-8, end before they begin, or end within a character.

        Raises:
            CorruptError: the check failed; the message names the column.
        """
        if not self.joined and not self.ends.any():
            return  # every text is empty, as all reasons are where nothing was rejected
        if (self.ends[1:] < self.ends[:-1]).any():
            msg = "log batch whose texts end before they begin"
            raise CorruptError(msg)
        if self.joined.isascii():
            return  # as most ids are: each byte is a character
        try:
            self.joined.decode()
        except UnicodeDecodeError as error:
            msg = f"log batch whose {name} are no UTF-8: {error}"
            raise CorruptError(msg) from error
        begins = np.frombuffer(self.joined, np.uint8)[self.ends[self.ends < len(self.joined)]]
        if ((begins & _UTF8_MASK) == _UTF8_INSIDE).any():
            msg = f"log batch with {name} that end within a character"
            raise CorruptError(msg)

    def _start(self, row: int) -> int:
        return int(self.ends[row - 1]) if row else 0


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
