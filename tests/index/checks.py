"""Filling an index, and comparing it with the reference."""

from pathlib import Path

import numpy as np

from stream_dedup.api import records_of, signatures_of
from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.core.entry import LogRecord, Trim
from stream_dedup.core.fingerprinter import Fingerprints
from stream_dedup.core.model import Judgement, SourceOffset
from stream_dedup.core.query import Near, Query
from stream_dedup.index import FORGOTTEN, UNLOGGED, IndexSettings, LogIndex
from tests.logs import SCHEME


def often_folding(path: Path) -> LogIndex:
    """An index that folds its entries into the tables after every 30."""
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=30))


def covered_positions(plain: PlainLog) -> list[int]:
    """Log positions of all entries whose coordinates are covered by their record, in order."""
    entries = plain.entries
    at = [plain.coordinates(index) for index in range(len(entries))]
    covered = [plain.logged.logged_at((where.topic_id, where.partition), where.offset) for where in at]
    return [
        position
        for position, log_offset, known in zip(entries.positions.tolist(), entries.log_offsets, covered, strict=True)
        if known == log_offset
    ]


def without_trims(records: list[LogRecord]) -> list[LogRecord]:
    """The log as if nothing had ever been trimmed."""
    return [record for record in records if not isinstance(record.payload, Trim)]


def verdicts(plain: PlainLog, positions: list[int]) -> list[Judgement]:
    """The reference's verdicts at these log positions."""
    judged = plain.judgements(np.searchsorted(plain.entries.positions, positions))
    found = {int(plain.entries.positions[index]): judgement for index, judgement in judged}
    return [found[position] for position in positions]


def check_verdicts(index: LogIndex, plain: PlainLog, positions: list[int]) -> None:
    """The index gives the reference's verdicts at these log positions."""
    assert index.judge(np.array(positions, np.int64)) == verdicts(plain, positions)


def check_standing(index: LogIndex, plain: PlainLog) -> None:
    """The index knows the log position of every covered source offset, which are forgotten, and which are neither."""
    numbers = dict(zip(plain.entries.positions.tolist(), range(len(plain.entries)), strict=True))
    forgotten = plain.logged.forgotten
    positions: dict[SourcePartition, dict[int, int]] = {source: {} for source in [*plain.sources, *forgotten]}
    for position in covered_positions(plain):
        at = plain.coordinates(numbers[position])
        positions[at.topic_id, at.partition][at.offset] = position
    last = {}
    for source, logged in positions.items():
        before = forgotten.get(source, 0)
        assert index.forgotten_before(*source) == before
        offsets = [SourceOffset(at) for at in range(int(plain.entries.offsets.max(initial=0)) + 3)]
        covered = [offset for offset in offsets if plain.logged.logged_at(source, offset) is not None]
        # A batch covers offsets without an entry too: the index refuses those.
        wanted = [offset for offset in offsets if offset in logged or offset not in covered]
        expected = [logged.get(offset, FORGOTTEN if offset < before else UNLOGGED) for offset in wanted]
        assert index.logged_positions(*source, np.array(wanted, np.int64)).tolist() == expected
        if covered:
            last[source] = covered[-1]
        elif before:
            last[source] = SourceOffset(before - 1)
    assert index.partitions() == last


def build(index: LogIndex, records: list[LogRecord]) -> LogIndex:
    """Apply a whole log in one call."""
    index.begin("a log")
    index.apply(records)
    return index


def add_signatures(index: LogIndex, signatures: np.ndarray, ids: list[str]) -> None:
    """Append long articles of one scope to an index of the Python API."""
    count = len(ids)
    margins, sketches = np.zeros((count, 32), np.uint8), np.zeros((count, 0), np.uint8)
    fingerprints = Fingerprints(signatures, margins, np.zeros(count, np.uint8), sketches)
    index.apply(records_of(index, fingerprints, np.zeros(count, np.uint64), ids))


def add_numbers(index: LogIndex, values: list[int]) -> list[int]:
    """Append fingerprints to an index of the Python API; returns their document numbers."""
    first = index.state.next_doc_number
    add_signatures(index, signatures_of(np.array(values, np.uint64)), ["x"] * len(values))
    return list(range(first, index.state.next_doc_number))


def finish_merges(index: LogIndex) -> None:
    """Merge all that the next records would have merged by and by."""
    index._applied.in_doubt(lambda: index._applied.tables.native.go_on(1 << 40))


def finish_deleting(index: LogIndex) -> None:
    """Let all that a trim deleted leave the disk now, and what merges leave out."""
    finish_merges(index)
    index._applied.store._join()
    index._applied.store.compact()
    index._applied.store._join()


def near_of(index: LogIndex, query: Query) -> Near:
    """Run one query."""
    return index._applied.tables.near(query)
