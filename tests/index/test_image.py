"""The image: what it holds within its budget, and that it says so. That it changes no verdict: ``test_directed``."""

import random
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import DocNumber, log_position
from stream_dedup.index import IndexSettings, LogIndex, image, row_column
from stream_dedup.index.layout import row_type
from stream_dedup.index.row_column import HeldRows
from tests.logs import SCHEME, START_TIME, batch_record, rules_record, trim_record

KIB = 1 << 10
ROWS = 100
EMPTY_SHARDS = 64 * 4097 * 4
"""Bytes that the shards of four tables take before they hold anything: where each list starts."""


@pytest.fixture(autouse=True)
def kibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget counts in KiB, and rows are held in arrays of 4 KiB."""
    monkeypatch.setattr(image, "MIB", KIB)
    monkeypatch.setattr(row_column, "IMAGE_CHUNK_BITS", 6)


def open_index(path: Path, image_kib: int) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=64, image_mib=image_kib))


def fill(index: LogIndex, first: int, batches: int, size: int = ROWS) -> None:
    rng = random.Random(first)
    for at in range(first, first + batches):
        values = [rng.getrandbits(64) for _ in range(size)]
        index.apply([batch_record(at, START_TIME + at, values, range(at * size, at * size + size))])


def held(index: LogIndex) -> tuple[int, int]:
    """Whether the rows are held, and how many shards."""
    stats = index.stats()
    return stats.image_rows, stats.image_shards


def in_kib(index: LogIndex) -> int:
    return index.stats().image_bytes // KIB


def test_without_a_budget_nothing_is_held(tmp_path: Path) -> None:
    """0 is off; shards are read from disk by the look-ups that need them, and that is counted."""
    index = open_index(tmp_path, 0)
    index.begin("a log")
    index.apply([rules_record(0)])
    fill(index, 1, 5)
    index.merge_all()
    assert (held(index), in_kib(index)) == ((0, 0), 0)
    index.judge(np.array([log_position(5, 0)]))
    assert index.counters.shards_read == 4
    index.close()


@pytest.mark.slow
def test_a_large_budget_holds_everything(tmp_path: Path) -> None:
    """64 bytes a row, and 12 an entry of each table, beside what empty lists take; no look-up reads the disk."""
    index = open_index(tmp_path, 1 << 20)
    index.begin("a log")
    index.apply([rules_record(0)])
    fill(index, 1, 32)
    index.merge_all()
    assert held(index) == (1, 64)
    assert index.stats().image_bytes == EMPTY_SHARDS + 3200 * (64 + 4 * 12)
    index.judge(np.array([log_position(5, 0)]))
    assert index.counters.shards_read == 0
    assert index.verify() == []
    index.close()


@pytest.mark.slow
def test_what_outgrows_the_budget_goes_shard_by_shard_then_the_rows(tmp_path: Path) -> None:
    """The budget is kept after every batch; rows stay longest; when they go, shards have room again."""
    index = open_index(tmp_path, 1_150)
    index.begin("a log")
    index.apply([rules_record(0)])
    seen: list[tuple[int, int]] = []
    for at in range(1, 60):
        fill(index, at, 1, size=4 * ROWS)
        assert in_kib(index) <= 1_150
        if not seen or held(index) != seen[-1]:
            seen.append(held(index))
    with_rows = [shards for rows, shards in seen if rows]
    assert with_rows[0] == 64
    assert with_rows[-1] == 0
    without_rows = [shards for rows, shards in seen if not rows]
    assert seen[-1] == (0, without_rows[-1])
    assert max(without_rows) > 0
    assert index.verify() == []
    index.close()


@pytest.mark.slow
def test_a_shard_that_is_not_held_comes_in_when_there_is_room(tmp_path: Path) -> None:
    """After a trim gave back rows and entries, folding fills the image again."""
    index = open_index(tmp_path, 1_200)
    index.begin("a log")
    index.apply([rules_record(0, window_ms=1)])
    fill(index, 1, 60)
    assert held(index)[1] < 60
    index.apply([rules_record(61, START_TIME + 61, window_ms=1)])
    index.apply([trim_record(62, START_TIME + 5_000, 61, START_TIME + 4_000)])
    index.finish_trim()
    fill(index, 63, 4)
    index.merge_all()
    assert held(index) == (1, 64)
    assert in_kib(index) * KIB < EMPTY_SHARDS + 600 * 112
    assert index.verify() == []
    index.close()


def test_opening_tells_its_progress(tmp_path: Path) -> None:
    """Rows, then shards; the end is reported however much was loaded."""
    index = open_index(tmp_path, 1 << 20)
    index.begin("a log")
    index.apply([rules_record(0)])
    fill(index, 1, 20)
    held_before = index.stats().image_bytes
    index.close()
    for image_kib in (1 << 20, 1_100, 0):
        steps: list[tuple[int, int]] = []
        settings = IndexSettings(fold_entries=64, image_mib=image_kib)
        index = LogIndex.open(
            tmp_path, scheme=SCHEME, settings=settings, progress=lambda *step, to=steps: to.append(step)
        )
        assert steps == sorted(steps)
        assert steps[-1] == (128, 128)
        assert len(steps) > 60 or image_kib < 1 << 20
        assert index.stats().image_bytes == held_before or image_kib < 1 << 20
        index.close()


def test_verify_finds_an_image_that_is_not_the_disk(tmp_path: Path) -> None:
    """Both are read and compared."""
    index = open_index(tmp_path, 1 << 20)
    index.begin("a log")
    index.apply([rules_record(0)])
    fill(index, 1, 5)
    index.merge_all()
    source = index._applied.tables.image.source(7)
    assert source is not None
    source.keys[0] ^= np.uint64(1)
    assert index.verify() == ["shard 7: the image is not the stored shard"]
    index.close()


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
