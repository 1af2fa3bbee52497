"""Keys and values of the index: this file owns their bytes.

RocksDB checks every block's checksum when it is read; the folder's file ``current`` carries
the format version (see ``folder``). Integers in keys are big-endian, so that they sort;
in values little-endian. One column family holds families of keys by their first byte:

    M                                  state, JSON (applied position, log id, trims)
    E offset:8                         value of the log record, as it is in the log
    R offset:8                         its head: flags u8, entries u32, originals u32, first number u32, then log time
                                       i64 (flag 1: one for every entry), with flag 2 a bit an entry, 1 = original
    S topic_id:16 partition:4 first:8  source range: last i64, log offset i64, least and greatest log time i64
    L topic_id:16 partition:4          offsets of a source partition below this are forgotten, i64 (not there before
                                       the first trim of version 3)
    H number:8                         the entry of this document number was withdrawn: hidden from articles whose
                                       own number, or the next one if they have none, is at least this, i64; log
                                       offset of the withdrawal, i64
    U offset:8                         rules record that took force or restates, JSON
    W chunk:4                          rows ROW_CHUNK * chunk to before the next chunk's (below)
    P table:1 page:2                   tails of PAGE_BLOCKS neighbouring lists: how many entries each has, u16 x
                                       PAGE_BLOCKS, two bytes 0, then the entries, list by list, by document number
    C table:1 block:2 number:4         sealed piece of a list: exactly CHUNK_ENTRIES entries, older than the tail
    F shard:2                          entries before this number are stored, i64; then, if a list of the shard has
                                       sealed pieces, u32 x lists numbers of the first piece, u32 x lists after the last
    I position:8                          label of an article of a table index without a log, UTF-8

Document number
    Each index numbers the signed originals of its log 0, 1, 2, ... in order of log position. Posting lists hold
    document numbers; the row of an entry holds what a verdict needs of it. Trims leave the numbers as they are.
Original
    An entry whose source offset no earlier log record covers. The others are copies: they have no number and no row.
Row
    the four words of the signature, group, XXH3 of the article id's bytes, log position, log time: 64 bytes (``ROW``);
    then the sketch, as many bytes as the scheme says (``row_type``). A scheme never changes, so the rows of an index
    are of one size.
Entry of a list
    the three blocks of the key word beside the list's own, from the highest to the lowest, u16 each; number u32.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U16, U32, U64
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, DocNumber, LogOffset, SourceOffset
from stream_dedup.errors import CorruptError
from stream_dedup.index.settings import PAGE_BLOCKS, RANGES

INDEX_FORMAT_VERSION = 2

BLOCKS = 1 << BLOCK_BITS
SHARD_BLOCKS = BLOCKS // RANGES
SHARD_PAGES = SHARD_BLOCKS // PAGE_BLOCKS
HEADER_ENTRIES = 13
"""A page's counts take as many bytes as so many entries, so that every entry begins at a multiple of ENTRY_BYTES."""

STATE = b"M"
ENTRY_BYTES = 10
ROW = np.dtype(
    [("signature", "<u8", (4,)), ("group", "<u8"), ("id_hash", "<u8"), ("position", "<i8"), ("time", "<i8")], align=True
)
"""One row without a sketch, on disk and in memory (see the drawing); named columns of one array."""
ROW_BYTES = ROW.itemsize
SKETCH_WORD = np.dtype("<u8")
MAX_DOC_NUMBERS = 1 << 32

RowType = np.dtype[np.void]
RowArray = NDArray[np.void]
"""Rows: an array of a ``row_type``."""
Packed = U16
"""Stored entries, each as five u16: shape (n, 5)."""

_FLAG_TIMES = 1
_FLAG_COPIES = 2
_RECORD_HEAD = struct.Struct("<BIII")
_SEGMENT = struct.Struct("<qqqq")
_SEGMENT_KEY = struct.Struct(">c16sIQ")
_FORGOTTEN_KEY = struct.Struct(">c16sI")
_FORGOTTEN_BYTES = 8
_NUMBER_KEY = struct.Struct(">cQ")
_WITHDRAWN = struct.Struct("<qq")


@cache
def row_type(sketch_bytes: int) -> RowType:
    """Return the type of a row with a sketch of so many bytes, whole words."""
    words = (sketch_bytes // SKETCH_WORD.itemsize,)
    return np.dtype([*ROW.descr, ("sketch", SKETCH_WORD, words)]) if sketch_bytes else ROW


def offset_key(family: bytes, offset: int) -> bytes:
    """Key of families E, R, U (log offset) and I (log position)."""
    return family + offset.to_bytes(8, "big")


def offset_of(key: bytes) -> LogOffset:
    """Log offset of a key of families E, R, U."""
    return LogOffset(int.from_bytes(key[1:9], "big"))


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
    def time_range(self) -> tuple[int, int]:
        """Least and greatest log time."""
        if isinstance(self.times, int):
            return self.times, self.times
        return int(self.times.min()), int(self.times.max())

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
        return _RECORD_HEAD.pack(flags, self.entries, self.original_count, self.first) + times + mask

    @classmethod
    def decode(cls, raw: bytes) -> Head:
        """Read the value; CorruptError where its length does not fit."""
        flags, entries, _, first = _RECORD_HEAD.unpack_from(raw) if len(raw) >= _RECORD_HEAD.size else (0, 0, 0, 0)
        times_end = _RECORD_HEAD.size + 8 * (entries if flags & _FLAG_TIMES else 1)
        if len(raw) != times_end + ((entries + 7) // 8 if flags & _FLAG_COPIES else 0):
            msg = f"head of a log record has {len(raw)} bytes, which does not fit its {entries} entries"
            raise CorruptError(msg)
        times = np.frombuffer(raw, "<i8", offset=_RECORD_HEAD.size, count=(times_end - _RECORD_HEAD.size) // 8)
        mask = None
        if flags & _FLAG_COPIES:
            mask = np.unpackbits(np.frombuffer(raw, np.uint8, offset=times_end), count=entries).astype(bool)
        return cls(entries, times if flags & _FLAG_TIMES else int(times[0]), mask, first)


class Segment(NamedTuple):
    """The log record at ``log_offset`` covers offsets ``first`` to ``last`` of a source partition."""

    first: SourceOffset
    last: SourceOffset
    log_offset: LogOffset
    time_min: int
    time_max: int

    def encode(self) -> bytes:
        """Bytes of the value."""
        return _SEGMENT.pack(*self[1:])


def segment_key(topic_id: bytes, partition: int, first: int) -> bytes:
    """Key of a source range."""
    return _SEGMENT_KEY.pack(b"S", topic_id, partition, first)


def read_segment(key: bytes, value: bytes) -> tuple[bytes, int, Segment]:
    """Topic id, partition and source range."""
    try:
        _, topic_id, partition, first = _SEGMENT_KEY.unpack(key)
        return topic_id, partition, Segment(first, *_SEGMENT.unpack(value))
    except struct.error as error:
        msg = f"source range of {len(key)} and {len(value)} bytes cannot be read"
        raise CorruptError(msg) from error


def forgotten_key(topic_id: bytes, partition: int) -> bytes:
    """Key of what is forgotten of a source partition."""
    return _FORGOTTEN_KEY.pack(b"L", topic_id, partition)


def forgotten_value(before: SourceOffset) -> bytes:
    """Bytes of the value."""
    return before.to_bytes(_FORGOTTEN_BYTES, "little", signed=True)


def read_forgotten(key: bytes, value: bytes) -> tuple[tuple[bytes, int], SourceOffset]:
    """Topic id and partition, and the offset below which everything is forgotten."""
    if len(key) != _FORGOTTEN_KEY.size or len(value) != _FORGOTTEN_BYTES:
        msg = f"forgotten offsets of {len(key)} and {len(value)} bytes cannot be read"
        raise CorruptError(msg)
    _, topic_id, partition = _FORGOTTEN_KEY.unpack(key)
    return (topic_id, partition), SourceOffset(int.from_bytes(value, "little", signed=True))


def withdrawn_key(doc_number: DocNumber) -> bytes:
    """Key of a withdrawn entry."""
    return _NUMBER_KEY.pack(b"H", doc_number)


def withdrawn_value(hidden_from: DocNumber, log_offset: LogOffset) -> bytes:
    """Bytes of the value."""
    return _WITHDRAWN.pack(hidden_from, log_offset)


def read_withdrawn(key: bytes, value: bytes) -> tuple[int, int, int]:
    """Document number of a withdrawn entry, the one from which on it is hidden, log offset of the withdrawal."""
    try:
        _, doc_number = _NUMBER_KEY.unpack(key)
        return doc_number, *_WITHDRAWN.unpack(value)
    except struct.error as error:
        msg = f"withdrawn entry of {len(key)} and {len(value)} bytes cannot be read"
        raise CorruptError(msg) from error


def chunk_key(chunk: int) -> bytes:
    """Key of a chunk of rows."""
    return b"W" + chunk.to_bytes(4, "big")


def chunk_of(key: bytes) -> int:
    """Return the number of the chunk of such a key."""
    return int.from_bytes(key[1:5], "big")


def page_keys(table: int, pages: NDArray[np.integer]) -> list[bytes]:
    """Return the keys of these pages of one table."""
    keys = np.empty((len(pages), 4), np.uint8)
    keys[:, 0] = ord("P")
    keys[:, 1] = table
    keys[:, 2:] = pages.astype(">u2").view(np.uint8).reshape(-1, 2)
    whole: list[bytes] = keys.view("V4").ravel().tolist()
    return whole


def piece_key(table: int, block: int, number: int) -> bytes:
    """Key of one sealed piece."""
    return b"C" + bytes([table]) + block.to_bytes(2, "big") + number.to_bytes(4, "big")


def shard_key(shard: int) -> bytes:
    """Key of a shard's state."""
    return b"F" + shard.to_bytes(2, "big")


def pack_entries(table: int, keys: U64, doc_numbers: U32) -> Packed:
    """Entries of one table, shape (n, 5)."""
    packed = np.empty((len(keys), ENTRY_BYTES // 2), "<u2")
    blocks = keys.astype("<u8", copy=False).view("<u2").reshape(-1, BLOCKS_PER_WORD)
    for at, other in enumerate(_others(table)):
        packed[:, at] = blocks[:, other]
    packed[:, -2:] = doc_numbers.astype("<u4", copy=False).view("<u2").reshape(-1, 2)
    return packed


def unpack_entries(table: int, packed: Packed, blocks: U16) -> tuple[U64, U32]:
    """Return keys and document numbers of stored entries, each of the posting list of its block."""
    keys = np.empty((len(packed), BLOCKS_PER_WORD), "<u2")
    for at, other in enumerate(_others(table)):
        keys[:, other] = packed[:, at]
    keys[:, BLOCKS_PER_WORD - 1 - table % BLOCKS_PER_WORD] = blocks
    return keys.view("<u8").ravel().astype(np.uint64, copy=False), unpack_doc_numbers(packed)


def unpack_doc_numbers(packed: Packed) -> U32:
    """Document numbers alone."""
    return np.ascontiguousarray(packed[:, -2:]).view("<u4").ravel().astype(np.uint32, copy=False)


def _others(table: int) -> list[int]:
    """Return the indices of the other three blocks in a little-endian key word of u16, from the highest block on."""
    own = BLOCKS_PER_WORD - 1 - table % BLOCKS_PER_WORD
    return [at for at in range(BLOCKS_PER_WORD - 1, -1, -1) if at != own]


@dataclass(slots=True)
class Shard:
    """State of a shard: entries before ``stored_before`` are stored; numbers of the sealed pieces of its lists."""

    stored_before: DocNumber
    first: U32
    after: U32

    @classmethod
    def empty(cls) -> Shard:
        """Return the state of a shard without entries."""
        return cls(DocNumber(0), np.zeros(SHARD_BLOCKS, np.uint32), np.zeros(SHARD_BLOCKS, np.uint32))

    def encode(self) -> bytes:
        """Bytes of the value."""
        position = self.stored_before.to_bytes(8, "little", signed=True)
        if not self.after.any():
            return position
        return position + self.first.astype("<u4").tobytes() + self.after.astype("<u4").tobytes()

    @classmethod
    def decode(cls, raw: bytes) -> Shard:
        """Read the value."""
        shard = cls.empty()
        if len(raw) not in {8, 8 + 8 * SHARD_BLOCKS}:
            msg = f"state of a shard has {len(raw)} bytes"
            raise CorruptError(msg)
        shard.stored_before = DocNumber(int.from_bytes(raw[:8], "little", signed=True))
        if len(raw) > 8:  # noqa: PLR2004 - the log position's 8 bytes, drawn above
            numbers = np.frombuffer(raw, "<u4", offset=8)
            shard.first = numbers[:SHARD_BLOCKS].copy()
            shard.after = numbers[SHARD_BLOCKS:].copy()
        return shard
