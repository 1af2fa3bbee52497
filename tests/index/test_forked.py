"""A process that forks while an index is open: the child leaves everything to its parent."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.folders import TemporaryFolder
from tests.index.forking import TEXT

ROOT = Path(__file__).parents[2]
WAYS = ["at once", "exit", "close", "with", "delete", "use", "open another", "multiprocessing"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_a_forked_child_leaves_the_index_to_its_parent(tmp_path: Path, kept: bool) -> None:
    """However it ends: no folder is removed, nothing is written twice, no lock is lost, nothing hangs."""
    command = [sys.executable, "-m", "tests.index.forking", str(tmp_path) if kept else "-", *WAYS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    expected = "".join(f"{way}: 0 flushed written pending\n" for way in WAYS)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    for way in WAYS if kept else []:
        with Index(tmp_path / way) as index:
            assert [one.id for one in index.search(TEXT)] == ["flushed", "written", "pending", "later"]


def test_the_lock_goes_with_the_parent_though_a_child_lives_on(tmp_path: Path) -> None:
    """A child that was forked while the index was open has the lock's file open too."""
    script = (
        "import os, sys\n"
        "from stream_dedup import Index\n"
        "index = Index(sys.argv[1])\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.close(write)\n"
        "    os.read(read, 1)\n"
        "    os._exit(0)\n"
        "index.close()\n"
        "Index(sys.argv[1]).close()\n"
        "print('opened again')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "index")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("opened again\n", "")


def test_a_temporary_folder_goes_with_its_maker() -> None:
    """By hand, at the end of ``with``, and when it is let go."""
    folder = TemporaryFolder()
    path = folder.path
    assert path.is_dir()
    folder.remove()
    folder.remove()
    assert not path.exists()
    with TemporaryFolder() as path:
        (path / "file").touch()
    assert not path.exists()
    folder = TemporaryFolder()
    path = folder.path
    del folder
    assert not path.exists()
