"""Run as a process that is killed between a write that several batches share and its change in memory."""

import os
import signal
from pathlib import Path

from stream_dedup.core.entry import LogRecord
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.store import Store, WriteBatch
from tests.index.small import small_runs
from tests.logs import START_TIME, batch_record, rules_record, trim_record

SETTINGS = IndexSettings(fold_entries=20, most_buffer_bytes=64 << 10)
SIZES = (13, 4, 9, 12)
"""Records that are applied together; the second portion has rules and a trim."""


def the_log() -> list[LogRecord]:
    """Batches of three partitions, most of them of new articles, in portions of ``SIZES``."""
    records = [rules_record(0, window_ms=1_000), *(_new(at) for at in range(1, 13))]
    records += [
        rules_record(13, window_ms=1_000),
        _new(14),
        trim_record(15, START_TIME + 2_000, 13, START_TIME + 12),
        _new(16),
    ]
    records.append(batch_record(17, START_TIME + 2_017, (3, 5, 7), (142, 143, 144), partition=2))  # begins with a copy
    return records + [_new(at) for at in range(18, 38)]


def _new(at: int) -> LogRecord:
    """Three articles; the first is near those of other records."""
    time = START_TIME + at + 2_000 * (at > 13)
    return batch_record(at, time, (0b1011, at << 32, at << 50), range(10 * at, 10 * at + 3), partition=at % 3)


def portions() -> list[list[LogRecord]]:
    """The log in the portions that are applied together."""
    left, found = the_log(), []
    for size in SIZES:
        found.append(left[:size])
        left = left[size:]
    assert not left
    return found


def main(path: str, killed_in: str, durable: str) -> int:
    """Called in a forked process: killed in this portion, after the write that it shares, which may be on disk."""
    small_runs()
    index = LogIndex.open(Path(path), scheme=None, settings=SETTINGS)
    index.begin("a log")
    for at, portion in enumerate(portions()):
        if at == int(killed_in):
            _die_after_shared_write(index, durable=durable == "durable")
        index.apply(portion)
    return 1  # no write was shared


def _die_after_shared_write(index: LogIndex, *, durable: bool) -> None:
    real, written = Store.write, index.next_offset

    def write(store: Store, batch: WriteBatch) -> None:
        nonlocal written
        real(store, batch)
        if index.next_offset > written + 1:
            if durable:
                store.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        written = index.next_offset

    Store.write = write  # type: ignore[method-assign, assignment]
