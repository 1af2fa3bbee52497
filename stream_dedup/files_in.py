"""Lines in: inputs one after the other, cut into batches.

Owns how lines are read. Rules:

* A batch never holds lines of two inputs, and never more than its limits.
* ``None`` between batches says that the input is slow: nothing is there to read now. What was
  read so far came before it as a batch, however small, so that slow input is answered at once.
* A line longer than ``MAX_LINE_BYTES`` is never held: its beginning and its length are.
* The bytes of a line are passed on as they came, without the white space around them (a
  byte order mark at an input's beginning is white space too).
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stream_dedup.errors import UserError

STDIN = "-"
STDIN_NAME = "stdin"
"""What the name of standard input is in ids."""
READ_BYTES = 1 << 18
"""Bytes read at once: four times a pipe's capacity, far below a batch's limit."""
BATCH_LINES = 256
"""Lines in one batch: enough that what a batch costs is small beside them."""
BATCH_BYTES = 4 << 20
"""Bytes in one batch, so that those under way stay bounded with long lines too."""
MAX_LINE_BYTES = 64 << 20
"""A line longer than 64 MiB is not held in memory; no topic would hold it either."""
KEPT_BYTES = 64 << 10
"""Bytes kept of such a line: what its output says of it."""
IDLE_S = 0.02
"""Seconds without a byte after which an input counts as slow: a program that writes steadily is never
taken for one, and nobody who waits for a verdict notices."""
SIGNAL_S = 0.5
"""Seconds after which a signal that came at the wrong moment is seen."""

_SPACE = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line too long to hold: how it begins and how long it is, in bytes."""

    head: bytes
    length: int


@dataclass(slots=True)
class LineBatch:
    """Lines of one input. ``first`` is the number of the first one, counted from 1."""

    source: int
    name: str
    first: int
    lines: list[bytes | CutLine] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """How much was read; ``total`` bytes where every input is a file."""

    read: int = 0
    total: int | None = None


def check_inputs(names: Sequence[str]) -> None:
    """See that every input can be opened, before anything else is begun.

    Raises:
        UserError: one cannot.
    """
    for name in names:
        if name != STDIN:
            with _opened(name):
                pass


def total_bytes(names: Sequence[str]) -> int | None:
    """Bytes of all inputs, None where one of them is no file."""
    total = 0
    for name in names:
        info = os.fstat(sys.stdin.fileno()) if name == STDIN else Path(name).stat()
        if not stat.S_ISREG(info.st_mode):
            return None
        total += info.st_size
    return total


def read_batches(names: Sequence[str], progress: Progress) -> Iterator[LineBatch | None]:
    """Every line of every input, in order; ``None`` where nothing is there to read now."""
    for source, name in enumerate(names):
        with _opened(name) as descriptor:
            yield from _batches(descriptor, source, STDIN_NAME if name == STDIN else printable(name), progress)


def printable(argument: str) -> str:
    r"""An argument of the command line as text: bytes that are no UTF-8 are written as ``\xff``."""
    return os.fsencode(argument).decode("utf-8", "backslashreplace")


@contextmanager
def _opened(name: str) -> Iterator[int]:
    if name == STDIN:
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(0, "it is a folder")
    except OSError as error:
        msg = f"input {name}: cannot be read ({error.strerror}); name a file of JSON Lines, or - for standard input"
        raise UserError(msg) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _batches(descriptor: int, source: int, name: str, progress: Progress) -> Iterator[LineBatch | None]:
    batch, size = LineBatch(source, name, 1), 0
    for line in _lines(descriptor, progress):
        if line is not None:
            batch.lines.append(line)
            size += len(line) if isinstance(line, bytes) else len(line.head)
        idle = line is None
        if batch.lines and (idle or len(batch.lines) == BATCH_LINES or size >= BATCH_BYTES):
            yield batch
            batch, size = LineBatch(source, name, batch.first + len(batch.lines)), 0
        if idle:
            yield None
    if batch.lines:
        yield batch


def _lines(descriptor: int, progress: Progress) -> Iterator[bytes | CutLine | None]:
    """Lines without the white space around them; ``None`` before a read that would wait."""
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    tail = _Tail()
    first = True
    while True:
        if waits and not select.select([descriptor], [], [], IDLE_S)[0]:
            yield None
            while not select.select([descriptor], [], [], SIGNAL_S)[0]:
                # Waiting is done here and not in read(): a signal that comes just before that call would be
                # seen only with the next line.
                continue
        chunk = os.read(descriptor, READ_BYTES)
        progress.read += len(chunk)
        if not chunk:
            break
        if first:
            chunk, first = chunk.removeprefix(_MARK), False
        pieces = chunk.split(b"\n")
        if len(pieces) > 1:
            tail.add(pieces[0])
            yield tail.take()
            yield from (piece.strip(_SPACE) for piece in pieces[1:-1])
        tail.add(pieces[-1])
    if tail.length:
        yield tail.take()


class _Tail:
    """A line that has not ended yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.length = 0

    def add(self, piece: bytes) -> None:
        self.length += len(piece)
        if piece and (self.length <= MAX_LINE_BYTES or not self._pieces):
            self._pieces.append(piece)
        elif piece and len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)[:KEPT_BYTES]]

    def take(self) -> bytes | CutLine:
        whole, length = b"".join(self._pieces), self.length
        self._pieces, self.length = [], 0
        return CutLine(whole[:KEPT_BYTES], length) if length > MAX_LINE_BYTES else whole.strip(_SPACE)
