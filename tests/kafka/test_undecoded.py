"""Batches that kafka-python cannot decode are named by topic, partition and offset; those of older formats are read."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from kafka import TopicPartition, codec
from kafka.errors import CorruptRecordError, KafkaError, NotLeaderForPartitionError
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from stream_dedup.cli import exit_code_of
from stream_dedup.errors import EXIT_CORRUPT, CorruptError
from stream_dedup.kafka.consumer_workarounds import _NamedRecords, name_undecoded
from stream_dedup.ports import UnreadableError

AT = TopicPartition("articles", 3)
FIRST = 40
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CRC_AT, ATTRIBUTES_AT, RECORDS_AT = 17, 21, 61
"""Bytes of a batch of version 2 before these fields."""
VALUES = [b"ferry " * 100, b"quay " * 100]


def batch(offset: int, compression: int, magic: int = 2) -> bytes:
    """Return a batch of two records."""
    builder = MemoryRecordsBuilder(magic=magic, compression_type=compression, batch_size=1 << 20, offset=offset)
    for value in VALUES:
        assert builder.append(1, None, value) is not None
    builder.close()
    return bytes(builder.buffer())


def with_byte(raw: bytes, at: int, value: int, *, checked: bool) -> bytes:
    """Return a batch with another byte; with ``checked`` its checksum agrees."""
    changed = bytearray(raw)
    changed[at] = value
    if checked:
        changed[CRC_AT:ATTRIBUTES_AT] = struct.pack(">I", calc_crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)


def records(raw: bytes) -> Any:  # noqa: ANN401 - the client is untyped
    return _NamedRecords(FIRST, AT, MemoryRecords(raw))


DAMAGED = {
    "a flipped bit": with_byte(batch(FIRST + 2, NONE), RECORDS_AT + 20, 0xFF, checked=False),
    "unknown codec": with_byte(batch(FIRST + 2, GZIP), ATTRIBUTES_AT + 1, 7, checked=True),
    **{
        f"codec {number}": with_byte(batch(FIRST + 2, number), RECORDS_AT + 2, 0xEE, checked=True)
        for number in (GZIP, SNAPPY, LZ4, ZSTD)
    },
    "lengths of records": with_byte(batch(FIRST + 2, NONE), RECORDS_AT, 0x7E, checked=True),
}


@pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED.keys())
def test_what_cannot_be_decoded_is_named(raw: bytes) -> None:
    """Behind what could; the client then fetches again from there, and does not look for a record for ever."""
    taken = records(batch(FIRST, NONE) + raw)
    assert [record.value for record in taken.take(2)] == VALUES
    with pytest.raises(UnreadableError) as raised:
        taken.take(2)
    assert not taken
    for part in ("topic articles, partition 3", f"offset {FIRST + 2}", "No record was skipped", "then start again"):
        assert part in str(raised.value)


def test_records_that_cannot_be_decoded_end_a_command_with_their_message() -> None:
    """Whatever does not handle the error: it is of those that a command raises on purpose."""
    with pytest.raises(CorruptError) as raised:
        records(DAMAGED["a flipped bit"]).take(1)
    assert exit_code_of(raised.value) == EXIT_CORRUPT


FORMATS = [(0, NONE), (0, GZIP), (0, SNAPPY), (0, LZ4), (1, NONE), (1, GZIP), (1, SNAPPY), (1, LZ4)]


@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_batches_of_before_kafka_0_11_are_read(magic: int, compression: int) -> None:
    """Brokers keep them as they came."""
    found = records(batch(FIRST, compression, magic)).take(10)
    assert [(record.offset, record.value) for record in found] == [(FIRST, VALUES[0]), (FIRST + 1, VALUES[1])]


class _Fetched:
    topic_partition, fetched_offset = AT, FIRST


class _Consumer:
    """A consumer whose client answers a response of the broker with an error."""

    def __init__(self, error: KafkaError) -> None:
        self._fetcher = self
        self._error = error
        self.PartitionRecords = object

    def _parse_fetched_data(self, _fetched: _Fetched) -> None:
        raise self._error


@pytest.mark.parametrize("error", [CorruptRecordError("no batch"), KafkaError("Failed to make progress")], ids=repr)
def test_what_the_broker_cannot_read_is_named(error: KafkaError) -> None:
    """The broker answers so when the log of the partition is damaged on its disk."""
    consumer = _Consumer(error)
    name_undecoded(consumer)
    with pytest.raises(UnreadableError, match=re.escape(str(error))):
        consumer._fetcher._parse_fetched_data(_Fetched())


def test_another_answer_of_the_broker_is_left_as_it_is() -> None:
    consumer = _Consumer(NotLeaderForPartitionError())
    name_undecoded(consumer)
    with pytest.raises(NotLeaderForPartitionError):
        consumer._fetcher._parse_fetched_data(_Fetched())


@pytest.mark.parametrize(("module", "compression"), [("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)])
def test_records_of_a_codec_that_is_not_installed_are_named(
    monkeypatch: pytest.MonkeyPatch, module: str, compression: int
) -> None:
    """The error says what to install."""
    raw = batch(FIRST, compression)
    monkeypatch.setattr(codec, module, None)
    with pytest.raises(UnreadableError, match=rf"{module} .*not found.* install the package or a release"):
        records(raw).take(2)
