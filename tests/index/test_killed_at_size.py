"""An index of two million entries whose process is killed again and again."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.tables import Counters, RunStore
from tests.forks import forks
from tests.index.killed_at_size import END, RECORD_ENTRIES, SCHEME, SETTINGS, Lives, columns_of, record_at
from tests.logs import START_TIME

KILLS = 15
QUERIES = 4_000


def live(path: Path, lives: Path, errors: Path, rng: random.Random) -> bool:
    """Start a process and kill it at a random moment; returns whether it came to its end."""
    reader, writer = os.pipe()
    with errors.open("ab") as error:
        process = forks().start("tests.index.killed_at_size:main", [str(path), str(lives)], [0, writer, error.fileno()])
    os.close(writer)
    lines, last = rng.randint(60, 220), 0
    with os.fdopen(reader) as told:
        for _, line in zip(range(lines), told, strict=False):
            if line == "done\n":
                assert process.wait() == 0
                return True
            last = int(line.split()[-1])
        time.sleep(rng.uniform(0, 0.04))
        process.kill()
        assert process.wait() == -9
    assert last, errors.read_text()
    return False


def not_named(path: Path) -> int:
    """Runs of which a killed process left chunks and no name."""
    if not (path / "current").exists():
        return 0
    with LogIndex.read(path, scheme=SCHEME, settings=SETTINGS) as index:
        return len(not_named_of(index))


def not_named_of(index: LogIndex) -> set[int]:
    """Runs that have chunks and no name."""
    applied = index._applied
    return set(RunStore(applied.store, Counters()).stored()) - {run.number for run in applied.tables.runs}


def answers(index: LogIndex, positions: np.ndarray) -> list[object]:
    """Verdicts of logged articles, and of articles that are in no log."""
    held_out = columns_of([1_000_000], QUERIES)
    return [*index.judge(positions), *index.check(held_out, START_TIME + END * 1_000, 5)]


@pytest.mark.full  # test_killed and test_lost_writes prove each part on small runs; this takes minutes
@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_kills_change_no_verdict_at_size(tmp_path: Path) -> None:
    """Killed while runs are stored, merged and dropped: verdicts of an index that had no kill, with any budget."""
    seed = int(os.environ.get("STREAM_DEDUP_SEED", "5"))
    rng = random.Random(seed)
    path, lives_path, errors = tmp_path / "killed", tmp_path / "lives", tmp_path / "errors"
    lives_path.write_text("[]")
    kills, left = 0, 0
    while not live(path, lives_path, errors, rng):
        kills += 1
        left += not_named(path)
        if kills % 5 == 0:
            with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
                assert index.verify() == []
                assert not not_named_of(index)
    lives: Lives = json.loads(lives_path.read_text())
    sys.stdout.write(f"seed {seed}: {kills} kills, {left} runs that were not named\n")
    assert kills >= KILLS
    assert left
    assert errors.read_text() == ""
    positions = np.random.default_rng(seed).choice(np.arange(501, END), QUERIES) << 20
    positions = positions[(positions >> 20) % 100 != 0]
    positions = positions[~np.isin(positions >> 20, [901, 1601])]
    positions += np.random.default_rng(seed + 1).integers(0, RECORD_ENTRIES, len(positions))
    found = []
    for memory_mib in (4096, 0):
        settings = IndexSettings(fold_entries=SETTINGS.fold_entries, memory_mib=memory_mib)
        with LogIndex.open(path, scheme=SCHEME, settings=settings) as index:
            assert index.verify() == []
            assert index.low_watermark == 500
            assert index.stats().list_bytes > 4 * 12 * 1_000_000
            found.append(answers(index, positions))
    with LogIndex.open(tmp_path / "whole", scheme=SCHEME, settings=IndexSettings()) as whole:
        whole.begin("a log")
        for offset in range(END):
            whole.apply([record_at(offset, lives)])
        expected = answers(whole, positions)
    near = sum("duplicate" in str(each) for each in expected)
    assert near > len(expected) // 4
    assert found == [expected, expected]
