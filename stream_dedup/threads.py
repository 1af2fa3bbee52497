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

As many threads fingerprint as this process may use cores, where the configuration does not say. That is not what the
machine has, but the cores of its affinity (``taskset``, cpusets), and no more than the quota of its control groups
(``docker run --cpus``, a limit of Kubernetes) pays for.

* A quota holds for a group and everything below it, so the smallest one from the process's group up to the root counts.
  A container sees its own group as the root.
* A fraction is rounded down: with 1.5 cores one thread fingerprints, and the half is for the others. One more would use
  up the quota in the middle of each period, and the kernel would then stop them all, heartbeats included.
* Shares and weights (a request of Kubernetes) are no limit and do not count.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, count
from pathlib import Path, PurePosixPath
from typing import Generic, Protocol, Self, TypeVar

from stream_dedup.core.columns import Columns
from stream_dedup.errors import UnavailableError

_R = TypeVar("_R")


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
                raise UnavailableError("the fingerprinting threads are closed")
            for task in tasks:
                heappush(self._waiting[task.takes_turns], (next(self._numbers), task))
            runs = self._more_runs(len(tasks))
        try:
            self._call(runs)
        except RuntimeError as error:
            for task in tasks:
                task.request.future.cancel()  # nobody has it
            raise UnavailableError(f"a fingerprinting thread could not be started ({error}): start again") from error
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


SWITCH_S = 0.0005
"""After so many seconds a thread lets another one go on. A worker's batch passes some twenty times from one thread to
the next, and each may wait so long for the thread that judges: with 5 ms, the default of Python, a batch took a fifth
longer at a sixth of full load."""
YOUNG_OBJECTS = 10_000
"""New objects after which they are searched for garbage. Python's 700 are those of a few records: a worker at half load
made thirty searches a second, of half a millisecond each."""


@contextmanager
def short_pauses(*, collects: bool = True) -> Iterator[None]:
    """Keep the interpreter's own pauses short while a worker or a filter runs.

    No thread waits longer than ``SWITCH_S`` for one that is not in native code.

    What is loaded by now (modules, a user's words, clients) stays as long as it runs, and is left out of garbage
    collections: with it, a full one stops every thread for some 50 to 200 ms.

    ``collects``: first free what is loaded in vain; a process that ends soon is done before that pays.
    """
    if collects:
        gc.collect()
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < YOUNG_OBJECTS:  # a caller may want fewer searches, or none
        gc.set_threshold(YOUNG_OBJECTS, *thresholds[1:])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        if not was_frozen:  # else what a caller has left out stays out, and this with it
            gc.unfreeze()


OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
_CONTROLLER = "cpu"
_NO_QUOTA = ("max", "-1")
"""In place of a quota, in version 2 and in version 1 of control groups."""


def thread_count(configured: int | None) -> int:
    """Return the configured number of fingerprinting threads, or one for each core that may be used."""
    return usable_cores(len(os.sched_getaffinity(0))) if configured is None else configured


def usable_cores(affinity: int, own_groups: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """Return the whole cores that affinity and quota leave, at least 1.

    Args:
        affinity: cores that the process may run on.
        own_groups: the file in which the kernel names the control groups of the process.
        groups: where they are mounted.
    """
    quotas = (quota for folder in _group_folders(own_groups, groups) for quota in _quota(folder))
    return max(1, min([affinity, *quotas]))


def _group_folders(own_groups: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of the groups that can have a quota, from the process's own to the root."""
    for line in _setting(own_groups).splitlines():
        _, controllers, path = line.split(":", 2)
        for root in _roots(controllers, groups):
            inner = PurePosixPath(path).relative_to("/")
            for folder in (inner, *inner.parents):
                yield root / folder


def _roots(controllers: str, groups: Path) -> list[Path]:
    """Return where the hierarchy with these controllers is mounted, if it has ours. Version 2 names none."""
    if not controllers:
        return [groups]
    return [groups / controllers, groups / _CONTROLLER] if _CONTROLLER in controllers.split(",") else []


def _quota(folder: Path) -> Iterator[int]:
    """Yield the quota of one group, if it has one: microseconds of each period, in cores."""
    words = _setting(folder / "cpu.max").split()
    if not words:
        words = [*_setting(folder / "cpu.cfs_quota_us").split(), *_setting(folder / "cpu.cfs_period_us").split()]
    if words and words[0] not in _NO_QUOTA:
        quota, period = words
        yield int(quota) // int(period)


def _setting(path: Path) -> str:
    """Return the text of a file, or nothing where there is none: not every group and machine has a limit."""
    try:
        return path.read_text("ascii", "surrogateescape")
    except OSError:
        return ""
