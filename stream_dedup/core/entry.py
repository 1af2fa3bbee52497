"""The log record: this file owns its bytes, and ``columns`` those of the columns in it.

The value of every record of the log topic ``<group>.fingerprints`` begins

    byte 0   format version (2)
    byte 1   kind: 1 batch, 2 rules, 3 trim

and continues by kind. All integers are little-endian. Columns follow one another
without padding; each holds one value for every entry, in order.

Batch (kind 1): records that one worker polled from one source partition. It covers every
offset from its first to its last. An offset between them without an entry has no
record for consumers: it is a transaction marker, for example.

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
    uint32 x n   end of each id in the joined ids
    uint32 x n   end of each reason in the joined reasons (empty unless rejected)
    joined ids, then joined reasons, in UTF-8

Rules (kind 2): UTF-8 JSON of ``Rules`` (see ``rules``), keys sorted.

Trim (kind 3):

    int64   before: the log offset of a rules record; entries at smaller log offsets are dropped
    int64   horizon, ms: coordinates of articles whose log time is at most this are dropped

Decoding raises ``CorruptError`` for bytes that this format does not allow.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.byte_reader import ByteReader
from stream_dedup.core.columns import Columns, decode_columns, encode_columns, names_of, stored_numbers
from stream_dedup.core.model import FINGERPRINT_BITS, MAX_ROWS, TABLE_COUNTS, Coordinates
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError

FORMAT_VERSION = 2

_HEAD = struct.Struct("<BB")
_BATCH = struct.Struct("<16siIBH")
_TRIM = struct.Struct("<qq")

_KIND_BATCH = 1
_KIND_RULES = 2
_KIND_TRIM = 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Batch(Columns):
    """Entries of one source partition, with their coordinates."""

    topic_id: bytes
    topic: str
    partition: int
    offsets: I64 = field(metadata=stored_numbers("<i8"))

    def id(self, row: int) -> str:
        """Return the article id of one entry."""
        return self.ids[row]

    def reason(self, row: int) -> str:
        """Return why an entry was rejected; empty if it was not."""
        return self.reasons[row]

    def coordinates(self, row: int) -> Coordinates:
        """Return the coordinates of one entry."""
        return Coordinates(self.topic_id, self.partition, int(self.offsets[row]))

    @property
    def fingerprints(self) -> U64:
        """The first 64 bits of each signature; bit 0 is the highest bit of the integer."""
        head = np.ascontiguousarray(self.signatures[:, : FINGERPRINT_BITS // 8])
        return head.view(">u8").reshape(-1).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Trim:
    """Drops the entries before ``before``, and the coordinates up to ``horizon``, from its log position on."""

    before: int
    horizon: int


Payload = Batch | Rules | Trim


class LogRecord(NamedTuple):
    """One record read from the log.

    ``time`` is the log time in ms: one number, or without Kafka an int64 array with
    one number for each entry of a batch. ``raw`` is the value as stored in the log.
    """

    offset: int
    time: int | I64
    payload: Payload
    raw: bytes


def make_batch(columns: Columns, topic_id: bytes, topic: str, partition: int, offsets: Sequence[int] | I64) -> Batch:
    """Give entries their coordinates: one offset for each, strictly rising."""
    return Batch(
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        offsets=np.asarray(offsets, np.int64),
        **{name: getattr(columns, name) for name in names_of(Columns)},
    )


def encode(payload: Payload) -> bytes:
    """Return the bytes of a record value."""
    if isinstance(payload, Batch):
        return _HEAD.pack(FORMAT_VERSION, _KIND_BATCH) + _encode_batch(payload)
    if isinstance(payload, Rules):
        return _HEAD.pack(FORMAT_VERSION, _KIND_RULES) + payload.to_json()
    return _HEAD.pack(FORMAT_VERSION, _KIND_TRIM) + _TRIM.pack(payload.before, payload.horizon)


def decode(raw: bytes) -> Payload:
    """Decode a record value.

    Raises:
        CorruptError: the bytes are cut short, damaged, of another version or of an unknown kind.
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
    head = _BATCH.pack(batch.topic_id, batch.partition, len(batch), batch.tables, len(name))
    return b"".join((head, name, batch.offsets.astype("<i8", copy=False).tobytes(), *encode_columns(batch)))


def _decode_batch(raw: bytes, start: int) -> Batch:
    reader = ByteReader(raw, start)
    topic_id, partition, n, tables, name_length = _BATCH.unpack(reader.take(_BATCH.size))
    if not 1 <= n <= MAX_ROWS:
        msg = f"log batch of {n} entries: must be 1 to {MAX_ROWS}"
        raise CorruptError(msg)
    if tables not in TABLE_COUNTS:
        msg = f"log batch of a scheme of {tables} tables: must be one of {TABLE_COUNTS}"
        raise CorruptError(msg)
    topic = reader.text(name_length)
    offsets = reader.column("<i8", (n,))
    columns = decode_columns(reader, n, tables)
    reader.end()
    if (offsets[1:] <= offsets[:-1]).any():
        msg = "log batch whose offsets do not rise"
        raise CorruptError(msg)
    return make_batch(columns, topic_id, topic, partition, offsets)
