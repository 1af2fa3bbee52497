"""The processor time that one article may take to be fingerprinted.

``ended_after`` ends the process, whatever it is doing; ``interrupted_after`` interrupts the main thread of a process
that has other work, and other threads. Both use the timer that counts the processor time of the process: a process that
is stopped, or that waits for a core, loses no article.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ARTICLE_LIMIT_S = 10.0
"""Seconds that one article may take: usually milliseconds; the slowest megabyte, estimated from 200 kB, takes 6."""
LIMIT_SIGNAL = signal.SIGPROF
"""The signal that ends a process that took longer."""


class LateError(Exception):
    """Records took longer than the limit of one article; whatever worked on them has to be renewed."""


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
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise ``LateError`` in the main thread if it takes longer for the block; a timer set before goes on after it.

    The timer counts what other threads take as well: where this one has time left, it goes on for so long. It repeats,
    because Python drops an exception that is raised in a finalizer.
    """
    armed, until = True, time.thread_time() + seconds

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        left = until - time.thread_time()
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
