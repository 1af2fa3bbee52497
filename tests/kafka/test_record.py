"""The size of a record: the client's own encoder is the measure."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from stream_dedup.core.decode import MAX_ID_BYTES
from stream_dedup.core.headers import OmittedValue
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES, record_bytes
from stream_dedup.ports import Output
from tests.headers import output_headers

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


@pytest.mark.parametrize("size", [0, 63, 64, 8_191, 8_192])
@pytest.mark.parametrize("headers", [[], [("trace", None), ("\u540d", b"")], [("a", b"b")] * 20_000])
def test_size_is_that_of_the_clients_encoder(size: int, headers: list[tuple[str, bytes | None]]) -> None:
    """To the byte: no record is larger than it is counted, none smaller."""
    for key, value in ((None, bytes(size)), (bytes(size), None)):
        record = record_of(key, value, headers)
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
