"""Keys and values of the index: this file owns their bytes.

RocksDB checks every block's checksum when it is read; the folder's file ``current`` carries
the format version (see ``folder``). Integers in keys are big-endian, so that they sort;
in values little-endian. Kinds of keys differ in their first byte:

    M                                  state, JSON (``State``)
    E offset:8                         log record: its head, which is flags u8, entries u32, first number u32, then log
                                       time i64 (flag 1: one for every entry), with flag 2 a bit an entry, 1 =
                                       original; then its value, as it is in the log
    S topic_id:16 partition:4 first:8  source range: last i64, log offset i64, log time i64
    L topic_id:16 partition:4          offsets of a source partition below this are forgotten, i64 (not there before
                                       a trim says so)
    H number:8                         the entry of this document number was withdrawn: hidden from articles whose
                                       own number, or the next one if they have none, is at least this, i64; log
                                       offset of the withdrawal, i64
    I part:2 id_hash:8 number:4        log position of the entry of this document number, i64: under a scheme with
                                       deletes, which find the entries with an id
    U offset:8                         rules record that took force or restates, JSON
    W chunk:4                          rows from of_chunk * chunk to before the next chunk's (below)
    N                                  the rows after the last whole chunk
    T                                  numbers of the runs of the block tables, JSON: of each table the oldest first
    D run:4                            directory of a run (``native/src/postings/run.rs``)
    C run:4 chunk:4                    a chunk of a run (``native/src/postings/chunk.rs``)

Column family
    E and W have one each, and every run of a table has one for itself while it is written (``family_of``). Within
    one, keys are written in order, so files do not overlap and are never merged; and what is deleted leaves the disk
    with whole files. Everything else is small and has the default one.
Document number
    Each index numbers the signed originals of its log 0, 1, 2, ... in order of log position. Posting lists hold
    document numbers; the row of an entry holds what a verdict needs of it. Trims leave the numbers as they are.
Original
    An entry whose source offset no earlier log record covers. The others are copies: they have no number and no row.
Row
    the four words of the signature, scope hash, XXH3 of the article id's bytes, log position, log time: 64 bytes
    (``ROW``); then the sketch, as many bytes as the scheme says (``row_type``). A scheme never changes, so the rows of
    an index are of one size.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber, LogOffset, LogPosition, SourceOffset
from stream_dedup.errors import CorruptError

INDEX_FORMAT_VERSION = 10
REBUILD = (
    "run `stream-dedup index rebuild --index FOLDER`, for a worker's index with its --config: that is read from its "
    "log again; of one that `filter` or `Index` keeps, everything that can be read is saved"
)
"""The remedy for an index that is damaged."""

STATE, RUNS, LAST_ROWS = b"M", b"T", b"N"
DEFAULT_FAMILY = "default"
RUN_FAMILIES = 16
"""More than an index of four tables has runs. A run that shares its family is merged with the other one by RocksDB."""
_RUNS = tuple(f"run-{number:02}" for number in range(RUN_FAMILIES))
_ORDERED = {b"E": "records", b"W": "rows"}
ORDERED_FAMILIES = tuple(_ORDERED.values())
"""Column families of keys that are only ever written in order."""
FAMILIES = (DEFAULT_FAMILY, *ORDERED_FAMILIES, *_RUNS)
"""Every column family."""
ROW = np.dtype(
    [("signature", "<u8", (4,)), ("scope_hash", "<u8"), ("id_hash", "<u8"), ("position", "<i8"), ("time", "<i8")],
    align=True,
)
"""One row without a sketch, on disk and in memory (see the drawing); named columns of one array."""
_SKETCH_WORD = np.dtype("<u8")
MAX_DOC_NUMBERS = 1 << 32

SourceKey = tuple[bytes, int]
"""Topic id and partition."""
RowType = np.dtype[np.void]
RowArray = NDArray[np.void]
"""Rows: an array of a ``row_type``."""

_FLAG_TIMES = 1
_FLAG_COPIES = 2
_RECORD_HEAD = struct.Struct("<BII")
_SEGMENT = struct.Struct("<qqq")
_SEGMENT_KEY = struct.Struct(">c16sIQ")
_FORGOTTEN_KEY = struct.Struct(">c16sI")
_FORGOTTEN = struct.Struct("<q")
_WITHDRAWN = struct.Struct("<qq")
_ID_PART_BITS = 20
"""Document numbers of one part of the ids: a trim deletes whole parts, and a look-up reads each part that is left."""
_ID_KEY = struct.Struct(">cHQI")
_ID_POSITION = struct.Struct("<q")


@cache
def row_type(sketch_bytes: int) -> RowType:
    """Return the type of a row with a sketch of so many bytes, whole words."""
    words = (sketch_bytes // _SKETCH_WORD.itemsize,)
    return np.dtype([*ROW.descr, ("sketch", _SKETCH_WORD, words)]) if sketch_bytes else ROW


def family_of(key: bytes) -> str:
    """Column family of a key."""
    if key[:1] == b"C":
        return _RUNS[number_of(key) % RUN_FAMILIES]
    return _ORDERED.get(key[:1], DEFAULT_FAMILY)


def offset_key(family: bytes, offset: int) -> bytes:
    """Key of families E, H, U."""
    return family + offset.to_bytes(8, "big")


def offset_of(key: bytes) -> LogOffset:
    """Log offset, or document number, of a key of families E, H, U."""
    return LogOffset(int.from_bytes(key[1:9], "big"))


@dataclass(slots=True)
class State:
    """The applied position and what trims removed: one value, written with every record that is applied.

    ``start`` is the first log offset applied; everything before the log offset ``low_watermark`` is trimmed;
    ``last_void_trim`` is the log offset of the newest void trim, ``complete_trim`` that of the newest valid one that
    listed all that was forgotten there (-1 of none); ``horizon`` is the greatest of the valid trims, and ``newest`` the
    greatest log time of a batch, both in ms; ``articles`` counts the originals that are not trimmed, ``trimmed`` the
    others; ``next_doc_number`` is what the next signed original gets, ``first_doc_number`` that of the first one that
    is not trimmed; ``withdrawn`` counts the withdrawn entries that are not trimmed.
    """

    log_id: str | None = None
    next_offset: LogOffset = LogOffset(0)
    last_checksum: int | None = None
    """XXH3 of the value of the last record applied; None before the first."""
    start: LogOffset | None = None
    low_watermark: LogOffset = LogOffset(0)
    last_void_trim: LogOffset = LogOffset(-1)
    complete_trim: LogOffset = LogOffset(-1)
    horizon: int | None = None
    newest: int | None = None
    articles: int = 0
    trimmed: int = 0
    next_doc_number: DocNumber = DocNumber(0)
    first_doc_number: DocNumber = DocNumber(0)
    withdrawn: int = 0

    def encode(self) -> bytes:
        """Bytes of the value."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def decode(cls, raw: bytes) -> State:
        """Read the value; CorruptError where it has other fields: none is guessed."""
        fields = json.loads(raw)
        if fields.keys() != set(cls.__slots__):
            raise CorruptError(f"it has the fields {', '.join(sorted(fields))}")
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Head:
    """What the index knows of a log record beside its value: its log times, and which entries are originals.

    ``times`` is one number or one for each entry; ``originals`` is None where every entry is an original. ``first``
    is the document number of its first signed original, or the next document number if it has none.
    """

    entries: int
    times: int | I64
    originals: NDArray[np.bool_] | None = None
    first: DocNumber = DocNumber(0)

    @property
    def original_count(self) -> int:
        """Entries that are originals."""
        return self.entries if self.originals is None else int(self.originals.sum())

    @property
    def time(self) -> int:
        """The log time; the greatest one where each entry has its own."""
        return self.times if isinstance(self.times, int) else int(self.times.max())

    def time_of(self, row: int) -> int:
        """Log time of one row."""
        return self.times if isinstance(self.times, int) else int(self.times[row])

    def times_of(self, rows: I64) -> I64:
        """Log time of each row."""
        if isinstance(self.times, int):
            return np.full(len(rows), self.times, np.int64)
        return self.times[rows]

    def encode(self) -> bytes:
        """Bytes of the value."""
        flags = (0 if isinstance(self.times, int) else _FLAG_TIMES) | (0 if self.originals is None else _FLAG_COPIES)
        times = np.atleast_1d(np.asarray(self.times, "<i8")).tobytes()
        mask = b"" if self.originals is None else np.packbits(self.originals).tobytes()
        return _RECORD_HEAD.pack(flags, self.entries, self.first) + times + mask

    @classmethod
    def split(cls, raw: bytes) -> tuple[Head, bytes]:
        """Read the head of a stored record, and return what follows it; CorruptError where it is cut short."""
        flags, entries, first = _RECORD_HEAD.unpack_from(raw) if len(raw) >= _RECORD_HEAD.size else (0, 0, 0)
        times_end = _RECORD_HEAD.size + 8 * (entries if flags & _FLAG_TIMES else 1)
        end = times_end + ((entries + 7) // 8 if flags & _FLAG_COPIES else 0)
        if len(raw) < end:
            raise CorruptError(f"log record of {len(raw)} bytes is shorter than its head, which has {end}")
        times = np.frombuffer(raw[_RECORD_HEAD.size : times_end], "<i8")
        mask = None
        if flags & _FLAG_COPIES:
            mask = np.unpackbits(np.frombuffer(raw[times_end:end], np.uint8), count=entries).astype(bool)
        return cls(entries, times if flags & _FLAG_TIMES else int(times[0]), mask, first), raw[end:]


class Segment(NamedTuple):
    """The log record at ``log_offset`` covers offsets ``first`` to ``last`` of a source partition; its log time."""

    first: SourceOffset
    last: SourceOffset
    log_offset: LogOffset
    time: int

    def encode(self) -> bytes:
        """Bytes of the value."""
        return _SEGMENT.pack(*self[1:])


def segment_key(topic_id: bytes, partition: int, first: int) -> bytes:
    """Key of a source range."""
    return _SEGMENT_KEY.pack(b"S", topic_id, partition, first)


def read_segment(key: bytes, value: bytes) -> tuple[SourceKey, Segment]:
    """Source partition and source range."""
    _, topic_id, partition, first = _unpacked(_SEGMENT_KEY, key, "key of a source range")
    return (topic_id, partition), Segment(first, *_unpacked(_SEGMENT, value, "source range"))


def forgotten_key(topic_id: bytes, partition: int) -> bytes:
    """Key of what is forgotten of a source partition."""
    return _FORGOTTEN_KEY.pack(b"L", topic_id, partition)


def forgotten_value(before: SourceOffset) -> bytes:
    """Bytes of the value."""
    return _FORGOTTEN.pack(before)


def read_forgotten(key: bytes, value: bytes) -> tuple[SourceKey, SourceOffset]:
    """Source partition, and the offset below which everything is forgotten."""
    _, topic_id, partition = _unpacked(_FORGOTTEN_KEY, key, "key of forgotten offsets")
    return (topic_id, partition), SourceOffset(*_unpacked(_FORGOTTEN, value, "forgotten offsets"))


def withdrawn_value(hidden_from: DocNumber, log_offset: LogOffset) -> bytes:
    """Bytes of the value of a withdrawn entry."""
    return _WITHDRAWN.pack(hidden_from, log_offset)


def read_withdrawn(key: bytes, value: bytes) -> tuple[int, int, int]:
    """Document number of a withdrawn entry, the one from which on it is hidden, log offset of the withdrawal."""
    return offset_of(key), *_unpacked(_WITHDRAWN, value, "withdrawn entry")


def id_pair(id_hash: int, doc_number: int, position: int) -> tuple[bytes, bytes]:
    """Key and value of an entry by its id."""
    return _ID_KEY.pack(b"I", doc_number >> _ID_PART_BITS, id_hash, doc_number), _ID_POSITION.pack(position)


def read_id_pair(key: bytes, value: bytes) -> tuple[int, DocNumber, LogPosition]:
    """Hash of an id, document number and log position of an entry that has it."""
    _, part, id_hash, doc_number = _unpacked(_ID_KEY, key, "key of an id")
    if doc_number >> _ID_PART_BITS != part:
        raise CorruptError(f"key of an id of part {part} names entry {doc_number}")
    return id_hash, DocNumber(doc_number), LogPosition(*_unpacked(_ID_POSITION, value, "log position of an id"))


def id_ranges(id_hash: int, first: DocNumber, after: DocNumber) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first key, and the one behind the last, of an id in each part of these document numbers."""
    for part in range(first >> _ID_PART_BITS, (after - 1 >> _ID_PART_BITS) + 1):
        start = _ID_KEY.pack(b"I", part, id_hash, 0)
        yield start, _ID_KEY.pack(b"I", part, id_hash, MAX_DOC_NUMBERS - 1) + b"\0"


def id_parts_before(doc_number: DocNumber) -> tuple[bytes, bytes]:
    """Keys of the parts that end before a document number: the first one, and the one behind the last."""
    return b"I", _ID_KEY.pack(b"I", doc_number >> _ID_PART_BITS, 0, 0)


def _unpacked(form: struct.Struct, raw: bytes, what: str) -> tuple[Any, ...]:
    if len(raw) != form.size:
        raise CorruptError(f"{what} of {len(raw)} bytes cannot be read")
    return form.unpack(raw)


def chunk_key(chunk: int) -> bytes:
    """Key of a chunk of rows."""
    return b"W" + chunk.to_bytes(4, "big")


def directory_key(run: int) -> bytes:
    """Key of the directory of a run."""
    return b"D" + run.to_bytes(4, "big")


def list_chunk_key(run: int, chunk: int) -> bytes:
    """Key of a chunk of a run."""
    return b"C" + run.to_bytes(4, "big") + chunk.to_bytes(4, "big")


def number_of(key: bytes) -> int:
    """Return the number of the run, or of the chunk of rows, of a key of families C, D, W."""
    return int.from_bytes(key[1:5], "big")
