"""Which log records share an atomic write: consecutive batches of articles that are all new.

An article is new if its source offset comes after every one of its partition that is covered or forgotten, in the index
and in the batches before it that share the write. So nothing that is stored has to be read for it, and no batch can
repeat another one of the same write.

Nothing else is written together: a rules record, a trim or a withdrawal changes how the records after it are applied; a
copy may make rules records void, and its originals are found by reading the source ranges.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import LogOffset, SourceOffset, Widths
from stream_dedup.index.row_column import RowColumn
from stream_dedup.index.segments import Coverage, SourceKey, Uncovered
from stream_dedup.index.settings import JOINT_ENTRIES


def joint_batches(
    records: Iterable[LogRecord], coverage: Coverage, widths: Widths, next_offset: LogOffset, rows: RowColumn
) -> list[tuple[LogRecord, Batch]]:
    """Return the first of these records with their batches, as many as can share a write.

    The first record that cannot, and all after it, are left out: one of another scheme (``widths``), one whose log
    offset is not after those before it (``next_offset``), one for which there may be no document numbers left.
    """
    found: list[tuple[LogRecord, Batch]] = []
    ends: dict[SourceKey, SourceOffset] = {}
    left = min(JOINT_ENTRIES, rows.numbers_left)
    for record in records:
        batch = record.payload
        if not isinstance(batch, Batch) or record.offset < next_offset or batch.widths != widths or len(batch) > left:
            break
        source = batch.source
        if batch.offset(0) < (ends[source] if source in ends else coverage.end_of(source)):
            break
        ends[source] = SourceOffset(batch.offset(-1) + 1)
        next_offset = LogOffset(record.offset + 1)
        left -= len(batch)
        found.append((record, batch))
    return found


def new_of(batch: Batch) -> Uncovered:
    """Return what is logged for the first time of a batch of new articles: all of it."""
    return Uncovered([(batch.offset(0), batch.offset(-1))], None, None, late=False)
