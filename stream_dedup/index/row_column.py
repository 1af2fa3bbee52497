"""The rows, by document number: what a verdict needs of every signed original, 64 bytes and its sketch.

On disk rows are in chunks (see ``layout``), written in the same batch as their log record; those after the last whole
chunk have a key of their own, and are written again with each write of rows. Which of them are in memory is the affair
of ``tables``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber
from stream_dedup.errors import RefusedError
from stream_dedup.index.layout import LAST_ROWS, MAX_DOC_NUMBERS, ROW, RowArray, RowType, chunk_key
from stream_dedup.index.settings import ROW_CHUNK
from stream_dedup.index.store import Store, WriteBatch

_READ_CHUNKS = 256
"""Chunks read at once: 1 MiB of rows without sketches. Of more, half of the time is the system giving memory."""


class RowColumn:
    """Rows of the document numbers from ``first`` to before ``after``."""

    def __init__(self, store: Store, first: DocNumber, after: DocNumber, kind: RowType = ROW) -> None:
        self._store = store
        self.kind = kind
        self.first = first
        self.after = after
        self.tail = np.empty(0, kind)
        self._check_end()

    @property
    def chunk_rows(self) -> int:
        """Rows of a stored chunk."""
        return ROW_CHUNK

    @property
    def numbers_left(self) -> int:
        """Number of document numbers that no row has."""
        return MAX_DOC_NUMBERS - self.after

    def write_rows(self, writes: WriteBatch, rows: RowArray) -> None:
        """Add the next rows to a batch of writes; call ``rows_written`` once it is written.

        Raises:
            RefusedError: there are no more document numbers.
        """
        if len(rows) > self.numbers_left:
            msg = (
                f"the index {self._store.name} has numbered {self.after} articles, and numbers at most "
                f"{MAX_DOC_NUMBERS}. Where match.window has trimmed the log, rebuild it: stream-dedup index rebuild "
                "numbers the articles that are left from 0 on. Without a window, begin a new log with another --group; "
                "for an index of filter or of the Python API, name another folder"
            )
            raise RefusedError(msg)
        chunk = self.after // ROW_CHUNK
        raw = self.tail.tobytes() + rows.tobytes()
        whole = len(raw) - len(raw) % self._chunk_bytes
        for at in range(0, whole, self._chunk_bytes):
            writes.put(chunk_key(chunk), raw[at : at + self._chunk_bytes])
            chunk += 1
        writes.put(LAST_ROWS, raw[whole:])

    def rows_written(self, rows: RowArray) -> None:
        """Count rows that were written."""
        unfinished = (self.after + len(rows)) % ROW_CHUNK
        # NumPy joins arrays of records slowly, however few they are: only where the chunk goes on.
        tail = np.concatenate((self.tail, rows)) if unfinished > len(rows) else rows[len(rows) - unfinished :].copy()
        self.tail = tail
        self.after = DocNumber(self.after + len(rows))

    def delete_rows_before(self, writes: WriteBatch, low_watermark: DocNumber) -> None:
        """Add the deletion of rows before a document number to a batch; then call ``drop_rows_before``."""
        writes.delete_range(chunk_key(0), chunk_key(low_watermark // ROW_CHUNK))

    def drop_rows_before(self, low_watermark: DocNumber) -> None:
        """Drop rows before a document number."""
        self.first = low_watermark

    def fetch(self, doc_numbers: I64) -> RowArray:
        """Read the rows of distinct, rising document numbers from disk, a bounded number of chunks at a time."""
        numbers = doc_numbers // ROW_CHUNK
        changes = np.diff(numbers, prepend=-1) > 0
        chunks, at = numbers[changes], np.cumsum(changes) - 1
        rows = np.empty(len(doc_numbers), self.kind)
        for first in range(0, len(chunks), _READ_CHUNKS):
            here = slice(*np.searchsorted(at, (first, first + _READ_CHUNKS)).tolist())
            whole = self._read(chunks[first : first + _READ_CHUNKS])
            rows[here] = whole.take((at[here] - first) * ROW_CHUNK + doc_numbers[here] % ROW_CHUNK)
        return rows

    def scan(self, start: DocNumber) -> Iterator[tuple[DocNumber, RowArray]]:
        """Yield rows from a document number on, in portions, each with its first document number.

        Raises:
            CorruptError: their log positions do not rise.
        """
        start, last = max(start, self.first), -1
        while start < self.after:
            chunk = start // ROW_CHUNK
            end = min(DocNumber((chunk + _READ_CHUNKS) * ROW_CHUNK), self.after)
            whole = self._read(np.arange(chunk, -(-end // ROW_CHUNK)))
            rows = whole[start - chunk * ROW_CHUNK : end - chunk * ROW_CHUNK]
            self._refuse_disorder(start, rows["position"], last)
            yield start, rows
            start, last = end, int(rows["position"][-1])

    def _refuse_disorder(self, first: DocNumber, positions: I64, last: int) -> None:
        """Raise CorruptError where the log positions of rows do not rise; ``last`` is that before them, -1 of none."""
        wrong = np.flatnonzero(np.diff(positions, prepend=last) <= 0)
        if len(wrong):
            position = positions[wrong[0]]
            reason = (
                f"row {first + int(wrong[0])} is of log position {position}, which is not after that of the row before"
            )
            raise self._store.corrupt(reason)

    def _check_end(self) -> None:
        """Read the last rows, and check that those on disk end at the last document number, as they were written."""
        chunks, left = divmod(self.after, ROW_CHUNK)
        ends = [chunk_key(chunk) for chunk in (max(chunks - 1, 0), chunks)]
        *found, tail = self._store.get([*ends, LAST_ROWS])
        has_last = bool(found[0]) or self.first >= chunks * ROW_CHUNK
        if len(tail) != left * self.kind.itemsize or found[bool(chunks)] or not has_last:
            reason = f"its rows do not end at {self.after}, as its state says"
            raise self._store.corrupt(reason)
        self.tail = np.frombuffer(tail, self.kind)

    def _read(self, chunks: I64) -> RowArray:
        """Read chunks; an unfinished last one is filled up to its full length."""
        whole = chunks[chunks < self.after // ROW_CHUNK]
        found = self._store.get([chunk_key(chunk) for chunk in whole.tolist()])
        for chunk, raw in zip(whole.tolist(), found, strict=True):
            if len(raw) != self._chunk_bytes:
                reason = f"rows {chunk * ROW_CHUNK} and on: {len(raw)} bytes do not hold them"
                raise self._store.corrupt(reason)
        if len(whole) < len(chunks):
            found.append(self.tail.tobytes() + bytes(self._chunk_bytes - self.tail.nbytes))
        return np.frombuffer(b"".join(found), self.kind)

    @property
    def _chunk_bytes(self) -> int:
        return ROW_CHUNK * self.kind.itemsize
