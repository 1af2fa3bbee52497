"""Faults that log records show of their authors: what they logged again, and which trims dropped too much.

Pure. A log record says up to which log offset its author had read the log (``read_to``). A worker appends only what is
not logged yet, as far as it has read the log. So two things are faults: a record whose author has read beyond the
record itself, and a batch that logs coordinates again of which the author had read the first entry, or the trim that
forgot it. Batches of `filter` and of `Index` do not say what their author had read.

A trim may drop an entry once it is outside the window of every article that is still owed (logged, its output
not committed) or logged later; and it may drop the coordinates of an article once its output is committed. A trim
dropped too much where

    1  an article was logged after the trim (or after the log offset that the trim was computed from), and a dropped
       entry is inside its window;
    2  the output of an article was still to come when the trim was appended, and a dropped entry is inside its window;
    3  the output of an article was still to come when the trim was appended, and the trim dropped the article itself or
       its coordinates.

An output was still to come at a trim if it is not committed now, or if it was written after the trim was appended. The
first is certain only of trims that were appended before the committed offsets were read (``settled``); and where the
group has no committed offset, only if retention cannot have deleted the output (the caller sees to it). The second
compares the clocks of a broker and of a worker, hence with an allowance.

The window is the shorter one of those in force at the trim and at the article: a window that is made longer reaches
back only to what was not dropped before. Only entries count that no earlier trim had dropped. Of a log that was cut,
the dropped entries are gone: nothing shows there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_dedup.audit.reference import NO_WINDOW_MS, PlainLog, SourcePartition, ValidTrim
from stream_dedup.core.arrays import I64, Bools
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


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """When the output of each article was written, and which outputs are still to come."""

    written: I64
    """Time of the output in ms, less the allowance; -1 without an output."""
    pending: Bools
    settled: int
    """Log offset before which a trim knew the committed offsets that ``pending`` is taken from, or earlier ones."""


def early_trims(log: PlainLog, owed: Owed) -> Iterator[tuple[ValidTrim, str]]:
    """Yield each trim that dropped too much, with a description of one article that shows it."""
    low_watermark = 0
    for valid in log.valid_trims:
        dropped = np.flatnonzero(
            (log.entries.log_offsets >= low_watermark) & (log.entries.log_offsets < valid.trim.before)
        )
        low_watermark = max(low_watermark, valid.trim.before)
        shown = _within_window(log, valid, dropped, owed)
        shown = _itself(log, valid, owed) if shown is None else shown
        if shown is not None:
            yield valid, shown


def _within_window(log: PlainLog, valid: ValidTrim, dropped: I64, owed: Owed) -> str | None:
    if not len(dropped):
        return None
    times = log.entries.times
    newest = int(dropped[np.argmax(times[dropped])])
    reach = np.minimum(log.windows, NO_WINDOW_MS if valid.window_ms is None else valid.window_ms)
    after = log.entries.log_offsets >= valid.trim.basis.read_to
    at_risk = (after | _owed_at(log, valid, owed)) & (times - times[newest] <= reach)
    at_risk &= log.entries.log_offsets >= valid.trim.before
    if not at_risk.any():
        return None
    index = int(np.argmax(at_risk))
    return (
        f"drops {log.name(newest)}, logged {(times[index] - times[newest]) / 1000:g} s before {log.name(index)}, whose "
        f"window is {reach[index] / 1000:g} s"
    )


def _itself(log: PlainLog, valid: ValidTrim, owed: Owed) -> str | None:
    gone = _dropped_coordinates(log, valid) & _owed_at(log, valid, owed)
    if not gone.any():
        return None
    return f"drops {log.name(int(np.argmax(gone)))}, whose output was still to come"


def _dropped_coordinates(log: PlainLog, valid: ValidTrim) -> Bools:
    """Return of which articles a trim drops the entry or the coordinates."""
    entries, trim = log.entries, valid.trim
    dropped: Bools = (entries.log_offsets < trim.before) | (entries.times <= trim.horizon)
    before = trim.basis.forgotten_before
    ends = np.array([before.get(source, 0) for source in log.sources], np.int64)
    return dropped | (entries.offsets < ends[entries.sources])


def _owed_at(log: PlainLog, valid: ValidTrim, owed: Owed) -> Bools:
    """Return which articles were owed when a trim was appended, as far as that is certain."""
    settled = owed.pending if valid.offset < owed.settled else np.zeros_like(owed.pending)
    return (log.entries.log_offsets < valid.offset) & (settled | (owed.written > valid.time))
