"""What the reference keeps of a batch of the log: the columns of its entries, and the source ranges that it covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.audit.coverage import LoggedRange
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import SIGNATURE_BYTES, LogOffset
from stream_dedup.core.rules import Rules


@dataclass(frozen=True, slots=True, eq=False)
class PlainRecord:
    """A log record that logged an article, and what is in force at its log offset."""

    batch: Batch
    rules: Rules
    source: int
    low_watermark: LogOffset
    """Entries at log offsets below this are trimmed."""


def ranges_of(record: LogRecord, offsets: I64, times: I64) -> Iterator[LoggedRange]:
    """Yield the ranges that a batch covers.

    One range, or one for each entry where the entries have log times of their own: it ends before the next entry.
    """
    count = len(times) if isinstance(record.time, np.ndarray) else 1
    firsts = offsets[:count].tolist()
    lasts = [*(offsets[1:count] - 1).tolist(), int(offsets[-1])]
    for first, last, time in zip(firsts, lasts, times.tolist(), strict=False):
        yield LoggedRange(first, last, record.offset, time)


def entry_columns(batch: Batch, rows: I64) -> tuple[NDArray[Any], ...]:
    """Return the columns ``offsets`` to ``ids`` of ``PlainEntries`` for these rows of a batch."""
    return (
        batch.offsets[rows],
        batch.checksums[rows],
        batch.statuses[rows],
        _words(batch)[:, rows],
        batch.groups[rows],
        batch.sketches[rows].T,
        np.array([xxhash.xxh3_64_intdigest(batch.id(row).encode()) for row in rows.tolist()], np.uint64),
    )


def no_columns(sketch_bytes: int) -> tuple[NDArray[Any], ...]:
    """Return the columns of ``PlainEntries`` without entries, so that those of an empty log can be joined too."""
    kinds = (np.int64, np.int64, np.int64, np.int64, np.uint64, np.uint8)
    words = np.empty((SIGNATURE_BYTES // 8, 0), np.uint64)
    groups, ids, records = (np.empty(0, kind) for kind in (np.uint64, np.uint64, np.int64))
    sketches = np.empty((sketch_bytes, 0), np.uint8)
    return (*(np.empty(0, kind) for kind in kinds), words, groups, sketches, ids, records)


def slim(batch: Batch, *, margins: bool) -> Batch:
    """Copy the fields of a batch that verdicts need beside the columns, so that the record's bytes can be freed."""
    rows = len(batch) if margins else 0
    return replace(
        batch,
        offsets=np.empty(0, np.int64),
        checksums=np.empty(0, np.uint64),
        statuses=np.empty(0, np.uint8),
        groups=np.empty(0, np.uint64),
        signatures=np.empty((0, SIGNATURE_BYTES), np.uint8),
        margins=batch.margins[:rows].copy(),
        sketches=np.empty((0, 0), np.uint8),
    )


def _words(batch: Batch) -> U64:
    """Return the four words of each signature, a row for each word; bit 0 is the highest bit of word 0."""
    words = np.ascontiguousarray(batch.signatures).view(">u8").astype(np.uint64)
    return words.T
