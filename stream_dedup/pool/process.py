"""The parent's end of one child process, from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Pipe
from typing import Any, Protocol

from stream_dedup.article_limit import LIMIT_SIGNAL
from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError

START_LIMIT_S = 300
"""Longest wait for a process to load: part of a second, and more on a machine with other work."""
CLOSE_WAIT_S = 5
"""Longest wait for work under way when the pool closes: a batch takes a fraction of it."""
CHILD_CODE = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL + 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != {parent}:
        os._exit(0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:] = {path!r}
from stream_dedup.pool.child import serve
serve({connection}, {lifeline})
"""
"""The kernel kills the child when the thread that started it ends. If the parent ended before the child asked for that,
the child has another parent by now."""
_THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class DeathError(Exception):
    """The process ended; the message says which one, and how."""

    def __init__(self, pid: int, exit_code: int) -> None:
        how = f"by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"with exit code {exit_code}"
        super().__init__(f"fingerprinting process {pid} ended {how}")
        self.late = exit_code == -LIMIT_SIGNAL
        """Whether its timer ended it, if it was at work."""


class ChildMaker(Protocol):
    """What does the work in the child."""

    def warm(self) -> None:
        """Load what it needs."""

    def __call__(self, work: Any, /) -> object:  # noqa: ANN401 - what its recipe is for
        """Do a piece of work."""


class ChildRecipe(Protocol):
    """What a child gets first: how it makes its maker, and the limit of a piece of work. It can be pickled."""

    @property
    def article_limit_s(self) -> float:
        """Seconds of processor time; longer work ends the process."""

    def maker(self) -> ChildMaker:
        """Return the maker; called in the child."""


class ChildProcess:
    """A child process and the connection to it.

    The thread that makes it must live until ``end`` has returned: the kernel kills the process when the thread ends.
    """

    def __init__(self, lifeline: int, recipe: ChildRecipe) -> None:
        """Start the process; it loads while the caller goes on.

        Raises:
            UnavailableError: it could not be started.
        """
        self._recipe = recipe
        try:
            self._start(lifeline)
        except OSError as error:
            msg = f"a fingerprinting process could not be started: {error.strerror or error}"
            raise UnavailableError(msg) from error

    def _start(self, lifeline: int) -> None:
        self._connection, theirs = Pipe()
        code = CHILD_CODE.format(path=_import_path(), connection=theirs.fileno(), lifeline=lifeline, parent=os.getpid())
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-P", "-c", code],  # -P: nothing is imported from the current folder
                env=os.environ | dict.fromkeys(_THREAD_SETTINGS, "1"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), lifeline),
                # A group of its own, out of a terminal's reach from the first moment.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def load(self) -> None:
        """Wait until the process has loaded. Call it once, before ``columns``.

        Raises:
            DeathError: the process died.
            UserError: a package or its data are missing.
            UnavailableError: the process did not load within ``START_LIMIT_S``; it is killed.
        """
        self._exchange(self._recipe, START_LIMIT_S, self._give_up)

    def has_died(self) -> bool:
        """Return whether the process has ended; only while it has no work, for then it sends nothing else."""
        return self._connection.poll(0)

    def columns(self, records: Sequence[RawRecord], slow_s: float, when_slow: Callable[[], None]) -> Columns:
        """Return the columns of these records; blocks. Calls ``when_slow`` if they take longer than ``slow_s``.

        Raises:
            DeathError: the process died.
            Exception: what the child raised.
        """
        columns: Columns = self._exchange(records, slow_s, when_slow)
        return columns

    def ask(self, work: object) -> Any:  # noqa: ANN401 - what the maker returns
        """Return what the maker makes of the work; blocks. Raises as ``columns``."""
        return self._exchange(work, None, lambda: None)

    def is_alive(self) -> bool:
        """Return whether the process has not ended. The thread that made it."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process. Any thread."""
        self._process.kill()

    def end(self) -> None:
        """Close the connection and wait until the process has ended."""
        self._connection.close()
        self._process.wait()

    def death(self) -> DeathError:
        """Return how the process ended; wait for its end."""
        self._connection.close()
        try:
            code = self._process.wait(CLOSE_WAIT_S)
        except subprocess.TimeoutExpired:
            # The connection is closed but the process runs on: nobody can use it.
            self._process.kill()
            code = self._process.wait()
        return DeathError(self.pid, code)

    def _exchange(self, message: object, wait_s: float | None, when_late: Callable[[], None]) -> Any:  # noqa: ANN401 - what the child answers
        """Send a message and return the answer, or raise the exception that is the answer."""
        try:
            self._connection.send(message)
            if not self._connection.poll(wait_s):
                when_late()
            ok, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self.death() from error
        if not ok:
            raise answer
        return answer

    def _give_up(self) -> None:
        self._process.kill()
        msg = f"fingerprinting process {self.pid} did not load within {START_LIMIT_S} s: start again"
        raise UnavailableError(msg)


def _import_path() -> list[str]:
    """Return this process's import path without the current folder, which Python adds for ``-c`` and a prompt."""
    return [entry for entry in sys.path if os.path.normpath(entry) != os.curdir]
