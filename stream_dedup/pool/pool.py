"""The pool: a queue of tasks, its drivers, and the pool of 0 processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Self

from stream_dedup.article_limit import ARTICLE_LIMIT_S, LateError
from stream_dedup.core.columns import Columns
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.errors import StreamDedupError, UnavailableError
from stream_dedup.pool import process
from stream_dedup.pool.driver import Driver, complete
from stream_dedup.pool.in_process import InProcess
from stream_dedup.pool.isolation import Isolation, KilledError, Make, PoolObserver
from stream_dedup.pool.recipe import Recipe
from stream_dedup.pool.tasks import Task, TaskQueue

RELIEF_FACTOR = 2
"""Most children, while some are slow, for each that is wanted: slow articles cannot start children without limit."""


class Uncounted:
    """The observer of a pool that nobody watches."""

    def count_restart(self, cause: str) -> None:
        """Do nothing."""

    def count_poisoned(self, code: str) -> None:
        """Do nothing."""

    def count_work(self, seconds: float) -> None:
        """Do nothing."""


class FingerprintPool:
    """Makes the columns of records, in ``processes`` children or, with 0, in the caller's thread.

    Any thread may call any method.
    """

    def __init__(
        self,
        processes: int,
        settings: FingerprintSettings | None = None,
        fmt: InputFormat | None = None,
        article_limit_s: float = ARTICLE_LIMIT_S,
        observer: PoolObserver | None = None,
        threads: int = 1,
    ) -> None:
        """Start the children; they load while the caller goes on.

        ``threads``: how many share the records of a call from the main thread, with 0 processes.
        """
        self._tasks = TaskQueue(max(processes, 1))
        self._broken: StreamDedupError | None = None
        self._closed = False
        self._processes = processes
        self._isolation = Isolation(Recipe(settings, fmt, article_limit_s), observer or Uncounted())
        self._in_process = InProcess(self._isolation.recipe, threads) if processes == 0 else None
        self._lifeline = os.pipe()
        self._changing = threading.Lock()
        self._drivers: list[Driver] = []
        self._most_drivers = RELIEF_FACTOR * processes
        for _ in range(processes):
            self._add_driver()

    @property
    def pids(self) -> list[int]:
        """Process ids of the children."""
        return [pid for driver in list(self._drivers) if (pid := driver.pid()) is not None]

    @property
    def failure(self) -> StreamDedupError | None:
        """The error after which this pool cannot be used any more; None while it can."""
        return self._broken

    def warm(self) -> None:
        """Wait until everything is loaded.

        Raises:
            UserError: a package or its data are missing.
            UnavailableError: no child could be started, or loaded in time.
        """
        if self._in_process is not None:
            self._in_process.warm()
        for driver in list(self._drivers):
            driver.ready.result()

    def submit(self, records: Sequence[RawRecord], lane: Hashable = None) -> Future[Columns]:
        """Return a future of the columns of these records, in order. Does not block, except with 0 processes.

        While a task of a lane is slow, no other of the same lane begins. Cancelling the future drops the records.
        The future may raise ``UnavailableError`` (no child could be started) or ``UserError`` (as ``warm``).

        Raises:
            UnavailableError: the pool is closed, or no child could be started before.
            UserError: as ``warm``.
        """
        return self.submit_all([(records, lane)])[0]

    def submit_all(self, wanted: Sequence[tuple[Sequence[RawRecord], Hashable]]) -> list[Future[Columns]]:
        """Do as ``submit`` for records and lanes that are there at once: the children share them out."""
        if self._closed:
            msg = "the pool of fingerprinting processes is closed"
            raise UnavailableError(msg)
        if self._broken is not None:
            raise type(self._broken)(*self._broken.args)
        tasks = [Task(records, Future(), lane) for records, lane in wanted]
        if self._in_process is None:
            self._tasks.put(*tasks)
        else:
            for task in tasks:
                complete(task.future, partial(self._isolation.columns, self._in_process.columns, task.records))
        return [task.future for task in tasks]

    def close(self) -> None:
        """End the children. Tasks that have not begun are cancelled; a second call does nothing.

        1. Refuse new tasks; cancel the queued ones; start no other child.
        2. Each driver ends its child when its task is done, within ``CLOSE_WAIT_S``.
        3. Kill the children whose tasks are not done by then.
        """
        # 1
        with self._changing:
            if self._closed:
                return
            self._closed = True
        self._tasks.close()
        # 2
        until = time.monotonic() + process.CLOSE_WAIT_S
        for driver in self._drivers[:]:
            driver.join(max(0.0, until - time.monotonic()))
        # 3
        for driver in self._drivers[:]:
            driver.kill()
            driver.join()
        for end in self._lifeline:
            os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_driver(self) -> None:
        driver = Driver(self._lifeline[0], self._isolation.recipe, self._isolation.observer)
        self._drivers.append(driver)
        driver.run(self._drive)

    def _drive(self, driver: Driver) -> None:
        """Give one child its tasks, one after the other; runs in the driver's thread."""
        if driver.ready.exception() is not None and self._dismiss_relief(driver):
            return
        error = driver.ready.exception()
        if error is not None:
            self._note_error(error)
        goes_on = True
        while goes_on:  # each task in a call of its own: no local variable keeps its records afterwards
            goes_on = self._do_next(driver)

    def _do_next(self, driver: Driver) -> bool:
        """Do the next tasks; return whether the driver goes on."""
        taken = self._tasks.take()
        if not taken:
            return False
        if any(task.lane != taken[0].lane for task in taken):
            self._do_lanes(taken, driver)
            return True
        tasks = [task for task in taken if task.future.set_running_or_notify_cancel()]
        if not tasks:
            return True
        lane = tasks[0].lane
        make = partial(driver.columns, when_slow=partial(self._hold, driver, lane))
        _share_out(self._made(partial(self._isolation.columns, make), tasks), tasks)
        return not self._release(driver, lane)

    def _do_lanes(self, taken: Sequence[Task], driver: Driver) -> None:
        """Do tasks of several lanes together; where they are slow or end the process, give them up.

        Each is then done by itself, so that no lane waits for an article of another one. They have not begun, and can
        be cancelled, until they are done.
        """
        tasks = [task for task in taken if not task.future.cancelled()]
        if not tasks:
            return
        make = partial(driver.columns, when_slow=driver.give_up)
        made = self._made(partial(self._isolation.counted, make), tasks)
        error = made.exception()
        if isinstance(error, (LateError, KilledError)):
            # Their frames would keep the records until the next collection of garbage.
            error.__traceback__ = error.__cause__ = error.__context__ = None
            self._tasks.put_apart(tasks)
            if not self._closed:
                driver.reload()
        else:
            _share_out(made, tasks)

    def _made(self, make: Make, tasks: Sequence[Task]) -> Future[Columns]:
        """Return the columns of all tasks, or the exception."""
        made: Future[Columns] = Future()
        if self._broken is not None:
            made.set_exception(self._broken)
        else:
            complete(made, lambda: self._noted(make, [record for task in tasks for record in task.records]))
        return made

    def _noted(self, make: Make, records: Sequence[RawRecord]) -> Columns:
        """Return the columns; note the error before the future has it, so that whoever sees it finds the failure."""
        try:
            return make(records)
        except Exception as error:
            self._note_error(error)
            raise

    def _hold(self, driver: Driver, lane: Hashable) -> None:
        """Note that a task is slow: no other of its lane begins, and another child takes the place of this one."""
        with self._changing:
            if driver.is_slow:
                return
            driver.is_slow = True
            if self._quick() < self._processes and len(self._drivers) < self._most_drivers and not self._closed:
                self._add_driver()
        self._tasks.hold(lane)

    def _release(self, driver: Driver, lane: Hashable) -> bool:
        """Note that a task of this lane is done; return whether its driver is one too many."""
        if not driver.is_slow:
            return False
        self._tasks.release(lane)
        with self._changing:
            driver.is_slow = False
            surplus = self._quick() > self._processes
            if surplus:
                self._drivers.remove(driver)
        return surplus

    def _dismiss_relief(self, driver: Driver) -> bool:
        """Remove a driver whose process could not be started, if it is one more than were wanted; return whether."""
        with self._changing:
            surplus = len(self._drivers) > self._processes
            if surplus:
                self._drivers.remove(driver)
        return surplus

    def _quick(self) -> int:
        """Return the number of drivers without a slow task."""
        return sum(not driver.is_slow for driver in self._drivers)

    def _note_error(self, error: BaseException) -> None:
        """Keep the first error after which this pool cannot be used any more."""
        if isinstance(error, StreamDedupError) and self._broken is None:
            self._broken = error


def _share_out(made: Future[Columns], tasks: Sequence[Task]) -> None:
    """Give each of the tasks its own columns, or the exception."""
    end = 0
    for task in tasks:
        begin, end = end, end + len(task.records)
        if task.future.running() or task.future.set_running_or_notify_cancel():
            complete(task.future, partial(_rows_of, made, slice(begin, end)))


def _rows_of(made: Future[Columns], rows: slice) -> Columns:
    columns = made.result()
    return columns if len(columns) == rows.stop - rows.start else columns.rows(rows)
