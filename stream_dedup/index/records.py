"""The stored log records: every record that has originals, its head and its value as it is in the log.

Recent records are kept decoded, up to RECENT_BYTES.

Entries that were withdrawn stay where they are. A withdrawal at a log offset hides the entries that it lists from every
article logged after it, and from no other. The document number that the next signed entry gets is therefore where the
hiding begins: an article ends its past at its own document number (``Articles.before``), and an entry is hidden from it
if the hiding begins at or before that number. Only the first withdrawal of an entry counts.

A delete, an entry without a text, does the same to all entries with its id that are before it. An index whose scheme
has deletes knows its entries by their ids (``EntryIds``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np
import xxhash

from stream_dedup.core.arrays import I64, U64, Bools
from stream_dedup.core.columns import Texts
from stream_dedup.core.entry import Batch, LogRecord, decode
from stream_dedup.core.model import (
    MAX_ROWS,
    ROW_BITS,
    DocNumber,
    LogOffset,
    LogPosition,
    Status,
    log_offset_of,
    row_of,
    signed,
)
from stream_dedup.core.probes import sketch_words, words
from stream_dedup.errors import RefusedError
from stream_dedup.index import layout
from stream_dedup.index.layout import Head, RowArray, row_type
from stream_dedup.index.store import Store, WriteBatch

RECENT_BYTES = 32 << 20
"""Bytes of log records kept decoded, for matches and for entries that are read soon after."""


@dataclass(frozen=True, eq=False)
class StoredRecord:
    """A stored log record, decoded."""

    offset: LogOffset
    batch: Batch
    head: Head
    raw: bytes

    @cached_property
    def numbered(self) -> Bools:
        """Which entries have a document number: the signed originals."""
        return _numbered([self.batch], [self.head.originals])

    @cached_property
    def doc_numbers(self) -> I64:
        """For each entry the document number that ends its past: its own, or the next one if it has none."""
        return self.head.first + np.cumsum(self.numbered) - self.numbered

    @property
    def record(self) -> LogRecord:
        """The log record as it was applied."""
        return LogRecord(self.offset, self.head.times, self.batch, self.raw)


def numbered_records(
    records: Sequence[tuple[LogRecord, Batch]], originals: Sequence[Bools | None], first: DocNumber
) -> list[StoredRecord]:
    """Return consecutive log batches with document numbers for their signed originals, from ``first`` on.

    ``originals`` names those of each batch (None: all its entries).
    """
    batches = [batch for _, batch in records]
    before = np.concatenate(([0], np.cumsum(_numbered(batches, originals))))
    starts = np.cumsum([0, *map(len, batches[:-1])])
    numbers = (first + before[starts]).tolist()
    return [
        StoredRecord(record.offset, batch, Head(len(batch), record.time, mask, number), record.raw)
        for (record, batch), mask, number in zip(records, originals, numbers, strict=True)
    ]


def table_rows(records: Sequence[StoredRecord]) -> RowArray:
    """Return the rows of the entries that have a document number, of one or more log records of one scheme."""
    batches = [record.batch for record in records]
    sizes = np.array([len(batch) for batch in batches])
    chosen = np.flatnonzero(_numbered(batches, [record.head.originals for record in records]))
    record_starts = np.repeat(np.cumsum(sizes) - sizes, sizes)[chosen]
    log_positions = np.repeat(np.array([record.offset << ROW_BITS for record in records]), sizes)[chosen]
    sketch_bytes = batches[0].widths.sketch_bytes
    whole = np.empty(len(chosen), row_type(sketch_bytes))
    whole["signature"] = words(np.concatenate([batch.signatures for batch in batches]))[chosen]
    whole["scope_hash"] = np.concatenate([batch.scope_hashes for batch in batches])[chosen]
    whole["id_hash"] = id_hashes(batches)[chosen]
    whole["position"] = log_positions + (chosen - record_starts)
    whole["time"] = _times(records, sizes)[chosen]
    if sketch_bytes:
        whole["sketch"] = sketch_words(np.concatenate([batch.sketches for batch in batches]))[chosen]
    return whole


def _times(records: Sequence[StoredRecord], sizes: I64) -> I64:
    """Return the log time of each entry of all records, one after the other; ``sizes`` has the entries of each."""
    times = [record.head.times for record in records]
    if all(isinstance(time, int) for time in times):
        return np.repeat(np.array(times, np.int64), sizes)
    return np.concatenate([np.broadcast_to(time, size) for time, size in zip(times, sizes.tolist(), strict=True)])


def _numbered(batches: Sequence[Batch], originals: Sequence[Bools | None]) -> Bools:
    """Return which entries of all batches, one after the other, are signed originals."""
    which = signed(np.concatenate([batch.statuses for batch in batches]))
    if any(mask is not None for mask in originals):
        masks = zip(batches, originals, strict=True)
        which &= np.concatenate([np.ones(len(batch), np.bool_) if mask is None else mask for batch, mask in masks])
    return which


def id_hashes(batches: Sequence[Batch]) -> U64:
    """Return the XXH3 of the bytes of the article id of each entry, of all batches one after the other."""
    texts = Texts.concat([batch.ids for batch in batches])
    ends, raw = texts.ends.tolist(), texts.joined
    hashes = [xxhash.xxh3_64_intdigest(raw[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return np.array(hashes, np.uint64)


def id_hash(text: str) -> int:
    """Return the XXH3 of the bytes of an article id."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def by_record(positions: I64) -> Iterator[tuple[LogOffset, I64, I64]]:
    """Yield each log offset that some log positions have, with the numbers of these positions and their rows."""
    offsets = positions >> ROW_BITS
    order = np.argsort(offsets, kind="stable")
    for numbers in np.split(order, np.flatnonzero(np.diff(offsets[order])) + 1):
        if len(numbers):  # of no positions there is one part, too
            yield LogOffset(offsets[numbers[0]].item()), numbers, positions[numbers] & (MAX_ROWS - 1)


class StoredRecords:
    """Stored log records by log offset."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: dict[LogOffset, StoredRecord] = {}
        self._recent_bytes = 0

    def write_record(self, batch: WriteBatch, row: StoredRecord) -> None:
        """Add a record to a batch of writes."""
        batch.put(layout.offset_key(b"E", row.offset), row.head.encode() + row.raw)

    def keep_decoded(self, row: StoredRecord) -> None:
        """Keep a decoded record; the first ones that were kept go when they are too many bytes.

        So records that were decoded together, which share memory (``entry.decode_batches``), go together.
        """
        self._recent[row.offset] = row
        self._recent_bytes += len(row.raw)
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._drop_decoded(next(iter(self._recent)))

    def drop_decoded_before(self, before: LogOffset) -> None:
        """Drop decoded records before a log offset."""
        for offset in [offset for offset in self._recent if offset < before]:
            self._drop_decoded(offset)

    def _drop_decoded(self, offset: LogOffset) -> None:
        self._recent_bytes -= len(self._recent.pop(offset).raw)

    def get(self, offset: LogOffset) -> StoredRecord:
        """Return one record; RefusedError where it is not stored."""
        row = self._recent.get(offset)
        if row is not None:
            return row
        (stored,) = self._store.get([layout.offset_key(b"E", offset)])
        if not stored:
            raise RefusedError(
                f"log record {offset} is not in the index: it was trimmed, repeats others, or was never applied"
            )
        row = self._decode(offset, stored)
        self.keep_decoded(row)
        return row

    def doc_numbers_at(self, positions: I64, first: LogOffset, before: LogOffset) -> I64:
        """Return the document numbers of the entries at rising log positions, those of the log offsets given.

        A position has none where there is no original with a signature.
        """
        here = slice(*np.searchsorted(positions >> ROW_BITS, (first, before)))
        found = [np.empty(0, np.int64)]
        for offset, _, rows in by_record(positions[here]):
            # Some of the offsets have no batch, or one of copies only.
            with contextlib.suppress(RefusedError):
                record = self.get(offset)
                there = rows[rows < len(record.batch)]
                found.append(record.doc_numbers[there[record.numbered[there]]])
        return np.concatenate(found)

    def last_offset(self) -> LogOffset:
        """Return the log offset of the last stored record, -1 of none."""
        last = self._store.last(layout.offset_key(b"E", 0), b"E\xff")
        return LogOffset(-1) if last is None else layout.offset_of(last[0])

    def scan(self, start: LogOffset) -> Iterator[StoredRecord]:
        """Yield records from a log offset on, in order, without keeping them."""
        for key, stored in self._store.scan(layout.offset_key(b"E", start), b"E\xff"):
            yield self._decode(layout.offset_of(key), stored)

    def _decode(self, offset: LogOffset, stored: bytes) -> StoredRecord:
        with self._store.decoding(f"log record {offset}"):
            head, raw = Head.split(stored)
            batch = decode(raw)
        if not isinstance(batch, Batch) or len(batch) != head.entries:
            reason = f"log record {offset} does not fit its head"
            raise self._store.corrupt(reason)
        return StoredRecord(offset, batch, head, raw)


class EntryIds:
    """The entries that have a document number by their ids, in an index whose scheme has deletes."""

    def __init__(self, store: Store, records: StoredRecords) -> None:
        self._store = store
        self._records = records

    def write(self, batch: WriteBatch, first: DocNumber, rows: RowArray) -> None:
        """Add the next entries, numbered from ``first`` on, to a batch of writes."""
        for number, (own, position) in enumerate(zip(rows["id_hash"].tolist(), rows["position"].tolist(), strict=True)):
            batch.put(*layout.id_pair(own, first + number, position))

    def with_id(self, text: str, first: DocNumber, after: DocNumber, withdrawn: Withdrawn) -> Iterator[DocNumber]:
        """Yield the written entries from ``first`` to before ``after`` that have an id: equal hashes are not enough.

        Those that are withdrawn are left out, unread: an id may be published and deleted again and again.
        """
        found: list[tuple[DocNumber, LogPosition]] = []
        for start, end in layout.id_ranges(id_hash(text), first, after):
            for pair in self._store.scan(start, end):
                with self._store.decoding("its ids"):
                    _, doc_number, position = layout.read_id_pair(*pair)
                if first <= doc_number < after:
                    found.append((doc_number, position))
        hidden = withdrawn.hold(np.array([doc_number for doc_number, _ in found], np.int64))
        for doc_number, position in compress(found, ~hidden):
            if self._records.get(log_offset_of(position)).batch.id(row_of(position)) == text:
                yield doc_number

    def all(self) -> Iterator[tuple[int, DocNumber, LogPosition]]:
        """Yield hash, document number and log position of everything that is written."""
        for pair in self._store.scan(b"I", b"J"):
            with self._store.decoding("its ids"):
                yield layout.read_id_pair(*pair)


def deletes_of(records: Sequence[StoredRecord]) -> Iterator[tuple[StoredRecord, int]]:
    """Yield the rows of the original deletes of log records."""
    for record in records:
        which = record.batch.statuses == Status.DELETE
        if record.head.originals is not None:
            which &= record.head.originals
        for row in np.flatnonzero(which).tolist():
            yield record, row


class Withdrawn:
    """The withdrawn entries of an index that are not trimmed."""

    def __init__(self, store: Store) -> None:
        """Read them."""
        pairs = list(store.scan(b"H", b"I"))
        with store.decoding("its withdrawn entries"):
            stored = [layout.read_withdrawn(*pair) for pair in pairs]
        self.entries: I64 = np.array(stored, np.int64).reshape(-1, 3)
        """By document number: the number, the one from which on it is hidden, the log offset of the withdrawal."""

    def added_by(self, found: Iterable[tuple[int, int, int]]) -> I64:
        """Return the entries that withdrawals add, as rows of ``entries``; those withdrawn before are not.

        ``found`` has such rows in the order of the log, and the first one of an entry counts.
        """
        first: dict[int, tuple[int, int, int]] = {}
        for row in found:
            first.setdefault(row[0], row)
        added = np.array(sorted(first.values()), np.int64).reshape(-1, 3)
        return added[~self.hold(added[:, 0])]

    def hold(self, doc_numbers: I64) -> Bools:
        """Return which of these entries are withdrawn."""
        known = self.entries[:, 0]
        at = np.searchsorted(known, doc_numbers)
        is_known = at < len(known)
        is_known[is_known] = known[at[is_known]] == doc_numbers[is_known]
        return is_known

    def write(self, batch: WriteBatch, added: I64) -> None:
        """Add entries to a batch of writes; call ``add`` once it is written."""
        for doc_number, hidden_from, log_offset in added.tolist():
            batch.put(layout.offset_key(b"H", doc_number), layout.withdrawn_value(hidden_from, log_offset))

    def add(self, added: I64) -> None:
        """Add entries that were written."""
        self.entries = np.insert(self.entries, np.searchsorted(self.entries[:, 0], added[:, 0]), added, axis=0)

    @property
    def hidden(self) -> I64:
        """What a search asks of the entries: the number, and the one from which on it is hidden."""
        return self.entries[:, :2]

    def offset_of(self, doc_number: DocNumber) -> LogOffset | None:
        """Return the log offset of the withdrawal of an entry, None of one that was not withdrawn."""
        found = self.entries[self.entries[:, 0] == doc_number, 2]
        return LogOffset(int(found[0])) if len(found) else None

    def problems(self, first: DocNumber, after: DocNumber) -> Iterator[str]:
        """Yield the entries that an index of these document numbers cannot have."""
        for doc_number, hidden_from, _ in self.entries.tolist():
            if not first <= doc_number < hidden_from <= after:
                yield f"entry {doc_number} is hidden from {hidden_from} on: entries are {first} to before {after}"
