"""The log record: this file owns its bytes, and ``columns`` those of the columns in it.

The value of every record of the log topic ``<group>.fingerprints`` begins

    byte 0   format version: 6
    byte 1   kind: 1 batch, 2 rules, 3 trim, 4 withdrawal, 5 seeded batch

and continues by kind. All integers are little-endian.

Batch (kind 1): records that one worker polled from one source partition. It covers every
offset from its first to its last. An offset between them without an entry has no
record for consumers: it is a transaction marker, for example.

    int64      read_to, the log offset before which its author had read every record of the log; -1 of an author that
               does not say
    16 bytes   topic id
    int32      partition
    uint32     n, number of entries, 1 to MAX_ROWS
    uint16     length of the topic name, then the name in UTF-8
    the columns of the n entries, as drawn in ``columns``; offsets strictly rise

From the log position of an entry of the status ``DELETE`` on, the entries with its id that are before it, of every
source partition, match nobody.

Rules (kind 2): UTF-8 JSON of ``Rules`` (see ``rules``), keys sorted, without spaces.

Trim (kind 3):

    int64    before: the log offset of a rules record; entries at smaller log offsets are dropped
    int64    horizon, ms: coordinates of articles whose log time is at most this are dropped
    int64    revision of the rules that it was computed under
    int64    read_to, as in a batch
    uint32   n, number of source partitions, then for each of them, by rising topic id and partition:
    16 bytes   topic id
    int32      partition
    int64      forgotten before: source offsets below were logged once and are forgotten, 1 or more

A trim lists every source partition with forgotten offsets, so that the log can be cut before it.

Withdrawal (kind 4): from its log offset on the entries at these log positions match nobody. A position where
the log holds no article before the withdrawal has no effect: one that is trimmed, or that of a copy.

    uint32     n, number of log positions, 1 to MAX_WITHDRAWN
    int64 x n  log positions (``model.log_position``), strictly rising

Seeded batch (kind 5): the bytes of a batch, with read_to. Its articles were published before they were logged: they
count as every other article does, and no worker writes an output for them.

Decoding raises ``CorruptError`` for bytes that this format does not allow. The native core reads batches, and joins the
columns of many: to make arrays for one record takes as long as to apply some dozens of articles, however few it has,
and busy workers append records of a few.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, starmap
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stream_dedup import _native
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import COLUMNS, LOG_COLUMNS, Columns, StoredColumn, Texts, encode_columns
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    MAX_ROWS,
    Coordinates,
    LogOffset,
    LogPosition,
    SourceOffset,
    Status,
)
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, DefectError

LOG_FORMAT_VERSION = 6
MAX_WITHDRAWN = 1 << 16
"""Most log positions of one withdrawal: 512 KiB, half of what Kafka takes for one record by default."""

_HEAD = struct.Struct("<BB")
_READ_TO = struct.Struct("<q")
_BATCH = struct.Struct("<q16siIH")
_BATCH_HEAD = _HEAD.size + _BATCH.size
"""Bytes of a batch before the name of its topic."""
_TOPIC_ID = slice(_HEAD.size + _READ_TO.size, _HEAD.size + _READ_TO.size + 16)
"""The topic id in these bytes."""
_TRIM = struct.Struct("<qqqqI")
_FORGOTTEN = struct.Struct("<16siq")
_WITHDRAWN = struct.Struct("<I")

_NOT_READ = -1
"""``read_to`` of an author that does not say."""
_KIND_BATCH = 1
_KIND_RULES = 2
_KIND_TRIM = 3
_KIND_WITHDRAWAL = 4
_KIND_SEEDED = 5
_BATCHES = (_KIND_BATCH, _KIND_SEEDED)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Batch(Columns):
    """Entries of one source partition, with their coordinates."""

    stored: ClassVar[Mapping[str, StoredColumn]] = LOG_COLUMNS

    topic_id: bytes
    topic: str
    partition: int
    offsets: I64
    read_to: LogOffset | None = None
    """The log offset before which its author had read the log; None of one that does not say."""
    seeded: bool = False
    """Whether its articles were published before they were logged, and leave no output."""

    @property
    def source(self) -> tuple[bytes, int]:
        """The source partition: topic id and number."""
        return self.topic_id, self.partition

    def id(self, row: int) -> str:
        """Return the article id of one entry."""
        return self.ids[row]

    def reason(self, row: int) -> str:
        """Return why an entry was rejected; empty if it was not."""
        return self.reasons[row]

    def offset(self, row: int) -> SourceOffset:
        """Return the source offset of one entry."""
        return SourceOffset(int(self.offsets[row]))

    def coordinates(self, row: int) -> Coordinates:
        """Return the coordinates of one entry."""
        return Coordinates(self.topic_id, self.partition, self.offset(row))

    @property
    def fingerprints(self) -> U64:
        """The first 64 bits of each signature; bit 0 is the highest bit of the integer."""
        head = np.ascontiguousarray(self.signatures[:, : FINGERPRINT_BITS // 8])
        return head.view(">u8").reshape(-1).astype(np.uint64)


class Forgotten(NamedTuple):
    """Source offsets of a partition below ``before`` were logged once and are forgotten."""

    topic_id: bytes
    partition: int
    before: SourceOffset


@dataclass(frozen=True, slots=True)
class Basis:
    """What a trim was computed from, and what it therefore forgets."""

    revision: int
    """Revision of the rules in force."""
    read_to: LogOffset
    """The log offset before which its author had read the log."""
    forgotten: tuple[Forgotten, ...]
    """Every source partition with forgotten offsets, by topic id and partition."""

    @property
    def forgotten_before(self) -> dict[tuple[bytes, int], SourceOffset]:
        """Of each source partition (topic id and number) the source offset below which everything is forgotten."""
        return {(one.topic_id, one.partition): one.before for one in self.forgotten}


@dataclass(frozen=True, slots=True)
class Trim:
    """Drops the entries before ``before``, and the coordinates up to ``horizon``, from its log position on."""

    before: LogOffset
    horizon: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """From its log offset on the entries at these log positions, strictly rising, match nobody."""

    positions: tuple[LogPosition, ...]


Payload = Batch | Rules | Trim | Withdrawal


class LogRecord(NamedTuple):
    """One record read from the log.

    ``time`` is the log time in ms: one number, or without Kafka an int64 array with
    one number for each entry of a batch. ``raw`` is the value as stored in the log.
    """

    offset: LogOffset
    time: int | I64
    payload: Payload
    raw: bytes


def make_batch(
    columns: Columns,
    topic_id: bytes,
    topic: str,
    partition: int,
    offsets: Sequence[int] | I64,
    *,
    read_to: LogOffset | None = None,
) -> Batch:
    """Give entries their coordinates: one offset for each, strictly rising.

    ``read_to`` is the log offset before which the caller has read every record of the log.
    """
    return Batch(
        topic_id=topic_id,
        topic=topic,
        partition=partition,
        offsets=np.asarray(offsets, np.int64),
        read_to=read_to,
        **{name: getattr(columns, name) for name in COLUMNS},
    )


def encode(payload: Payload) -> bytes:
    """Return the bytes of a record value."""
    if isinstance(payload, Rules):
        return _head(_KIND_RULES) + payload.to_json()
    if isinstance(payload, Withdrawal):
        positions = np.array(payload.positions, "<i8")
        return _head(_KIND_WITHDRAWAL) + _WITHDRAWN.pack(len(positions)) + positions.tobytes()
    if isinstance(payload, Batch):
        return _head(_KIND_SEEDED if payload.seeded else _KIND_BATCH) + _encode_batch(payload)
    return _head(_KIND_TRIM) + _encode_trim(payload)


def decode(raw: bytes) -> Payload:
    """Decode a record value.

    Raises:
        CorruptError: the bytes are cut short, damaged, of another version or of an unknown kind.
    """
    if len(raw) < _HEAD.size:
        raise CorruptError(f"log record of {len(raw)} bytes: too short for a version and a kind")
    version, kind = _HEAD.unpack_from(raw)
    if version != LOG_FORMAT_VERSION:
        raise CorruptError(f"log record of format {version}, and this program reads format {LOG_FORMAT_VERSION}")
    if kind in _BATCHES:
        (batch,) = decode_batches([raw])
        if batch is None:
            raise CorruptError(f"log batch of {len(raw)} bytes is cut short or damaged")
        return batch
    if kind not in _DECODERS:
        raise CorruptError(f"log record of unknown kind {kind}")
    try:
        return _DECODERS[kind](raw[_HEAD.size :])
    except struct.error as error:
        raise CorruptError(f"log record of {len(raw)} bytes is cut short or damaged: {error}") from error


def decode_batches(raws: Sequence[bytes]) -> list[Batch | None]:
    """Return the batch of each record value, None of a value that ``decode`` is to decode.

    That is every value that is another kind of record, has columns of other widths than the first batch, or is damaged.
    The batches of one call share their memory, which is free when the last of them is.
    """
    found: list[Batch | None] = [None] * len(raws)
    joined = _native.join_batches(raws, **_batch_form())
    if not joined.batches:
        return found
    columns = _joined_columns(joined)
    row = id_at = reason_at = 0
    for value, seeded, read_to, partition, entries, name_bytes, is_ascii, id_bytes, reason_bytes in joined.batches:
        rows = slice(row, row + entries)
        made = {name: column[rows] for name, column in columns.items()}
        made["ids"] = Texts(made["ids"], joined.ids[id_at : id_at + id_bytes])
        made["reasons"] = Texts(made["reasons"], joined.reasons[reason_at : reason_at + reason_bytes])
        row, id_at, reason_at = rows.stop, id_at + id_bytes, reason_at + reason_bytes
        raw = raws[value]
        try:
            if not is_ascii:
                _ = [*made["ids"], *made["reasons"]]
            topic = raw[_BATCH_HEAD : _BATCH_HEAD + name_bytes].decode()
        except UnicodeDecodeError:
            continue
        known = None if read_to == _NOT_READ else LogOffset(read_to)
        found[value] = Batch(
            topic_id=raw[_TOPIC_ID], topic=topic, partition=partition, read_to=known, seeded=seeded, **made
        )
    return found


@contextmanager
def naming_panics(name: Callable[[int | None], str]) -> Iterator[None]:
    """Raise a panic of the native core, which is a defect of it, as DefectError that names the record.

    The native core catches the panic, so the process goes on; what it was working on refuses every further call.

    Args:
        name: returns what the panic came at: of a search given the number of the article, else given None.
    """
    try:
        yield
    except _native.PanicError as panic:
        raise DefectError(
            f"{name(panic.article)}: {panic}; nothing was written after it, and what is stored is intact: report this "
            "message, and start again with another release"
        ) from panic


def _head(kind: int) -> bytes:
    return _HEAD.pack(LOG_FORMAT_VERSION, kind)


def _encode_batch(batch: Batch) -> bytes:
    if batch.seeded and batch.read_to is None:
        raise ValueError("a seeded batch says up to which log offset its author had read")
    name = batch.topic.encode()
    read_to = _NOT_READ if batch.read_to is None else batch.read_to
    head = _BATCH.pack(read_to, batch.topic_id, batch.partition, len(batch), len(name))
    return b"".join((head, name, *encode_columns(batch)))


def _encode_trim(trim: Trim) -> bytes:
    basis = trim.basis
    head = _TRIM.pack(trim.before, trim.horizon, basis.revision, basis.read_to, len(basis.forgotten))
    return head + b"".join(_FORGOTTEN.pack(*forgotten) for forgotten in basis.forgotten)


def _decode_trim(body: bytes) -> Trim:
    before, horizon, revision, read_to, n = _TRIM.unpack_from(body)
    forgotten = tuple(starmap(Forgotten, _FORGOTTEN.iter_unpack(body[_TRIM.size :])))
    sources = [one[:2] for one in forgotten]
    if len(forgotten) != n:
        raise CorruptError(f"log trim of {n} source partitions that has {len(forgotten)}")
    if any(one.before < 1 or one.partition < 0 for one in forgotten) or any(
        later <= earlier for earlier, later in pairwise(sources)
    ):
        raise CorruptError("log trim whose source partitions do not rise, or with one of which nothing is forgotten")
    if read_to < 0:
        raise CorruptError(f"log trim whose author had read the log up to {read_to}")
    return Trim(before, horizon, Basis(revision, LogOffset(read_to), forgotten))


def _decode_withdrawal(body: bytes) -> Withdrawal:
    (n,) = _WITHDRAWN.unpack_from(body)
    if not 1 <= n <= MAX_WITHDRAWN:
        raise CorruptError(f"log withdrawal of {n} log positions: must be 1 to {MAX_WITHDRAWN}")
    _, *positions = struct.unpack(f"<I{n}q", body)
    if positions[0] < 0 or any(later <= earlier for earlier, later in pairwise(positions)):
        raise CorruptError("log withdrawal whose log positions do not rise from 0 or more")
    return Withdrawal(tuple(map(LogPosition, positions)))


def _joined_columns(joined: _native.JoinedBatches) -> dict[str, Any]:
    """Return the numbers of each column of all plain batches, one after the other; the memory is the same."""
    entries = sum(facts[4] for facts in joined.batches)
    raw = np.frombuffer(joined.columns, np.uint8)
    columns = {}
    for name, one in LOG_COLUMNS.items():
        begin, width = joined.begins[one.kind], joined.widths[one.kind]
        column = raw[begin : begin + entries * width]
        columns[name] = column.view(one.dtype).reshape(one.shape(entries, width))
    return columns


@cache
def _batch_form() -> dict[str, Any]:
    """Return what the formats say of a plain batch, as the native core takes it."""
    allowed: list[list[int]] = [[] for _ in range(max(one.kind for one in LOG_COLUMNS.values()) + 1)]
    for one in LOG_COLUMNS.values():
        allowed[one.kind] = list(one.widths)
    return {
        "version": LOG_FORMAT_VERSION,
        "kinds": _BATCHES,
        "widths": allowed,
        "special": tuple(LOG_COLUMNS[name].kind for name in ("offsets", "statuses", "ids", "reasons")),
        "last_status": int(max(Status)),
        "most_entries": MAX_ROWS,
    }


_DECODERS: dict[int, Callable[[bytes], Payload]] = {
    _KIND_RULES: Rules.from_json,
    _KIND_TRIM: _decode_trim,
    _KIND_WITHDRAWAL: _decode_withdrawal,
}
