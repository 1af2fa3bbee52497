"""How a pool makes columns: what the parent sends to each child when it starts."""

from __future__ import annotations

from typing import NamedTuple

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker, rejected_columns
from stream_dedup.core.reasons import KILLED_TWICE, TOO_SLOW
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord


class Recipe(NamedTuple):
    """Settings of the fingerprint and the input, and the limit of one article in seconds of processor time."""

    settings: FingerprintSettings | None
    fmt: InputFormat | None
    article_limit_s: float

    def maker(self) -> EntryMaker:
        """Return a new maker of columns."""
        return EntryMaker(self.settings, self.fmt)

    def rejected_for_time(self, record: RawRecord) -> Columns:
        """Return the columns of a record that takes longer than the limit."""
        return self._rejected(record, TOO_SLOW.format(limit=self.article_limit_s))

    def rejected_for_kills(self, record: RawRecord) -> Columns:
        """Return the columns of a record whose process was killed again and again."""
        return self._rejected(record, KILLED_TWICE)

    def _rejected(self, record: RawRecord, reason: str) -> Columns:
        return rejected_columns(record, reason, (self.settings or FingerprintSettings()).widths)
