"""The log record and its entries: this file owns their bytes.

Every record of the log topic ``<group>.fingerprints`` has a value that begins

    byte 0   format version (2)
    byte 1   kind: 1 batch, 2 rules, 3 trim

and goes on by kind. All integers are little-endian; columns stand one after
the other without padding, each holding one value for every entry, in order.

Batch (kind 1): what one worker polled from one source partition. It covers every
offset from its first to its last: an offset between them without an entry held
no readable record (a transaction marker, say).

    16 bytes   topic id
    int32      partition
    uint32     n, number of entries, 1 to MAX_ROWS
    uint8      tables of the scheme: 4, 8 or 16
    uint16     length of the topic name, then the name in UTF-8
    int64  x n   offsets, strictly rising
    uint64 x n   checksums of the values (xxh3-64; 0 of nothing for a tombstone)
    uint8  x n   statuses (``model.Status``)
    uint64 x n   groups (``model.group_of``): entries of different groups are never near; 0 unless signed
    32 bytes x n   signatures (bit 0 is the high bit of byte 0); zero unless signed
    8 x tables bytes x n   margins of the bits that the tables cut into blocks, 4 bits each; zero unless signed
    uint32 x n   where each id ends in the text that follows
    uint32 x n   where each reason ends in the text after that (empty unless rejected)
    ids, then reasons, in UTF-8

Rules (kind 2): UTF-8 JSON of ``Rules`` (see ``rules``), keys sorted.

Trim (kind 3):

    int64   before: the log offset of a rules record; entries at smaller log offsets are forgotten
    int64   horizon, ms: coordinates of articles whose log time is at most this are forgotten

Decoding refuses what it does not know with ``CorruptError``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U32, U64
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    MAX_ROWS,
    SIGNATURE_BYTES,
    TABLE_COUNTS,
    TABLE_MARGIN_BYTES,
    Coordinates,
    Status,
)
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError

FORMAT_VERSION = 2

_HEAD = struct.Struct("<BB")
_BATCH = struct.Struct("<16siIBH")
_TRIM = struct.Struct("<qq")

_KIND_BATCH = 1
_KIND_RULES = 2
_KIND_TRIM = 3
_UTF8_MASK, _UTF8_INSIDE = 0xC0, 0x80  # a byte within a character of UTF-8 begins with the bits 10


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Entries of one source partition, as columns of length n.

    ``offsets`` int64, ``checksums`` uint64, ``statuses`` uint8, ``groups`` uint64,
    ``signatures`` uint8 of shape (n, 32), ``margins`` uint8 of shape (n, 8 x tables).
    """

    topic_id: bytes
    topic: str
    partition: int
    offsets: I64
    checksums: U64
    statuses: U8
    groups: U64
    signatures: U8
    margins: U8
    id_ends: U32
    id_bytes: bytes
    reason_ends: U32
    reason_bytes: bytes

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.offsets)

    def id(self, row: int) -> str:
        """Article id of one entry."""
        return _text_at(self.id_ends, self.id_bytes, row)

    def reason(self, row: int) -> str:
        """Reason of one rejected entry; empty for others."""
        return _text_at(self.reason_ends, self.reason_bytes, row)

    def coordinates(self, row: int) -> Coordinates:
        """Coordinates of one entry."""
        return Coordinates(self.topic_id, self.partition, int(self.offsets[row]))

    @property
    def tables(self) -> int:
        """Tables of the scheme: as many as there are margins for."""
        return int(self.margins.shape[1]) // TABLE_MARGIN_BYTES

    @property
    def fingerprints(self) -> U64:
        """First 64 bits of each signature; bit 0 is the highest bit of the integer."""
        head = np.ascontiguousarray(self.signatures[:, : FINGERPRINT_BITS // 8])
        return head.view(">u8").reshape(-1).astype(np.uint64)

    def rows(self, keep: slice) -> Batch:
        """Part of the batch, as a batch of its own."""
        start, stop, _ = keep.indices(len(self))
        id_from = int(self.id_ends[start - 1]) if start else 0
        reason_from = int(self.reason_ends[start - 1]) if start else 0
        return Batch(
            self.topic_id,
            self.topic,
            self.partition,
            self.offsets[start:stop],
            self.checksums[start:stop],
            self.statuses[start:stop],
            self.groups[start:stop],
            self.signatures[start:stop],
            self.margins[start:stop],
            self.id_ends[start:stop] - np.uint32(id_from),
            self.id_bytes[id_from : int(self.id_ends[stop - 1])],
            self.reason_ends[start:stop] - np.uint32(reason_from),
            self.reason_bytes[reason_from : int(self.reason_ends[stop - 1])],
        )


@dataclass(frozen=True, slots=True)
class Trim:
    """What is forgotten from this record's log position on."""

    before: int
    horizon: int


Payload = Batch | Rules | Trim


class LogRecord(NamedTuple):
    """One record of the log as read.

    ``time`` is the log time in ms: one number, or without Kafka an int64 array with
    one for each entry of a batch. ``raw`` is the value as it stands in the log.
    """

    offset: int
    time: int | I64
    payload: Payload
    raw: bytes


def make_batch(  # noqa: PLR0913 - one argument for each column of the drawing above
    *,
    topic_id: bytes,
    topic: str,
    partition: int,
    offsets: Sequence[int] | I64,
    checksums: Sequence[int] | U64,
    statuses: Sequence[int] | U8,
    groups: Sequence[int] | U64,
    signatures: U8,
    margins: U8,
    ids: Sequence[str],
    reasons: Sequence[str],
) -> Batch:
    """Build a batch from columns; ``ids`` and ``reasons`` have one text for each entry."""
    id_ends, id_bytes = _join_texts(ids)
    reason_ends, reason_bytes = _join_texts(reasons)
    return Batch(
        topic_id,
        topic,
        partition,
        np.asarray(offsets, np.int64),
        np.asarray(checksums, np.uint64),
        np.asarray(statuses, np.uint8),
        np.asarray(groups, np.uint64),
        signatures,
        margins,
        id_ends,
        id_bytes,
        reason_ends,
        reason_bytes,
    )


def encode(payload: Payload) -> bytes:
    """Bytes of a record value."""
    if isinstance(payload, Batch):
        return _HEAD.pack(FORMAT_VERSION, _KIND_BATCH) + _encode_batch(payload)
    if isinstance(payload, Rules):
        return _HEAD.pack(FORMAT_VERSION, _KIND_RULES) + payload.to_json()
    return _HEAD.pack(FORMAT_VERSION, _KIND_TRIM) + _TRIM.pack(payload.before, payload.horizon)


def decode(raw: bytes) -> Payload:
    """Read a record value.

    Raises:
        CorruptError: the bytes are cut short, of another version or of an unknown kind.
    """
    if len(raw) < _HEAD.size:
        msg = f"log record of {len(raw)} bytes: too short for a version and a kind"
        raise CorruptError(msg)
    version, kind = _HEAD.unpack_from(raw)
    if version != FORMAT_VERSION:
        msg = (
            f"log record of format {version}, and this program reads format {FORMAT_VERSION}: go on with the release "
            "that wrote this log, or begin a new log with another --group"
        )
        raise CorruptError(msg)
    if kind == _KIND_BATCH:
        return _decode_batch(raw, _HEAD.size)
    if kind == _KIND_RULES:
        return Rules.from_json(raw[_HEAD.size :])
    if kind == _KIND_TRIM and len(raw) == _HEAD.size + _TRIM.size:
        return Trim(*_TRIM.unpack_from(raw, _HEAD.size))
    msg = f"log record of unknown kind {kind} and length {len(raw)}"
    raise CorruptError(msg)


def _encode_batch(batch: Batch) -> bytes:
    name = batch.topic.encode()
    return b"".join(
        (
            _BATCH.pack(batch.topic_id, batch.partition, len(batch), batch.tables, len(name)),
            name,
            batch.offsets.astype("<i8").tobytes(),
            batch.checksums.astype("<u8").tobytes(),
            batch.statuses.tobytes(),
            batch.groups.astype("<u8").tobytes(),
            batch.signatures.tobytes(),
            batch.margins.tobytes(),
            batch.id_ends.astype("<u4").tobytes(),
            batch.reason_ends.astype("<u4").tobytes(),
            batch.id_bytes,
            batch.reason_bytes,
        )
    )


def _decode_batch(raw: bytes, start: int) -> Batch:
    reader = _Reader(raw, start)
    topic_id, partition, n, tables, name_length = _BATCH.unpack(reader.take(_BATCH.size))
    if not 1 <= n <= MAX_ROWS:
        msg = f"log batch of {n} entries: must be 1 to {MAX_ROWS}"
        raise CorruptError(msg)
    if tables not in TABLE_COUNTS:
        msg = f"log batch of a scheme of {tables} tables: must be one of {TABLE_COUNTS}"
        raise CorruptError(msg)
    topic = reader.text(name_length)
    offsets = reader.column(n, "<i8")
    checksums = reader.column(n, "<u8")
    statuses = reader.column(n, "u1")
    groups = reader.column(n, "<u8")
    signatures = reader.column(n * SIGNATURE_BYTES, "u1").reshape(n, SIGNATURE_BYTES)
    margins = reader.column(n * tables * TABLE_MARGIN_BYTES, "u1").reshape(n, -1)
    id_ends = reader.column(n, "<u4")
    reason_ends = reader.column(n, "<u4")
    id_bytes = reader.take(int(id_ends[-1]))
    reason_bytes = reader.take(int(reason_ends[-1]))
    reader.end()
    _refuse_nonsense(offsets, statuses, id_ends, reason_ends)
    _refuse_no_text("ids", id_ends, id_bytes)
    _refuse_no_text("reasons", reason_ends, reason_bytes)
    return Batch(
        topic_id,
        topic,
        partition,
        offsets,
        checksums,
        statuses,
        groups,
        signatures,
        margins,
        id_ends,
        id_bytes,
        reason_ends,
        reason_bytes,
    )


def _refuse_nonsense(
    offsets: I64,
    statuses: U8,
    id_ends: U32,
    reason_ends: U32,
) -> None:
    """Refuse columns of the right length that no writer made."""
    if statuses.max() > max(Status):
        msg = f"log batch with an entry of unknown status {statuses.max()}"
        raise CorruptError(msg)
    if (offsets[1:] <= offsets[:-1]).any():
        msg = "log batch whose offsets do not rise"
        raise CorruptError(msg)
    if any((ends[1:] < ends[:-1]).any() for ends in (id_ends, reason_ends)):
        msg = "log batch whose texts end before they begin"
        raise CorruptError(msg)


def _refuse_no_text(what: str, ends: U32, joined: bytes) -> None:
    """Refuse joined texts that are no UTF-8, or of which one ends within a character."""
    try:
        joined.decode()
    except UnicodeDecodeError as error:
        msg = f"log batch whose {what} are no UTF-8: {error}"
        raise CorruptError(msg) from error
    begins = np.frombuffer(joined, np.uint8)[ends[ends < len(joined)]]
    if ((begins & _UTF8_MASK) == _UTF8_INSIDE).any():
        msg = f"log batch with {what} that end within a character"
        raise CorruptError(msg)


class _Reader:
    """Takes one field after the other and notices when the bytes run out."""

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self._at = at

    def take(self, length: int) -> bytes:
        start = self._pass(length)
        return self._raw[start : self._at]

    def text(self, length: int) -> str:
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            msg = f"log batch whose topic name is no UTF-8: {error}"
            raise CorruptError(msg) from error

    def column(self, n: int, dtype: str) -> NDArray[Any]:
        kind = np.dtype(dtype)
        if kind.itemsize == 1:
            # The wide columns, signatures and margins, are not copied.
            return np.frombuffer(self._raw, kind, n, self._pass(n))
        return np.frombuffer(self.take(n * kind.itemsize), kind)

    def _pass(self, length: int) -> int:
        start, end = self._at, self._at + length
        if end > len(self._raw):
            msg = f"log batch of {len(self._raw)} bytes is cut short: a field ends at byte {end}"
            raise CorruptError(msg)
        self._at = end
        return start

    def end(self) -> None:
        if self._at != len(self._raw):
            msg = f"log batch has {len(self._raw) - self._at} bytes after its end"
            raise CorruptError(msg)


def _join_texts(texts: Sequence[str]) -> tuple[U32, bytes]:
    parts = [text.encode("utf-8", "backslashreplace") for text in texts]
    return np.cumsum([len(part) for part in parts], dtype=np.uint32), b"".join(parts)


def _text_at(ends: U32, joined: bytes, row: int) -> str:
    start = int(ends[row - 1]) if row else 0
    return joined[start : int(ends[row])].decode()
