"""Signals that end a command: what is not finished is cleared away first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from stream_dedup.cli import EXIT_HUNG_UP, EXIT_TERMINATED

_EXIT_CODES = {signal.SIGTERM: EXIT_TERMINATED, signal.SIGHUP: EXIT_HUNG_UP}


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: by an exception, ``SystemExit``.

    A signal that the caller set to be ignored (``nohup``) stays ignored.
    """
    before = {number: signal.getsignal(number) for number in _EXIT_CODES}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(_EXIT_CODES[signal.Signals(number)])
