"""The keeper: a process that removes what a development broker made, once its owner has ended.

It is a process because the owner may be killed with SIGKILL. A parent-death signal would not do: it is sent when the
thread that started the child ends, and it removes no container.

1. The owner makes a folder and starts the keeper with it *before* it starts anything else.
2. Everything the broker starts carries the folder's name as a token: Java processes as an argument, a container as its
   name. Nothing has to be reported, so a crash between two steps leaves nothing unknown.
3. The keeper waits until the pipe from its owner is closed or its owner is no longer its parent.
4. It kills the processes, removes the container, and removes the folder last.

This file runs as a script of its own and imports nothing of the project.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FOLDER_PREFIX = "stream-dedup-broker-"
TOKEN_ARGUMENT = "-Dstream_dedup.broker="  # noqa: S105  (a name of a process, no secret)
WATCH_S = 1.0
"""Seconds between two checks of the owner; the closing of the pipe is noticed at once."""
START_S = 0.3
"""Seconds until a new process shows its arguments: milliseconds, more on busy cores."""
REMOVAL_LIMIT_S = 20
"""One request to the Docker engine, seconds: removing a container that wrote much takes a while."""
CLOSE_LIMIT_S = 30
"""Seconds for the keeper to finish: removing a container takes 1 to 2."""


class Keeper:
    """The owner's end: a folder and the process that will clean up."""

    def __init__(self, *, container: bool = False) -> None:
        """Make the folder; ``container``: whether there will be one of the token's name."""
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self.token = self.folder.name
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(self.folder), *["container"] * container],
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


def _kill_processes(token: str) -> None:
    """Kill all that carry the token; look twice, for one that is just starting does not show its arguments yet."""
    for pause in (0, START_S):
        time.sleep(pause)
        for pid in _processes(token):
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)


def _processes(token: str) -> Iterator[int]:
    argument = (TOKEN_ARGUMENT + token).encode()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended while we looked
            if argument in entry.read_bytes().split(b"\0"):
                yield int(entry.parent.name)


def remove_container(name: str) -> None:
    """Remove a container with its volumes, whatever state it is in; no error where there is none."""
    import docker  # noqa: PLC0415  (an optional dependency, and slow to import)
    import docker.errors  # noqa: PLC0415

    with contextlib.closing(docker.from_env(timeout=REMOVAL_LIMIT_S)) as client:
        with contextlib.suppress(docker.errors.APIError):
            client.containers.get(name).unpause()  # a paused process does not die
        with contextlib.suppress(docker.errors.NotFound):
            client.containers.get(name).remove(force=True, v=True)


def main() -> None:
    """Wait for the owner's end, then clean up."""
    parent = os.getppid()
    folder, *container = sys.argv[1:]
    while os.getppid() == parent and not select.select([sys.stdin], [], [], WATCH_S)[0]:
        pass  # nothing is ever written: readable means closed
    token = Path(folder).name
    _kill_processes(token)
    try:
        if container:
            remove_container(token)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
