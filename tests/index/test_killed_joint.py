"""A process that is killed after a shared write, before its change in memory: the index is as if it never was."""

import signal
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.index import LogIndex
from tests.forks import forks
from tests.index.checks import check_standing, covered_positions
from tests.index.killed_joint import SETTINGS, SIZES, portions, the_log

RUN_FAMILIES = {b"C", b"D", b"T"}


def opened(path: Path) -> LogIndex:
    return LogIndex.open(path, scheme=None, settings=SETTINGS)


def stored_in(index: LogIndex) -> dict[bytes, bytes]:
    """Everything that is stored, but the runs of the tables: these depend on what is appended together."""
    return {key: value for key, value in index._applied.store.scan(b"", b"\xff") if key[:1] not in RUN_FAMILIES}


def never_killed(path: Path, portion: int) -> LogIndex:
    """The index of the portions up to this one."""
    index = opened(path)
    index.begin("a log")
    for records in portions()[: portion + 1]:
        index.apply(records)
    return index


@pytest.mark.parametrize("durable", ["durable", "lost"])
@pytest.mark.parametrize("portion", [0, 2, 3])
def test_a_process_killed_after_a_shared_write(tmp_path: Path, portion: int, durable: str) -> None:
    """Opened again it is as of that write, or as of an earlier one if it was not on disk; then applied to the end."""
    killed = forks().start(
        "tests.index.killed_joint:main", [str(tmp_path / "killed"), str(portion), durable], [0, 1, 2]
    )
    assert killed.wait() == -signal.SIGKILL
    last = sum(SIZES[: portion + 1])
    records = the_log()
    with opened(tmp_path / "killed") as index, never_killed(tmp_path / "to there", portion) as expected:
        ends = {record.offset + 1 for record in records} | {0}
        assert index.next_offset in ({records[last - 1].offset + 1} if durable == "durable" else ends)
        assert index.verify() == []
        if index.next_offset == expected.next_offset:
            assert stored_in(index) == stored_in(expected)
        elif index.log_id is None:
            index.begin("a log")
        index.apply([record for record in records if record.offset >= index.next_offset])
        assert index.verify() == []
        assert index.low_watermark == 13
        with never_killed(tmp_path / "whole", len(SIZES)) as whole:
            assert stored_in(index) == stored_in(whole)
            plain = plain_log(records)
            check_standing(index, plain)
            held = [position for position in covered_positions(plain) if position >> 20 >= index.low_watermark]
            positions = np.array(held, np.int64)
            assert index.judge(positions) == whole.judge(positions)
