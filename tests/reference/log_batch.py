"""The definition of the bytes of a log batch, field by field; the native core reads many at once (``core.entry``)."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.columns import LOG_COLUMNS, Texts
from stream_dedup.core.entry import LOG_FORMAT_VERSION, Batch
from stream_dedup.core.model import MAX_ROWS, LogOffset, Status
from stream_dedup.errors import CorruptError

BATCH, SEEDED = 1, 5
"""Kinds of log records that are batches."""
HEAD = struct.Struct("<BBq16siIH")
"""Version, kind, read_to, topic id, partition, number of entries, bytes of the topic's name."""
ENTRY = struct.Struct("<BH")
"""Kind and width of a column."""
UTF8_MASK, UTF8_INSIDE = 0xC0, 0x80  # a byte within a character of UTF-8 begins with the bits 10


class ByteReader:
    """Reads fields; each method raises ``CorruptError`` where the bytes do not hold what it reads."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if self._at > len(self._raw):
            raise CorruptError(f"a field ends at byte {self._at} of {len(self._raw)}")
        return self._raw[start : self._at]

    def column(self, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.frombuffer(self.take(math.prod(shape) * np.dtype(dtype).itemsize), dtype).reshape(shape)

    def end(self) -> None:
        if self._at != len(self._raw):
            raise CorruptError("bytes behind the last field")


def decoded_batch(raw: bytes) -> Batch:
    """Return a batch.

    Raises:
        CorruptError: the bytes are another record, cut short, longer or damaged.
    """
    reader = ByteReader(raw)
    version, kind, stored, topic_id, partition, n, name_length = HEAD.unpack(reader.take(HEAD.size))
    read_to = None if stored == -1 else LogOffset(stored)
    if version != LOG_FORMAT_VERSION or kind not in {BATCH, SEEDED}:
        raise CorruptError("no batch of this format")
    if stored < -1 or (kind == SEEDED and read_to is None):
        raise CorruptError(f"author had read up to {stored}")
    if not 1 <= n <= MAX_ROWS or partition < 0:
        raise CorruptError(f"{n} entries of partition {partition}")
    try:
        topic = reader.take(name_length).decode()
    except UnicodeDecodeError as error:
        raise CorruptError("topic name is no UTF-8") from error
    columns = _columns(reader, n)
    reader.end()
    if (columns["offsets"][1:] <= columns["offsets"][:-1]).any():
        raise CorruptError("offsets do not rise")
    if columns["statuses"].max() > max(Status):
        raise CorruptError("unknown status")
    return Batch(topic_id=topic_id, topic=topic, partition=partition, read_to=read_to, seeded=kind == SEEDED, **columns)


def _columns(reader: ByteReader, n: int) -> dict[str, Any]:
    """Read the columns of n entries, and add those that are not there."""
    stored = LOG_COLUMNS
    names = {one.kind: name for name, one in stored.items()}
    (count,) = reader.take(1)
    table = list(ENTRY.iter_unpack(reader.take(count * ENTRY.size)))
    if any(later <= earlier for (earlier, _), (later, _) in pairwise(table)):
        raise CorruptError("kinds of columns do not rise")
    made: dict[str, Any] = {}
    for kind, width in table:
        if kind not in names or width not in stored[names[kind]].widths:
            raise CorruptError(f"column of kind {kind} and width {width}")
        one = stored[names[kind]]
        numbers = reader.column(one.dtype, one.shape(n, width))
        made[names[kind]] = _texts(numbers, reader.take(int(numbers[-1]))) if one.is_texts else numbers
    return {name: made[name] if name in made else one.blank(n) for name, one in stored.items()}


def _texts(ends: NDArray[np.uint32], joined: bytes) -> Texts:
    if (ends[1:] < ends[:-1]).any():
        raise CorruptError("texts end before they begin")
    try:
        joined.decode()
    except UnicodeDecodeError as error:
        raise CorruptError("texts are no UTF-8") from error
    begins = np.frombuffer(joined, np.uint8)[ends[ends < len(joined)]]
    if ((begins & UTF8_MASK) == UTF8_INSIDE).any():
        raise CorruptError("texts end within a character")
    return Texts(ends, joined)
