r"""Decoding as the documentation has it, in plain Python: what ``native/src/decode.rs`` is held against.

Bytes are UTF-8, JSON is that of the standard library without NaN and Infinity. Its escapes may name half of a surrogate
pair (``"\ud83d"``, the rest of an emoji that a crawler cut in two), as the JSON grammar allows.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

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
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection

MAX_ID_BYTES = 512
MAX_NESTING = 512
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KINDS = {dict: "an object", list: "an array", str: "text", bool: "a boolean", type(None): "null"}
_MOST_CHARACTERS = 20
_WHOLE_NUMBERS = range(-(1 << 63), 1 << 64)


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
    """Parse a JSON object; return it, or the reason of the rejection."""
    value = value.removeprefix(BYTE_ORDER_MARK)
    if depth_of(value) > MAX_NESTING:
        return TOO_DEEP.format(limit=MAX_NESTING)
    try:
        text = value.decode()
        obj = json.loads(text, parse_int=_whole, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return NOT_UTF8.format(at=error.start)
    except ValueError:
        return NOT_JSON
    if not isinstance(obj, dict):
        return NOT_OBJECT.format(kind=_kind(obj))
    for field in (fmt.id_field, fmt.scope_field):
        if field is not None and isinstance(obj.get(field), float):
            obj[field] = json.loads(text, parse_int=str, parse_float=str)[field]
    return obj


def depth_of(value: bytes) -> int:
    """Return how deep brackets outside of strings are nested; a string without an end has all that follows."""
    depth = deepest = 0
    is_inside = is_escaped = False
    for byte in value:
        if is_inside:
            is_inside, is_escaped = is_escaped or byte != ord('"'), not is_escaped and byte == ord("\\")
        elif byte == ord('"'):
            is_inside = True
        else:
            depth += (byte in b"[{") - (byte in b"]}")
            deepest = max(deepest, depth)
    return deepest


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
    if all(not text or text.isspace() for text in texts):
        return Rejection(article_id, EMPTY_TEXT)
    return Article(article_id, texts, scope)


def _texts_of(obj: dict[str, Any], fmt: InputFormat) -> tuple[str, ...] | Rejection:
    """Return the text of each field, or a rejection of which only the reason is used."""
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


def _whole(digits: str) -> int | float:
    """Read a whole number: one that 64 bits hold, else a float."""
    if len(digits) <= _MOST_CHARACTERS and (number := int(digits)) in _WHOLE_NUMBERS:
        return number
    return float(digits)


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")
