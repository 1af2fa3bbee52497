"""JSON that is not one record a line: arrays of records, and records over several lines.

Finds where records end, by strings and brackets alone; the native core reads them, as it reads those of JSON Lines, and
no value is changed on the way. Only the record that is being read is in memory.

The input is any number of documents, with white space, byte order marks or record separators (RFC 7464) between them.
A document is an array, whose elements are records, or an object, which is one. The number of a record is its number in
the input, from 1.

A record over several lines becomes one line: each line end, with the indentation after it, becomes a space. A line end
in a string is not JSON, and stays a reason to reject the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stream_dedup.core.decode import BYTE_ORDER_MARK
from stream_dedup.core.reasons import NOT_JSON
from stream_dedup.errors import UserError
from stream_dedup.files.lines import AnyLine, CutPieces, Numbered, UnreadLine, stripped, unread

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""What is left of a string, to its closing quotation mark or the end of the bytes."""
_IN_ELEMENT = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
"""Everything to the next bracket, or to a string that does not end in these bytes."""
_IN_ARRAY = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + rb")*+", re.DOTALL)
"""The same, to a comma between elements."""
_BETWEEN = re.compile(rb"[\s\x1e" + BYTE_ORDER_MARK + rb"]*+")
"""What may stand between documents. The bytes of a mark alone are accepted too: a chunk may end within it."""
_STRINGS_OF_LINES = re.compile(rb'(?:[^"]++|"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+")*+')
"""A record without a line end in a string."""
_LINE_END = re.compile(rb"[\r\n]\s*+")
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_OPEN, _CLOSE = b"[{", b"]}"
_ARRAY, _END = b"[]"


def documents(chunks: Iterable[bytes | None], name: str) -> Iterator[Numbered | None]:
    """Yield each record with its number; pass ``None`` on.

    Raises:
        UserError: what stands outside of records is not JSON, or the input ends within a document.
    """
    scanner, number = _Scanner(name), 0
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        for record in scanner.feed(chunk):
            number += 1
            yield number, record
    scanner.end()


class _Scanner:
    """The position in the documents: how deep in brackets, and whether in a string."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        """0 between documents, 1 between the elements of an array, more within one."""
        self._floor = 1
        """The depth at which a record ends: 1 in an array, 0 for an object that is a document."""
        self._in_string = self._escaped = False
        self._record = CutPieces()
        self._read = self._record_at = 0

    def feed(self, chunk: bytes) -> Iterator[AnyLine]:
        """Yield the records that end in these bytes."""
        at = begin = 0
        if self._escaped and chunk:
            at, self._escaped = 1, False
        while at < len(chunk):
            if self._in_string:
                at = self._string(chunk, at)
            elif self._depth == 0:
                at = begin = self._begin(chunk, at)
                self._record_at = self._read + begin + self._floor
            else:
                at, end = self._sign(chunk, at)
                if end is not None:
                    yield from self._ended(chunk[begin:end])
                    begin = at
                    self._record_at = self._read + begin + self._floor
        if self._depth:
            self._record.append(chunk[begin:])
        self._read += len(chunk)

    def end(self) -> None:
        """Check that the input does not end within a document.

        Raises:
            UserError: it does.
        """
        if self._depth:
            raise UserError(
                f"input {self._name}: its JSON ends too early, in the record that begins at byte {self._record_at}; "
                "get the file again if it was cut off, or close the bracket or quotation mark that is open there"
            )

    def _string(self, chunk: bytes, at: int) -> int:
        """Read on in a string, and return where it, or the chunk, ends."""
        found = _IN_STRING.match(chunk, at)
        at = len(chunk) if found is None else found.end()
        if at < len(chunk):
            self._in_string = chunk[at] != _QUOTE
            self._escaped = self._in_string and at + 1 == len(chunk)
            at += 1
        return at

    def _sign(self, chunk: bytes, at: int) -> tuple[int, int | None]:
        """Read on in a document, past the next bracket, comma between elements, or beginning of a string.

        Return where that is, and where a record ends, if it ends one.
        """
        found = (_IN_ELEMENT if self._depth > self._floor else _IN_ARRAY).match(chunk, at)
        at = len(chunk) if found is None else found.end()
        if at == len(chunk):
            return at, None
        sign = chunk[at]
        ends = self._depth == 1
        if sign == _QUOTE:
            self._in_string = True
        elif sign in _OPEN:
            self._depth += 1
        elif sign == _COMMA:
            return at + 1, at
        elif not ends:
            self._depth -= 1
        elif self._floor and sign != _END:
            raise self._wrong(at + 1, "a brace that closes nothing")
        else:
            self._depth = 0
            return at + 1, at if self._floor else at + 1
        return at + 1, None

    def _begin(self, chunk: bytes, at: int) -> int:
        """Read to the beginning of a document, and return where its records begin."""
        found = _BETWEEN.match(chunk, at)
        at = len(chunk) if found is None else found.end()
        if at == len(chunk):
            return at
        if chunk[at] not in _OPEN:
            raise self._wrong(at + 1, "neither an array nor an object")
        is_array = chunk[at] == _ARRAY
        self._depth, self._floor = 1, int(is_array)
        # An object begins with its brace: it is passed over below as part of the record.
        if is_array:
            return at + 1
        self._record.append(b"{")
        return at + 1

    def _ended(self, last: bytes) -> Iterator[AnyLine]:
        """Yield the record that ends with these bytes, unless there is nothing between two commas."""
        self._record.append(last)
        record = self._record.end()
        line = record if isinstance(record, UnreadLine) else _one_line(stripped(record))
        if line:
            yield line

    def _wrong(self, at: int, what: str) -> UserError:
        return UserError(
            f"input {self._name}: not JSON at byte {self._read + at} ({what}); repair it there, or read each line as a "
            "record with --format jsonl"
        )


def _one_line(record: bytes) -> AnyLine:
    """Return a record without line ends."""
    if b"\n" not in record and b"\r" not in record:
        return record
    if not _STRINGS_OF_LINES.fullmatch(record):
        return unread(record, NOT_JSON)
    return _LINE_END.sub(b" ", record)
