"""Threads that make the columns of records, by native code that runs without the interpreter.

    a request   records of one lane       one future, of their columns in order
    its tasks   ``chunks`` of records     one call of the maker each, by whichever thread is free

Rules:

* The steps of the core are linear, and the input bounds a record: how long a task takes is known by its bytes. A task
  of more than ``CHUNK_BYTES`` is *large*; it is one record.
* Lanes do not wait for each other's large tasks. While a large task of a lane (its source partition) is under way, no
  other task of that lane begins, because the verdicts of a partition leave in order and the others would only occupy
  threads. Large tasks occupy all threads but one; a single thread does one task after the other, whatever its lane.
* A request without a lane waits for none: its large tasks may occupy every thread. That is for callers which take all
  columns in one order.
* Tasks that may begin do so in the order of ``submit_all``. What belongs to a cancelled future does not begin.
* A thread is started when there is work for it, none before: until then a process may fork, and a process with one
  record needs one thread. Threads wait in Python, so signals reach the main thread at any time.

The queue has no limit of its own: callers limit what they have under way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from stream_dedup.core.columns import Columns
from stream_dedup.errors import UnavailableError

CHUNK_RECORDS = 256
"""Most records of a task: short texts of some 5 ms, so that no thread waits long for the last task of a request."""
CHUNK_BYTES = 256 << 10
"""Most bytes of the values of a task of several records."""
LEAST_SHARE_RECORDS = 24
"""Fewer records are not worth a thread of their own: to pass on a task and its columns costs as much as some."""


class Record(Protocol):
    """What a record is here: bytes of a certain number."""

    @property
    def value(self) -> bytes | None:
        """The value; None of a tombstone."""


_R = TypeVar("_R", bound=Record)


@dataclass(slots=True, eq=False)
class _Request:
    lane: Hashable
    future: Future[Columns]
    parts: list[Columns | BaseException | None]
    """What became of each task, in order."""
    left: int
    """Tasks that are not done."""


@dataclass(frozen=True, slots=True, eq=False)
class _Task(Generic[_R]):
    request: _Request
    part: int
    records: Sequence[_R]
    is_large: bool


class FingerprintThreads(Generic[_R]):
    """Makes the columns of records in up to ``threads`` threads. Any thread may call any method."""

    def __init__(
        self,
        threads: int,
        make: Callable[[Sequence[_R]], Columns],
        working: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Start nothing yet.

        Args:
            threads: at least 1.
            make: makes the columns of records; several threads call it at the same time.
            working: entered for the time of each task, in its thread.
        """
        self._threads = threads
        self._make = make
        self._working = working
        self._executor = ThreadPoolExecutor(threads, "fingerprinting")
        self._changing = threading.Lock()
        self._waiting: deque[_Task[_R]] = deque()
        self._large: list[Hashable] = []
        """Lanes of the large tasks that are under way."""
        self._is_closed = False

    def submit(self, records: Sequence[_R], lane: Hashable = None) -> Future[Columns]:
        """Return a future of the columns of these records, in order; raises as ``submit_all``. Does not block."""
        return self.submit_all([(records, lane)])[0]

    def submit_all(self, wanted: Sequence[tuple[Sequence[_R], Hashable]]) -> list[Future[Columns]]:
        """Do as ``submit`` for records and lanes that are there at once.

        A future raises what the maker raised; cancelling it drops what has not begun.

        Raises:
            UnavailableError: the threads are closed, or none could be started.
        """
        tasks = [task for records, lane in wanted for task in self._tasks(records, lane)]
        with self._changing:
            if self._is_closed:
                msg = "the fingerprinting threads are closed"
                raise UnavailableError(msg)
            self._waiting.extend(tasks)
        try:
            self._wake(len(tasks))
        except RuntimeError as error:
            msg = f"a fingerprinting thread could not be started ({error}): start again"
            raise UnavailableError(msg) from error
        return [task.request.future for task in tasks if task.part == 0]

    def close(self) -> None:
        """Cancel what has not begun, and wait for what has; a second call does nothing else."""
        with self._changing:
            self._is_closed = True
            cancelled, self._waiting = self._waiting, deque()
        for task in cancelled:
            task.request.future.cancel()
        self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tasks(self, records: Sequence[_R], lane: Hashable) -> list[_Task[_R]]:
        """Return the tasks of a request, one at least."""
        sizes = [len(record.value or b"") for record in records]
        shares = min(max(len(records) // LEAST_SHARE_RECORDS, 1), self._threads)
        rows = list(chunks(sizes, min(max(-(-len(records) // shares), 1), CHUNK_RECORDS))) or [slice(0)]
        request = _Request(lane, Future(), [None] * len(rows), len(rows))
        return [
            _Task(request, part, records[chunk], sum(sizes[chunk]) > CHUNK_BYTES) for part, chunk in enumerate(rows)
        ]

    def _wake(self, tasks: int) -> None:
        """Let as many threads as there are, and tasks for them, look for a task.

        Raises:
            RuntimeError: a thread could not be started, or they are closed.
        """
        for _ in range(min(tasks, self._threads)):
            self._executor.submit(self._run)

    def _run(self) -> None:
        """Do one task after the other until none may begin."""
        while (task := self._begin_next()) is not None:
            self._end(task, self._made(task))

    def _made(self, task: _Task[_R]) -> Columns | BaseException:
        """Return the columns of a task, or what the maker raised."""
        try:
            with self._working():
                return self._make(task.records)
        except BaseException as error:  # noqa: BLE001 - raised again where the columns are asked for
            return error

    def _begin_next(self) -> _Task[_R] | None:
        """Remove and return the first task that may begin."""
        with self._changing:
            at = 0
            while at < len(self._waiting):
                task = self._waiting[at]
                is_cancelled = task.request.future.cancelled()
                if not is_cancelled and not self._may_begin(task):
                    at += 1
                    continue
                del self._waiting[at]
                if not is_cancelled:
                    if task.is_large:
                        self._large.append(task.request.lane)
                    return task
            return None

    def _may_begin(self, task: _Task[_R]) -> bool:
        lane = task.request.lane
        if lane is None:
            return True
        return lane not in self._large and (not task.is_large or len(self._large) < max(self._threads - 1, 1))

    def _end(self, task: _Task[_R], made: Columns | BaseException) -> None:
        """Note what became of a task, and complete the future after the last one of its request."""
        request = task.request
        with self._changing:
            request.parts[task.part] = made
            request.left -= 1
            is_last, waiting = request.left == 0, 0
            if task.is_large:
                self._large.remove(request.lane)
                waiting = len(self._waiting)  # some may begin only now, and their threads have gone to rest
        if is_last and request.future.set_running_or_notify_cancel():
            _complete(request)
        with suppress(RuntimeError):  # this thread goes on by itself
            self._wake(waiting)


def _complete(request: _Request) -> None:
    error = next((part for part in request.parts if isinstance(part, BaseException)), None)
    if error is None:
        request.future.set_result(Columns.concat([part for part in request.parts if isinstance(part, Columns)]))
    else:
        request.future.set_exception(error)


def chunks(sizes: Sequence[int], most: int = CHUNK_RECORDS) -> Iterator[slice]:
    """Yield the slices of records that make one task each; ``sizes``: bytes of each value, ``most``: records."""
    start, taken = 0, 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == most or taken + size > CHUNK_BYTES):
            yield slice(start, at)
            start, taken = at, 0
        taken += size
    if start < len(sizes):
        yield slice(start, len(sizes))
