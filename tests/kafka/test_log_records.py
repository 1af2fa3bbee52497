"""Records of the log as a poll returns them: decoded together, and the first that cannot be read is named."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from stream_dedup.core.entry import LOG_FORMAT_VERSION, decode, encode
from stream_dedup.errors import CorruptError, RefusedError
from stream_dedup.kafka.fingerprint_log import LOG_APPEND_TIME, log_records
from tests.logs import START_TIME, batch, rules

NEW_LOG = "begin a new log with another --group and other output topics"
OTHER_RELEASE = "use the release that wrote it, then start again"


class Consumed(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    value: bytes | None


def consumed(count: int = 8) -> list[Consumed]:
    """Rules, and batches of one entry, with a gap of offsets."""
    values = [encode(rules()), *(encode(batch([at], [at])) for at in range(1, count))]
    return [Consumed(3 * at, START_TIME + at, LOG_APPEND_TIME, value) for at, value in enumerate(values)]


def test_records_have_their_offsets_times_and_values() -> None:
    """The batches are those of their values, beside a record of another kind."""
    records = log_records("a.log", consumed())
    assert [(record.offset, record.time, record.raw) for record in records] == [
        (one.offset, one.timestamp, one.value) for one in consumed()
    ]
    assert [encode(record.payload) for record in records] == [record.raw for record in records]
    assert log_records("a.log", []) == []


@pytest.mark.parametrize("at", [0, 1, 4, 7])
@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (None, NEW_LOG),
        (b"\4\1old", NEW_LOG),
        (b"\5", NEW_LOG),
        (b"\5\1damaged", NEW_LOG),
        (bytes([LOG_FORMAT_VERSION + 1, 1]), OTHER_RELEASE),
    ],
)
def test_the_first_record_that_cannot_be_read_is_named(at: int, value: bytes | None, remedy: str) -> None:
    """With its offset, with what ``decode`` says of its value, and with a remedy; later ones do not matter."""
    records = consumed()
    records[at] = records[at]._replace(value=value)
    records[-1] = records[-1]._replace(value=value)
    with pytest.raises(CorruptError) as known:
        decode(value or b"")
    with pytest.raises(CorruptError) as error:
        log_records("a.log", records)
    assert str(error.value) == f"topic a.log, offset {3 * at}: {known.value}; {remedy}"


def test_a_record_with_a_time_of_its_producer_is_refused_before_it_is_read() -> None:
    """And a damaged one before it comes first."""
    records = consumed()
    records[2] = records[2]._replace(timestamp_type=0, value=b"\4")
    with pytest.raises(RefusedError, match=r"topic a\.log, offset 6: its time was not set by the broker"):
        log_records("a.log", records)
    records[1] = records[1]._replace(value=b"\4")
    with pytest.raises(CorruptError, match=r"topic a\.log, offset 3: "):
        log_records("a.log", records)
