"""The keeper: a process that removes everything a development broker made, once its owner has ended.

It is a process because the owner may be killed with SIGKILL. A parent-death signal would not do: it is sent when the
thread that started the child ends, and it removes no container.

1. The owner makes a folder and starts the keeper with it *before* it starts anything else.
2. Everything the broker starts carries the folder's name as a token: Java processes as an argument,
   containers as a label. Nothing has to be reported, so a crash between two steps leaves nothing unknown.
3. The keeper waits until the pipe from its owner is closed or its owner is no longer its parent.
4. It kills the processes, removes the containers, and removes the folder last. If owner and keeper were killed
   together, or the machine was switched off, the next development broker on this machine finds the folder (``sweep``)
   and finishes the work.

Every user can write to the folder for temporary files. A sweep therefore considers only folders of its own user, by
name, owner and mode, and trusts no file in them (``_read_owner``). It kills processes and removes containers of that
user only.

This file runs as a script of its own and imports nothing of the project.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER_PREFIX = f"stream-dedup-broker-{os.geteuid()}-"
"""Prefix of the names of this user's folders."""
_TOKEN = re.compile(re.escape(FOLDER_PREFIX) + "[a-z0-9_]{1,32}")
"""A folder name as ``mkdtemp`` makes it, without characters that have a meaning elsewhere."""
TOKEN_ARGUMENT = "-Dstream_dedup.broker="  # noqa: S105  (a name of a process, no secret)
TOKEN_LABEL = "stream-dedup.broker"  # noqa: S105  (the same)
OWNER_LABEL = "stream-dedup.owner"
OWNER_FILE = "owner"
MAX_OWNER_BYTES = 512
"""Bytes read of an owner file; an identity has some 120."""
WATCH_S = 1.0
"""Seconds between two checks of the owner; the closing of the pipe is noticed at once."""
START_S = 0.3
"""Seconds until a new process shows its arguments: milliseconds, more on busy cores."""
CLOSE_LIMIT_S = 30
"""Seconds for the keeper to finish: removing a container takes 1 to 2."""
CLEANING_ENGINE_LIMIT_S = 20
"""One request to the Docker engine, seconds: removing a container that wrote much takes a while."""


class Keeper:
    """The owner's end: a folder and the process that will clean up."""

    def __init__(self, *, containers: bool) -> None:
        sweep(containers=containers)
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self.token = self.folder.name
        self.owner = identity(os.getpid())
        (self.folder / OWNER_FILE).write_text(self.owner)
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(self.folder), str(int(containers))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )

    def close(self) -> None:
        """Have everything removed now, and wait for it."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
            self._process.wait(CLOSE_LIMIT_S)


def identity(pid: int) -> str:
    """Name a process so that no later one and no other machine's is taken for it."""
    machine = _read("/etc/machine-id") or os.uname().nodename
    namespace = str(Path("/proc/self/ns/pid").readlink())
    return " ".join([machine, _read("/proc/sys/kernel/random/boot_id"), namespace, str(pid), _start_time(pid)])


def is_abandoned(owner: str) -> bool:
    """Tell whether the process of that identity is surely gone; what cannot be known from here is not."""
    with contextlib.suppress(ValueError):
        machine, boot, namespace, pid, _ = owner.split(" ")
        ours = identity(int(pid))
        here = ours.split(" ")
        if machine == here[0]:
            return boot != here[1] or (namespace == here[2] and owner != ours)
    return False


def sweep(*, containers: bool) -> None:
    """Finish what owners left that were killed together with their keepers."""
    for folder in Path(tempfile.gettempdir()).glob(FOLDER_PREFIX + "*"):
        if is_abandoned(_read_owner(folder)):
            clean(folder, containers=containers)
    if containers:
        _remove_containers({"label": TOKEN_LABEL}, abandoned_only=True)


def _read_owner(folder: Path) -> str:
    """Return the identity that a folder of this user names; empty where the folder or its owner file is anything else.

    Never follows a link, waits for a pipe, or reads a file to its end.
    """
    with contextlib.suppress(OSError), _opened(folder, os.O_DIRECTORY) as inside:
        if _TOKEN.fullmatch(folder.name) and _is_mine_alone(os.fstat(inside)):
            with _opened(OWNER_FILE, os.O_NONBLOCK, inside) as owner:
                if stat.S_ISREG(os.fstat(owner).st_mode):
                    return os.read(owner, MAX_OWNER_BYTES).decode("ascii", "replace").strip()
    return ""


@contextlib.contextmanager
def _opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_mine_alone(info: os.stat_result) -> bool:
    """Whether it belongs to this user, and no other may write to it."""
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def clean(folder: Path, *, containers: bool) -> None:
    """Kill the processes, remove the containers, then the folder."""
    _kill_processes(folder.name)
    if containers:
        _remove_containers({"label": f"{TOKEN_LABEL}={folder.name}"}, abandoned_only=False)
    shutil.rmtree(folder, ignore_errors=True)


def _kill_processes(token: str) -> None:
    """Kill all that carry the token; look twice, for one that is just starting does not show its arguments yet."""
    for round_ in range(2):
        if round_:
            time.sleep(START_S)
        for pid in _processes(token):
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)


def _processes(token: str) -> list[int]:
    """Process ids of this user's processes that carry the token; of another's not even the arguments are read."""
    argument = (TOKEN_ARGUMENT + token).encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):  # it ended while we looked, or is no process
            pid = int(entry.name)
            if entry.stat().st_uid == os.geteuid() and argument in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def _remove_containers(filters: dict[str, str], *, abandoned_only: bool) -> None:
    import docker  # noqa: PLC0415  (an optional dependency, and slow to import)

    client = docker.from_env(timeout=CLEANING_ENGINE_LIMIT_S)
    try:
        for container in client.containers.list(all=True, filters=filters, ignore_removed=True):
            if not abandoned_only or _is_left(container.labels):
                remove_container(container)
    finally:
        client.close()


def _is_left(labels: dict[str, str]) -> bool:
    """Whether a container is of this user, and of a broker whose owner is gone."""
    return bool(_TOKEN.fullmatch(labels.get(TOKEN_LABEL, ""))) and is_abandoned(labels.get(OWNER_LABEL, ""))


def remove_container(container: Any) -> None:  # noqa: ANN401  (docker has no types)
    """Remove a container with its volumes, whatever state it is in; no error where it is gone already."""
    import docker.errors  # noqa: PLC0415

    with contextlib.suppress(docker.errors.APIError):
        container.unpause()  # a paused process does not die
    try:
        container.remove(force=True, v=True)
    except docker.errors.APIError as error:
        if error.status_code not in {404, 409}:  # gone, or somebody is removing it right now
            raise


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Field 22 of the process's state, in ticks since the boot; empty where there is no such process."""
    return " ".join(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19:20])


def main() -> None:
    """Wait for the owner's end, then clean up."""
    parent = os.getppid()
    folder, containers = Path(sys.argv[1]), sys.argv[2] == "1"
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], WATCH_S)[0]:
            break  # nothing is ever written: readable means closed
    clean(folder, containers=containers)


if __name__ == "__main__":
    main()
