"""Lines of an input, cut at line feeds, and blocks of its records.

Rules:

* Of a line longer than ``MAX_LINE_BYTES``, only the beginning and the length are kept in memory.
* Byte order marks before and behind a line are removed: files that begin with one are concatenated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from stream_dedup import _native
from stream_dedup.core.decode import is_blank
from stream_dedup.core.reasons import LINE_TOO_LONG

MAX_LINE_BYTES = 64 << 20
"""64 MiB: a longer line is not kept in memory; no topic would accept it either."""
KEPT_BYTES = 64 << 10
"""Bytes of a longer line that are kept for its output line."""


@dataclass(frozen=True, slots=True)
class UnreadLine:
    """A line or row that is rejected, whatever is in it: its beginning, its length in bytes, and the reason."""

    head: bytes
    length: int
    reason: str


AnyLine = bytes | UnreadLine
Numbered = tuple[int, AnyLine]
"""A record of an input, with its number."""


@dataclass(slots=True, eq=False)
class LineBlock:
    """Records of an input that follow each other, each as a line."""

    lines: list[bytes] = field(default_factory=list)
    """Of a record that is rejected its beginning."""
    numbers: list[int] = field(default_factory=list)
    """Rising, from 1."""
    unread: dict[int, UnreadLine] = field(default_factory=dict)
    """What is rejected, whatever is in it, by its row."""

    def add(self, number: int, line: AnyLine) -> None:
        """Add a record."""
        if isinstance(line, UnreadLine):
            self.unread[len(self.lines)] = line
            line = line.head
        self.lines.append(line)
        self.numbers.append(number)

    def extend(self, block: LineBlock) -> None:
        """Add the records of a block."""
        rows = len(self.lines)
        self.unread |= {rows + row: line for row, line in block.unread.items()}
        self.lines += block.lines
        self.numbers += block.numbers

    def part(self, rows: slice) -> Self:
        """Return some of the records."""
        wanted = range(len(self.lines))[rows]
        unread = {wanted.index(row): line for row, line in self.unread.items() if row in wanted}
        return type(self)(self.lines[rows], self.numbers[rows], unread)

    def numbered(self) -> Iterator[Numbered]:
        """Yield each record with its number."""
        for row, (number, line) in enumerate(zip(self.numbers, self.lines, strict=True)):
            yield number, self.unread.get(row, line)


def unread(line: bytes, reason: str) -> UnreadLine:
    """Return a line that is rejected for this reason."""
    return UnreadLine(line[:KEPT_BYTES], len(line), reason)


def too_long(head: bytes, length: int) -> UnreadLine:
    """Return a line of which only the head was kept."""
    return UnreadLine(head[:KEPT_BYTES], length, LINE_TOO_LONG.format(size=length, limit=MAX_LINE_BYTES))


def stripped(line: bytes) -> bytes:
    """Return a line without the white space and the byte order marks around it; nothing of one that is blank."""
    records, _ = _native.stripped_lines([line])
    return records[0] if records else b""


def lines(chunks: Iterable[bytes | None]) -> Iterator[LineBlock | None]:
    """Yield the lines that are not blank, without white space and byte order marks around them; pass ``None`` on."""
    number = 1
    for ended in _ended_lines(chunks):
        if ended is None:
            yield None
            continue
        block = _block_of(ended, number)
        number += len(ended)
        if block.lines:
            yield block


def _block_of(ended: Sequence[AnyLine], number: int) -> LineBlock:
    """Return the records of lines, of which the first one has this number."""
    read = [line for line in ended if isinstance(line, bytes)]
    if len(read) == len(ended):
        records, places = _native.stripped_lines(read)
        return LineBlock(records, [*map(number.__add__, places)])
    block = LineBlock()
    for at, line in enumerate(ended, number):
        record = stripped(line) if isinstance(line, bytes) else line
        if record:
            block.add(at, record)
    return block


def whole_lines(chunks: Iterable[bytes | None]) -> Iterator[Numbered | None]:
    """Yield number, from 1, and content of each line without its line feed, blank ones too; pass ``None`` on."""
    number = 1
    for ended in _ended_lines(chunks):
        if ended is None:
            yield None
        else:
            yield from enumerate(ended, number)
            number += len(ended)


def in_blocks(records: Iterable[Numbered | None]) -> Iterator[LineBlock | None]:
    """Yield each record as a block; pass ``None`` on."""
    for numbered in records:
        if numbered is None:
            yield None
        else:
            block = LineBlock()
            block.add(*numbered)
            yield block


def _ended_lines(chunks: Iterable[bytes | None]) -> Iterator[list[AnyLine] | None]:
    """Yield the lines that end in each chunk."""
    tail = CutPieces()
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        ended: list[AnyLine]
        first, *others = chunk.split(b"\n")
        tail.append(first)
        if others:
            ended = [tail.end(), *others[:-1]]
            tail.append(others[-1])
            yield ended if len(chunk) <= MAX_LINE_BYTES else [_bounded(line) for line in ended]
    if tail.length:
        yield [tail.end()]


def _bounded(line: AnyLine) -> AnyLine:
    if isinstance(line, UnreadLine):
        return line
    pieces = CutPieces()
    pieces.append(line)
    return pieces.end()


class CutPieces:
    """Collects the pieces of a line; of one that is too long, no more than its beginning and its length.

    A line of white space that is too long is empty.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.length = 0
        self._blank = True

    def append(self, piece: bytes) -> None:
        """Append a piece of the line."""
        self.length += len(piece)
        self._blank = self._blank and is_blank(piece)
        if piece and (self.length <= MAX_LINE_BYTES or not self._pieces):
            self._pieces.append(piece)
        elif piece and len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)[:KEPT_BYTES]]

    def end(self) -> AnyLine:
        """End the line and return it."""
        whole, length, blank = b"".join(self._pieces), self.length, self._blank
        self._pieces, self.length, self._blank = [], 0, True
        if length <= MAX_LINE_BYTES:
            return whole
        return b"" if blank else too_long(whole, length)
