"""A process that is killed while it makes, merges and removes runs."""

from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import DocNumber
from tests.amount import FULL
from tests.forks import forks
from tests.index.dying_runs import AT, stages
from tests.index.run_cases import MemoryRows, TableWorld

pytestmark = pytest.mark.usefixtures("small_runs")

STEP, LIMIT_S = (1, 600) if FULL else (11, 110)
"""Of so many effects one is the last. There are some 1,250, and dying after all of them takes two minutes."""


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
def test_a_crash_between_any_two_effects_leaves_the_lists_of_the_rows(tmp_path: Path) -> None:
    """Whether the rows lost their end or not: no file is left that nobody uses, and none is believed wrongly."""
    rng = np.random.default_rng(3)
    whole = TableWorld(tmp_path / "whole")
    states = [(0, 0), *stages(whole)]
    rows = whole.rows.all_rows
    assert forks().start("tests.index.dying_runs:main", [str(tmp_path), str(STEP)], [0, 1, 2]).wait(LIMIT_S) == 0
    folders = [each for each in tmp_path.iterdir() if each.name != "whole"]
    assert len(folders) > 1_000 // STEP
    found = set()
    for folder in folders:
        begun = len((folder / AT).read_bytes())
        left = {path.suffix for path in (folder / "runs").glob("*")}
        found |= left
        # What was begun last was durable, or not, or RocksDB lost more.
        at = begun - int(rng.choice([0, 1, int(rng.integers(begun + 1))]))
        first, after = states[max(at, 0)]
        world = TableWorld(folder, rows=MemoryRows(rows[:after], DocNumber(first)))
        world.check()
        assert world.names() == world.names_in_use()
        world.append(100)
        world.opened.merge_all()
        world.check()
        world.close()
        assert world.names() == world.names_in_use()
    assert found == {"", ".new", ".old"}
