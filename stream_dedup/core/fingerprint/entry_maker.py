"""Makes log entries from input records: decodes, computes the checksum, fingerprints.

A record that cannot be read becomes a rejected entry with its reason, and so does one at which the native core panics:
the records beside it have the entries that they have without it. No record is dropped, and the rows of the columns
are in the order of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xxhash

from stream_dedup.core.arrays import U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.model import Status, Widths, group_of
from stream_dedup.core.reasons import DEFECT
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection, decode, key_id
from stream_dedup.core.text_column import Texts

SENTENCE = "渡口的船今天早上开了。 The ferry left this morning."
"""Fingerprinted when everything is loaded: what the libraries do at their first call is done, or has crashed, then."""


class EntryMaker:
    """Makes log entries from records. Use one instance per thread."""

    def __init__(self, settings: FingerprintSettings | None = None, fmt: InputFormat | None = None) -> None:
        """Load nothing yet: dictionaries are loaded by ``warm`` or with the first records."""
        self._format = fmt or InputFormat()
        self._fingerprinter = Fingerprinter(settings)
        self._widths = self._fingerprinter.settings.widths

    def warm(self) -> None:
        """Load dictionaries and tables now, and fingerprint a sentence.

        Raises:
            UserError: a package or its data are missing or differ from what the scheme names.
        """
        self._fingerprinter.warm()
        fields = len(self._fingerprinter.settings.html)
        self._fingerprinter.fingerprint([[SENTENCE] * fields])

    def __call__(self, records: Sequence[RawRecord]) -> Columns:
        """Make the entries of these records; an entry depends on its own record alone.

        Raises:
            UserError: as ``warm``. No record raises.
        """
        decoded = [decode(record, self._format) for record in records]
        blank = Columns.blank(len(records), self._widths)
        self._fingerprint(blank, decoded)
        reasons = [one.reason if isinstance(one, Rejection) else "" for one in decoded]
        for row in np.flatnonzero(blank.statuses == Status.REJECTED).tolist():
            # An article is rejected where it had no fingerprint.
            reasons[row] = reasons[row] or DEFECT
        return replace(
            blank,
            checksums=np.array([checksum(record.value) for record in records], np.uint64),
            ids=Texts.of(one.id for one in decoded),
            reasons=Texts.of(reasons),
        )

    def _fingerprint(self, columns: Columns, decoded: Sequence[Article | Rejection]) -> None:
        """Fill in the rows of articles; a blank row is a rejected record."""
        articles = {row: one for row, one in enumerate(decoded) if isinstance(one, Article)}
        rows = np.array(list(articles), np.intp)
        prints = self._fingerprinter.read([one.texts for one in articles.values()])
        columns.signatures[rows] = prints.signatures
        columns.margins[rows] = prints.margins
        columns.sketches[rows] = prints.sketches
        columns.statuses[rows] = prints.statuses
        columns.groups[rows] = _groups(prints, [one.scope for one in articles.values()])


def _groups(prints: Fingerprints, scopes: Sequence[str | None]) -> U64:
    """Return the group of each text; 0 for a text without features."""
    groups = np.zeros(len(scopes), np.uint64)
    if scopes.count(None) == len(scopes):
        # The usual case: one group for each kind of text.
        for status in np.unique(prints.statuses[prints.featured]).tolist():
            groups[prints.statuses == status] = group_of(Status(status), None)
        return groups
    for row in np.flatnonzero(prints.featured).tolist():
        groups[row] = group_of(Status(int(prints.statuses[row])), scopes[row])
    return groups


def checksum(value: bytes | None) -> int:
    """Return XXH3-64 of a record's value; 0 for a tombstone."""
    return 0 if value is None else xxhash.xxh3_64_intdigest(value)


def rejected_columns(record: RawRecord, reason: str, widths: Widths) -> Columns:
    """Make a rejected entry for a record without reading its value, under a scheme of these widths."""
    return replace(
        Columns.blank(1, widths),
        checksums=np.array([checksum(record.value)], np.uint64),
        ids=Texts.of([key_id(record)]),
        reasons=Texts.of([reason]),
    )
