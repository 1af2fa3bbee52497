"""The pool: a queue of records, one thread for each child, and the pool of 0 processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

from stream_dedup.article_limit import ARTICLE_LIMIT_S, LateError, interrupted_after
from stream_dedup.core.columns import Columns
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.errors import StreamDedupError, UnavailableError
from stream_dedup.pool import process
from stream_dedup.pool.process import ChildProcess
from stream_dedup.pool.recipe import Recipe

START_LIMIT_S = 60
"""Longest wait for children to load: part of a second, longer where all cores are busy."""

_T = TypeVar("_T")


class _Task(NamedTuple):
    records: Sequence[RawRecord]
    future: Future[Columns]


class FingerprintPool:
    """Makes the columns of records, in ``processes`` children or, with 0, in the caller's thread."""

    def __init__(
        self,
        processes: int,
        settings: FingerprintSettings | None = None,
        fmt: InputFormat | None = None,
        article_limit_s: float = ARTICLE_LIMIT_S,
    ) -> None:
        """Start the children; they load while the caller goes on."""
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._broken: StreamDedupError | None = None
        self._closed = False
        recipe = Recipe(settings, fmt, article_limit_s)
        self._in_process = _InProcess(recipe) if processes == 0 else None
        self._lifeline = os.pipe()
        self._children = [ChildProcess(self._lifeline[0], recipe) for _ in range(processes)]
        self._drivers = [threading.Thread(target=self._drive, args=(child,), daemon=True) for child in self._children]
        for driver in self._drivers:
            driver.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the children."""
        return [child.process.pid for child in self._children]

    def warm(self) -> None:
        """Wait until everything is loaded.

        Raises:
            UserError: a package or its data are missing.
            UnavailableError: a child died, or did not load within ``START_LIMIT_S``.
        """
        if self._in_process is not None:
            self._in_process.warm()
        for child in self._children:
            try:
                child.ready.result(START_LIMIT_S)
            except WaitedTooLong as error:
                msg = f"fingerprinting process {child.process.pid} did not load within {START_LIMIT_S} s: start again"
                raise UnavailableError(msg) from error

    def submit(self, records: Sequence[RawRecord]) -> Future[Columns]:
        """Return a future of the columns of these records, in order. Does not block, except with 0 processes.

        The future may raise ``UnavailableError`` (the child died) or ``UserError`` (as ``warm``).

        Raises:
            UnavailableError: the pool is closed, or a child died before.
            UserError: as ``warm``.
        """
        if self._closed:
            msg = "the pool of fingerprinting processes is closed"
            raise UnavailableError(msg)
        if self._broken is not None:
            raise type(self._broken)(*self._broken.args)
        task = _Task(records, Future())
        if self._in_process is None:
            self._tasks.put(task)
        else:
            _complete(task.future, partial(_columns, self._in_process, records))
        return task.future

    def close(self) -> None:
        """End the children. Tasks that have not begun are cancelled; a second call does nothing.

        1. Refuse new tasks; cancel the queued ones.
        2. Each thread ends its child when its task is done, within ``CLOSE_WAIT_S``.
        3. Kill a child whose task is not done by then.
        """
        if self._closed:
            return
        self._closed = True
        # 1
        self._cancel_queued()
        # 2, 3
        for _ in self._drivers:
            self._tasks.put(None)
        for child, driver in zip(self._children, self._drivers, strict=True):
            driver.join(process.CLOSE_WAIT_S)
            child.kill()
            driver.join()
        self._cancel_queued()
        for end in self._lifeline:
            os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cancel_queued(self) -> None:
        try:
            while (task := self._tasks.get_nowait()) is not None:
                task.future.cancel()
        except Empty:
            return

    def _drive(self, child: ChildProcess) -> None:
        """Give one child its tasks, one after the other; runs in a thread of its own."""
        _complete(child.ready, child.receive)
        self._note_error(child.ready)
        while (task := self._tasks.get()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue
            if self._broken is not None:
                task.future.set_exception(self._broken)
                continue
            _complete(task.future, partial(_columns, child, task.records))
            self._note_error(task.future)
        child.end()

    def _note_error(self, done: Future[Any]) -> None:
        """Keep the first error after which this pool cannot be used any more."""
        error = done.exception()
        if isinstance(error, StreamDedupError) and self._broken is None:
            self._broken = error


class _InProcess:
    """The pool of 0 processes: makes columns in the caller's thread."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._maker = recipe.maker()

    def warm(self) -> None:
        self._maker.warm()

    def columns(self, records: Sequence[RawRecord]) -> Columns:
        """Return the columns of these records.

        Raises:
            LateError: the records took longer than the limit; raised in the main thread only.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._maker(records)
        with interrupted_after(self.recipe.article_limit_s):
            return self._maker(records)

    def renew(self) -> None:
        """Make a new maker: the old one may have been interrupted while it changed its caches."""
        self._maker = self.recipe.maker()


def _columns(source: _InProcess | ChildProcess, records: Sequence[RawRecord]) -> Columns:
    """Return the columns of these records; a record that takes too long is rejected.

    1. All records are done together.
    2. If that took longer than the limit of one article, each record is done by itself.
    3. A record that takes too long by itself is rejected.

    Raises:
        UnavailableError: as ``ChildProcess.columns``.
    """
    try:
        return source.columns(records)
    except LateError:
        source.renew()
    if len(records) == 1:
        return source.recipe.rejected_for_time(records[0])
    return Columns.concat([_columns(source, [record]) for record in records])


def _complete(future: Future[_T], work: Callable[[], _T]) -> None:
    """Set the future to the result of the work, or to the exception that it raised."""
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
        future.set_exception(error)
