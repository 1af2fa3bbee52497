"""What log records say about their authors: up to which log offset the author had read the log (``read_to``).

Pure. A worker appends only what is not logged yet, as far as it has read the log. So two things are faults: a record
whose author has read beyond the record itself, and a batch that logs coordinates again of which the author had read the
first entry, or the trim that forgot it. Batches of `filter` and of `Index` do not say what their author had read.
"""

from __future__ import annotations

from collections.abc import Iterator

from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.core.entry import Batch, LogRecord, Trim
from stream_dedup.core.headers import source_text
from stream_dedup.core.model import LogOffset, SourceOffset


def read_to(payload: object) -> LogOffset | None:
    """Return the log offset before which the author of a record had read the log, if the record says it."""
    if isinstance(payload, Batch):
        return payload.read_to
    return payload.basis.read_to if isinstance(payload, Trim) else None


def author_faults(log: PlainLog, record: LogRecord) -> Iterator[tuple[str, str]]:
    """Yield the kind and the description of each fault of a record that the log is about to append."""
    reached = read_to(record.payload)
    if reached is None:
        return
    if reached > record.offset:
        text = f"the record at log offset {record.offset} says that its author had read the log up to {reached}"
        yield "wrong entry", text
    if isinstance(record.payload, Batch):
        yield from _logged_again(log, record.offset, record.payload, reached)


def _logged_again(log: PlainLog, at: int, batch: Batch, reached: int) -> Iterator[tuple[str, str]]:
    source = (batch.topic_id, batch.partition)
    for row, offset in enumerate(batch.offsets.tolist()):
        first, how = log.logged.logged_at(source, offset), "in the log"
        if first is None and offset < log.logged.forgotten.get(source, 0):
            first, how = _forgotten_at(log, source, offset), "forgotten by the trim"
        if first is not None and 0 <= first < reached:
            name = source_text(batch.topic, batch.coordinates(row))
            yield (
                "logged again",
                f"{name}: {how} at offset {first}, and again at {at} by a worker that had read up to {reached}",
            )


def _forgotten_at(log: PlainLog, source: SourcePartition, offset: SourceOffset) -> LogOffset | None:
    """Return the log offset of the first trim that forgot a source offset."""
    for valid in log.valid_trims:
        if offset < valid.trim.basis.forgotten_before.get(source, 0):
            return valid.offset
    return None
