"""The headers of output records: what is written is read again, and nothing else is."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.headers import Headers, OmittedValue, parse_headers
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.errors import CorruptError
from tests.headers import output_headers

ID = uuid.UUID(int=7).bytes
MAX = (1 << 63) - 1
TIMES = st.integers(-1, MAX)
OFFSETS = st.integers(0, MAX).map(SourceOffset)
PARTITIONS = st.integers(0, (1 << 31) - 1)


def headers_of(judgement: Judgement, omitted: OmittedValue | None = None) -> Headers:
    return output_headers(judgement, 5, "scheme", "articles", Coordinates(ID, 3, SourceOffset(4)), 1_000, omitted)


def match_of(**values: object) -> Match:
    given = {"distance": 7, "similarity": 0.9876, "time": 900, "coordinates": Coordinates(ID, 1, SourceOffset(2))}
    return Match(LogPosition(0), "an id", "articles", **(given | values))  # type: ignore[arg-type] # by name


@given(TIMES, TIMES, OFFSETS, PARTITIONS, st.integers(0, 256), st.floats(-1, 1), st.integers(0, (1 << 64) - 1))
def test_what_is_written_is_read(  # noqa: PLR0917 - one argument for each value
    timestamp: int, time: int, offset: SourceOffset, partition: int, distance: int, similarity: float, mark: int
) -> None:
    """At the ends of every range, too."""
    at = Coordinates(ID, partition, offset)
    match = match_of(distance=distance, similarity=similarity, time=time, coordinates=at)
    headers = output_headers(Judgement(Verdict.DUPLICATE, match, copies=32), mark, "scheme", "a-b-1", at, timestamp)
    stamp = parse_headers(headers)
    assert (stamp.coordinates, stamp.timestamp, stamp.topic, stamp.fingerprint) == (at, timestamp, "a-b-1", mark)
    assert stamp.match is not None
    assert (stamp.match.distance, stamp.match.time, stamp.match.coordinates) == (distance, time, at)
    assert stamp.match.similarity == f"{similarity:.4f}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dedup.source", b"articles-0-9223372036854775808"),
        ("dedup.source", b"articles-2147483648-0"),
        ("dedup.source", b"articles-0--5"),
        ("dedup.source", b"articles"),
        ("dedup.source.topic_id", b"none"),
        ("dedup.source.timestamp", b"9" * 25),
        ("dedup.source.timestamp", b"9" * 100_000),
        ("dedup.source.timestamp", b"1_000"),
        ("dedup.source.timestamp", "٣".encode()),
        ("dedup.source.timestamp", None),
        ("dedup.fingerprint", b"-000000000000005"),
        ("dedup.fingerprint", b"5"),
        ("dedup.match.source", b"articles-0-" + b"9" * 19),
        ("dedup.match.distance", b"257"),
        ("dedup.match.distance", b"-1"),
        ("dedup.match.similarity", b"abc"),
        ("dedup.match.similarity", b"nan"),
        ("dedup.match.similarity", b"1e999"),
        ("dedup.match.time", b"9" * 19),
        ("dedup.copies", b"33"),
        ("dedup.copies", b"0"),
        ("dedup.verdict", b"perhaps"),
    ],
)
def test_what_no_worker_writes_is_refused(name: str, value: bytes | None) -> None:
    """A reader may take every value as it is: it fits a store of 64-bit numbers, and an answer."""
    written = dict(headers_of(Judgement(Verdict.DUPLICATE, match_of(), copies=2)))
    parse_headers(written.items())
    with pytest.raises(CorruptError):
        parse_headers((written | {name: value}).items())


@pytest.mark.parametrize(
    ("name", "value"), [("dedup.match.time", b"1"), ("dedup.match.source", b"perhaps"), ("dedup.value.xxh3", b"0" * 16)]
)
def test_a_part_of_what_belongs_together_is_refused(name: str, value: bytes) -> None:
    """A match without its id, a hash without the length: of any verdict."""
    for judgement in (Judgement(Verdict.UNIQUE), Judgement(Verdict.REJECTED, reason="too large")):
        with pytest.raises(CorruptError):
            parse_headers([*headers_of(judgement), (name, value)])


def test_an_omitted_value_is_read() -> None:
    """Its length and its hash, of a rejected record."""
    omitted = OmittedValue(1 << 40, (1 << 64) - 1)
    stamp = parse_headers(headers_of(Judgement(Verdict.REJECTED, reason="too large"), omitted))
    assert stamp.omitted == omitted


@pytest.mark.parametrize("verdict", [Verdict.UNIQUE, Verdict.DUPLICATE])
def test_an_omitted_value_belongs_to_rejected_records(verdict: Verdict) -> None:
    """A worker omits no other value: an output without it has lost it."""
    headers = headers_of(Judgement(verdict, match_of(), copies=1), OmittedValue(7, 1))
    with pytest.raises(CorruptError, match=rf"{verdict} with the header dedup\.value\.length"):
        parse_headers(headers)
