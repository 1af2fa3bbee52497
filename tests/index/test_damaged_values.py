"""Values whose checksums are right and that no index has: a CorruptError before anything counts on them."""

import json
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import log_position
from stream_dedup.errors import CorruptError
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import chunk_key, offset_key
from stream_dedup.index.store import Store
from tests.index.checks import build
from tests.logs import SCHEME, START_TIME, batch_record, rules_record

RECORDS = [rules_record(0), *(batch_record(at, START_TIME, [3] * 50, range(at * 50, at * 50 + 50)) for at in (1, 2, 3))]
SETTINGS = IndexSettings(memory_mib=0)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An index of 150 equal articles in three records."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    return tmp_path


def change(path: Path, key: bytes, value: bytes) -> None:
    """Write a value behind the index's back."""
    store = opened(path)
    assert store.get([key]) != [b""]
    batch = store.batch()
    batch.put(key, value)
    store.write(batch)
    store.close()


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
        ("log_id", [-1, [], True]),
        ("next_offset", [None, -1, "x", 0, 3, 1 << 63, True, 1.5]),
        ("last_checksum", [-1, "x", 1 << 64]),
        ("start", [-1, "x", 1 << 63]),
        ("low_watermark", [None, -1, "x", 1 << 63]),
        ("last_void_trim", [None, -2, "x", 1 << 63]),
        ("horizon", ["x", 1 << 63]),
        ("newest", ["x", 1 << 63]),
        ("articles", [None, -1, "x"]),
        ("next_doc_number", [None, -1, "x", 0, 5, 149, 151, 1 << 31, 1 << 40]),
        ("first_doc_number", [None, -1, "x", 5, 1 << 31]),
        ("unknown", [1]),
    ],
)
def test_a_state_that_no_index_has_is_damage(kept: Path, field: str, values: list[object]) -> None:
    """Of a wrong type, out of its range, or not that of the records beside it."""
    state = json.loads(value_of(kept, b"M"))
    for value in values:
        change(kept, b"M", json.dumps(state | {field: value}).encode())
        with pytest.raises(CorruptError, match="index rebuild"):
            judge_all(kept)
        (kept / "corrupt").unlink()
    change(kept, b"M", json.dumps(state).encode())
    judge_all(kept)


@pytest.mark.parametrize("field", ["complete_trim", "withdrawn"])
def test_a_state_without_a_field_is_damage(kept: Path, field: str) -> None:
    """No value is guessed for it."""
    state = json.loads(value_of(kept, b"M"))
    del state[field]
    change(kept, b"M", json.dumps(state).encode())
    with pytest.raises(CorruptError, match=f"its state cannot be: without {field}; .*index rebuild"):
        judge_all(kept)


@pytest.mark.parametrize(
    "change_of", [{"before": "x"}, {"void": 5}, {"rules": 5}, {"rules": "{}"}, {"rules": "["}, {"rules": None}]
)
def test_a_rules_record_that_no_index_has_is_damage(kept: Path, change_of: dict[str, object]) -> None:
    """Marked as such, so that the next opening refuses too."""
    key = offset_key(b"U", 0)
    change(kept, key, json.dumps(json.loads(value_of(kept, key)) | change_of).encode())
    with pytest.raises(CorruptError, match="rules record 0 cannot be read"):
        judge_all(kept)
    with pytest.raises(CorruptError, match="is damaged"):
        judge_all(kept)


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
    with pytest.raises(CorruptError, match=r"a row names log position|which is not after that of the row before"):
        judge_all(kept)


def test_a_row_with_another_signature_is_damage(kept: Path) -> None:
    """The distance of a match is that of the log's signatures."""
    change_rows(kept, 0, 2)
    with pytest.raises(CorruptError, match="the row of entry 0 of log record 1 is not the one of the log"):
        judge_all(kept)
