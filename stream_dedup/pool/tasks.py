"""The queue of tasks: records that no process has begun yet.

Rules:

* Tasks of a lane begin in the order of ``put``, except that no task of a held lane begins. The pool holds a lane while
  a task of it is slow: the verdicts of one source partition leave in order, so its other tasks would only occupy
  processes.
* A process takes several tasks together, of any lanes: its share of the work in the queue, or as much as is worth a
  process. Eighty records at once cost a third less each than ten do, and one exchange.
* A task is done by itself where its lane is None, or where it was slow or ended its process together with tasks of
  other lanes (``pool``). For ``APART_S`` seconds after that, or after it was held, its lane is done with no other.
* A task whose future is cancelled leaves the queue at once, and its records with it.
* The queue has no limit of its own: callers limit the work that they have under way.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property

from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord

MOST_TOGETHER_RECORDS = 256
"""Most records of tasks that are done together."""
MOST_TOGETHER_WORK = 1 << 20
"""Most work of tasks that are done together: some 50 ms."""
LEAST_SHARE_WORK = 96 << 10
"""Less work (5 ms) is not worth a process of its own: a task passes two pipes, wakes three threads, and costs a
millisecond however few records it has."""
RECORD_WORK = 1 << 10
"""Work of a record, whatever its size: about that of so many bytes of text."""
APART_S = 60.0
"""So long after a lane was slow its tasks are done with those of no other lane, which would wait for them."""


@dataclass(frozen=True, eq=False)
class Task:
    """Records whose columns are wanted."""

    records: Sequence[RawRecord]
    future: Future[Columns]
    lane: Hashable
    """What the task is in order with, such as a source partition; None: nothing. It is then done by itself."""
    is_apart: bool = False
    """Whether it is done by itself in any case."""

    @cached_property
    def work(self) -> int:
        """How much work the records are: bytes of the values, and ``RECORD_WORK`` for each."""
        return sum(len(record.value or b"") for record in self.records) + RECORD_WORK * len(self.records)


class TaskQueue:
    """Tasks that have not begun. Any thread may call any method."""

    def __init__(self, processes: int = 1) -> None:
        """Share the tasks out among so many processes."""
        self._processes = processes
        self._changed = threading.Condition()
        self._tasks: dict[Future[Columns], Task] = {}
        self._held: Counter[Hashable] = Counter()
        self._slow_at: dict[Hashable, float] = {}
        """When each lane was slow last."""
        self._closed = False

    def __len__(self) -> int:
        """Return the number of tasks that have not begun."""
        return len(self._tasks)

    def put(self, *tasks: Task) -> None:
        """Add tasks behind the others at once, or cancel them once closed; does not block."""
        for task in tasks:
            if task.lane is not None:
                _ = task.work  # computed by the caller, and what it raises is raised here
        self._put({task.future: task for task in tasks}, is_first=False)

    def put_apart(self, tasks: Sequence[Task]) -> None:
        """Add tasks that were slow together before the others, each to be done by itself."""
        with self._changed:
            self._slow_at |= {task.lane: time.monotonic() for task in tasks}
        self._put({task.future: replace(task, is_apart=True) for task in tasks}, is_first=True)

    def _put(self, added: dict[Future[Columns], Task], *, is_first: bool) -> None:
        with self._changed:
            closed = self._closed
            if not closed and is_first:
                self._tasks = added | self._tasks
            elif not closed:
                self._tasks.update(added)
            self._changed.notify(len(added))
        for future in added:
            if closed:
                future.cancel()
            else:
                future.add_done_callback(self._discard)

    def take(self) -> list[Task]:
        """Remove and return the first task whose lane is not held, and those to be done together with it.

        Blocks until there is one; returns none once closed.
        """
        with self._changed:
            while not self._closed:
                first = next((task for task in self._tasks.values() if not self._held[task.lane]), None)
                if first is not None:
                    together = self._together(first)
                    for task in together:
                        del self._tasks[task.future]
                    return together
                self._changed.wait()
            return []

    def hold(self, lane: Hashable) -> None:
        """Begin no task of this lane until as many calls of ``release``; the lane None cannot be held."""
        with self._changed:
            if lane is not None:
                self._held[lane] += 1

    def release(self, lane: Hashable) -> None:
        """Take back one ``hold``."""
        with self._changed:
            self._held[lane] -= 1
            self._slow_at[lane] = time.monotonic()
            self._held += Counter()  # drops the lanes that are not held
            self._changed.notify_all()

    def close(self) -> None:
        """Cancel every task that has not begun; ``take`` returns None from now on."""
        with self._changed:
            self._closed = True
            futures = list(self._tasks)
            self._changed.notify_all()
        for future in futures:
            future.cancel()

    def _together(self, first: Task) -> list[Task]:
        """Return the task, and the next ones that a process does with it."""
        together = [first]
        if len(self._tasks) == 1 or first.is_apart or first.lane is None:
            return together
        now = time.monotonic()
        self._slow_at = {lane: slow_at for lane, slow_at in self._slow_at.items() if now < slow_at + APART_S}
        # What nobody may begin is in nobody's share: other processes would have nothing to do.
        ready = [task for task in self._tasks.values() if task.lane is not None and not self._held[task.lane]]
        left = sum(task.work for task in ready)
        shares = min(max(left // LEAST_SHARE_WORK, 1), self._processes)
        most = min(-(-left // shares), MOST_TOGETHER_WORK)
        records, work = len(first.records), first.work
        for task in ready:
            if task is first or task.is_apart:
                continue
            if task.lane != first.lane and (first.lane in self._slow_at or task.lane in self._slow_at):
                continue
            records, work = records + len(task.records), work + task.work
            if records > MOST_TOGETHER_RECORDS or work > most:
                break
            together.append(task)
        return together

    def _discard(self, future: Future[Columns]) -> None:
        with self._changed:
            self._tasks.pop(future, None)
