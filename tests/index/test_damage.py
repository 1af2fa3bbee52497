"""Damaged files are noticed, at opening or when they are read, and verify finds what no checksum can."""

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rocksdict import Options, Rdict

from stream_dedup.core.model import Judgement, log_position
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import (
    RUNS,
    Head,
    chunk_key,
    directory_key,
    list_chunk_key,
    offset_key,
    segment_key,
)
from stream_dedup.index.store import Store
from tests.amount import FULL, sampled
from tests.index import killed
from tests.index.checks import build
from tests.index.killed import SETTINGS, the_log
from tests.index.small import small_chunks
from tests.logs import SCHEME, START_TIME, TOPICS, batch_record, rules_record

ROWS = 50
VALUES = {"chunks": b"C", "log records": b"E", "rows": b"W", "the rest": b"D"}
"""Kinds of values that have files of their own, and the first key of each."""
NO_VALUES = 2_200
"""Bytes at the end of a file that only save reads, at most."""
SMALL = IndexSettings(fold_entries=6, memory_mib=0)


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
    build(open_index(path), records).close()
    return path


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "kept"))


@pytest.fixture(scope="module")
def sound(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[Judgement]]:
    return read_everything(Path(shutil.copytree(made, tmp_path_factory.mktemp("sound") / "index")))


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


def file_of(path: Path, kind: str) -> Path:
    """The largest file with values of a kind."""
    store = Rdict(str(path / "data-1"), Options(raw_mode=True))
    found = [each for each in store.live_files() if each["start_key"][:1] == VALUES[kind]]
    store.close()
    name: str = max(found, key=lambda each: each["size"])["name"]
    return path / "data-1" / name.lstrip("/")


@pytest.mark.parametrize("kind", VALUES)
def test_a_truncated_file_is_noticed_at_opening(kept: Path, kind: str) -> None:
    """The size of each file is known."""
    file = file_of(kept, kind)
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


def flip(path: Path, share: float, kind: str) -> bool:
    """Change one byte of the largest file of a kind, at this share of its length; whether it is of a key or value."""
    file = file_of(path, kind)
    content = bytearray(file.read_bytes())
    at = int(share * len(content))
    content[at] ^= 0xFF
    file.write_bytes(content)
    return at < len(content) - NO_VALUES


@pytest.mark.parametrize("share", sampled([part / 20 for part in range(19)] + [0.96, 0.97, 0.98, 0.985, 0.999], 5))
@pytest.mark.parametrize("kind", VALUES)
def test_a_flipped_byte_is_noticed_when_it_is_read(
    kept: Path, sound: tuple[list[str], list[Judgement]], kind: str, share: float
) -> None:
    """Opening, verifying or judging says so, and the next opening refuses; or it is one that only saves reads.

    Such are the Bloom filter and the statistics at the end of a file: RocksDB does without one that is damaged.
    """
    is_of_value = flip(kept, share, kind)
    try:
        problems, verdicts = read_everything(kept)
    except CorruptError as error:
        problems = [str(error)]
    if not is_of_value and not problems:
        assert (problems, verdicts) == sound
        return
    assert "index rebuild" in problems[-1]
    with pytest.raises(CorruptError, match="damaged"):
        LogIndex.open(kept, scheme=SCHEME)


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


def _replace(path: Path, key: bytes, value: bytes) -> None:
    """Replace a value of an index that is closed."""
    store = Store(path / "data-1", IndexSettings(), create=False, on_corrupt=pytest.fail)
    batch = store.batch()
    batch.put(key, value)
    store.write(batch)
    store.close()


def _problems(index: LogIndex) -> set[str]:
    """What verify finds, without the numbers."""
    return {re.sub(r"\d+", "N", problem) for problem in index.verify()}


ENTRIES = "table N: its N entries are not the N of the log"


def _runs(index: LogIndex) -> list[int]:
    """The numbers of the runs, each the one of a table, by table."""
    return [run.number for run in index._applied.tables.runs if run.number is not None]


def _value(index: LogIndex, key: bytes) -> bytes:
    return index._applied.store.get([key])[0]


def test_verify_finds_entries_that_are_missing(kept: Path) -> None:
    """Every entry of the log is in its list of each table: a chunk is gone, or a run is not named."""
    with open_index(kept) as index:
        number = _runs(index)[2]
        _write(index, list_chunk_key(number, 1), b"")
        (gone,) = _problems(index)
        assert "a chunk of table N has N bytes; run `stream-dedup index rebuild" in gone
    (kept / "corrupt").unlink()
    with open_index(kept) as index:
        numbers = json.loads(_value(index, RUNS))
        _write(index, RUNS, json.dumps([each for each in numbers if each != number]).encode())
    with open_index(kept) as index:  # its entries are read from the rows
        assert index.verify() == []


def test_a_run_whose_chunks_are_gone_is_damage(kept: Path) -> None:
    """Nothing is looked up without it."""
    with open_index(kept) as index:
        for chunk in (0, 1):
            _write(index, list_chunk_key(_runs(index)[1], chunk), b"")
    with pytest.raises(CorruptError, match=r"the chunks of its runs \[\d+\] are missing.*index rebuild"):
        open_index(kept)


def test_verify_finds_changed_rows(kept: Path) -> None:
    """The rows are those of the log, on disk and in memory."""
    with open_index(kept) as index:
        of_chunk = index._applied.tables.rows.of_chunk
        of_log = f"log record {1 + (3 * of_chunk + 1) // ROWS}"
        changed = f"{of_log}: the rows of its entries are not those of the log"
        raw = _value(index, chunk_key(3))
        index.verify()  # now they are in memory
        _write(index, chunk_key(3), raw[:70] + b"??" + raw[72:])
        assert changed in index.verify()
    with open_index(kept) as index:
        assert changed in index.verify()
        index._applied.tables.rows_of(np.arange(3 * of_chunk, 3 * of_chunk + 2))
        _write(index, chunk_key(3), raw)
        assert f"{of_log}: the rows held in memory are not those of the log" in index.verify()
    _replace(kept, chunk_key(3), raw[:70] + b"??" + raw[72:])
    with open_index(kept) as index:
        assert changed in index.verify()
    _replace(kept, chunk_key(3), raw[:-1])
    with open_index(kept) as index:
        assert "bytes do not hold them" in index.verify()[-1]


def test_a_name_of_no_run_is_damage(kept: Path) -> None:
    """Nothing that is stored is removed."""
    with open_index(kept) as index:
        sound = _value(index, RUNS)
        _write(index, RUNS, b"[99]")
    with pytest.raises(CorruptError, match=r"the chunks of its runs \[99\] are missing.*index rebuild"):
        open_index(kept)
    (kept / "corrupt").unlink()
    _replace(kept, RUNS, sound)
    with open_index(kept) as index:
        assert index.verify() == []


def _changed(index: LogIndex, key: bytes, changes: dict[int, bytes]) -> set[str]:
    """What verify finds where bytes of a value are others; it is put back."""
    sound = _value(index, key)
    raw = bytearray(sound)
    for at, some in changes.items():
        raw[at : at + len(some)] = some
    assert raw != sound
    _write(index, key, bytes(raw))
    found = _problems(index)
    _write(index, key, sound)
    return found


def test_verify_finds_a_changed_entry(kept: Path) -> None:
    """A document number or a key that the log does not have, and entries out of order."""
    with open_index(kept) as index:
        key = list_chunk_key(_runs(index)[2], 0)
        raw = _value(index, key)
        entries = int.from_bytes(raw[4:8], "little")
        words, numbers = 8, 8 + 8 * entries
        assert _changed(index, key, {numbers + 28: bytes([raw[numbers + 28] ^ 1])}) == {ENTRIES}
        assert _changed(index, key, {words + 56 + 6: bytes([raw[words + 56 + 6] ^ 1])}) == {ENTRIES}  # another's block
        (order,) = _changed(index, key, {words + 56 + 3: bytes([raw[words + 56 + 3] ^ 0x80])})
        assert "a chunk of table N is not in order of block and document number; run `stream-dedup index" in order
        (version,) = _changed(index, key, {0: b"\1"})
        assert "a chunk of table N has version N; run `stream-dedup index rebuild" in version
        assert index.verify() == []


def test_verify_finds_a_changed_directory(kept: Path) -> None:
    """Where chunks begin and end, which blocks have entries, how many entries there are, and before which number."""
    with open_index(kept) as index:
        key = directory_key(_runs(index)[2])
        raw = _value(index, key)
    has_blocks = next(at for at in range(40, len(raw)) if raw[at])
    changes = {at: bytes([raw[at] ^ 1]) for at in (20, 24, 28, 32, 36)} | {has_blocks: b"\0"}
    changes |= {4: (1_951).to_bytes(8, "little"), 12: (1_000).to_bytes(8, "little")}
    for at, some in changes.items():
        _replace(kept, key, raw[:at] + some + raw[at + len(some) :])
        try:
            with open_index(kept) as index:
                problems = index.verify()
        except CorruptError as error:
            problems = [str(error)]
        assert "index rebuild" in problems[0], at
        (kept / "corrupt").unlink()
    _replace(kept, key, raw)
    with open_index(kept) as index:
        assert index.verify() == []


KINDS = "CDTWEM"
"""First bytes of the keys of what the log's records give: chunks, directories, names of runs, rows, heads, state."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_of_a_value_changes_no_verdict_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of each kind of value: verify finds it, or opening refuses and names the remedy, or nothing depends on it."""
    small_chunks(monkeypatch.setattr)
    rng = random.Random(kind)
    made = tmp_path / "made"
    values = [rng.getrandbits(64) for _ in range(12)]
    records = [rules_record(0)]
    records += [
        batch_record(at, START_TIME, [rng.choice(values) for _ in range(5)], range(at * 5, at * 5 + 5))
        for at in range(1, 9)
    ]
    positions = np.array([log_position(at, row) for at in range(1, 9) for row in range(5)])
    with LogIndex.open(made, scheme=SCHEME, settings=SMALL) as index:
        build(index, records)
        expected = index.judge(positions)
        stored = {key: raw for key, raw in index._applied.store.scan(kind.encode(), bytes([ord(kind) + 1])) if raw}
    assert stored
    # Of log records the head: their value is what RocksDB's checksums are for.
    sizes = {key: len(raw) - len(Head.split(raw)[1]) if kind == "E" else len(raw) for key, raw in stored.items()}
    places = [(key, at) for key, size in sizes.items() for at in range(size)]
    for number, (key, at) in enumerate(rng.sample(places, min(len(places), 300 if FULL else 6))):
        path = Path(shutil.copytree(made, tmp_path / str(number)))
        raw = bytearray(stored[key])
        raw[at] ^= 1 << rng.randrange(8)
        with LogIndex.open(path, scheme=SCHEME, settings=SMALL) as index:
            _write(index, key, bytes(raw))
        try:
            with LogIndex.read(path, scheme=SCHEME, settings=SMALL) as index:
                problems = index.verify()
                assert problems or index.judge(positions) == expected, (key, at)
        except CorruptError as error:
            assert "index rebuild" in str(error)  # noqa: PT017 - one of two answers


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
    _write(index, offset_key(b"E", 2), Head(100, START_TIME).encode() + b"\x01\x01")
    index.close()
    index = LogIndex.open(kept, scheme=SCHEME)
    with pytest.raises(CorruptError, match="log record 2 cannot be read"):
        index.entry(log_position(2, 0))
    index.close()
    with pytest.raises(CorruptError, match="damaged"):
        LogIndex.open(kept, scheme=SCHEME)


FULL_DISK = """
import resource, sys
from pathlib import Path
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.index import LogIndex
from tests.index.killed import SCHEME, SETTINGS, the_log

index = LogIndex.open(Path(sys.argv[1]), scheme=SCHEME, settings=SETTINGS)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
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
            raise Exception("IO error: No space left on device: While appending to file")  # noqa: TRY002 - what rocksdict raises

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
