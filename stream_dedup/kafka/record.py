"""The size of a record, as the broker counts it: that of a batch (version 2) that holds this record alone.

A record that is not the first of its batch has longer times and offsets. That does not matter here: a client divides a
batch that the broker finds too large, and what remains too large in a batch of its own is too large.
"""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import size_of_varint

from stream_dedup.core.reasons import RECORD_TOO_LARGE
from stream_dedup.ports import Output, SourceRecord

LOG_MESSAGE_BYTES = 8 << 20
"""Largest record of the log: 10,000 entries, the most that one batch can be set to, of 193 bytes each (with 16 tables),
an id of up to 512 and a reason."""

DEFAULT_RECORD_BYTES = 1 << 20
"""Largest record that a topic takes by Kafka's default, as ``record_bytes`` counts it."""
HEADER_ALLOWANCE_BYTES = 16_384
"""Room for the ``dedup.*`` headers beside the record as it came: at most some 2,500 bytes."""
BATCH_FRAME_BYTES = 61
"""The batch beside its records."""
MESSAGE_FRAME_BYTES = 12
"""Offset and length of the batch, the part of its frame that the length does not count. Kafka's default of 1 MiB + 12
for max.message.bytes is 1 MiB of the size that is counted here."""
FIXED_BYTES = 3
"""Attributes, time and offset of a record that is alone in its batch."""


def record_bytes(record: SourceRecord | Output) -> int:
    """Return the size of a record in bytes, without the first 12 of its batch."""
    body = FIXED_BYTES + DefaultRecordBatchBuilder.size_of(record.key, record.value, record.headers)
    return int(BATCH_FRAME_BYTES - MESSAGE_FRAME_BYTES + size_of_varint(body) + body)


def too_large_reason(record: SourceRecord | Output, limit: int) -> str | None:
    """Return why a record is rejected that no output topic can hold; None if it is not larger than the limit."""
    size = record_bytes(record)
    return RECORD_TOO_LARGE.format(size=size, limit=limit) if size > limit else None
