"""Input lines, in batches.

Rules:

* Each input is opened once and read once, from beginning to end, so that a named pipe works like a file.
* An input of gzip or zstd is unpacked (``compressed``); progress counts the bytes that are read, not the unpacked ones.
* A batch has lines of one input only, and respects its limits.
* ``None`` between batches means that the input has no data at present. The lines read before come as a batch first,
  however small, so that a slow input is answered at once.
* Of a line longer than ``MAX_LINE_BYTES``, only the beginning and the length are kept in memory.
* The bytes of a line are unchanged, except that the white space around them is removed, and the byte order mark at the
  beginning of an input; ``whole_lines`` removes neither.
* A blank line (empty, or ASCII white space only) is skipped; it counts in the numbers of the lines after it.
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

from stream_dedup.core.text.decode import BYTE_ORDER_MARK, is_blank
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files.compressed import unpacked
from stream_dedup.files.output_file import SIGNAL_S, write_all

STDIN = "-"
STDIN_NAME = "stdin"
"""The name of standard input in ids."""
READ_BYTES = 1 << 18
"""Bytes of one read: four times the capacity of a pipe, far below the limit of a batch."""
LINE_BATCH_LINES = 256
"""Lines in one batch: enough to make the cost of a batch negligible."""
LINE_BATCH_BYTES = 4 << 20
"""Bytes in one batch, so that the submitted batches stay bounded with long lines."""
MAX_LINE_BYTES = 64 << 20
"""64 MiB: a longer line is not kept in memory; no topic would accept it either."""
KEPT_BYTES = 64 << 10
"""Bytes of a longer line that are kept for its output line."""
INPUT_IDLE_S = 0.02
"""Seconds without data after which an input counts as slow: longer than the pauses of a program that writes steadily,
shorter than a person notices."""

_LINE_SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line longer than ``MAX_LINE_BYTES``: its beginning, and its length in bytes."""

    head: bytes
    length: int


@dataclass(slots=True)
class LineBatch:
    """Lines of one input with their numbers in it, counted from 1; without blank lines."""

    source: int
    name: str
    lines: list[bytes | CutLine] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """Bytes read; ``total`` is known where every input is a regular file."""

    read: int = 0
    total: int | None = None


def check_inputs(names: Sequence[str]) -> None:
    """Check that every input can be opened. Open none, because a pipe can be read once only.

    Raises:
        UserError: an input cannot be opened.
    """
    for name in names:
        if name != STDIN:
            _check_input(name)


def _check_input(name: str) -> None:
    try:
        if stat.S_ISDIR(Path(name).stat().st_mode):
            raise IsADirectoryError(errno.EISDIR, "a folder")
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
    """Return the bytes of all inputs, or None where one of them is not a regular file."""
    total = 0
    for name in names:
        info = os.fstat(sys.stdin.fileno()) if name == STDIN else Path(name).stat()
        if not stat.S_ISREG(info.st_mode):
            return None
        total += info.st_size
    return total


class Copies:
    """Copies of the inputs that cannot be read twice: pipes and standard input.

    Each copy is a temporary file without a name, which the system removes when the process ends.
    """

    def __init__(self) -> None:
        self._files: dict[int, IO[bytes]] = {}

    def append(self, source: int, chunk: bytes) -> None:
        """Append a chunk to the copy of an input.

        Raises:
            UnavailableError: the copy cannot be written (a full disk).
        """
        try:
            if source not in self._files:
                self._files[source] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
            write_all(self._files[source].fileno(), chunk)
        except OSError as error:
            msg = (
                f"temporary folder {tempfile.gettempdir()}: the copy of a pipe cannot be written ({error.strerror}); "
                "make room, set TMPDIR to another folder, or name a file as input"
            )
            raise UnavailableError(msg) from error

    def rewound(self, source: int) -> int | None:
        """Return the descriptor of a copy, at its beginning, or None where the input has no copy."""
        if source not in self._files:
            return None
        self._files[source].seek(0)
        return self._files[source].fileno()

    def close(self) -> None:
        """Remove the copies."""
        for file in self._files.values():
            file.close()


def read_batches(names: Sequence[str], progress: Progress, copies: Copies | None = None) -> Iterator[LineBatch | None]:
    """Yield every non-blank line of every input, in order, and ``None`` where the input has no data at present.

    Args:
        names: paths, or ``-`` for standard input.
        progress: counts the bytes read.
        copies: copies of inputs that cannot be read twice; None: no input is read again.

    Raises:
        UserError: an input cannot be opened, or its compressed data are damaged or end too early.
    """
    for source, name in enumerate(names):
        with _opened(name) as descriptor:
            waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
            chunks = _chunks(descriptor, progress, waits=waits)
            if copies is not None and (waits or name == STDIN):
                chunks = _copied(chunks, copies, source)
            yield from _batches(chunks, source, shown_name(name))


def read_batches_again(names: Sequence[str], copies: Copies) -> Iterator[LineBatch]:
    """Yield the same lines again, from the copy of an input or from its file.

    Raises:
        UserError: a file can no longer be opened.
    """
    for source, name in enumerate(names):
        copy = copies.rewound(source)
        with _opened(name) if copy is None else nullcontext(copy) as descriptor:
            chunks = _chunks(descriptor, Progress(), waits=False)
            batches = _batches(chunks, source, shown_name(name))
            yield from (batch for batch in batches if batch is not None)


def whole_lines(names: Sequence[str]) -> Iterator[bytes]:
    """Yield every line of every input, byte for byte, without its line feed.

    Raises:
        UserError: an input cannot be opened, its compressed data are damaged or end too early, or a line is longer
            than ``MAX_LINE_BYTES``.
    """
    for name in names:
        with _opened(name) as descriptor:
            chunks = _chunks(descriptor, Progress(), waits=not stat.S_ISREG(os.fstat(descriptor).st_mode))
            yield from _whole_lines(unpacked(chunks, shown_name(name)), shown_name(name))


def _whole_lines(chunks: Iterator[bytes | None], name: str) -> Iterator[bytes]:
    line, number = bytearray(), 1
    for chunk in chunks:
        for at, piece in enumerate((chunk or b"").split(b"\n")):
            if at:
                yield bytes(line)
                line.clear()
                number += 1
            line += piece
            if len(line) > MAX_LINE_BYTES:
                msg = f"input {name}, line {number}: longer than {MAX_LINE_BYTES} bytes; shorten it, or leave it out"
                raise UserError(msg)
    if line:
        yield bytes(line)


def shown_name(name: str) -> str:
    """Return the name of an input in ids and messages."""
    return STDIN_NAME if name == STDIN else printable(name)


def printable(argument: str) -> str:
    r"""Return an argument of the command line as text, with invalid UTF-8 written as ``\xff``."""
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
    for numbered in _lines(unpacked(chunks, name)):
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
    """Yield the bytes of each read, and ``None`` before a read that would wait."""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    while True:
        if waits and not ready.poll(INPUT_IDLE_S * 1000):
            yield None
            while not ready.poll(SIGNAL_S * 1000):
                # Waits here and not in read(): a signal just before that call would be handled only after the
                # next line.
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
    copies.append(source, b"")  # an empty pipe needs a copy too: opening it again could block for ever
    for chunk in chunks:
        if chunk is not None:
            copies.append(source, chunk)
        yield chunk


def _lines(chunks: Iterator[bytes | None]) -> Iterator[tuple[int, bytes | CutLine] | None]:
    """Yield number and content of each non-blank line, without the white space around it; pass ``None`` on."""
    tail, number = _Tail(), 1
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            tail.append(piece)
            if (line := tail.end()) is not None:
                yield number, line
            number += 1
        tail.append(rest)
    if (line := tail.end()) is not None:
        yield number, line


class _Tail:
    """The line that is being read. The first line of an input may begin with a byte order mark."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._mark = BYTE_ORDER_MARK
        self._blank = True

    def append(self, piece: bytes) -> None:
        """Append a piece of the line."""
        self._length += len(piece)
        self._blank = self._blank and is_blank(piece)
        if piece and (self._length <= MAX_LINE_BYTES or not self._pieces):
            self._pieces.append(piece)
        elif piece and len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)[:KEPT_BYTES]]

    def end(self) -> bytes | CutLine | None:
        """End the line and return it, or None if it is blank."""
        whole, length, blank = b"".join(self._pieces).removeprefix(self._mark), self._length, self._blank
        self._pieces, self._length, self._mark, self._blank = [], 0, b"", True
        # The kept beginning of a line that was cut may be blank where the line is not.
        if blank or (length <= MAX_LINE_BYTES and is_blank(whole)):
            return None
        return CutLine(whole[:KEPT_BYTES], length) if length > MAX_LINE_BYTES else whole.strip(_LINE_SPACE)
