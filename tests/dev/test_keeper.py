"""Nothing is left behind, however the owner ends."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_dedup.dev.broker.keeper import FOLDER_PREFIX, TOKEN_ARGUMENT, Keeper
from tests.dev.conftest import WAYS, MakeBroker
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
SHOWN_S = 30.0
"""Seconds for a new process to show its arguments: on busy cores they are empty at first (``keeper.START_S``)."""
CLEAN_S = 60.0
"""Seconds for the keeper to finish."""

OWNER = """
import sys, time
from tests.dev.conftest import WAYS
broker = WAYS[sys.argv[1]]()
broker.launch()
broker.freeze()
print(broker._keeper.token, flush=True)
time.sleep(600)
"""


def processes_with(token: str) -> list[str]:
    """Return the processes that name the token, but for those that only look."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in command:
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def containers_with(token: str) -> list[str]:
    command = ["docker", "ps", "--all", "--quiet", "--filter", f"name={token}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def owner(way: MakeBroker) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Return a function that starts a frozen broker in a process of its own; it returns the process and the token."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], str]:
        name = next(name for name, make in WAYS.items() if make is way)
        command = [sys.executable, "-c", OWNER, name]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        return started[-1], started[-1].stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_owner_killed(owner: Callable[[], tuple[subprocess.Popen[str], str]], way: MakeBroker) -> None:
    """SIGKILL to the owner of a frozen broker: its processes, container and folder are gone soon after."""
    process, token = owner()
    folder = Path(tempfile.gettempdir()) / token
    assert token.startswith(FOLDER_PREFIX)
    assert folder.is_dir()
    in_container = way is WAYS["container"]
    if in_container:
        assert containers_with(token)
    else:
        wait_until(lambda: bool(processes_with(TOKEN_ARGUMENT + token)), SHOWN_S, "the broker shows its arguments")
    process.kill()
    wait_until(lambda: not folder.exists(), CLEAN_S, "the folder is removed")
    wait_until(lambda: not processes_with(token), CLEAN_S, "its processes and its keeper have ended")
    assert not in_container or not containers_with(token)


def test_closed_in_order() -> None:
    """Processes that carry the token are killed, others go on; the folder is gone when ``close`` returns."""
    keeper = Keeper()
    (keeper.folder / "data").mkdir()
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with (
        subprocess.Popen([*command, TOKEN_ARGUMENT + keeper.token], stdin=-1, stdout=-1) as ours,
        subprocess.Popen([*command, TOKEN_ARGUMENT + keeper.token + "x"], stdin=-1, stdout=-1) as other,
    ):
        for process in (ours, other):
            assert process.stdout is not None
            process.stdout.readline()
        keeper.close()
        assert not keeper.folder.exists()
        assert ours.wait(CLEAN_S) == -signal.SIGKILL
        assert other.poll() is None
