r"""Decoding as the documentation has it, in plain Python: what ``native/src/decode.rs`` is held against.

Bytes are UTF-8, JSON is that of the standard library. Its escapes may name half of a surrogate pair (``"\ud83d"``, the
rest of an emoji that a crawler cut in two), as the JSON grammar allows. NaN and Infinity are neither text nor numbers.
A number is what ``Decimal`` makes of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from stream_dedup.core.decode import Article, InputFormat, RawRecord, Rejection
from stream_dedup.core.reasons import (
    DELETE,
    DELETE_WITHOUT_ID,
    EMPTY_TEXT,
    LONG_ID,
    NO_TEXT,
    NO_TEXTS,
    NOT_ID,
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
MAX_NESTING = 512
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_NAME_DIGITS = 40
"""Digits of a whole number that is one id, however it is written."""
_KINDS = {dict: "an object", list: "an array", str: "text", bool: "a boolean", type(None): "null"}
_MOST_CHARACTERS = 20
_WHOLE_NUMBERS = range(-(1 << 63), 1 << 64)
_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_STEP = re.compile(r"\.?((?:[^.\[\]\\]|\\.)+)|\[(\d*)\]", re.DOTALL)


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class NoNumber(NamedTuple):
    """NaN, Infinity or -Infinity."""

    kind: str


def decode(record: RawRecord, fmt: InputFormat) -> Article | Rejection:
    """Decode one record."""
    key = _key_name(record.key, fmt)
    fallback = key or record.fallback_id
    if record.value is None:
        return _delete(key, record) if fmt.deletes else Rejection(fallback, TOMBSTONE)
    if len(record.value) > fmt.max_bytes:
        return Rejection(fallback, TOO_LONG.format(size=len(record.value), limit=fmt.max_bytes))
    if fmt.kind == "text":
        return _decode_text(record.value, fallback)
    obj = parse_object(record.value)
    if isinstance(obj, str):
        return Rejection(fallback, obj)
    if fmt.deletes and fmt.delete_field is not None and fmt.delete_value in _written_at(obj, fmt.delete_field):
        own_id = _own_id(obj, fmt.delete_id_field or fmt.id_field)
        return Rejection(fallback, own_id.reason) if isinstance(own_id, Rejection) else _delete(own_id or key, record)
    return decode_object(obj, fallback, fmt)


def decode_object(obj: dict[str, Any], fallback_id: str, fmt: InputFormat) -> Article | Rejection:
    """Decode one parsed JSON object."""
    own_id = _own_id(obj, fmt.id_field)
    if isinstance(own_id, Rejection):
        return Rejection(fallback_id, own_id.reason)
    article_id = own_id or fallback_id
    texts = _texts_of(obj, fmt)
    if isinstance(texts, Rejection):
        return Rejection(article_id, texts.reason)
    scope = None if fmt.scope_field is None else _name_at(obj, fmt.scope_field, NOT_SCOPE)
    if isinstance(scope, Rejection):
        return Rejection(article_id, scope.reason)
    return _article(article_id, texts, scope)


def parse_object(value: bytes) -> dict[str, Any] | str:
    """Parse a JSON object; return it with its numbers as they are written, or the reason of the rejection."""
    return _parsed(value, Number, _no_number)


def python_object(value: bytes) -> dict[str, Any] | str:
    """Parse a JSON object without NaN and Infinity; return it with Python's numbers, or the reason of the rejection."""
    read = parse_object(value)
    return read if isinstance(read, str) else _parsed(value, _python_number, _refuse)


def _parsed(value: bytes, number: Callable[[str], object], no_number: Callable[[str], object]) -> dict[str, Any] | str:
    try:
        text = value.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        return NOT_UTF8.format(at=error.start)
    # Behind the first bracket that is too deep nothing is read: what is before it is JSON, or not.
    readable, is_deep = _readable(text)
    try:
        obj = json.loads(readable, parse_int=number, parse_float=number, parse_constant=no_number)
    except json.JSONDecodeError as error:
        return TOO_DEEP.format(limit=MAX_NESTING) if is_deep and error.pos == len(readable) else NOT_JSON
    except ValueError:
        return NOT_JSON
    return obj if isinstance(obj, dict) else NOT_OBJECT.format(kind=_kind(obj))


def steps_of(path: str) -> list[str | int | None]:
    """Return the steps of a valid path: members, indexes of elements, None for all elements."""
    steps: list[str | int | None] = []
    for found in _STEP.finditer(path):
        name, index = found.groups()
        steps.append(re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL) if name else int(index) if index else None)
    return steps


def values_at(value: Any, steps: list[str | int | None]) -> Iterator[Any]:  # noqa: ANN401 - a JSON value
    """Yield the values to which the steps lead."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        inner = [value[step]] if isinstance(value, dict) and step in value else []
    elif isinstance(value, list):
        inner = value if step is None else value[step : step + 1]
    else:
        inner = []
    for one in inner:
        yield from values_at(one, rest)


def number_name(written: str) -> str:
    """Return the id that a number is: the digits of a whole one, if they are few enough, else as it is written."""
    if re.fullmatch(r"-?\d+", written):
        return "0" if written == "-0" else written
    exponent = int(re.split("[eE]", written)[1]) if re.search("[eE]", written) else 0
    if not re.search("[1-9]", re.split("[eE]", written)[0]):
        return "0"
    if abs(exponent) > 10**9:
        return written
    number = Decimal(written)
    sign, digits, power = number.as_tuple()
    assert isinstance(power, int)
    significant = "".join(map(str, digits)).lstrip("0")
    stripped = significant.rstrip("0")
    power += len(significant) - len(stripped)
    if power < 0 or len(stripped) + power > MAX_NAME_DIGITS:
        return written
    return "-" * sign + stripped + "0" * power


def _readable(text: str) -> tuple[str, bool]:
    """Return a text up to the first bracket outside of strings that is nested too deeply, and whether there is one."""
    depth = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        depth += (found[0] in "[{") - (found[0] in "]}")
        if depth > MAX_NESTING:
            return text[: found.end()], True
    return text, False


def _key_name(key: bytes | None, fmt: InputFormat) -> str | None:
    """Return the id of a record without an id field: its key, or what its key has in a field; None if it has none."""
    if fmt.key_field is None:
        return _whole_key(key or b"") or None
    obj = "" if key is None else parse_object(key)
    own_id = None if isinstance(obj, str) else _own_id(obj, fmt.key_field)
    return None if isinstance(own_id, Rejection) else own_id


def _whole_key(key: bytes) -> str:
    """Return the id that a key is, empty where it is none."""
    try:
        name = key.decode()
        if len(key) <= MAX_ID_BYTES and name[:1] == name[-1:] == '"':
            name = json.loads(name)
        name = _text_name(name)
    except UnicodeDecodeError:
        name = key.decode("utf-8", "backslashreplace")
    except ValueError:
        pass
    return name if len(name.encode("utf-8", "backslashreplace")) <= MAX_ID_BYTES else ""


def _text_name(text: str) -> str:
    """Return the id that a text is: that of a number, if it is written as one with a decimal point."""
    is_number = re.fullmatch(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?", text)
    return number_name(text) if is_number else text


def _own_id(obj: dict[str, Any], field: str) -> str | Rejection | None:
    """Return the id in a field, None where there is nothing, or a rejection of which only the reason is used."""
    own_id = _name_at(obj, field, NOT_ID)
    size = len(own_id.encode("utf-8", "backslashreplace")) if isinstance(own_id, str) else 0
    return Rejection("", LONG_ID.format(size=size, limit=MAX_ID_BYTES)) if size > MAX_ID_BYTES else own_id


def _written_at(obj: dict[str, Any], field: str) -> list[str]:
    """Return what a field is as text, as a number is written, or true or false; nothing where it is something else."""
    value = next(values_at(obj, steps_of(field)), None)
    return [str(value).lower()] if isinstance(value, bool) else [str(value)] if isinstance(value, str) else []


def _delete(own_id: str | None, record: RawRecord) -> Rejection:
    return Rejection(record.fallback_id, DELETE_WITHOUT_ID) if own_id is None else Rejection(own_id, DELETE)


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
    found = [_text_at(obj, field, fmt) for field in fmt.text_fields]
    if all(text is None for text in found):
        names = ", ".join(fmt.fields)
        return Rejection("", NO_TEXTS.format(field=names) if fmt.fields else NO_TEXT.format(field=fmt.text_field))
    for text in found:
        if isinstance(text, Rejection):
            return text
    return tuple(text or "" for text in found if not isinstance(text, Rejection))


def _text_at(obj: dict[str, Any], field: str, fmt: InputFormat) -> str | Rejection | None:
    """Return the text of a field, a rejection of which only the reason is used, or None where there is nothing."""
    steps = steps_of(field)
    values = list(values_at(obj, steps))
    if not values:
        return None
    if all(value is None for value in values):
        return None if fmt.fields else Rejection("", NOT_TEXT.format(field=field, kind="null"))
    texts = []
    for value in values:
        if isinstance(value, list):
            if not all(one is None or (isinstance(one, str) and not isinstance(one, Number)) for one in value):
                return Rejection("", NOT_TEXT.format(field=field, kind="an array with other values than text"))
            texts += [one for one in value if one is not None]
        elif isinstance(value, str) and not isinstance(value, Number):
            texts.append(value)
        elif value is not None:
            return Rejection("", NOT_TEXT.format(field=field, kind=_kind(value)))
    return "\n".join(texts)


def _name_at(obj: dict[str, Any], field: str, reason: str) -> str | Rejection | None:
    """Return an id or a scope, a rejection of which only the reason is used, or None where there is nothing."""
    value = next(values_at(obj, steps_of(field)), None)
    if value is None or value == "":
        return None
    if isinstance(value, Number):
        return number_name(value)
    return _text_name(value) if isinstance(value, str) else Rejection("", reason.format(field=field, kind=_kind(value)))


def _python_number(written: str) -> int | float:
    """Return a whole number that 64 bits hold, else the nearest finite float."""
    is_short = re.fullmatch(r"-?\d+", written) and len(written) <= _MOST_CHARACTERS
    if is_short and (number := int(written)) in _WHOLE_NUMBERS:
        return number
    return max(-sys.float_info.max, min(float(written), sys.float_info.max))


def _no_number(name: str) -> NoNumber:
    return NoNumber(name.removeprefix("-"))


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _kind(value: object) -> str:
    return value.kind if isinstance(value, NoNumber) else _KINDS.get(type(value), "a number")
