"""The process of the program: its standard streams, and the signals that end it.

``sys.stdout`` is replaced by a text stream over a buffer over descriptor 1 whose writes are complete or an error.
Python's own stream loses data where it is unbuffered (``PYTHONUNBUFFERED``, ``python -u``: it ignores a short write) or
where its descriptor is non-blocking (it drops data that finds no room). Every command writes through this stream.

Signals end a command after it has removed its temporary files.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from stream_dedup.errors import EXIT_HUNG_UP, EXIT_TERMINATED, UnavailableError
from stream_dedup.files.output_file import BUFFER_BYTES, STANDARD_OUTPUT, CompleteWriter, unwritten

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _StandardOutput(CompleteWriter):
    """A writer whose errors name standard output."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write every byte.

        Raises:
            UnavailableError: standard output cannot be written (a full disk).
            BrokenPipeError: the reader closed the pipe.
        """
        try:
            return super().write(data)
        except OSError as error:
            raise unwritten(STANDARD_OUTPUT, error) from error


def open_standard_streams() -> None:
    """Set up the three streams. Call it once, before anything is written.

    A stream that the caller closed is opened on the null device; otherwise the next file would get its descriptor, and
    the output. The null device of standard output is opened for reading, so that writing to it is an error.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy(number, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "w" if name == "stderr" else "r", encoding="utf-8", closefd=False))
    sys.stdout = _complete(1, sys.stdout)


def close_standard_streams() -> None:
    """Flush the streams, or discard their buffers where they cannot be written.

    The command has reported the error; Python would report it again at its end, with another exit code.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, UnavailableError):
            give_up(stream, number)


def give_up(stream: TextIO, number: int) -> None:
    """Discard the buffer of a stream, and everything written to it from here on."""
    _occupy(number, os.O_WRONLY)
    with suppress(OSError):
        stream.flush()


def _complete(number: int, stream: TextIO) -> TextIO:
    """Return a text stream that replaces Python's, over the same descriptor."""
    buffer = io.BufferedWriter(_StandardOutput(number, "wb", closefd=False), BUFFER_BYTES)
    # Half surrogates of foreign text are escaped instead of raising an error.
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=stream.isatty())


def _occupy(number: int, flags: int) -> None:
    """Open the null device at a descriptor."""
    descriptor = os.open(os.devnull, flags)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


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
