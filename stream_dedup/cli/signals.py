"""Signals that end a command: what is not finished is cleared away first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stream_dedup.exit_codes import EXIT_HUNG_UP, EXIT_TERMINATED

_EXIT_CODES = {signal.SIGTERM: EXIT_TERMINATED, signal.SIGHUP: EXIT_HUNG_UP}


@contextmanager
def terminable() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: by an exception, ``SystemExit``.

    A signal that the caller set to be ignored (``nohup``) stays ignored. Gives ``hold``: what to call where the
    command cannot be undone any more.
    """
    before = {number: signal.getsignal(number) for number in (*_EXIT_CODES, signal.SIGINT)}
    for number in _EXIT_CODES:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield hold
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def hold() -> None:
    """Let no signal end what is as good as done: an exit code of 128 and more would say that it was not."""
    for number in (*_EXIT_CODES, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(_EXIT_CODES[signal.Signals(number)])
