"""A chunk that the disk does not give: an error, and the same verdicts afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_dedup.core.entry import LogRecord
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.index import LogIndex, log_index
from tests.amount import FULL
from tests.index.test_lost_writes import latest, opened, the_log
from tests.simulation.memory_store import MemoryDisk, MemoryStore

pytestmark = pytest.mark.usefixtures("small_limits")

STEP = 1 if FULL else 9
"""One of so many reads fails."""
CHUNKS = (b"C", b"W")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "Store", MemoryStore)
    monkeypatch.setattr(MemoryStore, "disk", MemoryDisk())


@contextmanager
def failing_after(reads: int) -> Iterator[list[int]]:
    """From so many reads of chunks on every one fails; gives the number that is left."""
    left, get = [reads], MemoryStore.get

    def get_or_fail(store: MemoryStore, keys: Sequence[bytes]) -> list[bytes]:
        left[0] -= any(key[:1] in CHUNKS for key in keys)
        if left[0] < 0:
            raise UnavailableError("RocksDB could not read: IO error")
        return get(store, keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "get", get_or_fail)
        yield left


def test_a_search_that_cannot_read_changes_nothing(tmp_path: Path) -> None:
    """Whichever read fails, the next search gives the verdicts."""
    records = the_log()
    with opened(tmp_path) as index:
        index.begin("a log")
        index.apply(records)
        positions = latest(index, records)
        expected = index.judge(positions)
        reads = 0
        while True:
            with failing_after(reads) as left:
                try:
                    found = index.judge(positions)
                except UnavailableError:
                    assert left[0] < 0
                else:
                    assert found == expected
                    break
            if reads % STEP == 0:
                assert index.judge(positions) == expected
                assert index.verify() == []
            reads += 1
        assert reads > 20


@pytest.mark.slow
def test_an_index_that_cannot_read_for_a_merge_stops(tmp_path: Path) -> None:
    """What it had applied stays applied; opened again it goes on, with the verdicts of one that met no error."""
    records = the_log()
    half = len(records) // 2
    with opened(tmp_path / "whole") as index:
        index.begin("a log")
        index.apply(records)
        expected = index.judge(latest(index, records))
    reads, is_done = 0, False
    while not is_done:
        path = tmp_path / str(reads)
        with opened(path) as index:
            index.begin("a log")
            index.apply(records[:half])
            with failing_after(reads):
                is_done = _applies(index, records[half:])
        with opened(path) as index:
            assert index.next_offset > records[half].offset or not reads
            index.apply([each for each in records if each.offset >= index.next_offset])
            assert index.judge(latest(index, records)) == expected
            assert index.verify() == []
        reads += STEP
    assert reads > 2 * STEP


def _applies(index: LogIndex, records: list[LogRecord]) -> bool:
    """Whether all records are applied; if not, the index refuses every further one."""
    try:
        index.apply(records)
    except UnavailableError:
        with pytest.raises(RefusedError, match="stopped after an error"):
            index.apply(records)
        return False
    return True
