"""The queue of tasks: records that no process has begun yet.

Rules:

* Tasks begin in the order of ``put``, except that no task of a held lane begins. The pool holds a lane while a task of
  it is slow: the verdicts of one source partition leave in order, so its other tasks would only occupy processes.
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


class Task(NamedTuple):
    """Records whose columns are wanted."""

    records: Sequence[RawRecord]
    future: Future[Columns]
    lane: Hashable
    """What the task is in order with, such as a source partition; None: nothing."""


class TaskQueue:
    """Tasks that have not begun. Any thread may call any method."""

    def __init__(self) -> None:
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

    def take(self) -> Task | None:
        """Remove and return the first task whose lane is not held; block until there is one, None once closed."""
        with self._changed:
            while not self._closed:
                task = next((task for task in self._tasks.values() if not self._held[task.lane]), None)
                if task is not None:
                    return self._tasks.pop(task.future)
                self._changed.wait()
            return None

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

    def _discard(self, future: Future[Columns]) -> None:
        with self._changed:
            self._tasks.pop(future, None)
