"""The type of a consumer record: the client has none."""

from __future__ import annotations

from typing import Protocol

RECORD_FRAME_BYTES = 128
"""Bytes allowed for lengths, time and attributes of a record beside key, value and headers."""


class ConsumerRecord(Protocol):
    """A record of a topic, as the client returns it."""

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
    """Return the size of a record in bytes: key, value, headers and frame."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers + RECORD_FRAME_BYTES
