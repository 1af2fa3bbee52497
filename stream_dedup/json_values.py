"""Values of other formats as JSON.

null, NaN, infinity     null
integer, float, bool    the number, true, false
decimal                 the number with all its digits
text                    the text
bytes                   the text, if they are UTF-8 (some writers do not say that they are text), otherwise
                        {"base64": "…"}
date, time, datetime    text as ISO 8601, to the microsecond, with the offset of the time zone
timedelta               seconds
UUID                    its text
list, dict              array, object; of keys that are not text their text
"""

from __future__ import annotations

import base64
from datetime import timedelta
from decimal import Decimal

import orjson


def json_of(value: object) -> bytes:
    """Return a value as JSON; TypeError, ValueError or OverflowError where JSON has no such value."""
    return orjson.dumps(value, default=_other, option=orjson.OPT_NON_STR_KEYS)


def _other(value: object) -> object:
    """Return what stands for a value that orjson does not know."""
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f").encode()) if value.is_finite() else None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)
