"""Verification: the whole index is read and compared with itself.

The rows must be those of the originals, and the runs of each table must hold exactly the keys of the entries that are
not trimmed. Instead of holding both in memory, the lists of equal first 16 bits are reduced to a count and a sum of
mixed entries, which depend on nothing but their content: 4 MiB for any size of index (16 with sixteen tables).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, DocNumber, ReportProgress, SourceOffset
from stream_dedup.core.probes import KEY_FACTORS, block_of
from stream_dedup.core.probes import blocks as blocks_of
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index.applying import Applied
from stream_dedup.index.layout import RowArray, SourceKey, directory_key
from stream_dedup.index.records import StoredRecord, StoredRecords, table_rows
from stream_dedup.index.tables import Run, Tables
from stream_dedup.index.trims import Coverage

_PROBLEMS = 20
"""Problems listed before the rest is left out: one damaged file spoils thousands of lists."""
_LISTS = 1 << BLOCK_BITS
_CHUNK_ENTRIES_AT, _CHUNK_ENDS_AT = 20, 24
"""Places in the directory of a run: entries of a chunk; from there on the ends of chunks, and the filter."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that mixing loses nothing (the golden ratio's bits)."""


def verify(applied: Applied, progress: ReportProgress | None) -> list[str]:
    """Return the problems found, at most a score; empty where everything fits."""
    problems: list[str] = []
    whole = applied.state.next_offset - applied.state.low_watermark + applied.tables.count * _LISTS
    try:
        for found in _steps(applied):
            if isinstance(found, str):
                problems.append(found)
                if len(problems) == _PROBLEMS:
                    return [*problems, "and perhaps more: stopped looking"]
            elif progress is not None:
                progress(min(found, whole), whole)
    except StreamDedupError as error:
        problems.append(str(error))
    return problems


def _steps(applied: Applied) -> Iterator[int | str]:
    """Yield the problems, and after each step how much is done: log offsets, then lists."""
    state, rows, tables = applied.state, applied.rows, applied.tables
    expected = _Sums(tables)
    articles, doc_number = 0, state.first_doc_number
    for row in rows.scan(state.low_watermark):
        numbered = table_rows([row])
        yield from _check_rows(row, numbered, doc_number, tables)
        expected.add_rows(numbered, doc_number)
        articles += row.head.original_count
        doc_number = DocNumber(doc_number + len(numbered))
        yield row.offset - state.low_watermark
    if articles != state.articles:
        yield f"{articles} originals are there, {state.articles} are counted"
    if doc_number != state.next_doc_number:
        yield f"{doc_number} entries are numbered, not {state.next_doc_number}"
    yield from _check_coverage(rows, applied.coverage)
    yield from applied.withdrawn.problems(state.first_doc_number, state.next_doc_number)
    yield from _check_ids(applied)
    for table in range(tables.count):
        yield from _check_table(applied, table, expected)
        yield state.next_offset - state.low_watermark + (table + 1) * _LISTS


class _Sums:
    """Count and sum of each list."""

    def __init__(self, tables: Tables) -> None:
        self.counts = np.zeros((tables.count, _LISTS), np.int64)
        self.sums = np.zeros((tables.count, _LISTS), np.uint64)

    def add_rows(self, rows: RowArray, first: DocNumber) -> None:
        keys = rows["signature"] ^ (rows["scope_hash"][:, np.newaxis] * KEY_FACTORS)
        doc_numbers = np.arange(first, first + len(rows))
        for table in range(len(self.counts)):
            words = keys[:, table // BLOCKS_PER_WORD]
            self.add(table, blocks_of(words)[:, table % BLOCKS_PER_WORD].astype(np.int64), words, doc_numbers)

    def add(self, table: int, lists: I64, words: U64, doc_numbers: I64 | U32) -> None:
        np.add.at(self.counts[table], lists, 1)
        np.add.at(self.sums[table], lists, _mixed(words, doc_numbers))


def _mixed(keys: U64, doc_numbers: I64 | U32) -> U64:
    both = (keys * _MIX) ^ doc_numbers.astype(np.uint64)
    return (both ^ (both >> np.uint64(29))) * _MIX


def _check_rows(row: StoredRecord, numbered: RowArray, doc_number: DocNumber, tables: Tables) -> Iterator[str]:
    if row.head.first != doc_number:
        yield f"log record {row.offset}: its entries are numbered from {row.head.first} on, not {doc_number}"
    elif len(numbered):
        end = DocNumber(doc_number + len(numbered))
        if not np.array_equal(tables.rows.read(doc_number, end), numbered):
            yield f"log record {row.offset}: the rows of its entries are not those of the log"
        if not np.array_equal(tables.rows_of(np.arange(doc_number, end)), numbered):
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


def _check_ids(applied: Applied) -> Iterator[str]:
    """Compare the ids with the rows, by count and sum as posting lists are."""
    rules, state = applied.history.current, applied.state
    if rules is None or not rules.scheme.deletes:
        return
    wanted = held = (0, 0)
    for first, rows in applied.tables.rows.scan(state.first_doc_number):
        numbers = np.arange(first, first + len(rows))
        wanted = _with_ids(wanted, rows["id_hash"], numbers, rows["position"])
    live = (pair for pair in applied.ids.all() if pair[1] >= state.first_doc_number)
    while some := list(islice(live, _LISTS)):
        hashes, doc_numbers, positions = zip(*some, strict=True)
        held = _with_ids(held, np.array(hashes, np.uint64), np.array(doc_numbers), np.array(positions))
    if held != wanted:
        yield f"the ids of {held[0]} entries are not those of the {wanted[0]} in the log"


def _with_ids(total: tuple[int, int], hashes: U64, numbers: I64, positions: I64) -> tuple[int, int]:
    """Return count and sum with those of more ids."""
    mixed = _mixed(_mixed(hashes, numbers), positions)
    return total[0] + len(hashes), (total[1] + int(mixed.sum())) % (1 << 64)


def _check_table(applied: Applied, table: int, expected: _Sums) -> Iterator[str]:
    held = _Sums(applied.tables)
    end = 0
    for run in applied.tables.runs:
        if run.table == table:
            yield from _check_run(run, held, applied, end)
            end = run.before
    wrong = (held.counts[table] != expected.counts[table]) | (held.sums[table] != expected.sums[table])
    for at in np.flatnonzero(wrong).tolist():
        counts = held.counts[table, at], expected.counts[table, at]
        yield f"list {table}/{at}: its {counts[0]} entries are not the {counts[1]} of the log"


class _Directory:
    """What the directory of a stored run must say of its chunks (``native/src/postings/run.rs`` draws it)."""

    def __init__(self, raw: bytes, block_bits: int) -> None:
        self._raw = raw
        self._bits = block_bits
        self._filter_bits = self._raw[3]
        self._filter = np.zeros((1 << self._filter_bits) // 64, np.uint64)
        self._ends: list[int] = []
        self._sizes: list[int] = []

    def add_chunk(self, blocks: I64) -> None:
        self._ends += [int(blocks[0]), int(blocks[-1])]
        self._sizes.append(len(blocks))
        if len(self._filter):
            bits = blocks >> (self._bits - self._filter_bits)
            np.bitwise_or.at(self._filter, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))

    @property
    def is_right(self) -> bool:
        size = int.from_bytes(self._raw[_CHUNK_ENTRIES_AT:_CHUNK_ENDS_AT], "little")
        told = np.array(self._ends, "<u4").tobytes() + self._filter.astype("<u8").tobytes()
        return self._sizes[:-1] == [size] * (len(self._sizes) - 1) and self._raw[_CHUNK_ENDS_AT:] == told


def _check_run(run: Run, held: _Sums, applied: Applied, begin: int) -> Iterator[str]:
    """Check the order of a run, and add its entries that are not trimmed."""
    table, tables = run.table, applied.tables
    bits, last, entries = tables.block_bits, -1, 0
    number, name = run.number, "the part in memory" if run.number is None else f"run {run.number}"
    directory = None if number is None else _Directory(applied.store.get([directory_key(number)])[0], bits)
    for words, doc_numbers in tables.portions(run):
        blocks = block_of(words, table, bits).astype(np.int64)
        order = np.concatenate(([last], blocks << 32 | doc_numbers))
        for at in np.flatnonzero(np.diff(order) <= 0).tolist():
            yield f"list {table}/{blocks[at] >> (bits - BLOCK_BITS)} is not in order of log position"
        if int(doc_numbers.min()) < begin or int(doc_numbers.max()) >= run.before:
            yield f"table {table}: {name} has entries of other document numbers than {begin} to {run.before}"
        last, entries = int(order[-1]), entries + len(words)
        if directory is not None:
            directory.add_chunk(blocks)
        live = doc_numbers >= tables.rows.first
        held.add(table, blocks[live] >> (bits - BLOCK_BITS), words[live], doc_numbers[live])
    if entries != run.entries:
        yield f"table {table}: {name} has {entries} entries, its directory says {run.entries}"
    elif directory is not None and not directory.is_right:
        yield f"table {table}: the directory of {name} is not that of its entries"
