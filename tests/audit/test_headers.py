"""The bytes of output headers and of offset metadata: there and back, and what is refused."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.headers import (
    Headers,
    OmittedValue,
    StampedMatch,
    offset_metadata,
    parse_headers,
    topic_id_of_metadata,
    without_ours,
)
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.errors import CorruptError
from tests.headers import output_headers

TOPIC_ID = uuid.UUID("6a9e1b4e-8c1d-4d6f-9a55-6d3a0f0c1b2d")
HERE = Coordinates(TOPIC_ID.bytes, 2, SourceOffset(17))
THERE = Coordinates(TOPIC_ID.bytes, 0, SourceOffset(3))
MATCH = Match(LogPosition(5), "文章-1", "my-articles", THERE, 1_700_000_000_123, 3, 0.98765)

ANSWERS = [(Verdict.UNIQUE, None), (Verdict.UNIQUE, MATCH), (Verdict.DUPLICATE, MATCH)]


def headers_of(judgement: Judgement, fingerprint: int = 0xAB, omitted: OmittedValue | None = None) -> Headers:
    return output_headers(judgement, fingerprint, "simhash/1-0123abcd", "my-articles", HERE, 99, omitted=omitted)


def test_names_and_values_of_a_duplicate() -> None:
    """A duplicate carries exactly these headers."""
    assert dict(headers_of(Judgement(Verdict.DUPLICATE, match=MATCH))) == {
        "dedup.verdict": b"duplicate",
        "dedup.scheme": b"simhash/1-0123abcd",
        "dedup.fingerprint": b"00000000000000ab",
        "dedup.source": b"my-articles-2-17",
        "dedup.source.topic_id": b"6a9e1b4e-8c1d-4d6f-9a55-6d3a0f0c1b2d",
        "dedup.source.timestamp": b"99",
        "dedup.match.id": "文章-1".encode(),
        "dedup.match.distance": b"3",
        "dedup.match.similarity": b"0.9877",
        "dedup.match.source": b"my-articles-0-3",
        "dedup.match.topic_id": b"6a9e1b4e-8c1d-4d6f-9a55-6d3a0f0c1b2d",
        "dedup.match.time": b"1700000000123",
    }


def test_update_is_a_unique_record_with_a_match() -> None:
    """An update carries what a duplicate carries, and no header more; its verdict is unique."""
    update = dict(headers_of(Judgement(Verdict.UNIQUE, match=MATCH)))
    assert update == dict(headers_of(Judgement(Verdict.DUPLICATE, match=MATCH))) | {"dedup.verdict": b"unique"}


@pytest.mark.parametrize(("verdict", "match"), ANSWERS)
def test_copies_are_named_where_there_are_any(verdict: Verdict, match: Match | None) -> None:
    """One header more, on unique records too; none where nothing is near. A match is one of them."""
    without, five = (headers_of(Judgement(verdict, match, copies=copies)) for copies in (0, 5))
    assert [pair for pair in five if pair not in without] == [("dedup.copies", b"5")]
    assert parse_headers(five).copies == 5
    if match is None:
        assert parse_headers(without).copies is None
    else:
        with pytest.raises(CorruptError, match=rf"{verdict} without the header dedup\.copies"):
            parse_headers(without)


@pytest.mark.parametrize("value", [b"0", b"33", b"many", b"-1"])
def test_copies_that_are_never_written_are_refused(value: bytes) -> None:
    """A number out of the range that is counted, or none."""
    with pytest.raises(CorruptError, match="cannot be read"):
        parse_headers([*headers_of(Judgement(Verdict.UNIQUE)), ("dedup.copies", value)])


def test_a_rejected_record_has_no_copies() -> None:
    """It is near nothing."""
    headers = headers_of(Judgement(Verdict.REJECTED, reason="broken"))
    with pytest.raises(CorruptError, match=r"rejected with the header dedup\.copies"):
        parse_headers([*headers, ("dedup.copies", b"1")])


def test_names_and_values_of_a_rejected_record() -> None:
    """A rejected record has a reason and no fingerprint; a value left out is described."""
    found = dict(
        headers_of(Judgement(Verdict.REJECTED, reason="invalid UTF-8 at byte 27"), omitted=OmittedValue(12, 0xCD))
    )
    assert (found["dedup.reason"], found["dedup.reason.code"]) == (b"invalid UTF-8 at byte 27", b"invalid_utf8")
    assert (found["dedup.value.length"], found["dedup.value.xxh3"]) == (b"12", b"00000000000000cd")
    assert "dedup.fingerprint" not in found


@given(
    st.sampled_from([Judgement(verdict, match=match, copies=int(match is not None)) for verdict, match in ANSWERS]),
    st.integers(0, 2**64 - 1),
    st.integers(-1, 2**62),
)
def test_there_and_back(judgement: Judgement, fingerprint: int, timestamp: int) -> None:
    """What was written is read back."""
    stamp = parse_headers([("own", None), *output_headers(judgement, fingerprint, "s", "my-articles", HERE, timestamp)])
    assert (stamp.verdict, stamp.fingerprint, stamp.timestamp) == (judgement.verdict, fingerprint, timestamp)
    assert (stamp.topic, stamp.coordinates, stamp.scheme) == ("my-articles", HERE, "s")
    expected = StampedMatch(MATCH.id, 3, "0.9877", "my-articles", THERE, MATCH.time)
    assert stamp.match == (expected if judgement.match else None)
    assert stamp.update == (judgement == Judgement(Verdict.UNIQUE, match=MATCH, copies=1))


def test_incoming_headers_of_ours_are_dropped() -> None:
    """A source record's own ``dedup.*`` headers are not passed on; all others are, in order."""
    own: Headers = [("a", b"1"), ("dedup.verdict", b"x"), ("a", b"2"), ("dedup", b"3")]
    assert without_ours(own) == [("a", b"1"), ("a", b"2"), ("dedup", b"3")]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dedup.verdict", b"maybe", "cannot be read"),
        ("dedup.source", b"articles", "cannot be read"),
        ("dedup.source.topic_id", b"12", "cannot be read"),
        ("dedup.match.time", b"", "cannot be read"),
        ("dedup.match.source", None, "without the header dedup.match.source"),
        ("dedup.verdict", None, "without the header dedup.verdict"),
    ],
)
def test_damaged_headers_are_refused(name: str, value: bytes | None, message: str) -> None:
    """A header that is missing or says nothing readable is an error that names it."""
    headers = [pair for pair in headers_of(Judgement(Verdict.DUPLICATE, match=MATCH)) if pair[0] != name]
    with pytest.raises(CorruptError, match=message):
        parse_headers(headers if value is None else [*headers, (name, value)])


@pytest.mark.parametrize(
    ("verdict", "dropped", "message"),
    [
        (b"duplicate", "dedup.match.", r"duplicate without the header dedup\.match\.id"),
        (b"duplicate", "dedup.fingerprint", r"duplicate without the header dedup\.fingerprint"),
        (b"rejected", "dedup.fingerprint", r"rejected with the header dedup\.match\.id"),
        (b"rejected", "dedup.match.", r"rejected with the header dedup\.copies"),
        (b"unique", "dedup.fingerprint", r"unique without the header dedup\.fingerprint"),
    ],
)
def test_headers_of_another_verdict_are_refused(verdict: bytes, dropped: str, message: str) -> None:
    """A missing header of its verdict is an error, and one that its verdict never has."""
    whole = [*headers_of(Judgement(Verdict.DUPLICATE, match=MATCH, copies=1))[1:], ("dedup.verdict", verdict)]
    with pytest.raises(CorruptError, match=message):
        parse_headers([pair for pair in whole if not pair[0].startswith(dropped)])


@pytest.mark.parametrize("verdict", [Verdict.UNIQUE, Verdict.DUPLICATE])
def test_reason_belongs_to_rejected_ones(verdict: Verdict) -> None:
    """Nothing else gives a reason."""
    headers = [*headers_of(Judgement(verdict, match=MATCH, copies=1)), ("dedup.reason", b"why")]
    with pytest.raises(CorruptError, match=rf"{verdict} with the header dedup\.reason"):
        parse_headers(headers)


@pytest.mark.parametrize("verdict", [Verdict.UNIQUE, Verdict.DUPLICATE])
def test_code_of_a_reason_belongs_to_rejected_ones(verdict: Verdict) -> None:
    """Nothing else has one."""
    headers = [*headers_of(Judgement(verdict, match=MATCH, copies=1)), ("dedup.reason.code", b"invalid_json")]
    with pytest.raises(CorruptError, match=rf"{verdict} with the header dedup\.reason\.code"):
        parse_headers(headers)


@pytest.mark.parametrize("name", ["dedup.reason", "dedup.reason.code"])
def test_a_rejected_record_has_a_reason_and_its_code(name: str) -> None:
    """One without either is refused."""
    headers = headers_of(Judgement(Verdict.REJECTED, reason="invalid JSON"))
    assert parse_headers(headers).reason_code == "invalid_json"
    with pytest.raises(CorruptError, match=rf"rejected without the header {name}$"):
        parse_headers([pair for pair in headers if pair[0] != name])


def test_header_twice_is_refused() -> None:
    """Two headers of one name leave open which one counts."""
    headers = headers_of(Judgement(Verdict.UNIQUE))
    with pytest.raises(CorruptError, match=r"dedup\.verdict twice"):
        parse_headers([*headers, headers[0]])


def test_metadata_there_and_back() -> None:
    """A committed offset's metadata names its topic."""
    text = offset_metadata(TOPIC_ID.bytes)
    assert text == "format=1;topic_id=6a9e1b4e-8c1d-4d6f-9a55-6d3a0f0c1b2d"
    assert topic_id_of_metadata(text, ("articles", 0)) == TOPIC_ID.bytes
    assert topic_id_of_metadata(text + "\0", ("articles", 0)) == TOPIC_ID.bytes, "as confluent-kafka writes it"


@pytest.mark.parametrize("text", [None, "", "\0", "of another program", "reset by ops, 7 July"])
def test_an_offset_that_was_set_by_hand_names_no_topic(text: str | None) -> None:
    """It has no metadata, or those of the tool that set it."""
    assert topic_id_of_metadata(text, ("articles", 0)) is None


@pytest.mark.parametrize(
    "text",
    [
        "format=1;topic_id=",
        "format=1;topic_id=12",
        f"topic_id={TOPIC_ID}",
        f"topic_id={TOPIC_ID}\0ers",
        f"format=2;topic_id={TOPIC_ID}",
    ],
)
def test_metadata_of_another_form(text: str) -> None:
    """A topic id in a form that this program does not write is refused, with the remedy."""
    with pytest.raises(
        CorruptError,
        match=rf"of articles-3 has the metadata '{text[:40]}', .* another --group and other output topics$",
    ):
        topic_id_of_metadata(text, ("articles", 3))
