"""An index whose process is killed is as of its applied position, whatever was being written."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.index import LogIndex
from tests.amount import FULL
from tests.forks import forks
from tests.index.checks import build, check_standing, covered_positions
from tests.index.killed import SCHEME, SETTINGS, the_log

LOST = 30
"""Records that a buffer holds at most."""


def run_until(path: Path, lines: int) -> int | None:
    """Start the process, kill it after so many lines; log offset of the last one, none where it ended before."""
    last = -1
    reader, writer = os.pipe()
    process = forks().start("tests.index.killed:main", [str(path)], [0, writer, 2])
    os.close(writer)
    with os.fdopen(reader) as told:
        for _, line in zip(range(lines), told, strict=False):
            if line == "done\n":
                assert process.wait() == 0
                return None
            last = int(line)
        process.kill()
        process.wait()
    return last


@pytest.mark.slow
def test_a_killed_process_leaves_an_index_as_of_its_applied_position(tmp_path: Path) -> None:
    """Killed again and again at random records: always sound, and at the end the same as never killed.

    All but the last few records are there: when a buffer is full everything is written out.
    """
    rng = random.Random(2)
    records = the_log().records
    kills = stored = 0
    positions = []
    while (last := run_until(tmp_path / "killed", rng.randint(2, 8 if FULL else 26))) is not None:
        kills += 1
        index = LogIndex.open(tmp_path / "killed", scheme=SCHEME, settings=SETTINGS)
        assert index.verify() == []
        assert last - LOST < index.next_offset
        stored += index.stats().list_bytes
        positions.append(index.next_offset)
        known = [record for record in records if record.offset < index.next_offset]
        if known:
            check_standing(index, plain_log(known))
        index.close()
    assert kills >= (12 if FULL else 4)
    assert stored > 0
    assert positions == sorted(positions)
    killed = LogIndex.open(tmp_path / "killed", scheme=SCHEME, settings=SETTINGS)
    whole = build(LogIndex.open(tmp_path / "whole", scheme=SCHEME, settings=SETTINGS), records)
    kept = np.array(
        [position for position in covered_positions(plain_log(records)) if position >> 20 >= whole.low_watermark]
    )
    assert killed.next_offset == whole.next_offset
    assert killed.judge(kept) == whole.judge(kept)
    assert killed.verify() == []
    killed.close()
    whole.close()
