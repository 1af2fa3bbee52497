"""Work that blocks, off the event loop: a lane is one thread with a short queue and a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, TypeVar

from stream_dedup.serve.problems import ProblemError, busy

_T = TypeVar("_T")

QUEUED = 8
"""Pieces of work of one lane that may be under way or wait."""
END_LANE_S = 5.0
"""Longest wait for the work under way when the service ends; its thread does not keep the process alive."""

_Task = tuple[Callable[[], Any], "Future[Any]"]


class Lane:
    """Does one piece of work after the other, on a thread that begins with the first. Any thread."""

    def __init__(self, name: str, limit_s: float) -> None:
        """``name`` is that of the thread; ``limit_s`` is the longest time that a request waits for its work."""
        self._name = name
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._under_way = 0
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return what the work returns.

        Work that takes longer than the limit goes on: its lane is occupied until it ends.

        Raises:
            ProblemError: too much is under way, or it took too long; or what the work raises.
        """
        future: Future[_T] = Future()
        self._put(work, future)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limit_s)
        except TimeoutError:
            detail = f"no answer within {self._limit_s:g} s ({self._name})"
            raise ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", detail) from None

    def close(self) -> None:
        """End the thread when its work is done; wait for it for ``END_LANE_S``."""
        self._tasks.put(None)
        if self._thread is not None:
            self._thread.join(END_LANE_S)

    def _put(self, work: Callable[[], Any], future: Future[Any]) -> None:
        with self._lock:
            if self._under_way >= QUEUED:
                msg = f"{self._under_way} requests are under way ({self._name})"
                raise busy(msg)
            self._under_way += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._tasks.put((work, future))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, future = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                    future.set_exception(error)
            with self._lock:
                self._under_way -= 1
