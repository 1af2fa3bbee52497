"""Decodes the bytes of a record into an article, or into the reason of its rejection.

The native core reads values (``native/src/decode.rs``, which says what is readable). Any bytes have a result; decoding
never raises: a record at which the core panics is rejected. The result depends on the record and the format alone. A
reason is a short sentence of bounded length (``reasons``) that never quotes the input.

The id of an article is its id field (text, or a number as written), else the record key, else the fallback
(topic-partition-offset).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from stream_dedup import _native
from stream_dedup.core import reasons

MAX_ID_BYTES = _native.MAX_ID_BYTES
"""Longest id in UTF-8: a URL fits, and a log batch of 500 entries stays far below the size limit of a record."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How record values are read.

    ``max_bytes`` is the size limit of a value, which bounds the memory of a worker; articles have some KB. The other
    settings are names of fields of the JSON object. If ``fields`` is given, these fields make the text together and
    ``text_field`` is ignored. Plain text has no fields and no scope.
    """

    kind: Literal["json", "text"] = "json"
    id_field: str = "id"
    text_field: str = "text"
    max_bytes: int = 1_000_000
    fields: tuple[str, ...] = ()
    scope_field: str | None = None

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Names of the fields that make the text, in order."""
        return self.fields or (self.text_field,)


class RawRecord(NamedTuple):
    """A record as received."""

    key: bytes | None
    value: bytes | None
    fallback_id: str


@dataclass(frozen=True, slots=True)
class Article:
    """A readable record."""

    id: str
    texts: tuple[str, ...]
    """The text of each text field, in order."""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that cannot be read, with the reason."""

    id: str
    reason: str


def decode(record: RawRecord, fmt: InputFormat) -> Article | Rejection:
    """Decode one record."""
    article_id, texts, scope, reason = native_format(fmt).decode(record.key, record.value, record.fallback_id)
    return Article(article_id, texts, scope) if reason is None else Rejection(article_id, reason_text(reason))


def parse_object(value: bytes, fmt: InputFormat, names: Iterable[str] | None = None) -> dict[str, Any] | str:
    """Parse a JSON object; return it, or the reason of the rejection.

    A number in the field of the id or the scope is a text as it is written, unless 64 bits hold it.

    Args:
        value: the bytes of the object.
        fmt: names the fields of the id and the scope.
        names: those of the members that are made; all of them if it is None.
    """
    as_written = [fmt.id_field] if fmt.scope_field is None else [fmt.id_field, fmt.scope_field]
    chosen = None if names is None else _as_bytes(names)
    made = _native.parse_object(value, chosen, as_written=_as_bytes(as_written))
    return made if isinstance(made, dict) else reason_text(made)


def key_id(record: RawRecord) -> str:
    """Return the id of a record without an id field: its key, or the fallback if the key is missing or too long."""
    key = _native.key_id(record.key)
    return record.fallback_id if key is None else key


def is_blank(line: bytes) -> bool:
    """Whether a line is empty or only ASCII white space."""
    return not line or line.isspace()


@lru_cache(maxsize=16)
def native_format(fmt: InputFormat) -> _native.Format:
    """Return the format as the native core has it."""
    return _native.Format(
        is_json=fmt.kind == "json",
        most_bytes=fmt.max_bytes,
        id_field=_as_bytes([fmt.id_field])[0],
        scope_field=None if fmt.scope_field is None else _as_bytes([fmt.scope_field])[0],
        text_fields=_as_bytes(fmt.text_fields),
        may_lack_texts=bool(fmt.fields),
    )


def _as_bytes(names: Iterable[str]) -> list[bytes]:
    return [name.encode("utf-8", "surrogatepass") for name in names]


def reason_text(reason: _native.Reason) -> str:
    """Return the text of a reason that the native core gave."""
    name, number, limit, field, kind = reason
    text: str = getattr(reasons, name)
    return text.format(size=number, at=number, limit=limit, field=field, kind=kind)
