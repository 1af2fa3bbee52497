"""A program ends while an index is open: nothing is lost, nothing hangs, and the next opening removes what is left."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup import Index
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
    """Another thread, or what runs at the exit, goes on with it; old files hold up no exit."""
    command = [sys.executable, "-m", "tests.index.ending", str(tmp_path), way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    with Index(tmp_path) as index:
        assert len(index) == kept
        for number in (0, BEFORE - 1, kept - 1):
            assert [one.id for one in index.search(FINGERPRINTS[number], k=0)] == [str(number)]
    runs = list((tmp_path / "data-1" / "runs").iterdir())
    assert runs
    assert not [path for path in runs if path.suffix]


def test_a_file_that_leaves_while_the_interpreter_ends_is_not_waited_for(tmp_path: Path) -> None:
    """No thread starts any more: the next opening removes the file."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from stream_dedup.index.run_removal import RunRemoval\n"
        "class Closed:\n"
        "    def __init__(self, path):\n"
        "        self.removal, self.path = RunRemoval(), path\n"
        "    def __del__(self, say=sys.stdout.write, sys=sys):\n"
        "        self.removal.begin(self.path, None)\n"
        "        self.removal.close()\n"
        "        say(f'closed {sys.is_finalizing()}\\n')\n"
        "closed = Closed(Path(sys.argv[1]))\n"
    )
    path = tmp_path / "1-0-5.old"
    path.touch()
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed True\n", "")
    assert path.exists()
