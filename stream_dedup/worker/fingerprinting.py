"""Decodes and fingerprints records in the pool (steps 2 and 3): those of a polled batch, or of a request to check."""

from __future__ import annotations

from collections.abc import Hashable
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

CHUNK_RECORDS = 256
"""Most records in one task of the pool: short texts are then read together, which costs a third less than by 64."""
CHUNK_BYTES = 256 << 10
"""Most bytes of values in one task of several records: large records are shared out among the processes."""
LEAST_SHARE_RECORDS = 24
"""Fewer records (5 ms of work) are not worth a task of their own: each passes two pipes, and wakes three threads."""


class BatchFingerprinter:
    """Shares records out among the processes of the pool."""

    def __init__(self, pool: FingerprintPool, processes: int, max_record_bytes: int, widths: Widths) -> None:
        """Reject records larger than ``max_record_bytes``; ``widths`` are those of their columns."""
        self._pool = pool
        self._processes = max(processes, 1)
        self._max_record_bytes = max_record_bytes
        self._widths = widths

    def submit(self, records: Sequence[SourceRecord], lane: Hashable = None) -> list[Future[Columns]]:
        """Return futures of the columns of these records, in order. Does not block, except in a pool of 0 processes.

        ``lane`` is the source partition that they are in order with, None of none (``pool.tasks``).
        """
        shares = min(max(len(records) // LEAST_SHARE_RECORDS, 1), self._processes)
        most = min(max(-(-len(records) // shares), 1), CHUNK_RECORDS)
        parts = chunks([len(record.value or b"") for record in records], most)
        return [future for part in parts for future in self._submit_chunk(records[part], lane)]

    def _submit_chunk(self, records: Sequence[SourceRecord], lane: Hashable) -> Iterator[Future[Columns]]:
        """Yield futures of the columns of these records; records that no output topic can hold are rejected here."""
        fitting: list[RawRecord] = []
        for record in records:
            reason = too_large_reason(record, self._max_record_bytes)
            raw = _raw(record)
            if reason is None:
                fitting.append(raw)
                continue
            if fitting:
                yield self._pool.submit(fitting, lane)
                fitting = []
            yield _completed(rejected_columns(raw, reason, self._widths))
        if fitting:
            yield self._pool.submit(fitting, lane)


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


def _raw(record: SourceRecord) -> RawRecord:
    return RawRecord(record.key, record.value, f"{record.topic}-{record.partition}-{record.offset}")


def _completed(columns: Columns) -> Future[Columns]:
    future: Future[Columns] = Future()
    future.set_result(columns)
    return future
