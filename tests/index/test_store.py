"""RocksDB behind the index."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.errors import RefusedError
from stream_dedup.index import IndexSettings
from stream_dedup.index.layout import offset_key
from stream_dedup.index.store import Store
from tests.amount import FULL
from tests.forks import forks
from tests.index.killed_store import KEYS, opened

LOST = 400
"""Writes that are not in files yet, at most."""


def test_a_store_has_its_set_block_cache_after_opening_again(tmp_path: Path) -> None:
    """The cache has its share of the memory set now, not of that set when the folder was made."""
    for memory_mib, mib, create in ((192, 6, True), (320, 10, False)):
        settings = IndexSettings(memory_mib=memory_mib)
        store = Store(tmp_path / "data", settings, create=create, on_corrupt=pytest.fail)
        assert store._numbers("rocksdb.block-cache-capacity")[0] == mib << 20
        store.close()


@pytest.mark.slow
def test_what_a_kill_leaves_is_cut_between_two_writes(tmp_path: Path) -> None:
    """All column families are as of one write, and it is among the last ones."""
    rng, found = random.Random(8), set[int]()
    for life in range(200 if FULL else 20):
        path, (reader, writer) = tmp_path / str(life), os.pipe()
        process = forks().start("tests.index.killed_store:main", [str(path)], [0, writer, 2])
        os.close(writer)
        with os.fdopen(reader) as told:
            for _, line in zip(range(rng.randint(1, 1_200)), told, strict=False):
                last = int(line)
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
            process.wait()
            last = max([last, *map(int, told.read().split())])
        store = opened(path)
        numbers = {int.from_bytes(value[:4], "big") for value in store.get(KEYS)}
        store.close()
        assert len(numbers) == 1, (life, numbers)
        assert last - LOST < min(numbers) <= last + 1
        found |= numbers
    assert len(found) > 10


@pytest.mark.slow
def test_a_folder_that_is_opened_often_has_few_files(tmp_path: Path) -> None:
    """A call of `filter` writes little and closes, and the next one does."""
    path = tmp_path / "data"
    opened(path, create=True).close()
    for number in range(60):
        store = opened(path)
        batch = store.batch()
        batch.put(offset_key(b"E", number), bytes(100))
        store.write(batch)
        store.close()
    assert len(list(path.glob("*.sst"))) < 45
    store = opened(path)
    assert store.get([offset_key(b"E", number) for number in range(60)]) == [bytes(100)] * 60
    store.close()


def test_a_flush_beside_compactions_is_no_error(tmp_path: Path) -> None:
    """It waits for the files of other flushes, and not for the compactions."""
    store, started = opened(tmp_path / "data", create=True), time.monotonic()
    for number in range(40):
        batch = store.batch()
        for key in KEYS:
            batch.put(key, number.to_bytes(4, "big") + bytes(20_000))
        batch.delete_range(offset_key(b"E", 0), offset_key(b"E", number))
        store.write(batch)
        store.compact()
        store.flush()
    store.close()
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("call", ["write", "flush", "get", "checkpoint"])
def test_a_forked_child_does_not_touch_rocksdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Its locks may be held by threads that were not forked: a child that asked for a number would wait for ever."""
    store = opened(tmp_path / "data", create=True)
    batch = store.batch()
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: store.write(batch),
        "flush": store.flush,
        "get": lambda: store.get(KEYS),
        "checkpoint": lambda: store.checkpoint(tmp_path / "copy"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(store, "_pid", -1)
        patch.setattr(store, "_db", None)
        with pytest.raises(RefusedError, match="a forked child cannot use it"):
            calls[call]()
    store.close()
