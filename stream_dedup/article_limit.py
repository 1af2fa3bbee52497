"""The processor time that one article may take to be fingerprinted.

Owns the timer, in two forms: ``ended_after`` ends the process, whatever it is doing; ``interrupted_after`` interrupts
the main thread of a process that has other things to do. Both use the one timer of the process that counts its
processor time: a process that is stopped, or waits for a core because others have them all, loses no article.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ARTICLE_LIMIT_S = 10.0
"""Seconds that one article may take: by what 200 kB take, the slowest megabyte takes 6, an article milliseconds."""
TOO_SLOW = "takes longer than {limit:g} s to fingerprint"
LIMIT_SIGNAL = signal.SIGPROF
"""What a process ends by that took longer."""


class LateError(Exception):
    """Records took longer than the limit of one article; who worked on them has to be renewed."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process by ``LIMIT_SIGNAL`` if the block takes longer.

    The system does it, so that not even a loop that never returns to Python goes on.
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
    """Raise ``LateError`` in the main thread if the block takes longer; a timer set before goes on after it.

    And again after as long, because Python drops an exception that is raised within a finalizer.
    """
    armed = True

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if armed:
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
