"""A program ends while an index is open: nothing that was durable is lost, and nothing hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.index import LogIndex
from tests.index.ending import AFTER, BEFORE, FINGERPRINTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("way", "kept", "said"),
    [
        ("thread", AFTER, "went on, closed\n"),
        ("atexit", AFTER, "went on, closed\n"),
        ("leave", BEFORE, ""),
    ],
)
def test_a_program_may_end_before_its_index_is_closed(tmp_path: Path, way: str, kept: int, said: str) -> None:
    """Another thread, or what runs at the exit, goes on with it; the thread that warms the cache holds up no exit."""
    command = [sys.executable, "-m", "tests.index.ending", str(tmp_path), way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    with Index(tmp_path) as index:
        assert len(index) == kept
        for number in (0, BEFORE - 1, kept - 1):
            assert [one.id for one in index.search(FINGERPRINTS[number], k=0)] == [str(number)]
    with LogIndex.read(tmp_path, scheme=None) as read:
        assert read.verify() == []
        assert read.stats().list_bytes > 0


def test_a_program_may_leave_a_temporary_index_open() -> None:
    """Its folder is removed before the interpreter lets go of it: nothing is left to write, and nothing is said."""
    program = "from stream_dedup import Index\nindex = Index()\nindex.add('a', 5)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
