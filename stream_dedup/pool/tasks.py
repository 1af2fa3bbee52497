"""The queue of tasks: records that no process has begun yet.

Rules:

* Tasks of a lane begin in the order of ``put``, except that no task of a held lane begins. The pool holds a lane while
  a task of it is slow: the verdicts of one source partition leave in order, so its other tasks would only occupy
  processes.
* A process that is late catches up: it takes several tasks of the first one's lane together, no more than its share of
  the queue without the held lanes. Many records at once cost a fifth less each than twenty do.
* A task whose future is cancelled leaves the queue at once, and its records with it.
* The queue has no limit of its own: callers limit the work that they have under way.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord

MOST_TOGETHER_RECORDS = 256
"""Most records of tasks that are done together."""
MOST_TOGETHER_BYTES = 1 << 20
"""Most bytes of values of tasks that are done together: some 60 ms of work."""


class Task(NamedTuple):
    """Records whose columns are wanted."""

    records: Sequence[RawRecord]
    future: Future[Columns]
    lane: Hashable
    """What the task is in order with, such as a source partition; None: nothing. It is then done alone."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return sum(len(record.value or b"") for record in self.records)


class TaskQueue:
    """Tasks that have not begun. Any thread may call any method."""

    def __init__(self, processes: int = 1) -> None:
        """Share the tasks out among so many processes."""
        self._processes = processes
        self._changed = threading.Condition()
        self._tasks: dict[Future[Columns], Task] = {}
        self._held: Counter[Hashable] = Counter()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of tasks that have not begun."""
        return len(self._tasks)

    def put(self, task: Task) -> None:
        """Add a task behind the others, or cancel it once closed; does not block."""
        with self._changed:
            closed = self._closed
            if not closed:
                self._tasks[task.future] = task
                self._changed.notify()
        if closed:
            task.future.cancel()
        else:
            task.future.add_done_callback(self._discard)

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
        """Return the task, and the next ones of its lane that one process does with it."""
        together = [first]
        waiting = len(self._tasks)
        if self._held:  # what nobody may begin is in nobody's share: other processes would have nothing to do
            waiting = sum(not self._held[task.lane] for task in self._tasks.values())
        most = -(-waiting // self._processes)
        if most == 1 or first.lane is None:
            return together
        records, size = len(first.records), first.size_bytes
        for task in self._tasks.values():
            if task.lane == first.lane and task is not first:
                records, size = records + len(task.records), size + task.size_bytes
                if len(together) == most or records > MOST_TOGETHER_RECORDS or size > MOST_TOGETHER_BYTES:
                    break
                together.append(task)
        return together

    def _discard(self, future: Future[Columns]) -> None:
        with self._changed:
            self._tasks.pop(future, None)
