"""Finds an article of an index by its id, as a side of an explanation without its text.

The index has no order by id, so log records are read, newest first, until one has the id.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import LogOffset, LogPosition, Status, log_position, signed
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.explain.side import Side
from stream_dedup.index import LogIndex


def side_of_id(index: LogIndex, article_id: str, where: object) -> Side:
    """Return the newest entry with this id.

    Raises:
        UserError: the index has no such entry.
    """
    for offset in reversed(range(index.low_watermark, index.next_offset)):
        record = _record(index, LogOffset(offset))
        batch = record.payload if record is not None else None
        row = _row_of(batch, article_id) if isinstance(batch, Batch) else None
        if isinstance(batch, Batch) and row is not None:
            return side_at(index, log_position(offset, row))
    msg = f"index {where}: no article has the id {article_id}; give an id as `filter` or the worker's output names it"
    raise UserError(msg)


def _record(index: LogIndex, offset: LogOffset) -> LogRecord | None:
    """Return the log record at an offset, or None if it is no batch of original entries."""
    try:
        return index.entry(log_position(offset, 0))[0]
    except RefusedError:
        return None


def _row_of(batch: Batch, article_id: str) -> int | None:
    """Return the last row with this id, or None."""
    # Most records lack the id: a search through all their ids at once is fast.
    if article_id.encode("utf-8", "surrogatepass") not in batch.ids.joined:
        return None
    rows = np.flatnonzero(signed(batch.statuses)).tolist()
    return next((row for row in reversed(rows) if batch.id(row) == article_id), None)


def side_at(index: LogIndex, position: LogPosition) -> Side:
    """Return the entry at a log position; RefusedError where the index does not hold it."""
    record, row = index.entry(position)
    batch = record.payload
    assert isinstance(batch, Batch)  # noqa: S101 - an entry is one of a batch
    return Side(
        name=batch.id(row),
        status=Status(batch.statuses[row]),
        group=int(batch.groups[row]),
        signature=batch.signatures[row].tobytes(),
        margins=batch.margins[row],
        sketch=batch.sketches[row].tobytes(),
        withdrawn_at=index.withdrawn_at(position),
    )
