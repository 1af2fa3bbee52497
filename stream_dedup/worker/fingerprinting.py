"""Decodes and fingerprints the records of a polled batch in the pool (steps 2 and 3)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from stream_dedup.broker.record import too_large_reason
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import rejected_columns
from stream_dedup.core.model import Widths
from stream_dedup.core.text.decode import RawRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stream_dedup.pool import FingerprintPool
    from stream_dedup.ports import SourceRecord
    from stream_dedup.worker.batches import PolledBatch

CHUNK_RECORDS = 64
"""Records in one task of the pool: few enough to share a batch out, enough for one matrix product."""
MIN_CHUNK_RECORDS = 8
"""Fewer records (4 ms of work) are not worth sharing out."""


class BatchFingerprinter:
    """Shares the rows of a batch out among the processes of the pool."""

    def __init__(self, pool: FingerprintPool, processes: int, max_record_bytes: int, widths: Widths) -> None:
        """Reject records larger than ``max_record_bytes``; ``widths`` are those of their columns."""
        self._pool = pool
        self._processes = max(processes, 1)
        self._max_record_bytes = max_record_bytes
        self._widths = widths

    def submit(self, batch: PolledBatch, rows: slice) -> list[Future[Columns]]:
        """Return futures of the columns of these rows, in order. Does not block, except in a pool of 0 processes."""
        records = batch.records[rows]
        share = -(-len(records) // self._processes)
        size = min(max(share, MIN_CHUNK_RECORDS), CHUNK_RECORDS)
        return [
            future
            for start in range(0, len(records), size)
            for future in self._submit_chunk(batch, records[start : start + size])
        ]

    def _submit_chunk(self, batch: PolledBatch, records: Sequence[SourceRecord]) -> Iterator[Future[Columns]]:
        """Yield futures of the columns of these records; records that no output topic can hold are rejected here."""
        fitting: list[RawRecord] = []
        for record in records:
            reason = too_large_reason(record, self._max_record_bytes)
            raw = _raw(batch, record)
            if reason is None:
                fitting.append(raw)
                continue
            if fitting:
                yield self._pool.submit(fitting, lane=batch.partition)
                fitting = []
            yield _completed(rejected_columns(raw, reason, self._widths))
        if fitting:
            yield self._pool.submit(fitting, lane=batch.partition)


def _raw(batch: PolledBatch, record: SourceRecord) -> RawRecord:
    topic, partition = batch.partition
    return RawRecord(record.key, record.value, f"{topic}-{partition}-{record.offset}")


def _completed(columns: Columns) -> Future[Columns]:
    future: Future[Columns] = Future()
    future.set_result(columns)
    return future
