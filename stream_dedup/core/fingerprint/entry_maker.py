"""Makes log entries from input records, in the native core (``native/src/entries.rs``).

A record that cannot be read becomes a rejected entry with its reason, and so does one at which the native core panics:
the records beside it have the entries that they have without it. No record is dropped, and the rows of the columns
are in the order of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import xxhash

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.model import Widths
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawLines, RawRecord, key_id
from stream_dedup.core.text_column import Texts


class EntryMaker:
    """Makes log entries from records. Several threads may call it at the same time."""

    def __init__(self, settings: FingerprintSettings | None = None, fmt: InputFormat | None = None) -> None:
        """Load nothing yet: a user's words are loaded with the first records, or by the fingerprinter's ``warm``."""
        self.fingerprinter = Fingerprinter(settings)
        """What reads the texts."""
        self._format = fmt or InputFormat()

    def __call__(self, records: Sequence[RawRecord]) -> Columns:
        """Make the entries of these records; an entry depends on its own record alone.

        Raises:
            UserError: a file of words cannot be read. No record raises.
        """
        return self.fingerprinter.entries(records, self._format)

    def of_lines(self, lines: Sequence[bytes]) -> Columns:
        """Make the entries of ``RawLines``; raises as a call."""
        return self.fingerprinter.line_entries(cast("RawLines", lines), self._format)


def checksum(value: bytes | None) -> int:
    """Return XXH3-64 of a record's value; 0 for a tombstone."""
    return 0 if value is None else xxhash.xxh3_64_intdigest(value)


def rejected_columns(record: RawRecord, fmt: InputFormat, reason: str, widths: Widths) -> Columns:
    """Make a rejected entry for a record without reading its value, under a scheme of these widths."""
    return replace(
        Columns.blank(1, widths),
        checksums=np.array([checksum(record.value)], np.uint64),
        ids=Texts.of([key_id(record, fmt)]),
        reasons=Texts.of([reason]),
    )
