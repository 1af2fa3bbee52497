"""Every reason why an article is rejected: its text, and the code that stands for all texts of its kind.

A text is for people: it contains sizes, offsets and names of fields. A code is for counting: ``CODES`` has all of them,
so a code may be the label of a metric. The log contains only the text, and ``code_of`` returns its code; a text that no
pattern here describes has the code ``other``.

A text never changes: the audit compares it, and ``code_of`` must know the texts of every log that is still read. A new
reason is a new line here.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CODES: dict[str, str] = {}
"""The code of each text, in the order in which they are declared."""


def _reason(code: str, text: str) -> str:
    """Declare a reason, and return its text."""
    _CODES[text] = code
    return text


TOMBSTONE = _reason("no_value", "tombstone: the record has no value")
DELETE = "delete: the record withdraws an article, and has no text"
"""Of a record that is not rejected: an entry has no reason then."""
DELETE_WITHOUT_ID = _reason("delete_without_id", "delete without an id")
DELETE_WITHOUT_KEY_FIELD = _reason(
    "delete_without_id", "delete without an id: the key begins with a schema id, and input.key_field is not set"
)
TOO_LONG = _reason("too_large", "too long: {size} bytes, input.max_bytes is {limit}")
LINE_TOO_LONG = _reason("too_large", "line too long: {size} bytes, the fixed limit is {limit}")
RECORD_TOO_LARGE = _reason(
    "too_large", "record too large: {size} bytes with key and headers, {limit} fit max.message.bytes"
)
NOT_UTF8 = _reason("invalid_utf8", "invalid UTF-8 at byte {at}")
NOT_ENCODED = _reason("invalid_encoding", "invalid {encoding} at character {at}")
"""Of a line that ``--encoding`` decodes."""
NOT_JSON = _reason("invalid_json", "invalid JSON")
TOO_DEEP = _reason("nested_too_deep", "JSON nested deeper than the fixed limit of {limit}")
NOT_OBJECT = _reason("not_an_object", "JSON value is no object but {kind}")
NO_TEXT = _reason("missing_field", "text field {field} is missing")
NO_TEXTS = _reason("missing_field", "none of the text fields {field} is there")
NOT_TEXT = _reason("invalid_field", "text field {field} is no text but {kind}")
NOT_SCOPE = _reason("invalid_scope", "scope field {field} is neither text nor a number but {kind}")
NO_TIME = _reason("missing_time", "no time in field {field}")
UNKNOWN_TIME = _reason("invalid_time", "the time in field {field} has no known form")
EMPTY_TEXT = _reason("empty_text", "empty text")
ROW_LENGTH = _reason("invalid_row", "row of {size} fields, the header has {limit}")
NOT_ROW = _reason("invalid_row", "invalid row: {problem}")
NO_SCHEMA_ID = _reason("no_schema_id", "the value does not begin with the id of a schema")
NOT_OF_SCHEMA = _reason("not_of_schema", "the value does not fit schema {id}")
OTHER_SCHEMA = _reason("unusable_schema", "schema {id} is {kind}, input.format is {format}")
UNUSABLE_SCHEMA = _reason("unusable_schema", "schema {id} cannot be used: {problem}")
UNKNOWN_SCHEMA = _reason("unknown_schema", "unknown schema {id}: the registry does not have it")
"""Logged by ``stream-dedup reject`` alone: a worker waits for the schema."""
FEATURELESS_REASON = _reason("no_words", "text without words")
"""Where the rules reject text without features."""
NOT_ID = _reason("invalid_id", "id field {field} is neither text nor a number but {kind}")
LONG_ID = _reason("id_too_long", "id too long: {size} bytes, the fixed limit is {limit}")
DEFECT = _reason("defect", "a defect in the native core")
"""Where it panicked; what it said may quote the record, and is on standard error."""
OTHER = "other"
"""The code of a text that is none of these."""
CODES = (*dict.fromkeys(_CODES.values()), OTHER)
"""Every code."""

_TEXTS = list(_CODES)
_PATTERNS = (re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in _TEXTS)
_ANY_TEXT = re.compile("|".join(f"({pattern})" for pattern in _PATTERNS), re.DOTALL)


@lru_cache(maxsize=256)
def code_of(reason: str) -> str:
    """Return the code of a reason."""
    found = _ANY_TEXT.fullmatch(reason)
    return OTHER if found is None or found.lastindex is None else _CODES[_TEXTS[found.lastindex - 1]]
