"""From records as they came to the columns of log entries.

Owns the step from input to entry: decode, checksum, fingerprint. What cannot be read becomes a
rejected entry with its reason; no record is dropped, and the rows stand in the order of the
records. The columns travel between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.entry import Batch, make_batch
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.model import SIGNATURE_BYTES, TABLE_COUNTS, TABLE_MARGIN_BYTES, Status, group_of
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection, decode, key_id


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Entries of n records without their coordinates; see ``entry`` for what each column means."""

    checksums: U64
    statuses: U8
    groups: U64
    signatures: U8
    margins: U8
    ids: list[str]
    reasons: list[str]

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.ids)

    def rows(self, rows: slice) -> Columns:
        """These rows alone."""
        return Columns(
            self.checksums[rows],
            self.statuses[rows],
            self.groups[rows],
            self.signatures[rows],
            self.margins[rows],
            self.ids[rows],
            self.reasons[rows],
        )

    def batch(self, topic_id: bytes, topic: str, partition: int, offsets: Sequence[int] | I64) -> Batch:
        """The batch of these entries at their coordinates; one offset for each."""
        return make_batch(
            topic_id=topic_id,
            topic=topic,
            partition=partition,
            offsets=offsets,
            checksums=self.checksums,
            statuses=self.statuses,
            groups=self.groups,
            signatures=self.signatures,
            margins=self.margins,
            ids=self.ids,
            reasons=self.reasons,
        )

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """One after the other; of no parts, no entries."""
        parts = parts or [_blank(0, TABLE_COUNTS[0])]
        return cls(
            np.concatenate([part.checksums for part in parts]),
            np.concatenate([part.statuses for part in parts]),
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.signatures for part in parts]),
            np.concatenate([part.margins for part in parts]),
            [one for part in parts for one in part.ids],
            [one for part in parts for one in part.reasons],
        )


class EntryMaker:
    """Makes entries of records; not to be shared between threads."""

    def __init__(self, settings: FingerprintSettings | None = None, fmt: InputFormat | None = None) -> None:
        """Nothing is loaded before the first records, or ``warm``."""
        self._format = fmt or InputFormat()
        self._fingerprinter = Fingerprinter(settings)
        self._tables = self._fingerprinter.settings.tables

    def warm(self) -> None:
        """Load dictionary and tables now.

        Raises:
            UserError: a package or its data are missing or are not what the scheme says.
        """
        self._fingerprinter.warm()

    def __call__(self, records: Sequence[RawRecord]) -> Columns:
        """Entries of these records; the same for each whatever stands beside it.

        Raises:
            UserError: as ``warm``. No record raises.
        """
        decoded = [decode(record, self._format) for record in records]
        columns = _blank(len(records), self._tables)
        columns.checksums[:] = [checksum(record.value) for record in records]
        columns.ids[:] = [one.id for one in decoded]
        columns.reasons[:] = [one.reason if isinstance(one, Rejection) else "" for one in decoded]
        self._fingerprint(columns, decoded)
        return columns

    def _fingerprint(self, columns: Columns, decoded: Sequence[Article | Rejection]) -> None:
        """Fill in what only articles have; a blank row is rejected."""
        articles = {row: one for row, one in enumerate(decoded) if isinstance(one, Article)}
        rows = np.array(list(articles), np.intp)
        prints = self._fingerprinter.fingerprint([one.texts for one in articles.values()])
        columns.signatures[rows] = prints.signatures
        columns.margins[rows] = prints.margins
        columns.statuses[rows] = prints.statuses
        columns.groups[rows] = _groups(prints, [one.scope for one in articles.values()])


def _groups(prints: Fingerprints, scopes: Sequence[str | None]) -> U64:
    """Group of each; 0 without features."""
    groups = np.zeros(len(scopes), np.uint64)
    if scopes.count(None) == len(scopes):
        # The usual case: there are as many groups as kinds.
        for status in np.unique(prints.statuses[prints.featured]).tolist():
            groups[prints.statuses == status] = group_of(Status(status), None)
        return groups
    for row in np.flatnonzero(prints.featured).tolist():
        groups[row] = group_of(Status(int(prints.statuses[row])), scopes[row])
    return groups


def checksum(value: bytes | None) -> int:
    """XXH3-64 of a record's value; 0 of a tombstone."""
    return 0 if value is None else xxhash.xxh3_64_intdigest(value)


def rejected_columns(record: RawRecord, reason: str, tables: int = TABLE_COUNTS[0]) -> Columns:
    """One entry, under a scheme of so many tables, for a record that is rejected without a look at its value."""
    columns = _blank(1, tables)
    columns.checksums[0] = checksum(record.value)
    columns.ids[0] = key_id(record)
    columns.reasons[0] = reason
    return columns


def _blank(n: int, tables: int) -> Columns:
    """Rejected entries without id or reason."""
    return Columns(
        np.zeros(n, np.uint64),
        np.full(n, Status.REJECTED, np.uint8),
        np.zeros(n, np.uint64),
        np.zeros((n, SIGNATURE_BYTES), np.uint8),
        np.zeros((n, tables * TABLE_MARGIN_BYTES), np.uint8),
        [""] * n,
        [""] * n,
    )
