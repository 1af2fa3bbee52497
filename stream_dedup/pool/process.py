"""The parent's end of one child process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from multiprocessing.connection import Pipe
from typing import Any

from stream_dedup.article_limit import LIMIT_SIGNAL, LateError
from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError
from stream_dedup.pool.recipe import Recipe

CLOSE_WAIT_S = 5
"""Longest wait for work under way when the pool closes: a batch takes a fraction of it."""
CHILD_CODE = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:] = {path!r}
from stream_dedup.pool.child import serve
serve({connection}, {lifeline})
"""
_THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class ChildProcess:
    """A child process and the connection to it. After ``renew`` it is another process."""

    def __init__(self, lifeline: int, recipe: Recipe) -> None:
        """Start the process.

        Raises:
            UnavailableError: the process could not be started, or ended at once.
        """
        self.ready: Future[None] = Future()
        self.recipe = recipe
        self._lifeline = lifeline
        self._killed = False
        self._start = threading.Lock()
        self._spawn()

    def _spawn(self) -> None:
        try:
            self._start_process()
        except OSError as error:
            msg = f"a fingerprinting process could not be started: {error.strerror or error}"
            raise UnavailableError(msg) from error

    def _start_process(self) -> None:
        self._connection, theirs = Pipe()
        code = CHILD_CODE.format(path=_import_path(), connection=theirs.fileno(), lifeline=self._lifeline)
        self.process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-P", "-c", code],  # -P: nothing is imported from the current folder
            env=os.environ | dict.fromkeys(_THREAD_SETTINGS, "1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), self._lifeline),
            # A group of its own, out of a terminal's reach from the first moment.
            process_group=0,
        )
        theirs.close()
        self._connection.send(self.recipe)

    def renew(self) -> None:
        """Start a process in place of the one that ended, and wait until it has loaded.

        Raises:
            UnavailableError: the pool is closing, or the new process could not be started or died.
        """
        with self._start:
            if self._killed:
                raise self._death()
            self._connection.close()
            self._spawn()
        self.receive()

    def kill(self) -> None:
        """Kill the process, and start no other."""
        with self._start:
            self._killed = True
            self.process.kill()

    def columns(self, records: Sequence[RawRecord]) -> Columns:
        """Return the columns of these records; blocks.

        Raises:
            LateError: the records took longer than the limit, and the process has ended.
            UnavailableError: the process died otherwise.
        """
        try:
            self._connection.send(records)
        except OSError as error:
            raise self._death() from error
        try:
            columns: Columns = self.receive()
        except UnavailableError as error:
            # Only here: a child without work has no timer, and nothing was late.
            if self.process.returncode == -LIMIT_SIGNAL and not self._killed:
                raise LateError from error
            raise
        return columns

    def receive(self) -> Any:  # noqa: ANN401 - what the child's next answer holds
        """Return the child's next answer; blocks.

        Raises:
            UnavailableError: the process died.
            Exception: what the child raised.
        """
        try:
            ok, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if not ok:
            raise answer
        return answer

    def end(self) -> None:
        """Close the connection and wait until the process has ended."""
        self._connection.close()
        self.process.wait()

    def _death(self) -> UnavailableError:
        """Return the error that says how the process ended; waits for its end."""
        try:
            code = self.process.wait(CLOSE_WAIT_S)
        except subprocess.TimeoutExpired:
            # The connection is closed but the process runs on: nobody can use it.
            self.process.kill()
            code = self.process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return UnavailableError(
            f"fingerprinting process {self.process.pid} ended {how}: start again (if it was killed, see whether "
            "memory ran out)"
        )


def _import_path() -> list[str]:
    """Return this process's import path without the current folder, which Python adds for ``-c`` and a prompt."""
    return [entry for entry in sys.path if os.path.normpath(entry) != os.curdir]
