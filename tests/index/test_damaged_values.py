"""Values whose checksums are right and that no index has: a CorruptError before anything counts on them."""

import json
from pathlib import Path

import numpy as np
import pytest
from rocksdict import Options, Rdict

from stream_dedup.core.model import log_position
from stream_dedup.errors import CorruptError
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import (
    STATE,
    chunk_key,
    forgotten_key,
    offset_key,
    segment_key,
)
from stream_dedup.index.store import Store
from tests.index.checks import build
from tests.logs import SCHEME, START_TIME, TOPIC, batch_record, rules_record

BATCHES = [batch_record(at, START_TIME, [3] * 50, range(at * 50, at * 50 + 50)) for at in range(1, 7)]
RECORDS = [rules_record(0), *BATCHES]
SETTINGS = IndexSettings(memory_mib=0)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An index of 300 equal articles in six records: a chunk of rows, and an unfinished one."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    return tmp_path


def change(path: Path, key: bytes, value: bytes) -> None:
    """Write another value behind the index's back."""
    assert put(path, key, value)


def put(path: Path, key: bytes, value: bytes) -> bytes:
    """Write a value; return the one that was there."""
    store = opened(path)
    (before,) = store.get([key])
    batch = store.batch()
    batch.put(key, value)
    store.write(batch)
    store.close()
    return before


def value_of(path: Path, key: bytes) -> bytes:
    store = opened(path)
    (value,) = store.get([key])
    store.close()
    return value


def opened(path: Path) -> Store:
    return Store(path / "data-1", SETTINGS, create=False, on_corrupt=pytest.fail)


def judge_all(path: Path) -> None:
    with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
        index.judge(np.array([log_position(at, row) for at in (1, 2, 3) for row in range(50)]))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("next_offset", [0, 3]),
        ("next_doc_number", [0, 5, 149, 151, 1 << 31]),
        ("first_doc_number", [5, 1 << 31]),
        ("last_checksum", [7]),
        ("articles", [149]),
        ("withdrawn", [1]),
    ],
)
def test_a_state_that_is_not_that_of_the_records_is_damage(kept: Path, field: str, values: list[int]) -> None:
    """As in a folder with files of two times: each is whole, and they do not belong together."""
    state = json.loads(value_of(kept, STATE))
    for value in values:
        change(kept, STATE, json.dumps(state | {field: value}).encode())
        with pytest.raises(CorruptError, match="index rebuild"):
            judge_all(kept)
        (kept / "corrupt").unlink()
    change(kept, STATE, json.dumps(state).encode())
    judge_all(kept)


def test_a_state_of_other_fields_is_damage(kept: Path) -> None:
    """No value is guessed for one that is missing, and none is passed by."""
    state = json.loads(value_of(kept, STATE))
    without = {name: value for name, value in state.items() if name != "withdrawn"}
    for other in (without, state | {"unknown": 1}):
        change(kept, STATE, json.dumps(other).encode())
        with pytest.raises(CorruptError, match=r"its state .*: it has the fields articles, .*index rebuild"):
            judge_all(kept)
        (kept / "corrupt").unlink()


@pytest.mark.parametrize(
    ("key", "named"),
    [
        (segment_key(TOPIC, 0, 50), "a source range"),
        (forgotten_key(TOPIC, 0), "what is forgotten of its source partitions"),
        (offset_key(b"H", 3), "its withdrawn entries"),
        (offset_key(b"E", 2), "log record 2"),
    ],
    ids=["range", "forgotten", "withdrawn", "record"],
)
def test_a_value_of_another_length_is_damage(kept: Path, key: bytes, named: str) -> None:
    """Whichever it is, the message says of which index, of what, and how to go on; the next opening refuses."""
    put(kept, key, b"short")
    with pytest.raises(CorruptError, match=f"^index {kept}: {named} cannot be read: .*index rebuild"):
        read_all(kept)
    with pytest.raises(CorruptError, match="is damaged"):
        read_all(kept)


def read_all(path: Path) -> None:
    with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
        index.logged_positions(TOPIC, 0, np.arange(150))
        index.judge(np.array([log_position(at, 0) for at in (1, 2, 3)]))


def test_a_damaged_file_is_told_once(kept: Path) -> None:
    """One that has the state: what RocksDB says of it is the message, with one remedy."""
    store = Rdict(str(kept / "data-1"), Options(raw_mode=True))
    names = [each["name"].lstrip("/") for each in store.live_files() if each["start_key"] == STATE]
    store.close()
    for file in [kept / "data-1" / name for name in names]:
        raw = file.read_bytes()
        file.write_bytes(bytes([raw[0] ^ 1]) + raw[1:])
    with pytest.raises(CorruptError, match=f"^index {kept}: RocksDB could not read: Corruption") as error:
        judge_all(kept)
    assert str(error.value).count("index rebuild") == 1


def change_rows(path: Path, word: int, value: int) -> None:
    """Change a word of the first rows."""
    raw = bytearray(value_of(path, chunk_key(0)))
    for start in range(word * 8, len(raw), 64):
        raw[start : start + 8] = value.to_bytes(8, "little")
    change(path, chunk_key(0), bytes(raw))


@pytest.mark.parametrize(
    "position",
    [0, log_position(9, 0), log_position(1, 77), (1 << 64) - 1],
    ids=["before any", "of no record", "of no row", "below zero"],
)
def test_a_row_that_names_no_entry_is_damage(kept: Path, position: int) -> None:
    """A match is looked up in the log record that its row names before it is given."""
    change_rows(kept, 6, position)
    with pytest.raises(CorruptError, match="a row names log position"):
        judge_all(kept)


def test_a_row_with_another_signature_is_damage(kept: Path) -> None:
    """The distance of a match is that of the log's signatures."""
    change_rows(kept, 0, 2)
    with pytest.raises(CorruptError, match="the row of entry 0 of log record 1 is not the one of the log"):
        judge_all(kept)
