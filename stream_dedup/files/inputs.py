"""Lines in: inputs one after the other, cut into batches.

Owns how lines are read. Rules:

* Each input is opened once and read once, from its beginning to its end: a named pipe is an input like a file.
* A batch never holds lines of two inputs, and never more than its limits.
* ``None`` between batches says that the input is slow: nothing is there to read now. What was
  read so far came before it as a batch, however small, so that slow input is answered at once.
* A line longer than ``MAX_LINE_BYTES`` is never held: its beginning and its length are.
* The bytes of a line are passed on as they came, without the white space around them (a
  byte order mark at an input's beginning is white space too).
* A blank line (nothing, or ASCII white space alone) is no record: it is skipped, and counted in the numbers of
  the lines after it.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from stream_dedup.core.text.decode import is_blank
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files.output_file import SIGNAL_S, write_all

STDIN = "-"
STDIN_NAME = "stdin"
"""What the name of standard input is in ids."""
READ_BYTES = 1 << 18
"""Bytes read at once: four times a pipe's capacity, far below a batch's limit."""
LINE_BATCH_LINES = 256
"""Lines in one batch: enough that what a batch costs is small beside them."""
LINE_BATCH_BYTES = 4 << 20
"""Bytes in one batch, so that those under way stay bounded with long lines too."""
MAX_LINE_BYTES = 64 << 20
"""A line longer than 64 MiB is not held in memory; no topic would hold it either."""
KEPT_BYTES = 64 << 10
"""Bytes kept of such a line: what its output says of it."""
INPUT_IDLE_S = 0.02
"""Seconds without a byte after which an input counts as slow: a program that writes steadily is never
taken for one, and nobody who waits for a verdict notices."""
SMALL_INPUT_BYTES = 2_000_000
"""Below this size, starting processes takes longer than fingerprinting without them."""

_LINE_SPACE = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line too long to hold: how it begins and how long it is, in bytes."""

    head: bytes
    length: int


@dataclass(slots=True)
class LineBatch:
    """Lines of one input, each with its number in that input, counted from 1; blank lines are left out."""

    source: int
    name: str
    lines: list[bytes | CutLine] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """How much was read; ``total`` bytes where every input is a file."""

    read: int = 0
    total: int | None = None


def check_inputs(names: Sequence[str]) -> None:
    """Check that every input can be opened, before anything else begins. Nothing is opened: a pipe has one beginning.

    Raises:
        UserError: one cannot.
    """
    for name in names:
        if name != STDIN:
            _check_input(name)


def _check_input(name: str) -> None:
    try:
        if stat.S_ISDIR(Path(name).stat().st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if not os.access(name, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> UserError:
    return UserError(
        f"input {printable(name)}: cannot be read ({error.strerror}); "
        "name a file of JSON Lines, or - for standard input"
    )


def total_bytes(names: Sequence[str]) -> int | None:
    """Bytes of all inputs, None where one of them is no file."""
    total = 0
    for name in names:
        info = os.fstat(sys.stdin.fileno()) if name == STDIN else Path(name).stat()
        if not stat.S_ISREG(info.st_mode):
            return None
        total += info.st_size
    return total


def fingerprinting_processes(configured: int | None, input_bytes: int | None) -> int:
    """Number of processes to start: the configured one, else 0 for a small input and one for each core."""
    if configured is not None:
        return configured
    return 0 if input_bytes is not None and input_bytes < SMALL_INPUT_BYTES else len(os.sched_getaffinity(0))


class Copies:
    """Copies of what was read from inputs that cannot be read again: pipes, and standard input.

    Each is a temporary file without a name, so that it goes with the process, however that ends.
    """

    def __init__(self) -> None:
        self._files: dict[int, IO[bytes]] = {}

    def add(self, source: int, chunk: bytes) -> None:
        """Add what was read next of this input.

        Raises:
            UnavailableError: it cannot be kept (a full disk).
        """
        try:
            if source not in self._files:
                self._files[source] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
            write_all(self._files[source].fileno(), chunk)
        except OSError as error:
            msg = (
                f"temporary folder {tempfile.gettempdir()}: a pipe's content cannot be kept there ({error.strerror}); "
                "make room, set TMPDIR to another folder, or name a file as input"
            )
            raise UnavailableError(msg) from error

    def rewound(self, source: int) -> int | None:
        """Descriptor of the copy, at its beginning; None where this input has none."""
        if source not in self._files:
            return None
        self._files[source].seek(0)
        return self._files[source].fileno()

    def close(self) -> None:
        """Give the space back."""
        for file in self._files.values():
            file.close()


def read_batches(names: Sequence[str], progress: Progress, copies: Copies | None = None) -> Iterator[LineBatch | None]:
    """Every line of every input that is not blank, in order; ``None`` where nothing is there to read now.

    Args:
        names: paths, or ``-`` for standard input.
        progress: told how many bytes were read.
        copies: where what cannot be read again is kept; None where nothing is read again.

    Raises:
        UserError: an input cannot be opened.
    """
    for source, name in enumerate(names):
        with _opened(name) as descriptor:
            waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
            chunks = _chunks(descriptor, progress, waits=waits)
            if copies is not None and (waits or name == STDIN):
                chunks = _copied(chunks, copies, source)
            yield from _batches(chunks, source, STDIN_NAME if name == STDIN else printable(name))


def read_batches_again(names: Sequence[str], copies: Copies) -> Iterator[LineBatch]:
    """The same lines once more: of inputs that have a copy from there, else from the file.

    Raises:
        UserError: a file cannot be opened any more.
    """
    for source, name in enumerate(names):
        copy = copies.rewound(source)
        with _opened(name) if copy is None else nullcontext(copy) as descriptor:
            chunks = _chunks(descriptor, Progress(), waits=False)
            batches = _batches(chunks, source, STDIN_NAME if name == STDIN else printable(name))
            yield from (batch for batch in batches if batch is not None)


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
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _batches(chunks: Iterator[bytes | None], source: int, name: str) -> Iterator[LineBatch | None]:
    batch, size = LineBatch(source, name), 0
    for numbered in _lines(chunks):
        if numbered is not None:
            number, line = numbered
            batch.lines.append(line)
            batch.numbers.append(number)
            size += len(line) if isinstance(line, bytes) else len(line.head)
        idle = numbered is None
        if batch.lines and (idle or len(batch.lines) == LINE_BATCH_LINES or size >= LINE_BATCH_BYTES):
            yield batch
            batch, size = LineBatch(source, name), 0
        if idle:
            yield None
    if batch.lines:
        yield batch


def _chunks(descriptor: int, progress: Progress, *, waits: bool) -> Iterator[bytes | None]:
    """Bytes as they are read; ``None`` before a read that would wait."""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    while True:
        if waits and not ready.poll(INPUT_IDLE_S * 1000):
            yield None
            while not ready.poll(SIGNAL_S * 1000):
                # Waiting is done here and not in read(): a signal that comes just before that call would be
                # seen only with the next line.
                continue
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except BlockingIOError:  # another reader of a non-blocking pipe was faster
            continue
        if not chunk:
            return
        progress.read += len(chunk)
        yield chunk


def _copied(chunks: Iterator[bytes | None], copies: Copies, source: int) -> Iterator[bytes | None]:
    copies.add(source, b"")  # an empty pipe has a copy too: to open it again could wait for ever
    for chunk in chunks:
        if chunk is not None:
            copies.add(source, chunk)
        yield chunk


def _lines(chunks: Iterator[bytes | None]) -> Iterator[tuple[int, bytes | CutLine] | None]:
    """Number and content of each line that is not blank, without the white space around it; ``None`` as it comes."""
    tail, number = _Tail(), 1
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            tail.add(piece)
            if (line := tail.take()) is not None:
                yield number, line
            number += 1
        tail.add(rest)
    if (line := tail.take()) is not None:
        yield number, line


class _Tail:
    """A line that has not ended yet. The first one of an input may begin with a byte order mark."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._mark = _BYTE_ORDER_MARK
        self._blank = True

    def add(self, piece: bytes) -> None:
        """Add what comes next of the line."""
        self._length += len(piece)
        self._blank = self._blank and is_blank(piece)
        if piece and (self._length <= MAX_LINE_BYTES or not self._pieces):
            self._pieces.append(piece)
        elif piece and len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)[:KEPT_BYTES]]

    def take(self) -> bytes | CutLine | None:
        """End the line and give it; None if it is blank."""
        whole, length, blank = b"".join(self._pieces).removeprefix(self._mark), self._length, self._blank
        self._pieces, self._length, self._mark, self._blank = [], 0, b"", True
        # What is held of a line that was cut may be blank where the line is not.
        if blank or (length <= MAX_LINE_BYTES and is_blank(whole)):
            return None
        return CutLine(whole[:KEPT_BYTES], length) if length > MAX_LINE_BYTES else whole.strip(_LINE_SPACE)
