"""Several threads, a signal, a fork or the end of the interpreter in the middle of calls of one index."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.index import LogIndex

ROOT = Path(__file__).parents[2]
WITHIN = "called from within another call of it, which would damage it: nothing was done"
CLOSED = "the index is closed: open it again"
AT_THE_END = (
    "called at the end of the interpreter, while a thread is in a call of it, which would damage it: nothing was done"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases",
    [
        {
            "handlers": "True",
            "if_new": "True True 40",
            "closing": f"True {[CLOSED]}",
            "signals": "True 150",
            "handler": f"1 1 9 {[WITHIN, CLOSED]}",
            "twice": "[True, False] ['a'] 2",
            "fork": "[4, 4] 1",
            "daemons": "ends",
        },
        {"late": AT_THE_END},
        {"at_exit": "ends"},
    ],
    ids=" ".join,
)
def test_an_index_stays_whole_whatever_its_calls_meet(tmp_path: Path, cases: dict[str, str]) -> None:
    """``threading_cases`` says what each case does; afterwards the whole index is read and compared with itself."""
    command = [sys.executable, "-m", "tests.index.threading_cases", str(tmp_path), *cases]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, list(cases.values()), "")
    for case in cases:
        with LogIndex.read(tmp_path / case, scheme=None) as index:
            assert index.verify() == []
