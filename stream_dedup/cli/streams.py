"""The standard streams of the program.

Owns what ``sys.stdout`` is: one text stream over one buffer over descriptor 1, whose writes are complete or an error.
Python's own is not that where it is unbuffered (``PYTHONUNBUFFERED``, ``python -u``: a short write goes unnoticed) or
where its descriptor is non-blocking (what finds no room is lost). Every command writes through it.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from stream_dedup.errors import UnavailableError
from stream_dedup.files.output_file import BUFFER_BYTES, STANDARD_OUTPUT, CompleteWriter, unwritten

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _StandardOutput(CompleteWriter):
    """Says in its errors which output it is."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write every byte.

        Raises:
            UnavailableError: it cannot be written (a full disk).
            BrokenPipeError: whoever read it has gone.
        """
        try:
            return super().write(data)
        except OSError as error:
            raise unwritten(STANDARD_OUTPUT, error) from error


def open_standard_streams() -> None:
    """Set up all three. Call once, before anything is written.

    A stream that the caller closed gets a null device, else the next file opened would get its number and what is
    printed would go into it. Standard output's can only be read: what is written there is an error, not lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy(number, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "w" if name == "stderr" else "r", encoding="utf-8", closefd=False))
    sys.stdout = _complete(1, sys.stdout)


def close_standard_streams() -> None:
    """Write what is still held, or throw it away where it cannot be written.

    The command has said what went wrong: Python would say it again at its end, with an exit code of its own.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, UnavailableError):
            give_up(stream, number)


def give_up(stream: TextIO, number: int) -> None:
    """Throw away what a stream still holds, and whatever is written to it from here on."""
    _occupy(number, os.O_WRONLY)
    with suppress(OSError):
        stream.flush()


def _complete(number: int, stream: TextIO) -> TextIO:
    """A text stream in place of Python's, over the same descriptor."""
    buffer = io.BufferedWriter(_StandardOutput(number, "wb", closefd=False), BUFFER_BYTES)
    # Half surrogates of foreign text are written out rather than be an error.
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=stream.isatty())


def _occupy(number: int, flags: int) -> None:
    """Let a descriptor lead to the null device."""
    descriptor = os.open(os.devnull, flags)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
