"""A killed process loses the end of its writes: after any number of them the index is sound, and as of a record."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.arrays import I64
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import Judgement, log_position
from stream_dedup.index import IndexSettings, LogIndex, log_index
from stream_dedup.index.layout import RUNS
from tests.amount import FULL
from tests.index.checks import finish_merges
from tests.logs import DELETING_SCHEME
from tests.random_logs import stepwise_log
from tests.simulation.memory_store import Change, MemoryBatch, MemoryDisk, MemoryStore, Until

pytestmark = pytest.mark.usefixtures("small_limits")

SETTINGS = IndexSettings(fold_entries=14, memory_mib=0)
WINDOW = 3_000
STEP = 1 if FULL else 7
"""Of so many numbers of writes one is kept."""
GO_ON = 10
"""Of so many of these one is gone on with to the end of the log."""
LARGE = 3
"""The part of the log that is a run of its own when it is trimmed."""
FAMILIES = {b"C": "chunks", b"D": "directories", b"T": "names", b"W": "rows", b"E": "records"}


@dataclass
class Recorded:
    """All writes of a process."""

    begun: dict[bytes, bytes] = field(default_factory=dict)
    """What was stored before them, durably."""
    writes: list[list[Change]] = field(default_factory=list)
    states: dict[int, list[Judgement]] = field(default_factory=dict)
    """By the applied position, the verdicts of articles there."""


def the_log() -> list[LogRecord]:
    """Batches with deletes, rules that are restated, trims that drop whole runs and parts of runs, withdrawals."""
    writer = stepwise_log(5, centres=8, most_rows=8, deletes=True)
    writer.append_rules(distance=5, window_ms=WINDOW)
    for part in range(6):
        for _ in range(100 if part == LARGE else 8):
            writer.append_batch()
        before, horizon = writer.append_rules(distance=5, window_ms=WINDOW), writer.time + WINDOW
        for _ in range(7):
            writer.append_batch(copies=False)
        writer.append_withdrawal()
        if part % 2:
            writer.append_trim(before, horizon)
    return writer.records


def latest(index: LogIndex, records: list[LogRecord]) -> I64:
    """Log positions of the articles of the last batches that an index has."""
    known = [each for each in records if index.low_watermark <= each.offset < index.next_offset]
    found = [
        log_position(each.offset, row)
        for each in known[-12:]
        if isinstance(each.payload, Batch)
        for row in range(len(each.payload))
        if index.logged_positions(each.payload.topic_id, each.payload.partition, each.payload.offsets[row : row + 1])
        == log_position(each.offset, row)
    ]
    return np.array(found, np.int64)


def opened(path: Path) -> LogIndex:
    return LogIndex.open(path, scheme=DELETING_SCHEME, settings=SETTINGS)


def runs_by_family() -> list[set[int]]:
    """The numbers of the runs that have chunks, that have directories, and that are named."""
    ((_, data),) = MemoryStore.disk.folders.items()
    chunks, directories = (
        {int.from_bytes(key[1:5], "big") for key in data if key[:1] == name} for name in (b"C", b"D")
    )
    return [chunks, directories, set(json.loads(data[RUNS]) if RUNS in data else [])]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The writes of a process that applies the log, record by record."""
    found = Recorded()
    write = MemoryStore.write

    def record(store: MemoryStore, batch: MemoryBatch) -> None:
        write(store, batch)
        found.writes.append(batch.changes)

    monkeypatch.setattr(log_index, "Store", MemoryStore)
    monkeypatch.setattr(MemoryStore, "disk", MemoryDisk())
    records = the_log()
    with opened(tmp_path) as index:
        found.begun = dict(MemoryStore.disk.folders[index._applied.store.path])
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "write", record)
            index.begin("a log")
            for each in records:
                index.apply([each])
                found.states[index.next_offset] = index.judge(latest(index, records))
            finish_merges(index)
        assert index.low_watermark > 0
    return found


def points(recorded: Recorded) -> list[int]:
    """Numbers of writes that are kept: some, and up to that of each trim."""
    removals = [{key[:1] for key, value in changes if isinstance(value, Until)} for changes in recorded.writes]
    trims = [at for at, families in enumerate(removals, 1) if b"E" in families]
    return sorted({*range(0, len(recorded.writes), STEP), len(recorded.writes), *trims})


def kept_writes(path: Path, recorded: Recorded, kept: int) -> None:
    """Let the disk have so many writes."""
    folder = next(iter(MemoryStore.disk.folders))
    assert path in folder.parents
    MemoryStore.disk.folders[folder] = dict(recorded.begun)
    store = MemoryStore(folder, SETTINGS, create=False, on_corrupt=pytest.fail)
    for changes in recorded.writes[:kept]:
        batch = store.batch()
        batch.changes = changes
        store.write(batch)
    store.close()


def test_the_writes_are_of_every_kind(recorded: Recorded) -> None:
    """Runs are stored in several writes, merged, dropped by trims and written again; the log is cut."""
    counts = Counter(
        FAMILIES.get(key[:1]) for changes in recorded.writes for key, value in changes if type(value) is bytes
    )
    deleted = Counter(
        FAMILIES.get(key[:1]) for changes in recorded.writes for key, value in changes if type(value) is not bytes
    )
    assert min(counts[name] for name in FAMILIES.values()) > 20
    kinds = [{key[:1] for key, _ in changes} for changes in recorded.writes]
    assert sum({b"E", b"H", b"I"} <= kind for kind in kinds) > 5  # a batch, its ids and what its deletes withdraw
    assert deleted["chunks"] == deleted["directories"] > 20
    alone = [changes for changes in recorded.writes if {key[:1] for key, _ in changes} == {b"C"}]
    assert len(alone) > 20
    assert deleted["rows"] > 2  # by trims


@pytest.mark.slow
def test_an_index_that_lost_the_end_of_its_writes_is_as_of_a_record(tmp_path: Path, recorded: Recorded) -> None:
    """It verifies, gives the verdicts of there, keeps nothing of runs that are not named, and goes on to the end."""
    records = the_log()
    whole, left_over = recorded.states[records[-1].offset + 1], 0
    positions = []
    for number, kept in enumerate(points(recorded)):
        kept_writes(tmp_path, recorded, kept)
        chunks, directories, named = runs_by_family()
        assert named == directories <= chunks
        left_over += chunks != named
        with opened(tmp_path) as index:
            assert index.verify() == []
            positions.append(index.next_offset)
            assert index.judge(latest(index, records)) == recorded.states.get(index.next_offset, [])
            index.flush()
            chunks, directories, named = runs_by_family()
            assert chunks == directories == named
            tables = index._applied.tables
            ends = [run.before for run in tables.runs]
            assert min(ends, default=1) > tables.rows.first  # no run is named of which a trim left nothing
            if number % GO_ON == 0:
                if index.log_id is None:
                    index.begin("a log")
                index.apply([each for each in records if each.offset >= index.next_offset])
                assert index.judge(latest(index, records)) == whole
                assert index.verify() == []
    assert positions == sorted(positions)
    assert positions[-1] == records[-1].offset + 1
    assert left_over > 3
