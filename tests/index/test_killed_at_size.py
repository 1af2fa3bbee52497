"""An index of two million entries whose process is killed again and again, while its run files are damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.run_files import read_header
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


def flip(path: Path, rng: random.Random, _: Path) -> None:
    """Change one bit."""
    with path.open("r+b") as file:
        file.seek(at := rng.randrange(path.stat().st_size))
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def cut(path: Path, rng: random.Random, _: Path) -> None:
    """Cut off the end."""
    os.truncate(path, rng.randrange(path.stat().st_size))


def remove(path: Path, _: random.Random, __: Path) -> None:
    """Remove the file."""
    path.unlink()


def swap(path: Path, rng: random.Random, aside: Path) -> None:
    """Let two files have each other's names."""
    other = rng.choice(files_of(path.parent))
    path.rename(aside / "swapped")
    if other != path:
        other.rename(path)
    (aside / "swapped").rename(other)


def take_other_table(path: Path, _rng: random.Random, _aside: Path) -> None:
    """Give the file of one table to the next, too."""
    table, _, rest = path.name.partition("-")
    shutil.copyfile(path, path.with_name(f"{(int(table) + 1) % 4}-{rest}"))


def put_back(path: Path, _: random.Random, aside: Path) -> None:
    """Files of the lives before are there again, beside those of now or in their place."""
    for kept in (aside / "kept").iterdir():
        shutil.copyfile(kept, path.parent / kept.name)


DAMAGES: list[Callable[[Path, random.Random, Path], None]] = [flip, cut, remove, swap, take_other_table, put_back]


def files_of(runs: Path) -> list[Path]:
    """Run files, without those that are made or removed."""
    return sorted(path for path in runs.glob("*") if not path.suffix)


def keep_aside(runs: Path, aside: Path) -> None:
    """Copy a run file of each table that ends last, as the kill left them."""
    (aside / "kept").mkdir(exist_ok=True)
    for table in range(4):
        of_table = [path for path in files_of(runs) if path.name.startswith(f"{table}-")]
        for path in sorted(of_table, key=lambda path: int(path.name.split("-")[2]))[-2:]:
            shutil.copyfile(path, aside / "kept" / path.name)


def answers(index: LogIndex, positions: np.ndarray) -> list[object]:
    """Verdicts of logged articles, and of articles that are in no log."""
    held_out = columns_of([1_000_000], QUERIES)
    return [*index.judge(positions), *index.check(held_out, START_TIME + END * 1_000, 5)]


@pytest.mark.full  # test_killed, test_dying_runs and test_run_files prove each part on small runs; this takes minutes
@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.expect_log("run file")
def test_kills_and_damaged_run_files_change_no_verdict_at_size(tmp_path: Path) -> None:
    """Killed while files are merged, each file damaged in any way between: verdicts of an index that had no kill."""
    seed = int(os.environ.get("STREAM_DEDUP_SEED", "5"))
    rng = random.Random(seed)
    path, lives_path, errors = tmp_path / "killed", tmp_path / "lives", tmp_path / "errors"
    lives_path.write_text("[]")
    runs = path / "data-1" / "runs"
    counts: Counter[str] = Counter()
    done, damaged = False, 0
    while not done:
        done = live(path, lives_path, errors, rng)
        if done:
            break
        counts["kills"] += 1
        left = Counter(each.suffix or "whole" for each in runs.glob("*"))
        counts.update(f"kills with {kind} files" for kind in left)
        keep_aside(runs, tmp_path)
        for _ in range(rng.randint(1, 2)):
            if files := files_of(runs):
                damage = DAMAGES[damaged % len(DAMAGES)]
                damaged += 1
                damage(rng.choice(files), rng, tmp_path)
                counts[damage.__name__] += 1
        if counts["kills"] % 5 == 0:
            with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
                assert index.verify() == []
    lives: Lives = json.loads(lives_path.read_text())
    refused = Counter(
        line.split(": ")[1].split(";")[0] for line in errors.read_text().splitlines() if "run file" in line
    )
    sys.stdout.write(f"seed {seed}: {dict(counts)}, warnings {dict(refused)}\n")
    assert counts["kills"] >= KILLS
    assert all(counts[damage.__name__] for damage in DAMAGES)
    assert counts["kills with .new files"] > KILLS // 4
    positions = np.random.default_rng(seed).choice(np.arange(501, END), QUERIES) << 20
    positions = positions[(positions >> 20) % 100 != 0]
    positions = positions[~np.isin(positions >> 20, [901, 1601])]
    positions += np.random.default_rng(seed + 1).integers(0, RECORD_ENTRIES, len(positions))
    with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
        assert index.verify() == []
        assert index.low_watermark == 500
        assert sum(read_header(each).entries for each in files_of(runs)) > 4 * 1_000_000
        found = answers(index, positions)
    with LogIndex.open(tmp_path / "whole", scheme=SCHEME, settings=IndexSettings()) as whole:
        whole.begin("a log")
        for offset in range(END):
            whole.apply([record_at(offset, lives)])
        expected = answers(whole, positions)
    near = sum("duplicate" in str(each) for each in expected)
    assert near > len(expected) // 4
    assert found == expected
