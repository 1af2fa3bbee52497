"""The size of a record: the client's own encoder is the measure."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from stream_dedup.core.decode import MAX_ID_BYTES
from stream_dedup.core.headers import OmittedValue
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES, record_bytes
from stream_dedup.ports import Output
from tests.headers import output_headers

SEED = 20261122
RECORDS = 3_000
VARINT_EDGES = (0, 1, 63, 64, 65, 8_191, 8_192, 8_193)
"""Lengths at which a varint grows, and beside them."""
MOST_TOPIC_CHARACTERS = 249
"""Kafka's limit on the name of a topic."""
MOST_REASON_CHARACTERS = 1_000
"""Reasons quote configured names, never the input."""


def record_of(key: bytes | None, value: bytes | None, headers: Any) -> Output:  # noqa: ANN401 - may have no values, too
    return Output("unique", key, value, headers, 0)


def encoded_bytes(record: Output, timestamp_ms: int = 1_714_521_600_000) -> int:
    """Return the size of the batch that the client makes of this record alone."""
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=1, producer_id=7, producer_epoch=1, base_sequence=0, batch_size=1 << 30
    )
    assert builder.append(0, timestamp_ms, record.key, record.value, record.headers) is not None
    return len(builder.build())


def drawn(rng: random.Random) -> Output:
    """Draw a record whose lengths are at or near the edges of varints, or anywhere."""

    def content() -> bytes | None:
        length = rng.choice((*VARINT_EDGES, rng.randrange(300)))
        return None if rng.random() < 0.1 else bytes(length)

    def name() -> str:
        return rng.choice(("", "a", "trace", "名", "😀")) * rng.choice((1, 2, 63, 64))

    count = rng.choice((0, 0, 1, 2, 63, 64, rng.randrange(200)))
    return record_of(content(), content(), [(name(), content() if rng.random() < 0.1 else b"x") for _ in range(count)])


def test_size_is_that_of_the_clients_encoder() -> None:
    """To the byte, for lengths at every edge of a varint: no record is larger than it is counted, none smaller."""
    rng = random.Random(SEED)
    for number in range(RECORDS):
        record = drawn(rng)
        assert record_bytes(record) + MESSAGE_FRAME_BYTES == encoded_bytes(record), f"record {number} of seed {SEED}"


@pytest.mark.parametrize("headers", [0, 20_000])
def test_tiny_headers_are_counted_with_their_framing(headers: int) -> None:
    """A header of one byte of name and one byte of value takes four."""
    record = record_of(b"k", b"v", [("a", b"b")] * headers)
    assert record_bytes(record) + MESSAGE_FRAME_BYTES == encoded_bytes(record)


@pytest.mark.parametrize("verdict", [Verdict.DUPLICATE, Verdict.REJECTED])
def test_the_largest_headers_fit_their_allowance(verdict: Verdict) -> None:
    """The longest topic names, id and reason: an output is never larger than its topic takes."""
    at = Coordinates(b"\xff" * 16, 2**31 - 1, SourceOffset(2**63 - 1))
    topic = "t" * MOST_TOPIC_CHARACTERS
    match = Match(LogPosition(1), "i" * MAX_ID_BYTES, topic, at, 2**63 - 1, 256, 0.1234)
    rejected = verdict is Verdict.REJECTED
    judgement = Judgement(verdict, None if rejected else match, "r" * MOST_REASON_CHARACTERS if rejected else None)
    omitted = OmittedValue(2**31 - 1, 2**64 - 1) if rejected else None
    added = output_headers(judgement, 2**64 - 1, "s" * 200, topic, at, 2**63 - 1, omitted)
    source = record_of(b"", b"", [("a", b"")] * 63)
    output = record_of(b"", b"", [*source.headers, *added])
    assert record_bytes(output) - record_bytes(source) < HEADER_ALLOWANCE_BYTES / 4
