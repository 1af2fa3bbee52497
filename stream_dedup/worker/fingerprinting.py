"""Log entries of source records: those that the core makes of them, or rejected ones (steps 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import rejected_columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.kafka.record import too_large_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stream_dedup.core.model import Widths
    from stream_dedup.core.text.decode import InputFormat
    from stream_dedup.ports import SourceRecord


class SourceEntryMaker:
    """Makes log entries from source records; a record that no output topic can hold is rejected unread. Any thread."""

    def __init__(
        self, make: Callable[[Sequence[RawRecord]], Columns], fmt: InputFormat, record_bytes: int, widths: Widths
    ) -> None:
        """Reject records larger than ``record_bytes``; ``widths`` are those of the columns that ``make`` returns."""
        self._make = make
        self._format = fmt
        self._record_bytes = record_bytes
        self._widths = widths

    def __call__(self, records: Sequence[SourceRecord]) -> Columns:
        """Return the entries of these records, in order; an entry depends on its own record alone."""
        raw = [RawRecord(one.key, one.value, f"{one.topic}-{one.partition}-{one.offset}") for one in records]
        reasons = [too_large_reason(record, self._record_bytes) for record in records]
        if not any(reasons):
            return self._make(raw)
        return Columns.concat(
            [
                self._make([record]) if reason is None else rejected_columns(record, self._format, reason, self._widths)
                for record, reason in zip(raw, reasons, strict=True)
            ]
        )
