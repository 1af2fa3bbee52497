"""Signals that end a command after it has removed its temporary files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stream_dedup.exit_codes import EXIT_HUNG_UP, EXIT_TERMINATED

_EXIT_CODES = {signal.SIGTERM: EXIT_TERMINATED, signal.SIGHUP: EXIT_HUNG_UP}


@contextmanager
def terminable() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP end the command by an exception, ``SystemExit``, as Ctrl-C does.

    A signal that the caller ignores (``nohup``) stays ignored. Yield ``hold``, to be called where the command can no
    longer be undone.
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
    """Ignore the signals: an exit code of 128 and more would deny a command that has succeeded."""
    for number in (*_EXIT_CODES, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(_EXIT_CODES[signal.Signals(number)])
