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

    def __init__(self, pool: FingerprintPool, processes: int, record_bytes: int, widths: Widths) -> None:
        """Reject records larger than ``record_bytes``; ``widths`` are those of their columns."""
        self._pool = pool
        self._processes = max(processes, 1)
        self._record_bytes = record_bytes
        self._widths = widths

    def submit(self, records: Sequence[SourceRecord], lane: Hashable = None) -> list[Future[Columns]]:
        """Return futures of the columns of these records, in order. Does not block, except in a pool of 0 processes.

        ``lane`` is the source partition that they are in order with, None of none (``pool.tasks``).
        """
        return self.submit_all([(records, lane)])[0]

    def submit_all(self, wanted: Sequence[tuple[Sequence[SourceRecord], Hashable]]) -> list[list[Future[Columns]]]:
        """Do as ``submit`` for records and lanes that are there at once: the processes share them out."""
        parts = [self._parts(records) for records, _ in wanted]
        tasks = [
            (part, lane) for own, (_, lane) in zip(parts, wanted, strict=True) for part in own if isinstance(part, list)
        ]
        submitted = iter(self._pool.submit_all(tasks))
        return [[next(submitted) if isinstance(part, list) else part for part in own] for own in parts]

    def _parts(self, records: Sequence[SourceRecord]) -> list[list[RawRecord] | Future[Columns]]:
        """Return the records of each task, in order, and in their place the columns of those rejected here."""
        shares = min(max(len(records) // LEAST_SHARE_RECORDS, 1), self._processes)
        most = min(max(-(-len(records) // shares), 1), CHUNK_RECORDS)
        slices = chunks([len(record.value or b"") for record in records], most)
        return [part for rows in slices for part in self._parts_of_chunk(records[rows])]

    def _parts_of_chunk(self, records: Sequence[SourceRecord]) -> Iterator[list[RawRecord] | Future[Columns]]:
        """Yield the parts of a chunk: a record that no output topic can hold is rejected here."""
        fitting: list[RawRecord] = []
        for record in records:
            reason = too_large_reason(record, self._record_bytes)
            raw = _raw(record)
            if reason is None:
                fitting.append(raw)
                continue
            if fitting:
                yield fitting
                fitting = []
            yield _completed(rejected_columns(raw, reason, self._widths))
        if fitting:
            yield fitting


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
