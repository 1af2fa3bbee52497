"""A store whose process is killed is as of its positions, whatever was being written."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stream_dedup.clusters.model import MissingOutputs, Window
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import CommittedOffset
from tests.amount import FULL
from tests.clusters.checking import NOW_MS, refuse_other_clusters, refuse_wrong_tables, totals_of
from tests.clusters.killed import OUTPUTS, OUTPUTS_ID, apply_from_position, the_log, the_reads
from tests.clusters.outputs import LOG_ID, TIME_MS, outputs_of, size_of
from tests.forks import forks

COUNT = 50_000 if FULL else 20_000
DAY_MS = 24 * 3_600_000
FORGET_KEEP_MS = 8 * DAY_MS
FORGET_NOW_MS = TIME_MS + FORGET_KEEP_MS + 4_000
"""The articles of the first four seconds are old then."""
KILLS = 40 if FULL else 5


def run_for(path: Path, pieces: int, seconds: float) -> bool:
    """Start the process, and kill it so long after it has stored so many pieces; whether it came to its end before."""
    reader, writer = os.pipe()
    process = forks().start("tests.clusters.killed:main", [str(path), str(COUNT)], [0, writer, 2])
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.readline() == "open\n"
        before = [told.readline() for _ in range(pieces)]
        time.sleep(seconds)
        process.kill()
        process.wait()
        return "done\n" in before + told.readlines()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_many_outputs_in_random_order_with_kills(tmp_path: Path) -> None:
    """Killed at random moments: the tables agree each time, and at the end the clusters are those of one pass."""
    rng = random.Random(3)
    offsets = [0]
    for _ in range(KILLS):
        if run_for(tmp_path, rng.randrange(20), rng.uniform(0, 0.05)):
            break
        with closing(ClusterStore.open(tmp_path, LOG_ID, publishes=True)) as store:
            known = store.positions().get(OUTPUTS)
            offsets.append(0 if known is None else int(known.offset))
    reads, log = the_reads(COUNT), the_log(COUNT)
    assert offsets == sorted(offsets)
    assert len({*offsets}) > 3, "most kills came before anything was stored"
    with closing(ClusterStore.open(tmp_path, LOG_ID, publishes=True)) as store:
        read = {article.coordinates for article in reads[: offsets[-1]]}
        assert size_of(store)[0] == len(read)
        for _ in apply_from_position(store, reads):
            pass
        refuse_other_clusters(store, log)
        assert store.totals(Window.ALL, NOW_MS) == totals_of(log)


class Copying:
    """A connection that copies its store before each statement: what a kill there would leave."""

    def __init__(self, store: ClusterStore, folder: Path) -> None:
        self._connection = store.writer
        self._store = store
        self._folder = folder
        self.copies: list[Path] = []

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        self._copy()
        return self._connection.execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> sqlite3.Cursor:
        self._copy()
        return self._connection.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def _copy(self) -> None:
        copy = self._folder / str(len(self.copies))
        shutil.copytree(self._store.path, copy)
        self.copies.append(copy)


@contextmanager
def copies_of_each_step(store: ClusterStore, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Copy the store before each statement of the block."""
    copying = Copying(store, folder)
    with patch.context() as patched:
        patched.setattr(store, "_connection", copying)
        yield copying.copies


def contents(store: ClusterStore) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the tables that ``apply`` and ``forget`` change."""
    tables = ("article", "cluster", "bucket", "total", "position", "missing", "changed", "source_topic", "state")
    return {table: store.writer.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608


@pytest.mark.slow
def test_a_kill_within_apply_leaves_all_of_it_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each statement: of a batch that makes placeholders, fills them, and merges stored clusters."""
    outputs = outputs_of(the_reads(2_000)[:300])
    with closing(ClusterStore.open(tmp_path / "store", LOG_ID, publishes=True)) as store:
        store.apply(outputs[:150], {OUTPUTS: at_offset(150)})
        before = contents(store)
        with copies_of_each_step(store, tmp_path, monkeypatch) as copies:
            store.apply(outputs[150:], {OUTPUTS: at_offset(300)}, MissingOutputs(OUTPUTS, 3, 5))
        after = contents(store)
    assert len(before["cluster"]) > len([row for row in before["cluster"] if row in after["cluster"]]), (
        "no cluster was merged"
    )
    assert len(copies) > 10
    for copy in copies:  # the last one is before the commit
        with closing(ClusterStore.open(copy, LOG_ID, publishes=True)) as store:
            refuse_wrong_tables(store)
            assert contents(store) == before
    assert after["position"] != before["position"]


@pytest.mark.slow
def test_a_kill_within_forget_leaves_sound_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each statement; the next run does the rest."""
    monkeypatch.setattr("stream_dedup.clusters.store.FORGOTTEN_AT_ONCE", 40)
    with closing(ClusterStore.open(tmp_path / "store", LOG_ID, publishes=True)) as store:
        store.apply(outputs_of(the_reads(2_000)[:300]), {})
        with copies_of_each_step(store, tmp_path, monkeypatch) as copies:
            assert store.forget(FORGET_NOW_MS, FORGET_KEEP_MS) > 40
        after = contents(store)
    for copy in copies[:: max(1, len(copies) // 25)]:
        with closing(ClusterStore.open(copy, LOG_ID, publishes=True)) as store:
            store.forget(FORGET_NOW_MS, FORGET_KEEP_MS)
            found = contents(store)
            assert {**found, "changed": []} == {**after, "changed": []}
            assert {row[1:] for row in found["changed"]} == {row[1:] for row in after["changed"]}


def at_offset(offset: int) -> CommittedOffset:
    return CommittedOffset(SourceOffset(offset), OUTPUTS_ID)
