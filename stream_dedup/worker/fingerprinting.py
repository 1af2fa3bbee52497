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

CHUNK_RECORDS = 256
"""Most records in one task of the pool: short texts are then read together, which costs a third less than by 64."""
CHUNK_BYTES = 256 << 10
"""Most bytes of values in one task of several records: large records are shared out among the processes."""
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
        most = min(max(share, MIN_CHUNK_RECORDS), CHUNK_RECORDS)
        parts = chunks([len(record.value or b"") for record in records], most)
        return [future for part in parts for future in self._submit_chunk(batch, records[part])]

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


def chunks(sizes: Sequence[int], most: int = CHUNK_RECORDS) -> Iterator[slice]:
    """Yield the slices of records that make one task each; ``sizes``: bytes of each value, ``most``: records."""
    start, taken = 0, 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == most or taken + size > CHUNK_BYTES):
            yield slice(start, at)
            start, taken = at, 0
        taken += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def _raw(batch: PolledBatch, record: SourceRecord) -> RawRecord:
    topic, partition = batch.partition
    return RawRecord(record.key, record.value, f"{topic}-{partition}-{record.offset}")


def _completed(columns: Columns) -> Future[Columns]:
    future: Future[Columns] = Future()
    future.set_result(columns)
    return future
