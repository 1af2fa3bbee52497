"""The time in a field of a record: milliseconds since 1970.

Known forms, the first that fits:

    number, or text of digits      seconds since 1970, or milliseconds from ``LEAST_MILLISECONDS`` on
    2018-10-10T20:19:24.5+08:00    ISO 8601, with ``T`` or a space, without parts of it, with ``.`` or ``,``, with
                                   ``Z``, ``+0800``, ``+08`` or without a zone; 20181010T201924Z; 2018-W41-3
    2018/10/10 20:19:24            the same with slashes; the year comes first. With dashes or slashes, month, day and
                                   hour may have one digit. Behind a zone its name may stand ([Asia/Shanghai])
    20181010, 20181010201924       a date alone, or with its time, before it is a number
    Wed, 10 Oct 2018 20:19:24 GMT  RFC 2822 and HTTP
    Wed Oct 10 20:19:24 2018       C's asctime, also with ``+0000`` before the year

A time without a zone is UTC. Of the names of zones those of RFC 2822 are known, and no other one: some stand for
several zones (IST). A day and a month in numbers with the year at the end (10/11/2018) are not: they are read in
two ways. A text of four digits is a year, which is no time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

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
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?", re.ASCII)
_OFFSET = r"\s*(?P<zone>[A-Za-z]{1,3}|[+-]\d\d(?::?\d\d)?)"
_ZONE = f"(?:{_OFFSET})?"
_ISO = re.compile(
    r"(?P<year>\d{4})(?P<dash>[-/]?)(?P<month>\d\d|(?<=[-/])\d)(?P=dash)(?P<day>\d\d|(?<=[-/])\d)(?:(?:[Tt]|\s+)"
    r"(?P<hour>\d\d|\d(?=:))(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    rf"(?:{_OFFSET}(?:\[[\w/+-]+\])?)?)?",
    re.ASCII,
)
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
_MAIL = re.compile(
    r"(?:[A-Za-z]{3,9}(?:,\s*|\s+))?(?P<day>\d\d?)[-\x20](?P<name>[A-Za-z]{3,9})[-\x20](?P<year>\d{4}|\d\d)\s+"
    + _CLOCK
    + _ZONE,
    re.ASCII,
)
_COMMENT = re.compile(r"\s*\([^()]*\)\s*")
"""Of RFC 2822, which may stand between any two parts."""
_ASCTIME = re.compile(
    r"[A-Za-z]{3}\s+(?P<name>[A-Za-z]{3})\s+(?P<day>\d\d?)\s+" + _CLOCK + _ZONE + r"\s+(?P<year>\d{4})", re.ASCII
)
_NAMES = "january february march april may june july august september october november december"
_MONTHS = {form: number for number, name in enumerate(_NAMES.split(), 1) for form in (name, name[:3])}
_ZONES = {"z": 0, "ut": 0, "utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5}
_ZONES |= {"mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
"""Hours of the zones that RFC 2822 names."""
_CENTURY_TURN = 50
"""Two digits of a year below this one are of this century (RFC 2822)."""


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
            year, month, day, hour, minute, second = map(int, compact.groups("0"))
            return _ms(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
        if _NUMBER.fullmatch(text):
            return time_of_number(float(text) if set(text) & set(".eE") else int(text))
        for form, written in ((_ISO, text), (_MAIL, _COMMENT.sub(" ", text).strip()), (_ASCTIME, text)):
            if found := form.fullmatch(written):
                return _of_parts(found.groupdict())
        # Weeks, and what else Python reads as ISO 8601.
        moment = datetime.fromisoformat(text)
        return _ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError, KeyError):
        return None


def _of_parts(parts: dict[str, str | None]) -> int:
    """Return the time of these parts.

    Raises:
        ValueError, KeyError: there is no such time, or the name of a month or zone is not known.
    """
    month = parts.get("month") or _MONTHS[(parts.get("name") or "").lower()]
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    # 24:00 is the end of a day, and a minute has a second 60 now and then.
    more = timedelta(days=hour == 24 and minute == second == 0, seconds=second == 60)  # noqa: PLR2004 - of a clock
    hour, second = hour - 24 * more.days, second - more.seconds
    moment = datetime(_year(parts["year"] or ""), int(month), int(parts["day"] or 0), hour, minute, second)  # noqa: DTZ001 - the zone comes below
    fraction = timedelta(microseconds=int(f"{parts['fraction'] or 0:0<6}"[:6]))
    return _ms((moment + more + fraction).replace(tzinfo=_zone(parts["zone"])))


def _year(written: str) -> int:
    year = int(written)
    if len(written) > 2:  # noqa: PLR2004 - two digits
        return year
    return year + (2000 if year < _CENTURY_TURN else 1900)


def _zone(written: str | None) -> timezone:
    if written is None:
        return UTC
    if written[0] not in "+-":
        return timezone(timedelta(hours=_ZONES[written.lower()]))
    hours, minutes = int(written[1:3]), int(written[3:].strip(":") or 0)
    if minutes >= 60:  # noqa: PLR2004 - of an hour
        raise ValueError("no zone")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if written[0] == "-" else offset)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
