"""A consumer record as this program uses it: the client has no types of its own."""

from __future__ import annotations

from typing import Protocol

RECORD_FRAME_BYTES = 128
"""Room for a record's own frame (lengths, time, attributes) beside key, value and headers."""


class ConsumerRecord(Protocol):
    """What the client gives for one record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    timestamp_type: int
    """0: set by the producer, 1: by the broker at the append."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def record_bytes(record: ConsumerRecord) -> int:
    """Bytes that a record takes: key, value, headers and frame."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers + RECORD_FRAME_BYTES
