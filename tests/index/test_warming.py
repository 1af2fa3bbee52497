"""The thread that fills the cache after opening: within the budget, and it ends with the index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import log_position
from stream_dedup.errors import CorruptError, UnavailableError
from stream_dedup.index import LogIndex
from stream_dedup.index.applying import Applied
from stream_dedup.index.store import Store
from tests.index.checks import build, finish_merges
from tests.index.scan_cases import Budget
from tests.logs import SCHEME, START_TIME, batch_record, rules_record

pytestmark = pytest.mark.usefixtures("small_limits")

RECORDS = [rules_record(0), *(batch_record(at, START_TIME, [at, 7], [2 * at, 2 * at + 1]) for at in range(1, 60))]
POSITIONS = np.array([log_position(at, row) for at in range(1, 60) for row in (0, 1)])
LARGE, SMALL = 1 << 30, 3_000
"""Budgets in bytes: of all chunks, and of a few."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An index that is closed, of stored runs."""
    with opened(tmp_path) as index:
        build(index, RECORDS)
        finish_merges(index)
    return tmp_path


def opened(path: Path, budget: int = LARGE) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=Budget(fold_entries=10, bytes_=budget))


def warming() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "index-warming"]


def warmed(index: LogIndex) -> LogIndex:
    """The index, when its cache is filled."""
    for thread in warming():
        thread.join()
    return index


def test_what_was_warmed_is_not_fetched(kept: Path) -> None:
    """Every chunk is in memory where there is room, and the verdicts are those of an index that fetches each."""
    with warmed(opened(kept)) as index:
        expected = index.judge(POSITIONS)
        assert index._applied.tables.counters.fetched == 0
        assert index._applied.tables.native.cold(1) == []
    with opened(kept, 0) as index:
        assert index.judge(POSITIONS) == expected
        assert index._applied.tables.counters.fetched > 0
        assert warming() == []


def test_no_more_is_warmed_than_the_budget_has_room_for(kept: Path) -> None:
    """The rest is fetched where it is looked up."""
    with warmed(opened(kept, SMALL)) as index:
        assert 0 < index.stats().memory_bytes <= 1.1 * SMALL  # so small chunks take more than is reckoned
        assert index._applied.tables.native.cold(1) == []
        index.judge(POSITIONS)
        assert index._applied.tables.counters.fetched > 0
        assert index.verify() == []


class SlowDisk:
    """Holds up what warms until it may go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()
        get = Store.get

        def get_slowly(store: Store, keys: Sequence[bytes]) -> list[bytes]:
            if threading.current_thread().name == "index-warming":
                self.is_reading.set()
                self.may_go_on.wait()
            return get(store, keys)

        patch.setattr(Store, "get", get_slowly)


def test_a_look_up_does_not_wait_for_what_warms(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fetches what it needs itself; what comes twice is taken once."""
    with opened(kept, 0) as index:
        expected = index.judge(POSITIONS)
    disk = SlowDisk(monkeypatch)
    with opened(kept) as index:
        disk.is_reading.wait()
        assert index.judge(POSITIONS) == expected
        memory = index.stats().memory_bytes
        disk.may_go_on.set()
        assert warmed(index).stats().memory_bytes >= memory
        assert index.judge(POSITIONS) == expected
        assert index.verify() == []


def test_what_look_ups_have_filled_meanwhile_is_not_filled_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that were chosen while there was room do not stay beyond the budget."""
    disk = SlowDisk(monkeypatch)
    with opened(kept, SMALL) as index:
        disk.is_reading.wait()
        index.judge(POSITIONS)
        memory = index.stats().memory_bytes
        disk.may_go_on.set()
        assert memory > SMALL // 2
        assert warmed(index).stats().memory_bytes <= 1.1 * SMALL


@pytest.mark.parametrize("way", ["refused", "closed", "let go"])
def test_it_ends_with_the_index(kept: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Also where the opening is refused after it began, and where nobody closes the index: it would hold the store."""
    disk = SlowDisk(monkeypatch)

    def refuse(applied: Applied) -> None:
        disk.is_reading.wait()
        disk.may_go_on.set()
        reason = "a reason"
        raise applied.store.corrupt(reason)

    if way == "refused":
        monkeypatch.setattr(Applied, "_check_last", refuse)
        with pytest.raises(CorruptError):
            opened(kept)
        assert warming() == []
        return
    index = opened(kept)
    disk.is_reading.wait()
    (thread,) = warming()
    disk.may_go_on.set()
    if way == "closed":
        index.close()
    else:
        del index
    assert not thread.is_alive()
    with opened(kept) as again:
        assert again.next_offset == RECORDS[-1].offset + 1


def test_what_cannot_be_read_is_told_where_it_is_looked_up(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends; the look-up has the error."""

    def fail(store: Store, _keys: Sequence[bytes]) -> list[bytes]:
        raise UnavailableError(f"index {store.name}: RocksDB could not read")

    with opened(kept, 0) as index:
        expected = index.judge(POSITIONS)
    disk = SlowDisk(monkeypatch)
    with opened(kept) as index:
        disk.is_reading.wait()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "get", fail)
            with pytest.raises(UnavailableError, match="could not read"):
                index.judge(POSITIONS)
        disk.may_go_on.set()
        assert warmed(index).judge(POSITIONS) == expected
