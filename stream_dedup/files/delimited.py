"""CSV and TSV with a header: each row becomes a JSON object.

Rules:

* The first line that is not blank is the header. Its fields name the members, in its order; every value is a text.
* A field in quotation marks may contain delimiters and line ends; a quotation mark in it is doubled. What else begins
  with a quotation mark is a reason for the line in which it begins, and reading goes on at the next one, so that a
  forgotten quotation mark costs one line and not the rest of the input. Where it would be read again more than
  ``MOST_AGAIN`` times for each line of the input, it costs all lines that were read for its row.
* The number of a row is that of the line in which it begins. Blank lines between rows are skipped, and rows that repeat
  the header: files with one are concatenated.
* The delimiter of CSV is a comma, semicolon or tab, whichever the header has most of: spreadsheets write a semicolon
  where the comma is the decimal point. A line ``sep=;`` before the header, as Excel writes it, names it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator

import orjson

from stream_dedup.core.decode import BYTE_ORDER_MARK, is_blank
from stream_dedup.core.reasons import NOT_ROW, NOT_UTF8, ROW_LENGTH
from stream_dedup.errors import UserError
from stream_dedup.files.lines import MAX_LINE_BYTES, AnyLine, Numbered, UnreadLine, too_long, unread, whole_lines

DELIMITERS = (b",", b";", b"\t")
"""Of CSV; where the header has as many of two, the first one."""
MOST_AGAIN = 8
"""How often lines are read again, for each line of the input, so that the time is proportional to the input."""
_LINE_COST = 128
"""Bytes of memory that each further line of a row takes beside its own."""
_NAMED_DELIMITER = re.compile(rb"sep=([\t !#-~])\r?", re.IGNORECASE)
_QUOTED = re.compile(rb'"[^"]*"')
_QUOTES = "a quotation mark is not closed or not doubled"
_LONG = "too long or a quotation mark is not closed"
_RETURN = "a carriage return within a line"
_PROBLEMS = ((_LONG, _LONG), ("limit", _LONG), ("new-line", _RETURN))
"""What an error of the reader says, and what it means."""


class _NoDataError(Exception):
    """The input has no data at present."""


def rows(chunks: Iterable[bytes | None], name: str, delimiter: bytes | None) -> Iterator[Numbered | None]:
    """Yield each row as a JSON object; pass ``None`` on.

    Args:
        chunks: the input in UTF-8.
        name: of the input, for messages.
        delimiter: None: the header shows it.

    Raises:
        UserError: there is no usable header.
    """
    found = whole_lines(chunks)
    for numbered in found:
        if numbered is None:
            yield None
            continue
        number, line = numbered
        if isinstance(line, UnreadLine):
            raise _unusable(name, f"is too long ({line.length} bytes)", "begin the file with the names of its columns")
        line = line.removeprefix(BYTE_ORDER_MARK)
        if (named := _NAMED_DELIMITER.fullmatch(line)) is not None:
            delimiter = named[1]
        elif not is_blank(line):
            chosen = delimiter or max(DELIMITERS, key=_QUOTED.sub(b"", line).count)
            yield from _Rows(name, chosen.decode("latin-1"), (number, line), found).read()


class _Rows:
    """The rows from the header on."""

    def __init__(self, name: str, delimiter: str, first: Numbered, others: Iterator[Numbered | None]) -> None:
        self._name = name
        self._feed = _Feed(first, others)
        csv.field_size_limit(MAX_LINE_BYTES)
        self._reader = csv.reader(self._feed, delimiter=delimiter, strict=True)
        self._header: list[str] | None = None

    def read(self) -> Iterator[Numbered | None]:
        """Yield the rows."""
        while True:
            self._feed.begin_row()
            try:
                fields = next(self._reader)
            except StopIteration:
                return
            except _NoDataError:
                self._feed.wait()
                yield None
            except csv.Error as error:
                yield from self._broken(next((problem for said, problem in _PROBLEMS if said in str(error)), _QUOTES))
            else:
                raw = b"\n".join(line for _, line in self._feed.row if isinstance(line, bytes))
                if fields and not is_blank(raw) and (line := self._row(fields, raw)):
                    yield self._feed.row[0][0], line

    def _row(self, fields: list[str], raw: bytes) -> AnyLine | None:
        """Return the object of a row; None of the header."""
        if self._header is None:
            self._header = self._checked(fields)
        if fields == self._header:
            return None
        if len(fields) != len(self._header):
            return unread(raw, ROW_LENGTH.format(size=len(fields), limit=len(self._header)))
        try:
            made = orjson.dumps(dict(zip(self._header, fields, strict=True)))
        except orjson.JSONEncodeError:  # a byte that was not UTF-8
            return unread(raw, NOT_UTF8.format(at=_first_invalid(raw)))
        return made if len(made) <= MAX_LINE_BYTES else too_long(made, len(made))

    def _checked(self, header: list[str]) -> list[str]:
        twice = [name for name, count in Counter(header).items() if count > 1]
        if twice:
            raise _unusable(self._name, f"names {', '.join(map(repr, twice))} more than once", "rename these columns")
        try:
            "".join(header).encode()
        except UnicodeEncodeError as error:
            raise _unusable(self._name, "is not UTF-8", "name its encoding, for example --encoding gb18030") from error
        return header

    def _broken(self, problem: str) -> Iterator[Numbered]:
        """Yield the first line of a row that cannot be read; the others are read again, as rows of their own."""
        if self._header is None:
            raise _unusable(self._name, f"cannot be read ({problem})", "write the names of the columns in one line")
        self._feed.give_back()
        for number, line in self._feed.row:
            yield number, line if isinstance(line, UnreadLine) else unread(line, NOT_ROW.format(problem=problem))


class _Feed:
    """Gives lines to the reader of CSV, and keeps those of the row that it is reading."""

    def __init__(self, first: Numbered, others: Iterator[Numbered | None]) -> None:
        self._again: deque[Numbered] = deque((first,))
        self._others = others
        self.row: list[Numbered] = []
        self._size = 0
        self._left = 0
        """Lines that may be read again."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        is_new = not self._again
        numbered = next(self._others) if is_new else self._again.popleft()
        if numbered is None:
            raise _NoDataError
        self._left += is_new * MOST_AGAIN
        number, line = numbered
        if isinstance(line, bytes) and not self.row:
            line = line.removeprefix(BYTE_ORDER_MARK)
        self._size += (len(line) if isinstance(line, bytes) else line.length) + bool(self.row) * _LINE_COST
        self.row.append((number, line))
        if isinstance(line, UnreadLine) or self._size > MAX_LINE_BYTES:
            raise csv.Error(_LONG)
        return line.decode("utf-8", "surrogateescape") + "\n"

    def begin_row(self) -> None:
        """Forget the lines of the row before."""
        self.row.clear()
        self._size = 0

    def wait(self) -> None:
        """Give the lines of the row again, of which the others have not come yet."""
        self._again.extendleft(reversed(self.row))

    def give_back(self) -> None:
        """Give the lines of the row but the first again, and forget them, unless that was done too often."""
        if len(self.row) <= self._left:
            self._left -= len(self.row)
            self._again.extendleft(reversed(self.row[1:]))
            del self.row[1:]


def _first_invalid(raw: bytes) -> int:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(raw)


def _unusable(name: str, what: str, remedy: str) -> UserError:
    return UserError(f"input {name}: its header {what}; {remedy}")
