"""Lines of an input, cut at line feeds.

Rules:

* Of a line longer than ``MAX_LINE_BYTES``, only the beginning and the length are kept in memory.
* Byte order marks before and behind a line are removed: files that begin with one are concatenated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from stream_dedup.core.reasons import LINE_TOO_LONG
from stream_dedup.core.text.decode import BYTE_ORDER_MARK, is_blank

MAX_LINE_BYTES = 64 << 20
"""64 MiB: a longer line is not kept in memory; no topic would accept it either."""
KEPT_BYTES = 64 << 10
"""Bytes of a longer line that are kept for its output line."""

_SPACE = b" \t\r\n"
_MARKS = re.compile(rb"(?:[ \t\r\n]++|\xef\xbb\xbf)*+")
_MARKS_BACKWARDS = re.compile(rb"(?:[ \t\r\n]++|\xbf\xbb\xef)*+")


@dataclass(frozen=True, slots=True)
class UnreadLine:
    """A line or row that is rejected, whatever is in it: its beginning, its length in bytes, and the reason."""

    head: bytes
    length: int
    reason: str


AnyLine = bytes | UnreadLine
Numbered = tuple[int, AnyLine]
"""A record of an input, with its number."""


def unread(line: bytes, reason: str) -> UnreadLine:
    """Return a line that is rejected for this reason."""
    return UnreadLine(line[:KEPT_BYTES], len(line), reason)


def too_long(head: bytes, length: int) -> UnreadLine:
    """Return a line of which only the head was kept."""
    return UnreadLine(head[:KEPT_BYTES], length, LINE_TOO_LONG.format(size=length, limit=MAX_LINE_BYTES))


def stripped(line: bytes) -> bytes:
    """Return a line without the white space and the byte order marks around it."""
    line = line.strip(_SPACE)
    if line.startswith(BYTE_ORDER_MARK):
        line = _MARKS.sub(b"", line, 1)
    if line.endswith(BYTE_ORDER_MARK):
        line = _MARKS_BACKWARDS.sub(b"", line[::-1], 1)[::-1]
    return line


def lines(
    chunks: Iterable[bytes | None], divided: Callable[[bytes], list[AnyLine]] = lambda line: [line]
) -> Iterator[Numbered | None]:
    """Yield number, from 1, and content of each line that is not blank, ``stripped``; pass ``None`` on.

    ``divided`` divides a line with a byte order mark between objects: that of a file without a last line feed, to
    which another file was appended. What follows the mark counts as a line of its own.
    """

    def records(line: AnyLine) -> Sequence[AnyLine]:
        if isinstance(line, UnreadLine):
            return (line,)
        line = stripped(line)
        if is_blank(line):
            return ()
        return divided(line) if BYTE_ORDER_MARK in line else (line,)

    return _numbered(chunks, records)


def whole_lines(chunks: Iterable[bytes | None]) -> Iterator[Numbered | None]:
    """Yield number, from 1, and content of each line without its line feed, blank ones too; pass ``None`` on."""
    return _numbered(chunks, lambda line: (line,))


def _numbered(
    chunks: Iterable[bytes | None], records: Callable[[AnyLine], Sequence[AnyLine]]
) -> Iterator[Numbered | None]:
    """Yield the records of each line with their numbers, in which a line without one counts; pass ``None`` on."""
    number = 1
    for ended in _ended_lines(chunks):
        if ended is None:
            yield None
            continue
        for line in ended:
            found = records(line)
            yield from enumerate(found, number)
            number += len(found) or 1


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
