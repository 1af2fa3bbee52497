"""Records of inputs, in batches of lines.

Rules:

* Each input is opened once and read once, from beginning to end, so that a named pipe works like a file.
* The content of an input shows what it is (``recognition``): it may be compressed (``compressed``), in another encoding
  than UTF-8, lines (``lines``), JSON over several lines (``json_documents``), CSV (``delimited``) or Parquet
  (``parquet_rows``). Whatever it is, a record becomes one line of JSON, as if it had been JSON Lines.
* ``None`` between batches means that the input has no data at present. The lines read before come as a batch first,
  however small, so that a slow input is answered at once.
* The bytes of a line of JSON Lines are unchanged, except that the white space around them is removed, and byte order
  marks before them; ``whole_lines`` removes these only.
* What cannot be decoded is ``UNDECODED``, which UTF-8 has no bytes for otherwise, so that its line is rejected and the
  others are read.
* A blank line (empty, or ASCII white space only) is skipped; it counts in the numbers of the lines after it.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from stream_dedup.core.decode import BYTE_ORDER_MARK, RawLines
from stream_dedup.core.reasons import NOT_ENCODED
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files.compressed import beginning, unpacked
from stream_dedup.files.delimited import rows
from stream_dedup.files.json_documents import documents
from stream_dedup.files.lines import LineBlock, Numbered, UnreadLine, in_blocks, lines
from stream_dedup.files.lines import whole_lines as undivided_lines
from stream_dedup.files.output_file import SIGNAL_S, write_all
from stream_dedup.files.parquet_rows import rows as parquet_rows
from stream_dedup.files.recognition import (
    PARQUET_MAGIC,
    STDIN_NAME,
    Format,
    InputForm,
    is_undecided,
    recognised,
    screened,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from stream_dedup.config.model import Config
    from stream_dedup.core.columns import Columns
    from stream_dedup.threads import FingerprintThreads

_B = TypeVar("_B")

STDIN = "-"
READ_BYTES = 1 << 18
"""Bytes of one read: four times the capacity of a pipe, far below the limit of a batch."""
LINE_BATCH_LINES = 1024
"""Lines in one batch: enough to make the cost of a batch negligible."""
LINE_BATCH_BYTES = 4 << 20
"""Bytes in one batch, so that the submitted batches stay bounded with long lines."""
INPUT_IDLE_S = 0.02
"""Seconds without data after which an input counts as slow: longer than the pauses of a program that writes steadily,
shorter than a person notices."""

AS_RECOGNISED = InputForm()
"""JSON Lines in UTF-8, or whatever the content is."""


@dataclass(frozen=True, slots=True, eq=False)
class LineBatch:
    """Records of one input, each as a line."""

    source: int
    name: str
    unit: str
    """What the numbers count."""
    block: LineBlock

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.block.lines)

    @property
    def records(self) -> RawLines:
        """What entries are made of."""
        return RawLines(self.name, self.block.lines, self.block.numbers)

    @property
    def rejected(self) -> dict[int, str]:
        """The reason of each row that is rejected, whatever is in it."""
        return {row: line.reason for row, line in self.block.unread.items()}


@dataclass(slots=True)
class Progress:
    """Bytes read, before they are unpacked; ``total`` is known where every input is a regular file."""

    read: int = 0
    total: int | None = None


def refuse_framed(config: Config, command: str) -> None:
    """Raise UserError where the configuration says that records are not JSON: files have no others."""
    if config.input.format != "json":
        raise UserError(
            f"input.format = {config.input.format!r}: {command} reads JSON Lines; remove the key or set it to json"
        )


def check_inputs(names: Sequence[str], form: InputForm = AS_RECOGNISED, *, of_records: bool = True) -> None:
    """Check that every input can be opened, and every file read to its first record; a pipe can be read once only.

    Args:
        names: paths, or ``-`` for standard input.
        form: how they are read.
        of_records: whether their lines must be records; plain text is read else.

    Raises:
        UserError: an input cannot be opened, or is nothing that is read.
    """
    for name in names:
        if name != STDIN and not _is_stream(name):
            with _opened(name, form) as opened:
                next(opened.records(Progress(), of_records=of_records), None)


def _is_stream(name: str) -> bool:
    """Whether this is a pipe or a device."""
    try:
        mode = Path(name).stat().st_mode
    except OSError as error:
        raise _unreadable(name, error) from error
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _unreadable(name: str, error: OSError) -> UserError:
    return UserError(
        f"input {printable(name)}: cannot be read ({error.strerror}); name a file of articles, or - for standard input"
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
    """Copies of inputs that must be read twice, or not in order, and cannot be: pipes, standard input, packed Parquet.

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
            raise UnavailableError(
                f"temporary folder {tempfile.gettempdir()}: the copy of an input cannot be written ({error.strerror}); "
                "make room, set TMPDIR to another folder, or name a file that is not compressed"
            ) from error

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


def read_batches(
    names: Sequence[str], progress: Progress, copies: Copies | None = None, form: InputForm = AS_RECOGNISED
) -> Iterator[LineBatch | None]:
    """Yield every record of every input as a line, in order, and ``None`` where the input has no data at present.

    Args:
        names: paths, or ``-`` for standard input.
        progress: counts the bytes read.
        copies: of inputs that cannot be read twice; one that has a copy is read from it. None: no input is read again.
        form: how the inputs are read.

    Raises:
        UserError: an input cannot be opened, is nothing that is read, is damaged or ends too early.
    """
    for source, name in enumerate(names):
        copy = None if copies is None else copies.rewound(source)
        with _opened(name, form, copy) as opened:
            if copies is not None and copy is None and (opened.waits or name == STDIN):
                opened.copies = copies, source
            yield from _batches(opened, progress, source)


def fingerprinted(
    batches: Iterator[LineBatch | None], fingerprinter: FingerprintThreads[bytes], limit: int
) -> Iterator[tuple[LineBatch, Columns] | None]:
    """Yield the batches with their columns, as ``in_order``."""
    for done in in_order(batches, lambda lines: fingerprinter.submit(lines.records), limit):
        if done is None:
            yield None
        else:
            lines, columns = done
            yield lines, columns.rejected(lines.rejected)


def in_order(
    batches: Iterator[_B | None], submit: Callable[[_B], Future[Columns]], limit: int
) -> Iterator[tuple[_B, Columns] | None]:
    """Yield the batches with their columns, in order; at most ``limit`` of them are submitted at a time.

    Where the input is slow, all batches read so far are yielded, and ``None``, before more input is awaited; where it
    cannot be read further, they are yielded before the error is raised.
    """
    submitted: deque[tuple[_B, Future[Columns]]] = deque()
    failure: Exception | None = None
    while failure is None:
        try:
            batch = next(batches)
        except Exception as error:  # noqa: BLE001 - raised below, or the end
            failure, batch = error, None
        if batch is not None:
            submitted.append((batch, submit(batch)))
        while submitted and (batch is None or len(submitted) > limit or submitted[0][1].done()):
            done, columns = submitted.popleft()
            yield done, columns.result()
        if batch is None and failure is None:
            yield None
    if not isinstance(failure, StopIteration):
        raise failure


def whole_lines(names: Sequence[str], form: InputForm = AS_RECOGNISED) -> Iterator[bytes]:
    """Yield every line of every input, byte for byte, without its line feed; each record of what is not lines.

    Raises:
        UserError: an input cannot be opened, is nothing that is read, is damaged or ends too early, or a line is too
            long or cannot be decoded.
    """
    for name in names:
        with _opened(name, form) as opened:
            for block in opened.records(Progress(), of_records=False):
                for number, line in () if block is None else block.numbered():
                    if isinstance(line, UnreadLine):
                        raise UserError(
                            f"input {opened.name}, {opened.unit} {number}: {line.reason}; mend it, or leave it out"
                        )
                    yield line


def read_text(name: str, form: InputForm) -> str:
    """Return the text in an input, which may be compressed, without a byte order mark.

    Raises:
        UserError: the input cannot be opened, is no text, or has a byte that cannot be decoded.
    """
    with _opened(name, form) as opened:
        content = b"".join(filter(None, opened.content(Progress())))
    if content.startswith(PARQUET_MAGIC):
        raise UserError(f"input {opened.name}: this is Parquet, not a text; name a text file")
    content = content.removeprefix(BYTE_ORDER_MARK)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        at = len(content[: error.start].decode())
        said = f"not {form.encoding} at character {at}" if form.encoding else f"not UTF-8 at byte {error.start}"
        raise UserError(f"input {opened.name}: {said}; name its encoding, for example --encoding gb18030") from error


def shown_name(name: str) -> str:
    """Return the name of an input in ids and messages."""
    return STDIN_NAME if name == STDIN else printable(name)


def printable(argument: str) -> str:
    r"""Return an argument of the command line as text, with invalid UTF-8 written as ``\xff``."""
    return os.fsencode(argument).decode("utf-8", "backslashreplace")


@contextmanager
def _opened(name: str, form: InputForm, copy: int | None = None) -> Iterator[_Input]:
    """Open an input; where there is a copy of it, that."""
    if copy is not None or name == STDIN:
        yield _Input(sys.stdin.fileno() if copy is None else copy, shown_name(name), form)
        return
    try:
        file = io.FileIO(name)
    except OSError as error:
        raise _unreadable(name, error) from error
    with file:
        yield _Input(file.fileno(), shown_name(name), form)


_UNITS: dict[Format, str] = {"json": "record", "parquet": "row"}
"""What the numbers of records count, where it is not lines."""


class _Input:
    """An input that is open. Its content is read once."""

    def __init__(self, descriptor: int, name: str, form: InputForm) -> None:
        self.name = name
        self._descriptor = descriptor
        self._form = form
        self.waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self.unit = "line"
        """What the numbers of the records count, once the first one is read."""
        self.copies: tuple[Copies, int] | None = None
        """Where its bytes are copied to while they are read, and its number there."""

    def content(self, progress: Progress) -> Iterator[bytes | None]:
        """Yield the content: unpacked, screened, and in UTF-8 unless it is Parquet."""
        chunks = _chunks(self._descriptor, progress, waits=self.waits)
        if self.copies is not None:
            chunks = _copied(chunks, *self.copies)
        chunks = screened(unpacked(chunks, self.name), self.name, self._form)
        encoding = self._form.encoding
        return chunks if encoding is None else _transcoded(chunks, encoding)

    def records(self, progress: Progress, *, of_records: bool = True) -> Iterator[LineBlock | None]:
        """Yield the records, each as a line of JSON; ``None`` where there is no data at present."""
        if self._can_seek():
            self.unit = "row"
            before, size = progress.read, os.fstat(self._descriptor).st_size

            def report(share: float) -> None:
                progress.read = before + int(share * size)

            with os.fdopen(os.dup(self._descriptor), "rb") as file:
                yield from in_blocks(parquet_rows(file, self.name, report))
            return
        content = self.content(progress)
        head = yield from beginning(content, partial(is_undecided, form=self._form))
        found = recognised(head, self.name, self._form, of_records=of_records)
        self.unit = _UNITS.get(found, "line")
        records = self._read(found, chain((head,), content), of_records=of_records)
        encoding = self._form.encoding
        yield from records if encoding is None else _rejecting_undecoded(records, encoding)

    def _can_seek(self) -> bool:
        """Whether this is a file of Parquet, which need not be copied."""
        return (
            not self.waits
            and self._form.format in {None, "parquet"}
            and self._form.encoding is None
            and os.pread(self._descriptor, len(PARQUET_MAGIC), 0) == PARQUET_MAGIC
        )

    def _read(self, found: Format, chunks: Iterator[bytes | None], *, of_records: bool) -> Iterator[LineBlock | None]:
        if found == "jsonl":
            return lines(chunks) if of_records else in_blocks(_unmarked(undivided_lines(chunks)))
        if found == "json":
            return in_blocks(documents(chunks, self.name))
        if found == "parquet":
            return in_blocks(_copied_parquet(chunks, self.name))
        return in_blocks(rows(chunks, self.name, b"\t" if found == "tsv" else None))


def _unmarked(records: Iterator[Numbered | None]) -> Iterator[Numbered | None]:
    """Remove the byte order mark at the beginning of a line."""
    for numbered in records:
        if numbered is None or isinstance(numbered[1], UnreadLine):
            yield numbered
        else:
            yield numbered[0], numbered[1].removeprefix(BYTE_ORDER_MARK)


def _copied_parquet(chunks: Iterator[bytes | None], name: str) -> Iterator[Numbered | None]:
    """Copy Parquet to disk, because its last bytes say where the others are; then yield its rows."""
    with closing(Copies()) as copies:
        for chunk in chunks:
            if chunk is None:
                yield None
            else:
                copies.append(0, chunk)
        copy = copies.rewound(0)
        if copy is not None:
            with os.fdopen(os.dup(copy), "rb") as file:
                yield from parquet_rows(file, name)


def _batches(opened: _Input, progress: Progress, source: int) -> Iterator[LineBatch | None]:
    """Yield the records of an input in batches; where it is damaged or ends too early, first those before that."""
    waiting, size = LineBlock(), 0
    try:
        for block in opened.records(progress):
            if block is not None:
                waiting.extend(block)
                size += sum(map(len, block.lines))
            count = len(waiting.lines)
            if block is not None and size < LINE_BATCH_BYTES:
                count -= count % LINE_BATCH_LINES
            if count:
                for begin in range(0, count, LINE_BATCH_LINES):
                    rows = slice(begin, min(begin + LINE_BATCH_LINES, count))
                    yield LineBatch(source, opened.name, opened.unit, waiting.part(rows))
                waiting = waiting.part(slice(count, None))
                size = sum(map(len, waiting.lines))
            if block is None:
                yield None
    except UserError:
        if waiting.lines:
            yield LineBatch(source, opened.name, opened.unit, waiting)
        raise
    if waiting.lines:
        yield LineBatch(source, opened.name, opened.unit, waiting)


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


UNDECODED = "\udcff".encode("utf-8", "surrogatepass")
"""Stands for what cannot be decoded: a lone surrogate."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}".encode()
_ERRORS = "stream_dedup.undecoded"
codecs.register_error(_ERRORS, lambda error: ("\udcff", getattr(error, "end", 0)))


def _transcoded(chunks: Iterable[bytes | None], encoding: str) -> Iterator[bytes | None]:
    """Yield the content in UTF-8; pass ``None`` on.

    Raises:
        UserError: UTF-16 or UTF-32 without a byte order mark.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_ERRORS)
    for chunk in chunks:
        try:
            yield None if chunk is None else decoder.decode(chunk).encode("utf-8", "surrogatepass")
        except UnicodeError as error:  # of a byte that cannot be decoded there is none
            raise UserError(
                f"--encoding {encoding}: the input has no byte order mark; name its byte order, such as {encoding}-le"
            ) from error
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def _rejecting_undecoded(blocks: Iterable[LineBlock | None], encoding: str) -> Iterator[LineBlock | None]:
    """Reject each record in which something could not be decoded; pass the others and ``None`` on."""
    for block in blocks:
        if block is not None and UNDECODED in b"\n".join(block.lines):
            for row, head in enumerate(block.lines):
                if UNDECODED in head:
                    length = block.unread[row].length if row in block.unread else len(head)
                    block.unread[row] = _rejected(head, length, encoding)
                    block.lines[row] = block.unread[row].head
        yield block


def _rejected(head: bytes, length: int, encoding: str) -> UnreadLine:
    at = len(head[: head.index(UNDECODED)].decode("utf-8", "surrogatepass"))
    return UnreadLine(head.replace(UNDECODED, _UNKNOWN), length, NOT_ENCODED.format(encoding=encoding, at=at))
