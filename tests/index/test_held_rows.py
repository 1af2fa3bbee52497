"""Rows in memory: what the budget holds, and that the figures say so. That it changes no verdict: ``test_directed``."""

import random
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import DocNumber, Verdict, log_position
from stream_dedup.index import IndexSettings, LogIndex, row_column, tables
from stream_dedup.index.layout import row_type
from stream_dedup.index.row_column import HeldRows
from tests.logs import SCHEME, START_TIME, batch_record, rules_record, trim_record

KIB = 1 << 10
ROWS = 100


@pytest.fixture(autouse=True)
def kibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget counts in KiB, and rows are held in arrays of 4 KiB."""
    monkeypatch.setattr(tables, "MIB", KIB)
    monkeypatch.setattr(row_column, "IMAGE_CHUNK_BITS", 6)


def open_index(path: Path, image_kib: int) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=64, image_mib=image_kib))


def fill(index: LogIndex, first: int, batches: int, size: int = ROWS) -> None:
    rng = random.Random(first)
    for at in range(first, first + batches):
        values = [rng.getrandbits(64) for _ in range(size)]
        index.apply([batch_record(at, START_TIME + at, values, range(at * size, at * size + size))])


def rows_held(index: LogIndex) -> int:
    """Bytes of the rows in memory, as the figures say: 0 if they are not held."""
    stats = index.stats()
    held = stats.image_bytes - stats.run_bytes
    assert bool(held) == bool(stats.image_rows)
    return held


def test_without_a_budget_no_row_is_held(tmp_path: Path) -> None:
    """0 is off; rows are read from disk."""
    with open_index(tmp_path, 0) as index:
        index.begin("a log")
        index.apply([rules_record(0)])
        fill(index, 1, 5)
        assert rows_held(index) == 0
        index.apply([batch_record(6, START_TIME + 6, [7, 7], [600, 601])])
        assert rows_held(index) == 0
        assert index.judge(np.array([log_position(6, 1)]))[0].verdict is Verdict.DUPLICATE
        assert index.verify() == []


def test_a_budget_holds_every_row(tmp_path: Path) -> None:
    """64 bytes a row; runs take 12 bytes an entry of each table, and up to 16 for the directories of small ones."""
    with open_index(tmp_path, 1 << 20) as index:
        index.begin("a log")
        index.apply([rules_record(0)])
        fill(index, 1, 32)
        index.merge_all()
        assert rows_held(index) == 3200 * 64
        assert 12 * 4 * 3200 < index.stats().run_bytes <= (12 + 16 + 1) * 4 * 3200
        assert index.verify() == []


def test_rows_that_outgrow_the_budget_go(tmp_path: Path) -> None:
    """It is kept after every batch. Opened again after a trim, the index holds rows where there is room for them."""
    with open_index(tmp_path, 150) as index:
        index.begin("a log")
        index.apply([rules_record(0, window_ms=1)])
        seen = []
        for at in range(1, 30):
            fill(index, at, 1)
            assert rows_held(index) <= 150 * KIB
            seen.append(rows_held(index) > 0)
        assert seen == sorted(seen, reverse=True)
        assert seen.count(True) == 150 * KIB // 64 // ROWS - 1  # in whole arrays of 64 rows
        assert index.verify() == []
        index.apply([rules_record(30, START_TIME + 30, window_ms=1)])
        index.apply([trim_record(31, START_TIME + 5_000, 30, START_TIME + 4_000)])
        fill(index, 32, 4)
        assert rows_held(index) == 0
    with open_index(tmp_path, 150) as index:
        assert 400 * 64 <= rows_held(index) <= 400 * 64 + 2 * 64 * 64
        assert index.verify() == []


def test_opening_reports_its_progress(tmp_path: Path) -> None:
    """Over the rows that are read; the end is reported however many that are."""
    with open_index(tmp_path, 1 << 20) as index:
        index.begin("a log")
        index.apply([rules_record(0)])
        fill(index, 1, 20)
        held_before = rows_held(index)
    for image_kib in (1 << 20, 0):
        steps: list[tuple[int, int]] = []
        settings = IndexSettings(fold_entries=64, image_mib=image_kib)
        with LogIndex.open(
            tmp_path, scheme=SCHEME, settings=settings, progress=lambda *step, to=steps: to.append(step)
        ) as index:
            assert [done / whole for done, whole in steps] == sorted(done / whole for done, whole in steps)
            assert steps[-1][0] == steps[-1][1]
            assert rows_held(index) == (held_before if image_kib else 0)


@pytest.mark.parametrize("sketch_bytes", [0, 24])
@pytest.mark.parametrize("first", [0, 63, 64, 1_000])
def test_rows_in_memory_grow_and_are_forgotten(first: int, sketch_bytes: int) -> None:
    """Whatever portions they come in; whole arrays are given back."""
    rng = np.random.default_rng(first)
    kind = row_type(sketch_bytes)
    rows = rng.integers(0, 1 << 63, 700 * kind.itemsize // 8, np.uint64).view(kind)
    kept, middle, end = HeldRows(DocNumber(first), kind), DocNumber(first + 400), DocNumber(first + 700)
    at = 0
    while at < len(rows):
        count = int(rng.integers(1, 150))
        kept.set_rows(DocNumber(first + at), rows[at : at + count])
        at += count
    assert kept.bytes == HeldRows.size(DocNumber(first), end, kind)
    chosen = rng.integers(0, 700, 300)
    assert np.array_equal(kept.rows.rows_of(first + chosen), rows[chosen])
    kept.drop_rows_before(middle)
    assert kept.bytes == HeldRows.size(middle, end, kind)
    chosen = rng.integers(400, 700, 300)
    assert np.array_equal(kept.rows.rows_of(first + chosen), rows[chosen])
    assert kept.rows.base <= middle
