r"""Decodes the bytes of a record into an article, or into the reason of its rejection.

This file defines which input is readable. Any bytes have a result; decoding never raises. The result depends on the
record and the format alone. A reason is a short sentence of bounded length (``reasons``) that never quotes the input.

The id of an article is its id field (text, or a number as written), else the record key, else the fallback
(topic-partition-offset). An empty id counts as missing. The id of a rejected record is that of its id field if that
could be read, else its key or fallback.

The text is one field, or several fields with weights (``InputFormat.fields``). Of several fields, one that is missing
or null is empty text; at least one must exist, and not all may be empty. Texts are not changed here, markup included.
The scope is text, or a number as written; missing, null and empty mean no scope. Any other scope is a reason to reject
the record, because the article would be compared within the wrong scope.

orjson reads JSON. What orjson refuses is read again by the standard library, which accepts half surrogates
(``"\ud83d"``, the rest of an emoji that a crawler cut in two): the JSON grammar allows them. NaN and Infinity are not
JSON.

The result must not show which of the two read a record, although their limits differ: orjson stops at 1,024 levels, the
standard library at the end of the call stack and at whole numbers of some 4,300 digits. So nesting is counted first,
against a limit below both; the standard library reads whole numbers as orjson does; and if the caller has left too
little of the call stack, it reads in a thread with a stack of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Literal, NamedTuple, NoReturn

import orjson

from stream_dedup.core.reasons import (
    EMPTY_TEXT,
    LONG_ID,
    NO_TEXT,
    NO_TEXTS,
    NOT_JSON,
    NOT_OBJECT,
    NOT_SCOPE,
    NOT_TEXT,
    NOT_UTF8,
    TOMBSTONE,
    TOO_DEEP,
    TOO_LONG,
)

MAX_ID_BYTES = 512
"""Longest id in UTF-8: a URL fits, and a log batch of 500 entries stays far below the size limit of a record."""
MAX_NESTING = 512
"""Most levels of objects and arrays: half of what either parser reads, and far more than articles have."""

# A string without an end reaches to the end of the text: nothing is read twice.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_MOST_CHARACTERS = 20
_WHOLE_NUMBERS = range(-(1 << 63), 1 << 64)
"""The whole numbers of orjson, which have at most ``_MOST_CHARACTERS``; it reads others as floats."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KINDS = {dict: "an object", list: "an array", str: "text", bool: "a boolean", type(None): "null"}


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
    fallback = key_id(record)
    if record.value is None:
        return Rejection(fallback, TOMBSTONE)
    if len(record.value) > fmt.max_bytes:
        return Rejection(fallback, TOO_LONG.format(size=len(record.value), limit=fmt.max_bytes))
    if fmt.kind == "text":
        return _decode_text(record.value, fallback)
    obj = parse_object(record.value, fmt)
    if isinstance(obj, str):
        return Rejection(fallback, obj)
    return decode_object(obj, fallback, fmt)


def decode_object(obj: dict[str, Any], fallback_id: str, fmt: InputFormat) -> Article | Rejection:
    """Decode one parsed JSON object."""
    own_id = _id_of(obj, fmt)
    size = len(own_id.encode("utf-8", "backslashreplace"))
    if size > MAX_ID_BYTES:
        return Rejection(fallback_id, LONG_ID.format(size=size, limit=MAX_ID_BYTES))
    article_id = own_id or fallback_id
    texts, scope = _texts_of(obj, fmt), _scope_of(obj, fmt)
    if isinstance(texts, Rejection):
        return Rejection(article_id, texts.reason)
    if isinstance(scope, Rejection):
        return Rejection(article_id, scope.reason)
    return _article(article_id, texts, scope)


def parse_object(value: bytes, fmt: InputFormat) -> dict[str, Any] | str:
    """Parse a JSON object; return it, or the reason of the rejection, at any depth of the call stack."""
    value = value.removeprefix(BYTE_ORDER_MARK)
    if nested_too_deep(value):
        return TOO_DEEP.format(limit=MAX_NESTING)
    try:
        obj = _parse(value)
    except UnicodeDecodeError as error:
        return NOT_UTF8.format(at=error.start)
    except ValueError:
        return NOT_JSON
    if not isinstance(obj, dict):
        return NOT_OBJECT.format(kind=_kind(obj))
    for field in (fmt.id_field, fmt.scope_field):
        if field is not None and isinstance(obj.get(field), float):
            obj[field] = _as_written(value, field)
    return obj


def is_blank(line: bytes) -> bool:
    """Whether a line is empty or only ASCII white space."""
    return not line or line.isspace()


def nested_too_deep(value: bytes) -> bool:
    """Whether brackets outside of strings are nested deeper than ``MAX_NESTING``."""
    if value.count(b"[") + value.count(b"{") <= MAX_NESTING:
        return False
    steps = (_STEPS.get(token[0], 0) for token in _STRING_OR_BRACKET.finditer(value))
    return max(accumulate(steps), default=0) > MAX_NESTING


def key_id(record: RawRecord) -> str:
    """Return the id of a record without an id field: its key, or the fallback if the key is missing or too long."""
    if not record.key:
        return record.fallback_id
    key = record.key.decode("utf-8", "backslashreplace")
    return key if 0 < len(key.encode()) <= MAX_ID_BYTES else record.fallback_id


def _decode_text(value: bytes, article_id: str) -> Article | Rejection:
    try:
        return _article(article_id, (value.removeprefix(BYTE_ORDER_MARK).decode(),), None)
    except UnicodeDecodeError as error:
        return Rejection(article_id, NOT_UTF8.format(at=error.start))


def _article(article_id: str, texts: tuple[str, ...], scope: str | None) -> Article | Rejection:
    # isspace stops at the first other character; strip would copy the text.
    if all(not text or text.isspace() for text in texts):
        return Rejection(article_id, EMPTY_TEXT)
    return Article(article_id, texts, scope)


def _texts_of(obj: dict[str, Any], fmt: InputFormat) -> tuple[str, ...] | Rejection:
    """Return the text of each field, or a rejection of which only the reason is used."""
    if not fmt.fields and isinstance(text := obj.get(fmt.text_field), str):
        return (text,)
    found = {field: obj[field] for field in fmt.text_fields if field in obj}
    if fmt.fields:
        found = {field: text for field, text in found.items() if text is not None}
        if not found:
            return Rejection("", NO_TEXTS.format(field=", ".join(fmt.fields)))
    elif not found:
        return Rejection("", NO_TEXT.format(field=fmt.text_field))
    for field, text in found.items():
        if not isinstance(text, str):
            return Rejection("", NOT_TEXT.format(field=field, kind=_kind(text)))
    return tuple(found.get(field, "") for field in fmt.text_fields)


def _scope_of(obj: dict[str, Any], fmt: InputFormat) -> str | Rejection | None:
    """Return the scope of an article, or a rejection of which only the reason is used."""
    value = None if fmt.scope_field is None else obj.get(fmt.scope_field)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return Rejection("", NOT_SCOPE.format(field=fmt.scope_field, kind=_kind(value)))
    return str(value)


def _id_of(obj: dict[str, Any], fmt: InputFormat) -> str:
    """Return the content of the id field; empty if there is no id."""
    value = obj.get(fmt.id_field)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _as_written(value: bytes, field: str) -> str:
    """Return the number in this field as written; a float would keep 17 digits, and add an exponent."""
    text = value.decode()
    return str(_call_on_enough_stack(partial(json.loads, text, parse_int=_digits, parse_float=str))[field])


def _parse(value: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a value by orjson or, if orjson refuses it, by the standard library.

    Raises:
        ValueError: the value is not JSON, or not UTF-8 (``UnicodeDecodeError``).
    """
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        text = value.decode()
        return _call_on_enough_stack(partial(json.loads, text, parse_int=_whole, parse_constant=_no_constant))


def _call_on_enough_stack(read: Callable[[], Any]) -> Any:  # noqa: ANN401 - the result of ``read``
    """Call ``read``, in a thread of its own if the caller's stack does not suffice."""
    try:
        return read()
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(read).result()


def _whole(digits: str) -> int | float:
    """Read a whole number as orjson does."""
    if len(digits) <= _MOST_CHARACTERS and (number := int(digits)) in _WHOLE_NUMBERS:
        return number
    return float(digits)


def _digits(digits: str) -> str:
    return "0" if digits == "-0" else digits


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")
