"""Nothing is left behind, however the owner ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_dedup.stream.devbroker import keeper
from stream_dedup.stream.devbroker.keeper import OWNER_FILE, PREFIX, TOKEN_ARGUMENT, identity, is_abandoned
from tests.broker.conftest import WAYS, MakeBroker
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
START_S = 60.0
"""For a broker in a process of its own to be ready, seconds."""
CLEAN_S = 30.0
"""For the keeper to have done its work, seconds."""

OWNER = """
import sys, time
from tests.broker.conftest import WAYS
broker = WAYS[sys.argv[1]]()
broker.start()
if sys.argv[2] == "frozen":
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
    label = f"label={keeper.TOKEN_LABEL}={token}"
    asked = subprocess.run(["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=True)
    return asked.stdout.split()


@pytest.fixture
def owner(way: MakeBroker) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str]]]:
    """Return a function that starts a broker in a process of its own; it gives the process and the token."""
    started: list[subprocess.Popen[str]] = []

    def start(state: str) -> tuple[subprocess.Popen[str], str]:
        name = next(name for name, make in WAYS.items() if make is way)
        command = [sys.executable, "-c", OWNER, name, state]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        return started[-1], started[-1].stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_owner_killed(owner: Callable[[str], tuple[subprocess.Popen[str], str]], way: MakeBroker, state: str) -> None:
    """SIGKILL to the owner: its processes, container and folder are gone soon after."""
    process, token = owner(state)
    folder = Path("/tmp") / token
    assert token.startswith(PREFIX)
    assert folder.is_dir()
    in_container = way is WAYS["container"]
    assert bool(containers_with(token) if in_container else processes_with(TOKEN_ARGUMENT + token))
    process.kill()
    wait_until(lambda: not folder.exists(), CLEAN_S, "the folder is removed")
    wait_until(lambda: not processes_with(token), CLEAN_S, "its processes and its keeper have ended")
    assert not in_container or not containers_with(token)


def test_owner_and_keeper_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both left, because both were killed, goes when the next broker on this machine starts."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / (PREFIX + "left")
    folder.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (folder / OWNER_FILE).write_text(identity(os.getpid()).replace(f" {os.getpid()} ", f" {dead.pid} "))
    command = [sys.executable, "-c", "import time; time.sleep(600)", TOKEN_ARGUMENT + folder.name]
    left = subprocess.Popen(command)
    keeper.sweep(containers=False)
    assert left.wait(CLEAN_S) == -signal.SIGKILL
    assert not folder.exists()


def test_folder_of_a_living_owner_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep touches nothing whose owner lives, and no folder that names no owner."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name, owner in (("mine", identity(os.getpid())), ("unknown", "")):
        folder = tmp_path / (PREFIX + name)
        folder.mkdir()
        (folder / OWNER_FILE).write_text(owner)
    keeper.sweep(containers=False)
    assert len(list(tmp_path.iterdir())) == 2


def change(number: int, value: str) -> str:
    """Return this process's identity with one field changed."""
    fields = identity(os.getpid()).split(" ")
    fields[number] = value
    return " ".join(fields)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(identity(os.getpid()), False, id="this process"),
        pytest.param(change(0, "another"), False, id="on another machine, perhaps alive"),
        pytest.param(change(1, "another"), True, id="before this machine was started"),
        pytest.param(change(2, "pid:[1]"), False, id="in another container, perhaps alive"),
        pytest.param(change(4, "1"), True, id="an earlier process of this number"),
        pytest.param("", False, id="not written yet"),
    ],
)
def test_who_counts_as_gone(owner: str, *, expected: bool) -> None:
    """Only a process of this machine that is surely not there any more is gone."""
    assert is_abandoned(owner) is expected
