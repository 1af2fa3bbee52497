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
* Tasks that may not are kept apart, and come back when what they wait for has ended: however many there are, they cost
  the others nothing.
* There are never more calls of ``_run``, waiting or under way, than threads. A call that finds no task counts no more
  from that moment on, under the lock, so what is submitted later calls again.
* A thread is started when there is work for it, none before: until then a process may fork, and a process with one
  record needs one thread. Threads wait in Python, so signals reach the main thread at any time.

The queue has no limit of its own: callers limit what they have under way.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, count
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
    """What a record is, where nothing else is said."""

    @property
    def value(self) -> bytes | None:
        """The value; None of a tombstone."""


_R = TypeVar("_R")


def _size_of(record: Record) -> int:
    return len(record.value or b"")


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

    @property
    def takes_turns(self) -> bool:
        """Whether it waits for other large tasks."""
        return self.is_large and self.request.lane is not None


_Queue = list[tuple[int, _Task[_R]]]
"""A heap of tasks with their numbers in the order of ``submit_all``."""


class FingerprintThreads(Generic[_R]):
    """Makes the columns of records in up to ``threads`` threads. Any thread may call any method."""

    def __init__(
        self,
        threads: int,
        make: Callable[[Sequence[_R]], Columns],
        working: Callable[[], AbstractContextManager[None]] = nullcontext,
        size_of: Callable[[_R], int] = _size_of,  # type: ignore[assignment] # for records
    ) -> None:
        """Start nothing yet.

        Args:
            threads: at least 1.
            make: makes the columns of records; several threads call it at the same time.
            working: entered for the time of each task, in its thread.
            size_of: returns the bytes of a record.
        """
        self._threads = threads
        self._make = make
        self._working = working
        self._size_of = size_of
        self._executor = ThreadPoolExecutor(threads, "fingerprinting")
        self._changing = threading.Lock()
        self._numbers = count()
        self._waiting: dict[bool, _Queue[_R]] = {False: [], True: []}
        """By whether they take turns."""
        self._held: defaultdict[Hashable, _Queue[_R]] = defaultdict(list)
        """Tasks, in order, that were found to wait for the large one of their lane."""
        self._large: list[Hashable] = []
        """Lanes of the large tasks that are under way."""
        self._runs = 0
        """Calls of ``_run`` that wait for a thread or look for tasks."""
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
            for task in tasks:
                heappush(self._waiting[task.takes_turns], (next(self._numbers), task))
            runs = self._more_runs(len(tasks))
        try:
            self._call(runs)
        except RuntimeError as error:
            for task in tasks:
                task.request.future.cancel()  # nobody has it
            msg = f"a fingerprinting thread could not be started ({error}): start again"
            raise UnavailableError(msg) from error
        return [task.request.future for task in tasks if task.part == 0]

    def close(self) -> None:
        """Cancel what has not begun, and wait for what has; a second call does nothing else."""
        with self._changing:
            self._is_closed = True
            queues = [*self._waiting.values(), *self._held.values()]
            cancelled = [task for queue in queues for _, task in queue]
            for queue in queues:
                queue.clear()
        for task in cancelled:
            task.request.future.cancel()
        self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tasks(self, records: Sequence[_R], lane: Hashable) -> list[_Task[_R]]:
        """Return the tasks of a request, one at least."""
        sizes = [*map(self._size_of, records)]
        shares = min(max(len(records) // LEAST_SHARE_RECORDS, 1), self._threads)
        rows = list(chunks(sizes, min(max(-(-len(records) // shares), 1), CHUNK_RECORDS))) or [slice(0)]
        request = _Request(lane, Future(), [None] * len(rows), len(rows))
        return [
            _Task(request, part, records[chunk], sum(sizes[chunk]) > CHUNK_BYTES) for part, chunk in enumerate(rows)
        ]

    def _more_runs(self, tasks: int) -> int:
        """Return how many more calls of ``_run`` so many tasks want, and count them; the lock is held."""
        more = max(min(tasks, self._threads - self._runs), 0)
        self._runs += more
        return more

    def _call(self, runs: int) -> None:
        """Let threads call ``_run`` so many times.

        Raises:
            RuntimeError: a thread could not be started, or they are closed.
        """
        for called in range(runs):
            try:
                self._executor.submit(self._run)
            except RuntimeError:
                with self._changing:
                    self._runs -= runs - called
                raise

    def _run(self) -> None:
        """Do one task after the other until none may begin."""
        while (task := self._begin_next()) is not None:
            self._end(task, self._made(task.records))

    def _made(self, records: Sequence[_R]) -> Columns | BaseException:
        """Return the columns of a task, or what the maker raised; its frames do not know the future that keeps it."""
        try:
            with self._working():
                return self._make(records)
        except BaseException as error:  # noqa: BLE001 - raised again where the columns are asked for
            return error

    def _begin_next(self) -> _Task[_R] | None:
        """Remove and return the first task that may begin; the call of ``_run`` that finds none is over."""
        with self._changing:
            while queue := self._next_queue():
                number, task = heappop(queue)
                request = task.request
                if request.future.cancelled():
                    continue
                if request.lane is not None and request.lane in self._large:
                    self._held[request.lane].append((number, task))
                    continue
                if task.is_large:
                    self._large.append(request.lane)
                return task
            self._runs = max(self._runs - 1, 0)  # the executor calls even what it could not start a thread for
            return None

    def _next_queue(self) -> _Queue[_R] | None:
        """Return the queue of the first task that need not wait for a thread, if there is one."""
        is_free = len(self._large) < max(self._threads - 1, 1)
        queues = [queue for turns, queue in self._waiting.items() if queue and (is_free or not turns)]
        return min(queues, key=lambda queue: queue[0][0], default=None)

    def _end(self, task: _Task[_R], made: Columns | BaseException) -> None:
        """Note what became of a task, and complete the future after the last one of its request."""
        request, runs = task.request, 0
        with self._changing:
            request.parts[task.part] = made
            request.left -= 1
            is_last = request.left == 0
            if task.is_large:
                self._large.remove(request.lane)
                for number, held in self._held.pop(request.lane, ()):
                    heappush(self._waiting[held.takes_turns], (number, held))
                # Some may begin only now, and their threads have gone to rest.
                runs = self._more_runs(sum(map(len, self._waiting.values())))
        with suppress(RuntimeError):  # this thread goes on by itself
            self._call(runs)
        if is_last and request.future.set_running_or_notify_cancel():
            _complete(request)


def _complete(request: _Request) -> None:
    """Set what became of a request."""
    error = next((part for part in request.parts if isinstance(part, BaseException)), None)
    if error is None:
        try:
            columns = Columns.concat([part for part in request.parts if isinstance(part, Columns)])
        except BaseException as raised:  # noqa: BLE001 - raised again where the columns are asked for
            error = raised
    if error is None:
        request.future.set_result(columns)
    else:
        request.future.set_exception(error)


def chunks(sizes: Sequence[int], most: int = CHUNK_RECORDS) -> Iterator[slice]:
    """Yield the slices of records that make one task each; ``sizes``: bytes of each value, ``most``: records."""
    ends = [*accumulate(sizes)]
    start = taken = 0
    while start < len(ends):
        stop = min(bisect_right(ends, taken + CHUNK_BYTES, start + 1), start + most)
        yield slice(start, stop)
        start, taken = stop, ends[stop - 1]
