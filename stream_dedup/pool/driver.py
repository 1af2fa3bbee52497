"""A driver: a thread of the parent, and the child process that it starts, gives work, and replaces when it dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from stream_dedup.article_limit import LateError
from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError
from stream_dedup.pool.isolation import KilledError, PoolObserver
from stream_dedup.pool.process import ChildProcess, DeathError
from stream_dedup.pool.recipe import Recipe

if TYPE_CHECKING:
    from stream_dedup.metrics.metrics import RestartCause

SLOW_S = 2.0
"""A task usually takes some 30 ms, on a busy machine a few times as much. After this time it is slow: another process
takes the place of its process, or it is given up (``pool``)."""
MOST_USELESS_DEATHS = 3
"""So many processes that die without work, one after the other, have a lasting cause: no other is started."""

_T = TypeVar("_T")


class Driver:
    """One child process at a time. ``columns`` is called by ``work``, in the driver's own thread.

    A process is started by this thread, which outlives it: the kernel would kill it with the thread.
    """

    def __init__(self, lifeline: int, recipe: Recipe, observer: PoolObserver) -> None:
        """Start nothing yet."""
        self.ready: Future[None] = Future()
        """Done when the first process has loaded, or could not."""
        self.is_slow = False
        """Whether its task is slow; the pool sets it."""
        self.recipe = recipe
        self.observer = observer
        self._lifeline = lifeline
        self._process: ChildProcess | None = None
        self._spawned = threading.Event()
        self._killing = threading.Lock()
        self._killed = False
        self._is_given_up = False
        """Whether the work of the present process was given up."""
        self._useless_deaths = 0

    def run(self, work: Callable[[Driver], None]) -> None:
        """Begin the thread: it loads a process, does ``work``, and ends the process."""
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def pid(self) -> int | None:
        """Return the id of the present process, None of none; wait for the first start. Any thread."""
        self._spawned.wait()
        process = self._process
        return None if process is None else process.pid

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has ended. Any thread."""
        self._thread.join(timeout_s)

    def kill(self) -> None:
        """Kill the process, and start no other. Any thread."""
        with self._killing:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def give_up(self) -> None:
        """Kill the process for its work, which is late. Its own thread, from ``when_slow``."""
        if self._process is not None and self._process.is_alive():
            self._is_given_up = True
            self._process.kill()

    def reload(self) -> None:
        """Load a process now, where there is none. What fails is told when there is work. Its own thread."""
        complete(Future(), self._load)

    def columns(self, records: Sequence[RawRecord], when_slow: Callable[[], None]) -> Columns:
        """Return the columns of these records; blocks.

        Calls ``when_slow`` after ``SLOW_S``, and when the process ends, which takes a new one and each record alone.

        Raises:
            LateError: they took longer than the limit, or were given up, and the process has ended.
            KilledError: the process ended otherwise while it worked on them.
            UnavailableError: the pool is closing, or no process could be started.
        """
        process = self._living_process()
        try:
            columns = process.columns(records, SLOW_S, when_slow)
        except DeathError as death:
            when_slow()
            raise self._ended_at_work(death) from death
        self._useless_deaths = 0
        return columns

    def _run(self, work: Callable[[Driver], None]) -> None:
        complete(self.ready, self._load)
        work(self)
        if self._process is not None:
            self._process.end()

    def _load(self) -> None:
        self._living_process()

    def _living_process(self) -> ChildProcess:
        """Return a process that is loaded and has not died; start one where there is none.

        Raises:
            UserError: a package or its data are missing.
            UnavailableError: none could be started, or the pool is closing.
        """
        while True:
            try:
                if self._process is None:
                    self._start()
                elif self._is_given_up:  # it answered just before it was killed
                    self._ended_at_work(self._process.death())
                elif self._process.has_died():
                    self._drop_useless(self._process.death(), "idle")
                else:
                    return self._process
            except DeathError as death:
                self._drop_useless(death, "loading")

    def _start(self) -> None:
        try:
            with self._killing:
                if self._killed:
                    msg = "the pool of fingerprinting processes is closing"
                    raise UnavailableError(msg)
                self._process = ChildProcess(self._lifeline, self.recipe)
        finally:
            self._spawned.set()
        self._process.load()

    def _ended_at_work(self, death: DeathError) -> Exception:
        """Return what the end of a process means for its work."""
        self._process = None
        is_late, self._is_given_up = death.late or self._is_given_up, False
        if self._killed:
            return UnavailableError(f"{death}: the pool of fingerprinting processes is closing")
        self.observer.count_restart("late" if is_late else "killed")
        return LateError() if is_late else KilledError(str(death))

    def _drop_useless(self, death: DeathError, cause: RestartCause) -> None:
        """Drop a process that died without work, so that another is started.

        Raises:
            UnavailableError: too many died so, or the pool is closing.
        """
        self._process = None
        self._useless_deaths += 1
        if self._killed or self._useless_deaths >= MOST_USELESS_DEATHS:
            msg = f"{death}: start again (if it was killed, see whether memory ran out)"
            raise UnavailableError(msg) from death
        self.observer.count_restart(cause)


def complete(future: Future[_T], work: Callable[[], _T]) -> None:
    """Set the future to the result of the work, or to the exception that it raised."""
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
        future.set_exception(error)
