"""Tables over rows in memory, and what they must hold by definition."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber
from stream_dedup.index import chains, run_files, run_removal, tables
from stream_dedup.index.layout import ROW, RowArray
from stream_dedup.index.posting_lists import Blocks, Run
from stream_dedup.index.row_column import HeldRows, RowColumn
from stream_dedup.index.run_folder import RunFolder
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.tables import Tables, keys_of
from tests.index.scan_cases import plain_blocks, plain_run
from tests.index.trees import tree

FANOUT = 3
"""As ``set_small_runs`` sets it."""
PORTION = 50
"""Rows that are read at once."""


def set_small_runs(put: Callable[[object, str, object], None] = setattr) -> None:
    """Let runs of a few entries be files, which are merged and removed in many steps."""
    put(chains, "FANOUT", FANOUT)
    put(tables, "MERGE_PACE", 2 * (FANOUT + 1))
    put(tables, "STEP_ENTRIES", 4)
    put(chains, "FILE_FOLDS", 1)
    put(tables, "YOUNG_ENTRIES", 8)
    put(tables, "RECENT_ENTRIES", 3)
    put(run_files, "_STAGED", 16)
    put(chains, "MERGE_AHEAD", 32)
    put(run_removal, "REMOVED_BYTES", 1_500)


class MemoryRows:
    """The part of ``RowColumn`` that tables use; its rows outlive a crash."""

    kind = ROW
    held: HeldRows | None = None
    held_bytes = 0

    def __init__(self, all_rows: RowArray, first: DocNumber) -> None:
        self.all_rows = all_rows
        self.first = first

    @property
    def after(self) -> DocNumber:
        return DocNumber(len(self.all_rows))

    def rows_written(self, rows: RowArray) -> None:
        self.all_rows = np.concatenate((self.all_rows, rows))

    def drop_rows_before(self, low_watermark: DocNumber) -> None:
        self.first = low_watermark

    def rows_of(self, doc_numbers: I64) -> RowArray:
        return self.all_rows[doc_numbers]

    def scan(self, start: DocNumber) -> Iterator[tuple[DocNumber, RowArray]]:
        for at in range(max(start, self.first), self.after, PORTION):
            yield DocNumber(at), self.all_rows[at : at + PORTION]


@dataclass
class TableWorld:
    """A data folder with tables that are opened and closed, of rows around a few blocks."""

    data: Path
    bits: int = 16
    tables: int = 4
    fold_entries: int = 16
    identity: bytes = b"sixteen bytes id"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    rows: MemoryRows = field(default_factory=lambda: MemoryRows(np.zeros(0, ROW), DocNumber(0)))

    def __post_init__(self) -> None:
        self.data.mkdir(exist_ok=True)
        self.opened = self.open()

    def open(self, *, writable: bool = True) -> Tables:
        """Open the tables, beside those that are open."""
        column = cast("RowColumn", self.rows)
        files = RunFolder(self.data, self.identity, column.rows_of, writable=writable)
        blocks = [Blocks(table, self.bits) for table in range(self.tables)]
        opened = Tables(column, files, blocks, IndexSettings(fold_entries=self.fold_entries, image_mib=0))
        opened.load()
        return opened

    def close(self) -> None:
        self.opened.note_flush(durable=True)
        self.opened.close()

    def append(self, count: int, *, one_block: bool = False, durable: bool = True) -> None:
        """Append entries: often of a few blocks, all over the range, or all of the same."""
        rows = np.zeros(count, ROW)
        some = self.rng.integers(0, 1 << 64, 6, np.uint64)
        flips = np.uint64(1) << self.rng.integers(0, 64, (count, 4), np.uint64)
        rows["signature"] = some[self.rng.integers(0, 6, (count, 4))] ^ flips
        if one_block:
            rows["signature"] = some[:4]
        rows["group"] = self.rng.integers(0, 3, count)
        rows["position"] = self.rng.integers(0, 1 << 62, count)
        self.opened.append_entries(rows)
        if durable:
            self.opened.note_flush(durable=True)

    def trim(self, low_watermark: int) -> None:
        self.opened.drop_entries_before(DocNumber(low_watermark))

    def crash(self, first: int, after: int) -> None:
        """End without closing, with the rows as they were at an earlier moment.

        What the thread of removals was doing is done: ``dying_runs`` ends in the midst of that.
        """
        self.opened._files._removal.wait()
        self.rows = MemoryRows(self.rows.all_rows[:after], DocNumber(first))
        self.opened = self.open()

    def names(self) -> set[str]:
        """Names in the folder of runs, when the files that can be removed are."""
        self.opened._files._removal.wait()
        folder = self.data / "runs"
        return {each.name for each in folder.iterdir()} if folder.exists() else set()

    def names_in_use(self) -> set[str]:
        """Names of the files of runs, of those that are made, and of those that are to be removed."""
        chains = self.opened.chains
        drafts = [merge.draft for chain in chains for merge in chain.merges if merge.draft is not None]
        gone = [kept.path for _, kept in self.opened._files._leaving if kept.path is not None]
        return {path.name for path in [*(path for chain in chains for path in chain.paths), *gone]} | {
            draft._path.name for draft in drafts
        }

    def contents(self) -> dict[str, str]:
        """What is in each file."""
        folder = self.data / "runs"
        return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in self.names()}

    def check(self, opened: Tables | None = None) -> None:
        """The lists of these tables are those of the rows, each of them once and in order."""
        opened = opened or self.opened
        rows = self.rows
        words = keys_of(rows.all_rows[rows.first :])
        for table in range(self.tables):
            check_runs(
                list(opened.runs_of(table)),
                plain_run(
                    Blocks(table, self.bits),
                    words[:, table // 4],
                    np.arange(rows.first, rows.after).astype(np.uint32),
                    6,
                ),
                rows.first,
            )


def filled(world: TableWorld) -> TableWorld:
    """Append 1,000 entries, and close: a file of each table has most of them."""
    for _ in range(10):
        world.append(100)
    world.opened.merge_all()
    world.close()
    return world


def check_opened(world: TableWorld, caplog: pytest.LogCaptureFixture, *said: str) -> None:
    """Opened as a reader, and twice as a writer, the lists are right; what does not fit is said, and then gone."""
    before = tree(world.data)
    caplog.clear()
    reader = world.open(writable=False)
    world.check(reader)
    reader.close()
    assert tree(world.data) == before
    check_said(caplog, said)
    world.opened = world.open()
    world.check()
    check_said(caplog, said)
    world.opened.merge_all()
    world.close()
    assert world.names() == world.names_in_use()
    world.opened = world.open()
    world.check()
    world.close()
    check_said(caplog, ())


def check_said(caplog: pytest.LogCaptureFixture, said: tuple[str, ...]) -> None:
    """What was said since, each once: a pattern found in each line."""
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(said)
    for line, pattern in zip(sorted(lines), sorted(said), strict=True):
        assert re.search(pattern, line)
        assert line.endswith("; its entries are read from the rows again")
    caplog.clear()


def check_runs(runs: list[Run], expected: Run, low_watermark: int) -> None:
    """Runs are as their definition says, and their entries that are not trimmed are those of one expected run."""
    for run in runs:
        order = np.argsort(run.doc_numbers)
        bits = (len(run.starts) - 1).bit_length() - 1
        plain = plain_run(run.blocks, run.keys[order], run.doc_numbers[order], bits)
        assert np.array_equal(run.starts, plain.starts)
        assert np.array_equal(run.keys, plain.keys)
        assert np.array_equal(run.doc_numbers, plain.doc_numbers)
    keys = np.concatenate([run.keys for run in runs]) if runs else np.empty(0, np.uint64)
    numbers = np.concatenate([run.doc_numbers for run in runs]) if runs else np.empty(0, np.uint32)
    live = numbers >= low_watermark
    keys, numbers = keys[live], numbers[live]
    # The parts of each list, in the order of the runs: only a stable sort keeps it.
    order = np.argsort(plain_blocks(expected.blocks, keys), kind="stable")
    assert np.array_equal(numbers[order], expected.doc_numbers)
    assert np.array_equal(keys[order], expected.keys)
