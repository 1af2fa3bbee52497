"""Run as a process that is killed: fills an index with the limits of the product, and says so record by record.

Each process writes other articles than the one before it would have written after the same record, as a program does
whose index is the only copy of its articles: runs from before a kill then have entries that no row has.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import cache
from pathlib import Path

import numpy as np

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, make_batch
from stream_dedup.core.model import SIGNATURE_BYTES, Status
from stream_dedup.core.rules import DIRECTED
from stream_dedup.index import IndexSettings, LogIndex
from tests.logs import START_TIME, TOPIC, record, rules, scheme_of, trim_record

SETTINGS = IndexSettings(fold_entries=16_384)
"""So there are many runs, and merges of them."""
BITS, TABLES = 20, 4
SCHEME = scheme_of(TABLES, block_bits=BITS)
RECORD_ENTRIES = 1_000
RULES_EVERY = 100
TRIMS = {901: 200, 1_601: 500}
"""Log offsets of trims, and before which offset each trims."""
END = 2_200
"""Log offset after the last record."""
ORIGINALS = 150_000
"""Articles of which all others are edited copies."""

Lives = list[tuple[int, int]]
"""From which log offset on each process wrote, and its number; where two wrote a record, it is that of the later."""


@cache
def originals() -> U8:
    """The signatures of the originals."""
    return np.random.default_rng(77).integers(0, 256, (ORIGINALS, SIGNATURE_BYTES), np.uint8)


def columns_of(seed: list[int], count: int) -> Columns:
    """Articles that are copies of an original with some bits flipped, of which most have small margins."""
    rng = np.random.default_rng(seed)
    bits = np.unpackbits(originals()[rng.integers(0, ORIGINALS, count)], axis=1)
    margins = rng.integers(3, 16, (count, 64 * TABLES // 4), np.uint8)
    flipped = rng.random((count, bits.shape[1])) < rng.choice([0, 0.02, 0.06, 0.1], (count, 1))
    bits ^= flipped
    margins[flipped[:, : margins.shape[1]]] //= 4
    return Columns.of(
        checksums=np.arange(count).astype(np.uint64),
        statuses=np.full(count, Status.LONG, np.uint8),
        scope_hashes=rng.integers(0, 2, count).astype(np.uint64),
        signatures=np.packbits(bits, axis=1),
        margins=margins[:, ::2] << 4 | margins[:, 1::2],
        sketches=np.zeros((count, 0), np.uint8),
        ids=[""] * count,
        reasons=[""] * count,
    )


def record_at(offset: int, lives: Lives) -> LogRecord:
    """The log record at an offset; log time is 1 s a record."""
    time = START_TIME + offset * 1_000
    if offset in TRIMS:
        return trim_record(offset, time, TRIMS[offset], time - 600_000)
    if offset % RULES_EVERY == 0:
        found = rules(
            scheme=SCHEME,
            window_ms=600_000_000,
            candidates=64,
            search=DIRECTED,
            distance=None,
            probes=48,
            limit=40,
            short_limit=40,
        )
        return record(offset, time, found)
    life = [number for first, number in lives if first <= offset][-1]
    offsets: I64 = np.arange(offset * RECORD_ENTRIES, (offset + 1) * RECORD_ENTRIES)
    columns = columns_of([life, offset], RECORD_ENTRIES)
    return record(offset, time, make_batch(columns, TOPIC, "articles", 0, offsets))


def main(path: str, lives_path: str) -> int:
    """Called in a forked process; returns its exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    index = LogIndex.open(Path(path), scheme=SCHEME, settings=SETTINGS)
    if index.log_id is None:
        index.begin("a log")
    lives: Lives = json.loads(Path(lives_path).read_text())
    lives.append((index.next_offset, len(lives)))
    Path(lives_path).write_text(json.dumps(lives))
    sys.stdout.write(f"open {index.next_offset}\n")
    sys.stdout.flush()
    for offset in range(index.next_offset, END):
        index.apply([record_at(offset, lives)])
        sys.stdout.write(f"{offset}\n")
        sys.stdout.flush()
    index.close()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    return 0
