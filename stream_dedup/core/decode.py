"""Decodes the bytes of a record into an article, or into the reason of its rejection.

The native core reads values (``native/src/decode.rs``, which says what is readable). Any bytes have a result; decoding
never raises: a record at which the core panics is rejected. The result depends on the record and the format alone. A
reason is a short sentence of bounded length (``reasons``) that never quotes the input.

The id of an article is its id field (text, or a number: the digits of a whole one, however it is written), else the
record key, or the field of it that is named, else the fallback (topic-partition-offset).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NoReturn, overload

from stream_dedup import _native
from stream_dedup.core import reasons
from stream_dedup.core.paths import FieldPath, NativePath, parse_path

MAX_ID_BYTES = _native.MAX_ID_BYTES
"""Longest id in UTF-8: a URL fits, and a log batch of 500 entries stays far below the size limit of a record."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE_NUMBERS = range(-(1 << 63), 1 << 64)
_MOST_DIGITS = 20
"""Of these, with a sign."""


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How record values are read.

    ``max_bytes`` is the size limit of a value, which bounds the memory of a worker; articles have some KB. The settings
    named after fields are paths (``paths``) of the JSON object, ``key_field`` one of the key. If ``fields`` is given,
    these fields make the text together and ``text_field`` is ignored. Plain text has no fields and no scope.

    With ``deletes`` a record without a value is a delete, and so is an object whose ``delete_field``, if there is one,
    says ``delete_value``; the id of the latter is in ``delete_id_field``, else in the id field.
    """

    kind: Literal["json", "text"] = "json"
    id_field: str = "id"
    text_field: str = "text"
    max_bytes: int = 1_000_000
    fields: tuple[str, ...] = ()
    scope_field: str | None = None
    key_field: str | None = None
    deletes: bool = False
    delete_field: str | None = None
    delete_value: str = "d"
    delete_id_field: str | None = None

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Paths of the fields that make the text, in order."""
        return self.fields or (self.text_field,)


class RawRecord(NamedTuple):
    """A record as received."""

    key: bytes | None
    value: bytes | None
    fallback_id: str


@dataclass(frozen=True, slots=True, eq=False)
class RawLines(Sequence[bytes]):
    """Lines of a file, as records without keys: the fallback id of each is the name of the file and its number."""

    name: str
    lines: Sequence[bytes]
    numbers: Sequence[int]

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines."""
        return iter(self.lines)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> RawLines: ...
    def __getitem__(self, at: int | slice) -> bytes | RawLines:
        """Return one line, or some."""
        return self.lines[at] if isinstance(at, int) else RawLines(self.name, self.lines[at], self.numbers[at])


@dataclass(frozen=True, slots=True)
class Article:
    """A readable record."""

    id: str
    texts: tuple[str, ...]
    """The text of each text field, in order."""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record without an article, with the reason: it cannot be read, or it is a delete."""

    id: str
    reason: str


def decode(record: RawRecord, fmt: InputFormat) -> Article | Rejection:
    """Decode one record."""
    article_id, texts, scope, reason = native_format(fmt).decode(record.key, record.value, record.fallback_id)
    return Article(article_id, texts, scope) if reason is None else Rejection(article_id, reason_text(reason))


def has_text(value: bytes, fmt: InputFormat) -> bool:
    """Whether a value is a JSON object of which a text field is text, even if it cannot be read as an article."""
    return native_format(fmt).has_text(value)


def field_at(value: bytes, path: FieldPath) -> tuple[str, str] | None:
    """Return what a JSON object has in a field of one value, or None where there is nothing.

    Its kind (``text``, ``a number``, ``null``, …), and the text, or the number as it is written.
    """
    return _native.field(value, path.native)


def id_at(value: bytes, path: FieldPath) -> str | None:
    """Return the article id in a field of a JSON object, or None if it has neither text nor a number."""
    return _native.field_id(value, path.native)


def parse_object(value: bytes, names: Sequence[NativePath] = ()) -> dict[str, Any] | str:
    """Parse a JSON object; return it, or the reason of the rejection. NaN and Infinity are no JSON here.

    A number beyond the greatest float is that float, which can be written as a number again.

    Args:
        value: the bytes of the object.
        names: where ids and scopes are: a number there is made as the text that it is as an id.
    """
    quoted = _native.quoted_names(value, names)
    if not isinstance(quoted, bytes):
        return reason_text(quoted)
    try:
        made: dict[str, Any] = json.loads(
            quoted.decode("utf-8-sig"), parse_int=_number, parse_float=_number, parse_constant=_refuse
        )
    except ValueError:
        return reasons.NOT_JSON
    return made


def _number(written: str) -> int | float:
    """Return a whole number of at most 64 bits, else the nearest finite float."""
    # Python takes quadratic time for a whole number of many digits.
    if len(written) <= _MOST_DIGITS and written.lstrip("-").isdecimal() and int(written) in _WHOLE_NUMBERS:
        return int(written)
    return max(-sys.float_info.max, min(float(written), sys.float_info.max))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def key_id(record: RawRecord, fmt: InputFormat) -> str:
    """Return the id of a record without an id field: that of its key, or the fallback if the key has none."""
    key = native_format(fmt).key_id(record.key)
    return record.fallback_id if key is None else key


def is_blank(line: bytes) -> bool:
    """Whether a line is empty or only ASCII white space."""
    return not line or line.isspace()


@lru_cache(maxsize=16)
def native_format(fmt: InputFormat) -> _native.Format:
    """Return the format as the native core has it."""
    operation = None
    if fmt.deletes and fmt.delete_field is not None:
        id_field = fmt.id_field if fmt.delete_id_field is None else fmt.delete_id_field
        says = fmt.delete_value.encode("utf-8", "surrogatepass")
        operation = (parse_path(fmt.delete_field, one=True).native, says, parse_path(id_field, one=True).native)
    return _native.Format(
        is_json=fmt.kind == "json",
        most_bytes=fmt.max_bytes,
        id_field=parse_path(fmt.id_field, one=True).native,
        scope_field=None if fmt.scope_field is None else parse_path(fmt.scope_field, one=True).native,
        text_fields=[parse_path(field).native for field in fmt.text_fields],
        may_lack_texts=bool(fmt.fields),
        key_field=None if fmt.key_field is None else parse_path(fmt.key_field, one=True).native,
        takes_deletes=fmt.deletes,
        operation=operation,
    )


def reason_text(reason: _native.Reason) -> str:
    """Return the text of a reason that the native core gave."""
    name, number, limit, field, kind = reason
    text: str = getattr(reasons, name)
    return text.format(size=number, at=number, limit=limit, field=field, kind=kind)
