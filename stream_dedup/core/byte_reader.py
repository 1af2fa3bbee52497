"""Reads the fields of a log record one after the other, and notices when the bytes run out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import CorruptError


class ByteReader:
    """Reads the fields of a log record.

    Every method raises ``CorruptError`` where the bytes do not hold what it reads.
    """

    def __init__(self, raw: bytes, at: int) -> None:
        """Start at byte ``at``."""
        self._raw = raw
        self._at = at

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        start = self._pass(length)
        return self._raw[start : self._at]

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.take(len(self._raw) - self._at)

    def text(self, length: int) -> str:
        """Return the topic name in the next bytes."""
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            msg = f"log batch whose topic name is no UTF-8: {error}"
            raise CorruptError(msg) from error

    def column(self, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the next column of numbers."""
        kind, count = np.dtype(dtype), math.prod(shape)
        if kind.itemsize == 1:
            # The wide columns, signatures and margins, are not copied.
            return np.frombuffer(self._raw, kind, count, self._pass(count)).reshape(shape)
        return np.frombuffer(self.take(count * kind.itemsize), kind).reshape(shape)

    def end(self) -> None:
        """Refuse bytes behind the last field."""
        if self._at != len(self._raw):
            msg = f"log record has {len(self._raw) - self._at} bytes after its end"
            raise CorruptError(msg)

    def _pass(self, length: int) -> int:
        start, end = self._at, self._at + length
        if end > len(self._raw):
            msg = f"log record of {len(self._raw)} bytes is cut short: a field ends at byte {end}"
            raise CorruptError(msg)
        self._at = end
        return start
