"""The time in a field of a record."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.paths import parse_path
from stream_dedup.files.times import time_at

MOMENT = datetime(2018, 10, 10, 20, 19, 24, tzinfo=UTC)
MS = 1_539_202_764_000
DAY = 1_539_129_600_000


def time_of(value: object) -> int | str:
    """What a field says."""
    return time_at(json.dumps({"at": value}).encode(), parse_path("at"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((str(number), MS) for number in (MS, MS // 1000)),
        *((text, MS) for text in (" 1539202764 ", "1539202764.0", "1.539202764e9", "+1539202764", "1539202764000.0")),
        ("1539202764.5", MS + 500),
        ("-1", -1000),
        ("0", 0),
        ("02018", 2_018_000),
        ("2018-10-10T20:19:24Z", MS),
        ("2018-10-10T20:19:24", MS),
        ("2018-10-10 20:19:24", MS),
        ("2018-10-10 20:19:24Z", MS),
        ("2018-10-10t20:19:24z", MS),
        ("2018-10-10 20:19:24 UTC", MS),
        ("2018-10-11T04:19:24+0800", MS),
        ("2018-10-11T04:19:24+08:00", MS),
        ("2018-10-11 04:19:24 +08", MS),
        ("2018-10-10 15:49:24-04:30", MS),
        ("2018-10-10T20:19:24.5Z", MS + 500),
        ("2018-10-10T20:19:24,512345678Z", MS + 512),
        ("2018-10-10T20:19", MS - 24_000),
        ("2018-10-10T20", DAY + 20 * 3_600_000),
        ("2018-10-10", DAY),
        ("20181010", DAY),
        ("20181010T201924", MS),
        ("20181010T201924Z", MS),
        ("20181011T041924+0800", MS),
        ("20181010T201924.25Z", MS + 250),
        ("20181010201924", MS),
        ("2018-W41-3", DAY),
        ("2018-10-09T24:00:00Z", DAY),
        ("2018-10-10T20:19:60Z", MS + 36_000),
        ("2018/10/10 20:19:24", MS),
        ("2018/10/10", DAY),
        ("2018/1/2 8:03:00", 1_514_880_180_000),
        ("2018-1-02T08:03Z", 1_514_880_180_000),
        ("2018-10-11T04:19:24+08:00[Asia/Shanghai]", MS),
        ("2018-10-10T20:19:24Z[UTC]", MS),
        ("Wed, 10 Oct 2018 20:19:24 GMT", MS),
        ("Wed, 10 Oct 2018 20:19:24 +0000", MS),
        ("10 Oct 2018 16:19:24 EDT", MS),
        ("Thu, 11 Oct 2018 04:19:24 +0800 (CST)", MS),
        ("Wed, 10 Oct 18 20:19:24 UT", MS),
        ("Wed,10 Oct 2018 (autumn) 20:19:24(local)GMT (UTC)", MS),
        ("Wednesday, 10-Oct-18 20:19:24 GMT", MS),
        ("Mon, 3 September 2018 00:00 -0000", 1_535_932_800_000),
        ("Wed Oct 10 20:19:24 2018", MS),
        ("Wed Oct 10 20:19:24 +0000 2018", MS),
        ("Wed Oct  3 20:19:24 UTC 2018", MS - 7 * 86_400_000),
    ],
)
def test_a_text_says_a_time(text: str, expected: int) -> None:
    """In the usual spellings; without a zone it is UTC."""
    assert time_of(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "10/11/2018", "10.11.2018", "2018-10", "2018", "2018-13-01", "2018-02-30", "20181399", "12:00"),
        *(
            "2018-10-10T25:00Z",
            "2018-10-10T20:60Z",
            "2018-10-10T20:19:24+08:75",
            "2018-10/10",
            "2018-10-10T20:19:24[Asia/Shanghai]",
            "2018-1011",
            "2018-10-10 819",
            "2018-10-10T20:19:24 IST",
        ),
        *(
            "Wed, 10 Okt 2018 20:19:24 GMT",
            "Wed, 10 Oct 2018 20:19:24 CEST",
            "10 Oct 2018",
            "1539202764000000",
            "1e999",
        ),
        *("٢٠١٨-١٠-١٠", "9" * 5000, "NaN", "inf", "0x10", "1_000"),
        *(1_539_202_764_000_000, 1e300, True, [MS], {"$date": MS}),
    ],
)
def test_a_form_that_is_not_known_is_said_to_be_so(value: object) -> None:
    """It is there, and not missing."""
    assert time_of(value) == "the time in field at has no known form"


def test_what_is_not_there_is_missing() -> None:
    """Nothing, null and an empty text; NaN is there."""
    assert time_at(b"{}", parse_path("meta.at")) == "no time in field meta.at"
    assert [time_of(value) for value in (None, "", " \t")] == ["no time in field at"] * 3
    assert time_at(b'{"at": NaN}', parse_path("at")) == "the time in field at has no known form"


def test_a_time_has_a_path() -> None:
    """As an id has."""
    assert time_at(b'{"meta": [{"at": "1539202764"}]}', parse_path("meta[0].at")) == MS
    assert time_at(b'{"meta.at": 1539202764}', parse_path(r"meta\.at")) == MS


@given(st.datetimes(datetime(1970, 1, 2), datetime(2199, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 - bounds have none
def test_other_programs_times_are_read(moment: datetime) -> None:
    """What Python writes of a moment, in each form, is this moment."""
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000, fold=0)
    offset = moment.utcoffset()
    assert offset is not None
    if offset.total_seconds() % 60:
        return
    ms = round(moment.timestamp() * 1000)
    assert time_of(moment.isoformat()) == time_of(moment.isoformat(" ")) == time_of(ms / 1000) == ms
    assert time_of(f"{ms / 1000:.3f}") == ms
    assert time_of(moment.strftime("%Y%m%dT%H%M%S,%f%z")) == ms
    assert time_of(format_datetime(moment)) == time_of(moment.strftime("%a %b %d %H:%M:%S %z %Y")) == ms - ms % 1000
