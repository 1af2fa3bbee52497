"""Which entries were withdrawn, and from which document number on each is hidden.

A withdrawal at a log offset hides the entries that it lists from every article logged after it, and from no other. The
document number that the next signed entry gets is therefore where the hiding begins: an article ends its past at its
own document number (``Articles.before``), and an entry is hidden from it if the hiding begins at or before that number.
Only the first withdrawal of an entry counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import MAX_ROWS, ROW_BITS, DocNumber, LogOffset
from stream_dedup.errors import CorruptError, RefusedError
from stream_dedup.index.layout import read_withdrawn, withdrawn_key, withdrawn_value
from stream_dedup.index.records import StoredRecords
from stream_dedup.index.store import Store, WriteBatch

_AFTER_ALL = b"H\xff"


class Withdrawn:
    """The withdrawn entries of an index that are not trimmed."""

    def __init__(self, store: Store) -> None:
        """Read them."""
        try:
            stored = [read_withdrawn(key, value) for key, value in store.scan(withdrawn_key(DocNumber(0)), _AFTER_ALL)]
        except CorruptError as error:
            raise store.corrupt(str(error)) from error
        self.entries: I64 = np.array(stored, np.int64).reshape(-1, 3)
        """By document number: the number, the one from which on it is hidden, the log offset of the withdrawal."""

    def __len__(self) -> int:
        """Return the number of withdrawn entries."""
        return len(self.entries)

    def added_by(self, doc_numbers: I64, hidden_from: DocNumber, log_offset: LogOffset) -> I64:
        """Return the entries that a withdrawal adds, as rows of ``entries``; those withdrawn before are not."""
        new = np.setdiff1d(doc_numbers, self.entries[:, 0])
        return np.stack((new, np.full_like(new, hidden_from), np.full_like(new, log_offset)), axis=1)

    def offset_of(self, doc_number: DocNumber) -> LogOffset | None:
        """Return the log offset of the withdrawal of an entry, None of one that was not withdrawn."""
        found = self.entries[self.entries[:, 0] == doc_number, 2]
        return LogOffset(int(found[0])) if len(found) else None

    def add(self, added: I64) -> None:
        """Add entries that were written."""
        both = np.concatenate((self.entries, added))
        self.entries = both[np.argsort(both[:, 0])]

    def not_before(self, first: DocNumber) -> I64:
        """Return the entries from a document number on."""
        return self.entries[self.entries[:, 0] >= first]

    def problems(self, first: DocNumber, after: DocNumber) -> Iterator[str]:
        """Yield the entries that an index of these document numbers cannot have."""
        for doc_number, hidden_from, _ in self.entries.tolist():
            if not first <= doc_number < hidden_from <= after:
                yield f"entry {doc_number} is hidden from {hidden_from} on: entries are {first} to before {after}"


def write_withdrawn(writes: WriteBatch, added: I64) -> None:
    """Add withdrawn entries to a batch of writes."""
    for doc_number, hidden_from, log_offset in added.tolist():
        writes.put(withdrawn_key(doc_number), withdrawn_value(hidden_from, log_offset))


def numbered_at(rows: StoredRecords, positions: I64, low_watermark: LogOffset, before: LogOffset) -> I64:
    """Return the document numbers of the entries at rising log positions, those of the log offsets given.

    A position has none where there is no original with a signature.
    """
    first, after = np.searchsorted(positions >> ROW_BITS, (low_watermark, before))
    positions = positions[first:after]
    offsets, begins = np.unique(positions >> ROW_BITS, return_index=True)
    ends = np.append(begins[1:], len(positions))
    found = [np.empty(0, np.int64)]
    for offset, begin, end in zip(offsets.tolist(), begins, ends, strict=False):
        try:
            record = rows.get(LogOffset(offset))
        except RefusedError:
            continue  # no batch, or one of copies only
        at = positions[begin:end] & (MAX_ROWS - 1)
        at = at[at < len(record.batch)]
        found.append(record.doc_numbers[at[record.numbered[at]]])
    return np.concatenate(found)
