"""Nothing is left behind, however the owner ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_dedup.dev.broker import keeper
from stream_dedup.dev.broker.keeper import FOLDER_PREFIX, OWNER_FILE, TOKEN_ARGUMENT, identity, is_abandoned
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
    label = f"label={keeper.TOKEN_LABEL}={token}"
    asked = subprocess.run(["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=True)
    return asked.stdout.split()


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
    folder = Path("/tmp") / token
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


def test_owner_and_keeper_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If owner and keeper are killed, the next broker on this machine removes what they left."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / (FOLDER_PREFIX + "left")
    folder.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (folder / OWNER_FILE).write_text(identity(os.getpid()).replace(f" {os.getpid()} ", f" {dead.pid} "))
    command = [sys.executable, "-c", "import time; time.sleep(600)", TOKEN_ARGUMENT + folder.name]
    left = subprocess.Popen(command)
    keeper.sweep(containers=False)
    assert left.wait(CLEAN_S) == -signal.SIGKILL
    assert not folder.exists()


def gone() -> str:
    """The identity of an owner that is surely gone."""
    return identity(os.getpid()).replace(f" {os.getpid()} ", " 1 ")


def made(folder: Path, owner: str | None = None) -> Path:
    """A folder as the keeper makes it, with this owner file."""
    folder.mkdir(0o700)
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner)
    return folder


def with_pipe(folder: Path) -> None:
    os.mkfifo(made(folder) / OWNER_FILE)


def with_link(folder: Path) -> None:
    target = folder.with_name("target")
    target.write_text(gone())
    (made(folder) / OWNER_FILE).symlink_to(target)


def with_endless_file(folder: Path) -> None:
    (made(folder) / OWNER_FILE).symlink_to("/dev/zero")


def with_long_file(folder: Path) -> None:
    made(folder, " " * keeper.MAX_OWNER_BYTES + gone())


def with_bytes_that_are_no_text(folder: Path) -> None:
    (made(folder) / OWNER_FILE).write_bytes(b"\xff" * 10)


def with_folder_as_owner(folder: Path) -> None:
    (made(folder) / OWNER_FILE).mkdir()


def that_others_may_write_to(folder: Path) -> None:
    made(folder, gone()).chmod(0o777)


def that_the_group_may_write_to(folder: Path) -> None:
    made(folder, gone()).chmod(0o770)


def that_is_a_link(folder: Path) -> None:
    folder.symlink_to(made(folder.with_name("elsewhere"), gone()))


def that_is_a_file(folder: Path) -> None:
    folder.write_text(gone())


@pytest.mark.parametrize(
    "make",
    [
        with_pipe,
        with_link,
        with_endless_file,
        with_long_file,
        with_bytes_that_are_no_text,
        with_folder_as_owner,
        that_others_may_write_to,
        that_the_group_may_write_to,
        that_is_a_link,
        that_is_a_file,
    ],
)
def test_a_hostile_folder_is_let_be(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep does not hang at it and ignores it, and still removes the left-overs of this user."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    hostile = tmp_path / (FOLDER_PREFIX + "hostile")
    make(hostile)
    left = made(tmp_path / (FOLDER_PREFIX + "left"), gone())
    cleaned: list[Path] = []
    monkeypatch.setattr(keeper, "clean", lambda folder, **_: cleaned.append(folder))
    keeper.sweep(containers=False)
    assert cleaned == [left]


def test_a_pipe_that_speaks_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a regular file names an owner."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / (FOLDER_PREFIX + "hostile")
    with_pipe(folder)
    with (folder / OWNER_FILE).open("r+b", buffering=0) as pipe:
        pipe.write(gone().encode())
        keeper.sweep(containers=False)
    assert folder.is_dir()


@pytest.mark.parametrize("name", ["", "a b", "A", "../x", "a.b", "x" * 33, "a\n"])
def test_a_name_that_no_keeper_makes_is_no_token(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is not looked at: its name would be searched for in the arguments of processes."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / (FOLDER_PREFIX + name.replace("/", "%"))
    made(folder, gone())
    keeper.sweep(containers=False)
    assert folder.is_dir()


def test_what_is_another_users_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a folder nor a process, though both name an owner that is gone."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = made(tmp_path / (FOLDER_PREFIX + "another"), gone())
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", TOKEN_ARGUMENT + folder.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:
        wait_until(lambda: keeper._processes(folder.name) == [running.pid], CLEAN_S, "the process shows its arguments")
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        keeper.sweep(containers=False)
        keeper.clean(tmp_path / "nothing" / folder.name, containers=False)
        assert running.poll() is None
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({keeper.TOKEN_LABEL: FOLDER_PREFIX + "a", keeper.OWNER_LABEL: gone()}, True, id="ours"),
        pytest.param(
            {keeper.TOKEN_LABEL: "stream-dedup-broker-x-a", keeper.OWNER_LABEL: gone()}, False, id="another's"
        ),
        pytest.param(
            {keeper.TOKEN_LABEL: FOLDER_PREFIX + "a", keeper.OWNER_LABEL: identity(os.getpid())}, False, id="lives"
        ),
        pytest.param({keeper.OWNER_LABEL: gone()}, False, id="no token"),
    ],
)
def test_which_containers_are_left(labels: dict[str, str], *, expected: bool) -> None:
    """Those of this user whose owner is gone: where /proc hides other users' processes, theirs seem gone too."""
    assert keeper._is_left(labels) is expected


def test_folder_of_a_living_owner_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep touches nothing whose owner lives, and no folder that names no owner."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name, owner in (("mine", identity(os.getpid())), ("unknown", "")):
        folder = tmp_path / (FOLDER_PREFIX + name)
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
