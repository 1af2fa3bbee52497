"""The size of a record, as the broker counts it.

The size of a record is that of a batch that holds this record alone, in version 2 of Kafka's record format. Every
number in the record is a varint, so framing takes 2 bytes or more of each header:

    61 bytes   the batch; ``max.message.bytes`` counts all of them, ``record_bytes`` all but the first 12
    varint     length of the rest
    1 byte     attributes
    1 byte     time after the first record of the batch: 0
    1 byte     offset after the first record of the batch: 0
    varint     length of the key, -1 of none;    then the key
    varint     length of the value, -1 of none;  then the value
    varint     number of headers; each header:
        varint     length of the name;                then the name in UTF-8
        varint     length of the value, -1 of none;   then the value

A record that is not the first of its batch has longer times and offsets. That does not matter here: a client divides a
batch that the broker finds too large, and what remains too large in a batch of its own is too large.
"""

from __future__ import annotations

from collections.abc import Sequence

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
_FIXED_BYTES_OF_NONE = FIXED_BYTES + 1
"""The same with a number of headers of 0."""


def record_bytes(record: SourceRecord | Output) -> int:
    """Return the size of a record in bytes, without the first 12 of its batch."""
    headers = record.headers
    body = _FIXED_BYTES_OF_NONE if not headers else FIXED_BYTES + headers_bytes(headers)
    for content in (record.key, record.value):
        size = 0 if content is None else len(content)
        body += size + size.bit_length() // 7 + 1
    return BATCH_FRAME_BYTES - MESSAGE_FRAME_BYTES + body.bit_length() // 7 + 1 + body


def too_large_reason(record: SourceRecord | Output, limit: int) -> str | None:
    """Return why a record is rejected that no output topic can hold; None if it is not larger than the limit."""
    size = record_bytes(record)
    return RECORD_TOO_LARGE.format(size=size, limit=limit) if size > limit else None


def headers_bytes(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the size of headers in a record, with their number."""
    fields = (_field_bytes(name.encode()) + _field_bytes(value) for name, value in headers)
    return _varint_bytes(len(headers)) + sum(fields)


def _field_bytes(content: bytes | None) -> int:
    """Return the size of a key, a name or a value with its length."""
    return 1 if content is None else _varint_bytes(len(content)) + len(content)


def _varint_bytes(number: int) -> int:
    """Return the size of a varint: 7 bits to a byte, of which one is the sign."""
    return number.bit_length() // 7 + 1
