"""The processor time that one article may take to be fingerprinted.

``ended_after`` ends the process, whatever it is doing; ``interrupted_after`` interrupts the main thread of a process
that has other work, and other threads. Both use the timer that counts the processor time of the process: a process that
is stopped, or that waits for a core, loses no article.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

ARTICLE_LIMIT_S = 10.0
"""Seconds that one article may take: usually milliseconds; the slowest megabyte, estimated from 200 kB, takes 6."""
LIMIT_SIGNAL = signal.SIGPROF
"""The signal that ends a process that took longer."""


class LateError(Exception):
    """Records took longer than the limit of one article; whatever worked on them has to be renewed."""


class Helper(Protocol):
    """A thread that works for the block of another one."""

    def processor_time(self) -> float:
        """Return the seconds of processor time that it took since it was started; 0 when it is not running."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process by ``LIMIT_SIGNAL`` if the block takes longer.

    The kernel ends it, so that it also ends a loop that never returns to Python.
    """
    signal.signal(LIMIT_SIGNAL, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (LIMIT_SIGNAL,))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextmanager
def interrupted_after(seconds: float, helpers: Sequence[Helper] = ()) -> Iterator[None]:
    """Raise ``LateError`` in the main thread if it, or a helper, takes longer; a timer set before goes on afterwards.

    The timer counts what other threads take as well: where all of these have time left, it goes on for so long. It
    repeats, because Python drops an exception that is raised in a finalizer.

    Args:
        seconds: of the main thread for the block, and of each helper since it was started.
        helpers: other threads that work for the block. They are not interrupted.
    """
    armed, begun = True, time.thread_time()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        left = seconds - max(time.thread_time() - begun, *(helper.processor_time() for helper in helpers), 0.0)
        if armed and left > 0:
            signal.setitimer(signal.ITIMER_PROF, left, seconds)
        elif armed:
            raise LateError

    handler = signal.signal(LIMIT_SIGNAL, interrupt)
    before = signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_PROF, *before)
        signal.signal(LIMIT_SIGNAL, handler)
