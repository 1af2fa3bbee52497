"""A command of the program in a process of its own, as a user would start it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.errors import UnavailableError

PROGRAM = (sys.executable, "-P", "-m", "stream_dedup")
"""The installed program; -P keeps Python from importing files of the current folder."""
PROCESS_READY_S = 120.0
"""Seconds for the process to be ready: it opens its index and joins the group, usually within four."""
READY_POLL_S = 0.1
END_LIMIT_S = 30.0
"""Seconds for a process to end after SIGTERM: the limit of a worker is 20."""
SHOWN_LOG_LINES = 15


class DevProcess:
    """A process of a command that answers on ``/readyz``. As a context manager, it ends with the block."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start it; ``arguments`` begin with the command, ``log`` takes what it prints."""
        self._name = arguments[0]
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen([*PROGRAM, *arguments], stdout=out, stderr=out)

    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until /readyz answers 200; the process prints its address.

        Raises:
            UnavailableError: it ended, or is not ready in time.
        """
        deadline = time.monotonic() + PROCESS_READY_S
        while not self._is_ready():
            if not self.running() or time.monotonic() > deadline:
                why = f"was not ready within {PROCESS_READY_S:g} s" if self.running() else "ended"
                msg = f"stream-dedup {self._name} {why}"
                raise UnavailableError(msg)
            time.sleep(READY_POLL_S)

    def address(self) -> str | None:
        """Return host and port, once the process has printed them."""
        found = re.search(r"http://([^\s/]+)/", self._log.read_text(errors="replace"))
        return None if found is None else found[1]

    def _is_ready(self) -> bool:
        address = self.address()
        if address is None:
            return False
        with closing(HTTPConnection(address, timeout=PROCESS_READY_S)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == HTTPStatus.OK
            except (OSError, HTTPException):
                return False  # a busy machine: the server hangs up on a request that takes too long

    def end(self) -> None:
        """End the process with SIGTERM, and check its exit code.

        Raises:
            UnavailableError: it ended with an error.
        """
        self._process.terminate()
        if code := self._process.wait(END_LIMIT_S):
            msg = f"stream-dedup {self._name} ended with exit code {code}"
            raise UnavailableError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, by force if it takes too long; add the end of its log to an error."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        self._process.kill()
        self._process.wait()
        if isinstance(error, UnavailableError | subprocess.TimeoutExpired):
            with self._log.open(errors="replace") as lines:
                tail = "".join(deque(lines, SHOWN_LOG_LINES))
            msg = f"{error}; the log of stream-dedup {self._name} ends:\n{tail}"
            raise UnavailableError(msg) from error
