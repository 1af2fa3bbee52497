"""Every reason why an article is rejected: its text, and the code that stands for all texts of its kind.

A text is for people: it contains sizes, offsets and names of fields. A code is for counting: ``CODES`` has all of them,
so a code may be the label of a metric. The log contains only the text, and ``code_of`` returns its code; a text that no
pattern here describes has the code ``other``.

A text never changes: the audit compares it, and ``code_of`` must know the texts of every log that is still read. A new
reason is a new line in ``_CODES``.
"""

from __future__ import annotations

import re
from functools import lru_cache

TOMBSTONE = "tombstone: the record has no value"
DELETE = "delete: the record withdraws an article, and has no text"
"""Of a record that is not rejected: an entry has no reason then."""
DELETE_WITHOUT_ID = "delete without an id"
DELETE_WITHOUT_KEY_FIELD = "delete without an id: the key begins with a schema id, and input.key_field is not set"
TOO_LONG = "too long: {size} bytes, input.max_bytes is {limit}"
LINE_TOO_LONG = "line too long: {size} bytes, the fixed limit is {limit}"
RECORD_TOO_LARGE = "record too large: {size} bytes with key and headers, {limit} fit max.message.bytes"
NOT_UTF8 = "invalid UTF-8 at byte {at}"
NOT_ENCODED = "invalid {encoding} at character {at}"
"""Of a line that ``--encoding`` decodes."""
NOT_JSON = "invalid JSON"
TOO_DEEP = "JSON nested deeper than the fixed limit of {limit}"
NOT_OBJECT = "JSON value is no object but {kind}"
NO_TEXT = "text field {field} is missing"
NOT_TEXT = "text field {field} is no text but {kind}"
NO_TEXTS = "none of the text fields {field} is there"
NOT_SCOPE = "scope field {field} is neither text nor a number but {kind}"
NO_TIME = "no time in field {field}"
UNKNOWN_TIME = "the time in field {field} has no known form"
EMPTY_TEXT = "empty text"
ROW_LENGTH = "row of {size} fields, the header has {limit}"
NOT_ROW = "invalid row: {problem}"
NO_SCHEMA_ID = "the value does not begin with the id of a schema"
NOT_OF_SCHEMA = "the value does not fit schema {id}"
OTHER_SCHEMA = "schema {id} is {kind}, input.format is {format}"
UNUSABLE_SCHEMA = "schema {id} cannot be used: {problem}"
UNKNOWN_SCHEMA = "unknown schema {id}: the registry does not have it"
"""Logged by ``stream-dedup reject`` alone: a worker waits for the schema."""
FEATURELESS_REASON = "text without words"
"""Where the rules reject text without features."""
NOT_ID = "id field {field} is neither text nor a number but {kind}"
LONG_ID = "id too long: {size} bytes, the fixed limit is {limit}"
DEFECT = "a defect in the native core"
"""Where it panicked; what it said may quote the record, and is on standard error."""

_CODES = {
    TOMBSTONE: "no_value",
    DELETE_WITHOUT_ID: "delete_without_id",
    DELETE_WITHOUT_KEY_FIELD: "delete_without_id",
    TOO_LONG: "too_large",
    LINE_TOO_LONG: "too_large",
    RECORD_TOO_LARGE: "too_large",
    NOT_UTF8: "invalid_utf8",
    NOT_ENCODED: "invalid_encoding",
    NOT_JSON: "invalid_json",
    TOO_DEEP: "nested_too_deep",
    NOT_OBJECT: "not_an_object",
    NO_TEXT: "missing_field",
    NO_TEXTS: "missing_field",
    NOT_TEXT: "invalid_field",
    NOT_SCOPE: "invalid_scope",
    NO_TIME: "missing_time",
    UNKNOWN_TIME: "invalid_time",
    EMPTY_TEXT: "empty_text",
    ROW_LENGTH: "invalid_row",
    NOT_ROW: "invalid_row",
    NO_SCHEMA_ID: "no_schema_id",
    NOT_OF_SCHEMA: "not_of_schema",
    OTHER_SCHEMA: "unusable_schema",
    UNUSABLE_SCHEMA: "unusable_schema",
    UNKNOWN_SCHEMA: "unknown_schema",
    FEATURELESS_REASON: "no_words",
    NOT_ID: "invalid_id",
    LONG_ID: "id_too_long",
    DEFECT: "defect",
}
OTHER = "other"
"""The code of a text that is none of these."""
CODES = (*dict.fromkeys(_CODES.values()), OTHER)
"""Every code."""

_FORMS = {
    "size": r"\d+",
    "limit": r"[\d.e+-]+",
    "at": r"\d+",
    "field": ".+",
    "kind": "[A-Za-z ]+",
    "encoding": "[A-Za-z0-9_-]+",
    "problem": "[A-Za-z ]+",
    "id": r"\d+",
    "format": "[a-z-]+",
}
_PLACEHOLDER = re.compile(r"\{(\w+)[^}]*\}")


def _pattern(text: str) -> str:
    """Return a regular expression of the texts that this one becomes when its placeholders are filled in."""
    parts = _PLACEHOLDER.split(text)  # text, name of a placeholder, text, …
    return "".join(re.escape(part) if at % 2 == 0 else _FORMS[part] for at, part in enumerate(parts))


_TEXTS = list(_CODES)
_ANY_TEXT = re.compile("|".join(f"({_pattern(text)})" for text in _TEXTS), re.DOTALL)


@lru_cache(maxsize=256)
def code_of(reason: str) -> str:
    """Return the code of a reason."""
    found = _ANY_TEXT.fullmatch(reason)
    return OTHER if found is None or found.lastindex is None else _CODES[_TEXTS[found.lastindex - 1]]
