"""Verification: the whole index is read and compared with itself.

The rows must be those of the originals, and the stored lists must hold exactly the keys of the entries that are stored.
Instead of holding both in memory, each list is reduced to a count and a sum of mixed entries, which depend on
nothing but its content: 4 MiB for any size of index (16 with sixteen tables).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import BLOCKS_PER_WORD, DocNumber, SourceOffset
from stream_dedup.core.probes import blocks as blocks_of
from stream_dedup.core.progress import ReportProgress
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index.applying import Applied
from stream_dedup.index.layout import BLOCKS, SHARD_BLOCKS, RowArray
from stream_dedup.index.posting_lists import Source
from stream_dedup.index.records import StoredRecord, StoredRecords
from stream_dedup.index.segments import Coverage, SourceKey
from stream_dedup.index.settings import RANGES
from stream_dedup.index.tables import Tables, keys_of

_PROBLEMS = 20
"""Problems listed before the rest is left out: one damaged file spoils thousands of lists."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that mixing loses nothing (the golden ratio's bits)."""


def verify(applied: Applied, progress: ReportProgress | None) -> list[str]:
    """Return the problems found, at most a score; empty where everything fits."""
    problems: list[str] = []
    steps = _steps(applied)
    whole = applied.state.next_offset - applied.state.low_watermark + applied.tables.count * BLOCKS
    try:
        for done, found in steps:
            problems.extend(found)
            if progress is not None:
                progress(min(done, whole), whole)
            if len(problems) >= _PROBLEMS:
                return [*problems[:_PROBLEMS], "and perhaps more: stopped looking"]
    except StreamDedupError as error:
        problems.append(str(error))
    return problems


def _steps(applied: Applied) -> Iterator[tuple[int, list[str]]]:
    state, rows, tables = applied.state, applied.rows, applied.tables
    expected = _Sums(tables)
    articles, doc_number = 0, state.first_doc_number
    for row in rows.scan(state.low_watermark):
        numbered = row.table_rows()
        yield row.offset - state.low_watermark, list(_check_rows(row, numbered, doc_number, tables))
        expected.add_rows(numbered, doc_number)
        articles += row.head.original_count
        doc_number = DocNumber(doc_number + len(numbered))
    done = state.next_offset - state.low_watermark
    yield done, [] if articles == state.articles else [f"{articles} originals are there, {state.articles} are counted"]
    yield (
        done,
        []
        if doc_number == state.next_doc_number
        else [f"{doc_number} entries are numbered, not {state.next_doc_number}"],
    )
    yield done, list(_check_coverage(rows, applied.coverage))
    yield done, list(applied.withdrawn.problems(state.first_doc_number, state.next_doc_number))
    for shard in range(tables.shards):
        found = list(_check_shard(tables, shard, expected))
        done += SHARD_BLOCKS
        yield done, found


class _Sums:
    """Count and sum of each list."""

    def __init__(self, tables: Tables) -> None:
        self._stored_before = [tables.stored.stored_before(table) for table in range(tables.count)]
        self.counts = np.zeros((tables.count, BLOCKS), np.int64)
        self.sums = np.zeros((tables.count, BLOCKS), np.uint64)

    def add_rows(self, rows: RowArray, first: DocNumber) -> None:
        keys = keys_of(rows)
        doc_numbers = np.arange(first, first + len(rows))
        for table, before in enumerate(self._stored_before):
            words = keys[:, table // BLOCKS_PER_WORD]
            values = blocks_of(words)[:, table % BLOCKS_PER_WORD]
            stored = doc_numbers < before[values]
            np.add.at(self.counts[table], values[stored], 1)
            np.add.at(self.sums[table], values[stored], _mixed(words[stored], doc_numbers[stored]))


def _mixed(keys: U64, doc_numbers: I64 | U32) -> U64:
    both = (keys * _MIX) ^ doc_numbers.astype(np.uint64)
    return (both ^ (both >> np.uint64(29))) * _MIX


def _check_rows(row: StoredRecord, numbered: RowArray, doc_number: DocNumber, tables: Tables) -> Iterator[str]:
    if row.head.first != doc_number:
        yield f"log record {row.offset}: its entries are numbered from {row.head.first} on, not {doc_number}"
    elif len(numbered):
        doc_numbers = np.arange(doc_number, doc_number + len(numbered))
        if not np.array_equal(tables.rows.fetch(doc_numbers), numbered):
            yield f"log record {row.offset}: the rows of its entries are not those of the log"
        if tables.rows.held is not None and not np.array_equal(tables.rows.rows_of(doc_numbers), numbered):
            yield f"log record {row.offset}: the rows held in memory are not those of the log"


def _check_coverage(rows: StoredRecords, coverage: Coverage) -> Iterator[str]:
    end: dict[SourceKey, SourceOffset] = {}
    for where, segment in coverage.all():
        name = f"source range {segment.first} to {segment.last} of {where[0].hex()}-{where[1]}"
        if segment.first <= end.get(where, -1) or segment.last < segment.first:
            yield f"{name} overlaps the one before it"
        if segment.first < coverage.forgotten.get(where, 0):
            yield f"{name} begins below {coverage.forgotten[where]}, and everything below is forgotten"
        end[where] = segment.last
        try:
            offsets = rows.get(segment.log_offset).batch.offsets
        except RefusedError:
            yield f"{name} names log record {segment.log_offset}, which is not there"
        else:
            if segment.first < offsets[0] or segment.last > offsets[-1]:
                yield f"{name} goes beyond log record {segment.log_offset}"


def _check_shard(tables: Tables, shard: int, expected: _Sums) -> Iterator[str]:
    table, part = divmod(shard, RANGES)
    source = tables.source(shard)
    first = part * SHARD_BLOCKS
    here = slice(first, first + SHARD_BLOCKS)
    lists = np.repeat(np.arange(SHARD_BLOCKS), np.diff(source.starts))
    for index in np.unique(lists[1:][(np.diff(source.doc_numbers.astype(np.int64)) <= 0) & (lists[1:] == lists[:-1])]):
        yield f"list {table}/{first + index} is not in order of log position"
    counts, sums = _sums(source, lists, tables.low_watermark)
    for index in np.flatnonzero((counts != expected.counts[table, here]) | (sums != expected.sums[table, here])):
        at = first + index
        yield f"list {table}/{at}: its {counts[index]} entries are not the {expected.counts[table, at]} of the log"
    held = tables.image.source(shard)
    if held is not None and not _same(held, source):
        yield f"shard {shard}: the image is not the stored shard"


def _sums(source: Source, lists: I64, low_watermark: DocNumber) -> tuple[I64, U64]:
    # A stored list may hold trimmed entries until they are purged: the low watermark hides them.
    live = source.doc_numbers >= low_watermark
    sums = np.zeros(SHARD_BLOCKS, np.uint64)
    np.add.at(sums, lists[live], _mixed(source.keys[live], source.doc_numbers[live]))
    return np.bincount(lists[live], minlength=SHARD_BLOCKS), sums


def _same(held: Source, stored: Source) -> bool:
    """Whether the image of a shard is its lists (of sealed pieces the disk may hold more that is trimmed)."""
    if len(held.keys) == len(stored.keys):
        pairs = ((held.starts, stored.starts), (held.keys, stored.keys), (held.doc_numbers, stored.doc_numbers))
        return all(np.array_equal(one, other) for one, other in pairs)
    return len(held.keys) < len(stored.keys)
