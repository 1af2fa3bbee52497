"""The time in a field of a record: milliseconds since 1970.

Known forms, the first that fits:

    number, or text of digits      seconds since 1970, or milliseconds from ``LEAST_MILLISECONDS`` on
    20181010, 20181010201924       a date alone, or with its time, before it is a number
    2018-10-10T20:19:24.5+08:00    ISO 8601 as Python reads it, also with white space for ``T`` and before the zone.
                                   With dashes or slashes, month and day may have one digit, before a colon the hour.
                                   Behind a zone its name may stand ([Asia/Shanghai])
    Wed, 10 Oct 2018 20:19:24 GMT  RFC 2822 and C's asctime (Wed Oct 10 20:19:24 +0000 2018), as Python reads them

A time without a zone is UTC. Of the names of zones those of RFC 2822 are known, and no other one: some stand for
several zones (IST). A day and a month in numbers with the year at the end (10/11/2018) are not: they are read in
two ways. A text of four digits is a year, which is no time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from stream_dedup.core.decode import field_at
from stream_dedup.core.paths import FieldPath
from stream_dedup.core.reasons import NO_TIME, UNKNOWN_TIME

LEAST_MILLISECONDS = 100_000_000_000
"""A number from this one on is milliseconds (1973 and later), a smaller one seconds (until the year 5138)."""
MAX_TIME_MS = 253_402_300_800_000
"""The year 10000, the end of ISO 8601."""
MAX_CHARACTERS = 64
"""Of a text that is a time."""

_NUMBER = re.compile(r"(?!\d{4}$)[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_COMPACT = re.compile(r"(\d{8})(\d{6})?", re.ASCII)
_ISO = re.compile(
    r"(\d{4})([-/]?)(\d\d|(?<=[-/])\d)\2(\d\d|(?<=[-/])\d)"
    r"(?:(?:[Tt]|\s+)(\d\d|\d(?=:))([\d:.,]*)(?:\s*([A-Za-z]{1,3}|[+-]\d\d:?(?:\d\d)?)(?:\[[\w/+-]+\])?)?)?",
    re.ASCII,
)
_ZONES = {"z": 0, "ut": 0, "utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5}
_ZONES |= {"mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
"""Hours of the zones that RFC 2822 names."""
_ZONE = rf"(?:\s+(?:[+-]\d{{4}}|{'|'.join(_ZONES)}))?"
_MAIL = re.compile(
    rf"[a-z\d, -]*[a-z]{{3}}[a-z\d, -]* \d\d:\d\d(?::\d\d)?{_ZONE}(?:\s+\d{{4}})?(?:\s*\([^()]*\))?",
    re.ASCII | re.IGNORECASE,
)


def time_at(record: bytes, path: FieldPath) -> int | str:
    """Return the time in a field of a JSON object, or the reason of the rejection."""
    kind, written = field_at(record, path) or ("null", "")
    if kind == "null" or (kind == "text" and not written.strip()):
        return NO_TIME.format(field=path.name)
    time = None
    if kind == "text":
        time = time_of_text(written)
    elif kind == "a number":
        time = time_of_number(float(written))
    return UNKNOWN_TIME.format(field=path.name) if time is None else time


def time_of_number(number: float) -> int | None:
    """Return the time that a number says, in ms; None if it is none."""
    if not abs(number) < MAX_TIME_MS:
        return None
    return round(number if abs(number) >= LEAST_MILLISECONDS else number * 1000)


def time_of_text(text: str) -> int | None:
    """Return the time that a text says, in ms; None if its form is not known."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        if compact := _COMPACT.fullmatch(text):
            text = f"{compact[1]}T{compact[2] or '00'}"
        elif _NUMBER.fullmatch(text):
            return time_of_number(float(text) if set(text) & set(".eE") else int(text))
        moment = parsedate_to_datetime(text) if _MAIL.fullmatch(text) else datetime.fromisoformat(_iso(text))
        return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, KeyError):
        return None


def _iso(text: str) -> str:
    """Return ISO 8601 as Python reads it; KeyError where the name of a zone is not known."""
    parts = _ISO.fullmatch(text)
    if parts is None:
        return text
    year, _, month, day, hour, rest, zone = parts.groups("")
    if zone.isalpha():
        zone = f"{_ZONES[zone.lower()]:+03d}:00"
    time = f"T{hour:0>2}{rest}{zone}" if hour else ""
    return f"{year}-{month:0>2}-{day:0>2}{time}"
