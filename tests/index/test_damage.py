"""Damaged files are noticed, at opening or when they are read, and verify finds what no checksum can."""

import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import Judgement, log_position
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import chunk_key, offset_key, segment_key
from stream_dedup.index.posting_lists import Run
from tests.amount import sampled
from tests.index import killed
from tests.index.checks import build
from tests.index.killed import SETTINGS, the_log
from tests.logs import SCHEME, START_TIME, TOPICS, batch_record, rules_record

ROWS = 50


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that is closed; each test has a copy."""
    path = tmp_path_factory.mktemp("made")
    rng = random.Random(4)
    records = [rules_record(0)]
    records += [
        batch_record(at, START_TIME, [rng.getrandbits(64) for _ in range(ROWS)], range(at * ROWS, at * ROWS + ROWS))
        for at in range(1, 40)
    ]
    index = build(open_index(path), records)
    index.merge_all()
    index.close()
    return path


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "kept"))


def open_index(path: Path) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=500))


def read_everything(path: Path) -> tuple[list[str], list[Judgement]]:
    """Open, verify and judge; the problems found, and the verdicts."""
    index = LogIndex.open(path, scheme=SCHEME)
    try:
        problems = index.verify()
        return problems, index.judge(np.array([log_position(at, row) for at in range(1, 40) for row in range(ROWS)]))
    finally:
        index.close()


def tables_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.sst"))


def test_a_truncated_file_is_noticed_at_opening(kept: Path) -> None:
    """The size of each file is known."""
    file = tables_files(kept)[-1]
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CorruptError, match="index rebuild"):
        LogIndex.open(kept, scheme=SCHEME)
    with pytest.raises(CorruptError, match="damaged"):
        LogIndex.open(kept, scheme=SCHEME)


@pytest.mark.parametrize("name", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_missing_file_is_noticed_at_opening(kept: Path, name: str) -> None:
    """Nothing is made anew in its place."""
    next(kept.rglob(name)).unlink()
    with pytest.raises(CorruptError, match="index rebuild"):
        LogIndex.open(kept, scheme=SCHEME)


def flip(path: Path, share: float) -> None:
    """Change one byte of the largest file, at this share of its length."""
    file = max(tables_files(path), key=lambda each: each.stat().st_size)
    content = bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("share", sampled([part / 20 for part in range(19)] + [0.999], 6))
def test_a_flipped_byte_is_noticed_when_it_is_read(kept: Path, share: float) -> None:
    """Wherever it stands, opening, verifying or judging says so, and the next opening refuses."""
    flip(kept, share)
    with pytest.raises(CorruptError, match="index rebuild"):
        assert read_everything(kept)[0] == []
    with pytest.raises(CorruptError, match="damaged"):
        LogIndex.open(kept, scheme=SCHEME)


def test_a_flipped_byte_in_a_filter_changes_nothing(kept: Path) -> None:
    """The Bloom filter at the end of a file only saves reads: RocksDB does without one that is damaged."""
    sound = read_everything(kept)
    flip(kept, 0.985)
    assert read_everything(kept) == sound


def test_a_sound_index_has_no_problems(kept: Path) -> None:
    """Verify reads the whole index and reports its progress."""
    index = open_index(kept)
    steps: list[tuple[int, int]] = []
    assert index.verify(lambda done, whole: steps.append((done, whole))) == []
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]
    index.close()


def _write(index: LogIndex, key: bytes, value: bytes) -> None:
    batch = index._applied.store.batch()
    if value:
        batch.put(key, value)
    else:
        batch.delete(key)
    index._applied.store.write(batch)


def _run(index: LogIndex) -> Run:
    """The run of the third table that has all entries."""
    (run,) = index._applied.tables.runs_of(2)
    return run


def _problems(index: LogIndex) -> set[str]:
    """What verify finds, without the numbers."""
    return {re.sub(r"\d+", "N", problem) for problem in index.verify()}


ENTRIES = "list N/N: its N entries are not the N of the log"
DIRECTORY = "table N: the directory of a run is not that of its entries"
ORDER = "list N/N is not in order of log position"
LATER = "table N: a run has entries from before those of an older run"
MORE = "and perhaps more: stopped looking"


def test_verify_finds_a_missing_run(kept: Path) -> None:
    """Every entry of the log is in its list of each table."""
    with open_index(kept) as index:
        index._applied.tables.chains[2].kept.pop(0)
        assert _problems(index) == {ENTRIES, MORE}


def test_verify_finds_runs_in_another_order(kept: Path) -> None:
    """A list is its parts in the runs, one after the other."""
    with open_index(kept) as index:
        chain = index._applied.tables.chains[2]
        index.apply([batch_record(40, START_TIME, [5], [5000])])
        index._applied.tables._merge_young()
        assert index.verify() == []
        chain.newest, chain.kept[0] = chain.kept[0].run, replace(chain.kept[0], run=chain.newest)
        assert _problems(index) == {LATER}


def test_verify_finds_changed_rows(kept: Path) -> None:
    """The rows are those of the log, on disk and in memory."""
    index = open_index(kept)
    raw = index._applied.store.get([chunk_key(3)])[0]
    _write(index, chunk_key(3), raw[:70] + b"??" + raw[72:])
    assert index.verify() == ["log record 4: the rows of its entries are not those of the log"]
    held = index._applied.tables.rows.held
    assert held is not None
    held.rows.chunks[0]["signature"][0, 0] += 1
    assert "log record 1: the rows held in memory are not those of the log" in index.verify()
    _write(index, chunk_key(3), raw[:-1])
    assert "bytes do not hold them" in index.verify()[-1]
    index.close()


def test_verify_finds_a_changed_entry(kept: Path) -> None:
    """A document number or a key that the log does not have, entries out of order, and another directory."""
    with open_index(kept) as index:
        run = _run(index)
        run.doc_numbers[7] ^= 1
        assert _problems(index) == {ENTRIES}
        run.doc_numbers[7] ^= 1
        run.keys[7] ^= np.uint64(1 << 48)  # of another table's block
        assert _problems(index) == {ENTRIES}
        run.keys[7] ^= np.uint64(1 << 48)
        run.keys[7] ^= np.uint64(1 << 31)  # the highest bit of the block
        assert _problems(index) >= {ENTRIES, DIRECTORY, ORDER}
        run.keys[7] ^= np.uint64(1 << 31)
        for array in (run.keys, run.doc_numbers):
            array[[7, 8]] = array[[8, 7]]
        assert _problems(index) == {ORDER}
        for array in (run.keys, run.doc_numbers):
            array[[7, 8]] = array[[8, 7]]
        run.starts[9] += 1
        assert _problems(index) == {DIRECTORY}
        run.starts[9] -= 1
        assert index.verify() == []


def test_verify_finds_a_source_range_without_its_record(kept: Path) -> None:
    """Every source range names a record that is there and covers it."""
    index = open_index(kept)
    value = index._applied.store.get([segment_key(TOPICS[0], 0, 50)])[0]
    _write(index, segment_key(TOPICS[0], 0, 50), value[:8] + (77).to_bytes(8, "little") + value[16:])
    assert "names log record 77, which is not there" in index.verify()[0]
    _write(index, segment_key(TOPICS[0], 0, 50), (120).to_bytes(8, "little") + value[8:])
    problems = " ".join(index.verify())
    assert "overlaps the one before it" in problems
    assert "goes beyond log record 1" in problems
    index.close()


def test_a_record_that_cannot_be_decoded_marks_the_index(kept: Path) -> None:
    """Damage inside a value is reported as damage too."""
    index = open_index(kept)
    _write(index, offset_key(b"E", 1), b"\x01\x01")
    index.close()
    index = LogIndex.open(kept, scheme=SCHEME)
    with pytest.raises(CorruptError, match="log record 1 cannot be read"):
        index.entry(log_position(1, 0))
    index.close()
    with pytest.raises(CorruptError, match="damaged"):
        LogIndex.open(kept, scheme=SCHEME)


FULL_DISK = """
import resource, sys
from pathlib import Path
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.index import LogIndex
from tests.index.killed import SCHEME, SETTINGS, the_log

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
index = LogIndex.open(Path(sys.argv[1]), scheme=SCHEME, settings=SETTINGS)
index.begin("a log")
try:
    for record in the_log().records:
        index.apply([record])
        if record.offset % 50 == 0:
            index.flush()
except UnavailableError as error:
    print("unavailable:", error)
index.close()
"""


@pytest.mark.slow
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """Files that cannot grow stop the index with one clear error; with space again it goes on where it was."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert ended.stdout.startswith("unavailable: index")
    assert "File too large" in ended.stdout
    assert ended.stderr == ""
    index = LogIndex.open(tmp_path, scheme=killed.SCHEME, settings=SETTINGS)
    assert index.next_offset < the_log().records[-1].offset
    assert index.verify() == []
    index.apply([record for record in the_log().records if record.offset >= index.next_offset])
    assert index.verify() == []
    index.close()


def test_after_a_failed_write_nothing_follows(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an UnavailableError; opened again, the index is at its applied position."""
    index = open_index(kept)
    store = index._applied.store

    def full(_: object) -> None:
        with store._translated("write"):
            msg = "IO error: No space left on device: While appending to file"
            raise Exception(msg)  # noqa: TRY002 - what rocksdict raises

    monkeypatch.setattr(store, "write", full)
    with pytest.raises(UnavailableError, match=r"No space left on device.*see that the disk has space"):
        index.apply([batch_record(40, START_TIME, [5], [5000])])
    monkeypatch.undo()
    with pytest.raises(RefusedError, match="stopped after an error"):
        index.apply([batch_record(40, START_TIME, [5], [5000])])
    index.close()
    index = LogIndex.open(kept, scheme=SCHEME)
    assert index.next_offset == 40
    index.apply([batch_record(40, START_TIME, [5], [5000])])
    assert index.verify() == []
    index.close()
