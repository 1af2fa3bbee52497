"""Children of pools that are forked: they find the dictionaries loaded, which else takes each of them 1.5 s of a core.

For tests of what uses a pool. How a child is started, and ends with its parent, is tested with real ones (tests/pool).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.pool.child import serve
from stream_dedup.pool.process import ChildProcess
from tests.forks import ForkedProcess, Forks


class ForkedChild:
    """The part of ``subprocess.Popen`` that ``ChildProcess`` uses."""

    def __init__(self, parent: Forks, connection: int, lifeline: int) -> None:
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno(), nothing.fileno(), 2, connection, lifeline]
            self._process: ForkedProcess = parent.start("tests.forked_children:main", [], streams)
        self.pid = self._process.pid
        # Opened now, not by ``wait``: another thread may be waiting for a descriptor that was closed just before, and
        # would go on waiting if its number were given to another one.
        self._handle = os.pidfd_open(self.pid)
        weakref.finalize(self, os.close, self._handle)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self._process.wait()


def main(connection: str, lifeline: str) -> int:
    """Be a child, as ``CHILD_CODE`` says."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(int(connection), int(lifeline))
    return 0


@contextmanager
def forked_children(parent: Forks) -> Iterator[None]:
    """Let pools of this process have children that are forked from another one."""

    def start(self: Any, lifeline: int) -> None:  # noqa: ANN401 - it sets what is private
        self._connection, theirs = Pipe()
        with theirs:
            self._process = ForkedChild(parent, theirs.fileno(), lifeline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChildProcess, "_start", start)
        yield
