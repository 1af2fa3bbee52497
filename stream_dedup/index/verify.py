"""Verification: the whole index is read and compared with itself.

The rows must be those of the originals, and the runs of each table must hold exactly the keys of the entries that are
not trimmed. Instead of holding both in memory, either is reduced to a count and a sum of mixed entries, which depend on
nothing but their content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.model import BLOCKS_PER_WORD, DocNumber, ReportProgress, SourceOffset
from stream_dedup.core.probes import KEY_FACTORS
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index.applying import Applied
from stream_dedup.index.layout import RowArray, SourceKey
from stream_dedup.index.records import StoredRecord, StoredRecords, table_rows
from stream_dedup.index.tables import Tables
from stream_dedup.index.trims import Coverage

_PROBLEMS = 20
"""Problems listed before the rest is left out: one damaged file spoils thousands of log records."""
_IDS_AT_ONCE = 1 << 16
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that mixing loses nothing (the golden ratio's bits)."""


def verify(applied: Applied, progress: ReportProgress | None) -> list[str]:
    """Return the problems found, at most a score; empty where everything fits."""
    problems: list[str] = []
    offsets = applied.state.next_offset - applied.state.low_watermark
    try:
        for found in _steps(applied):
            if isinstance(found, str):
                problems.append(found)
                if len(problems) == _PROBLEMS:
                    return [*problems, "and perhaps more: stopped looking"]
            elif progress is not None:
                progress(min(found, 2 * offsets), 2 * offsets)
    except StreamDedupError as error:
        problems.append(str(error))
    return problems


def _steps(applied: Applied) -> Iterator[int | str]:
    """Yield the problems, and after each step how much is done: log offsets, then as many for the tables."""
    state, rows, tables = applied.state, applied.rows, applied.tables
    expected, ids = [_Total() for _ in KEY_FACTORS], _Total()
    articles, doc_number = 0, state.first_doc_number
    for row in rows.scan(state.low_watermark):
        numbered = table_rows([row])
        numbers = np.arange(doc_number, doc_number + len(numbered))
        yield from _check_rows(row, numbered, doc_number, tables)
        keys = numbered["signature"] ^ (numbered["scope_hash"][:, np.newaxis] * KEY_FACTORS)
        for word, total in enumerate(expected):
            total.add(keys[:, word], numbers)
        ids.add(_mixed(numbered["id_hash"], numbers), numbered["position"])
        articles += row.head.original_count
        doc_number = DocNumber(doc_number + len(numbered))
        yield row.offset - state.low_watermark
    if articles != state.articles:
        yield f"{articles} originals are there, {state.articles} are counted"
    if doc_number != state.next_doc_number:
        yield f"{doc_number} entries are numbered, not {state.next_doc_number}"
    yield from _check_coverage(rows, applied.coverage)
    yield from applied.withdrawn.problems(state.first_doc_number, state.next_doc_number)
    yield from _check_ids(applied, ids)
    offsets = state.next_offset - state.low_watermark
    for table in range(tables.count):
        yield from _check_table(tables, table, expected[table // BLOCKS_PER_WORD])
        yield offsets + offsets * (table + 1) // tables.count


@dataclass(slots=True)
class _Total:
    """Number of some entries, and their sum modulo 2**64, which depends on nothing but what they are."""

    count: int = 0
    sum: int = 0

    def add(self, keys: U64, numbers: I64) -> None:
        self.count += len(keys)
        self.sum = (self.sum + int(_mixed(keys, numbers).sum())) % (1 << 64)


def _mixed(keys: U64, numbers: I64) -> U64:
    """As ``native/src/postings/tables.rs`` mixes the key and the number of an entry."""
    both = (keys * _MIX) ^ numbers.astype(np.uint64)
    return (both ^ (both >> np.uint64(29))) * _MIX


def _check_rows(row: StoredRecord, numbered: RowArray, first: DocNumber, tables: Tables) -> Iterator[str]:
    end = DocNumber(first + len(numbered))
    if first < end and row.head.first != first:
        yield f"log record {row.offset}: its entries are numbered from {row.head.first} on, not {first}"
        return
    # On disk, and as they are in memory.
    if not np.array_equal(tables.rows.read(first, end), numbered):
        yield f"log record {row.offset}: the rows of its entries are not those of the log"
    elif not np.array_equal(tables.rows_of(np.arange(first, end)), numbered):
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


def _check_ids(applied: Applied, expected: _Total) -> Iterator[str]:
    rules, first = applied.history.current, applied.state.first_doc_number
    if rules is None or not rules.scheme.deletes:
        return
    held = _Total()
    live = (pair for pair in applied.ids.all() if pair[1] >= first)
    while some := list(islice(live, _IDS_AT_ONCE)):
        hashes, numbers, positions = zip(*some, strict=True)
        held.add(_mixed(np.array(hashes, np.uint64), np.array(numbers)), np.array(positions))
    if held != expected:
        yield f"the ids of {held.count} entries are not those of the {expected.count} in the log"


def _check_table(tables: Tables, table: int, expected: _Total) -> Iterator[str]:
    held = _Total(*tables.sum(table))
    if held != expected:
        yield f"table {table}: its {held.count} entries are not the {expected.count} of the log"
