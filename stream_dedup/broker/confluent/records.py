"""Records as the worker reads them, and the events among them that are no records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from stream_dedup.broker.adapter.port_errors import BY_ANOTHER_RELEASE, FROM_ANOTHER_REPLICA
from stream_dedup.broker.confluent.port_errors import client_errors, port_error_of
from stream_dedup.ports import Partition, PassingError, UnreadableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TRUNCATED = KafkaError(KafkaError._LOG_TRUNCATION).str()
"""The client reports a truncation as a position that is gone, with these words in the reason."""
PASSING_CODES = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""A topic that is not there yet, or not any more, is waited for."""
UNREADABLE_CODES = {
    KafkaError._BAD_MSG: FROM_ANOTHER_REPLICA,
    KafkaError._BAD_COMPRESSION: FROM_ANOTHER_REPLICA,
    KafkaError.INVALID_MSG: FROM_ANOTHER_REPLICA,
    KafkaError._NOT_IMPLEMENTED: BY_ANOTHER_RELEASE,
}
"""What the client says of records that it cannot decode, or the broker not read, and what to do about it. The client
goes on with the records after them: whoever polls again loses these."""


class ConsumedRecord(NamedTuple):
    """Implements ``ports.SourceRecord``."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    timestamp_type: int
    """0: set by the producer, 1: by the broker at the append."""
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class PartitionEnd(NamedTuple):
    """The reader has returned everything up to the end that the partition had."""

    at: Partition
    offset: int
    """Behind markers of transactions and aborted records, which are no events."""


class PositionGone(NamedTuple):
    """The client stopped reading a partition: its position is before the first or after the last offset."""

    at: Partition
    reason: str

    @property
    def is_truncated(self) -> bool:
        """Whether the records before the position are not those that were read."""
        return TRUNCATED in self.reason


ConsumerEvent = ConsumedRecord | PartitionEnd | PositionGone


def next_events(consumer: Consumer, wait_s: float, most: int) -> list[ConsumerEvent]:
    """Return what the consumer has, at most so many events; blocks up to ``wait_s`` for the first record.

    The client's own call for several records waits until it has all of them.

    Raises:
        PortError: what the consumer reports, but that the broker is away or the topic not there.
    """
    deadline = time.monotonic() + wait_s
    found: list[ConsumerEvent] = []
    with client_errors():
        message = consumer.poll(max(wait_s, 0))
        while True:
            messages = [] if message is None else [message, *consumer.consume(most - 1, 0)]
            found += [event for one in messages if (event := _event_of(one)) is not None]
            left_s = deadline - time.monotonic()
            if left_s <= 0 or any(not isinstance(event, PartitionEnd) for event in found):
                return found
            message = consumer.poll(left_s)


def record_of(message: Message) -> ConsumedRecord:
    """Return a record of the client in the terms of the ports.

    Raises:
        UnreadableError: the name of a header is not UTF-8. The client loses all headers of such a record.
    """
    kind, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    try:
        headers = message.headers()
    except (UnicodeDecodeError, SystemError) as error:
        reason = "the name of a header is not UTF-8, which confluent-kafka cannot read"
        raise UnreadableError(*_where(message), reason, 'Set kafka.client = "kafka-python"') from error
    return ConsumedRecord(
        message.topic() or "",
        -1 if (number := message.partition()) is None else number,
        -1 if (offset := message.offset()) is None else offset,
        -1 if epoch is None else epoch,
        1 if kind == _LOG_APPEND else 0,
        timestamp,
        message.key(),
        message.value(),
        [] if headers is None else headers,  # type: ignore[arg-type] # a list of pairs, when it was received
    )


_LOG_APPEND = 2
"""The client's number for a time that was set by the broker at the append."""


def _event_of(message: Message) -> ConsumerEvent | None:
    error = message.error()
    if error is None:
        return record_of(message)
    at, offset = _where(message)
    if error.code() == KafkaError._PARTITION_EOF:
        return PartitionEnd(at, offset)
    if error.code() in UNREADABLE_CODES:
        raise UnreadableError(at, offset, error.str(), UNREADABLE_CODES[error.code()])
    if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}:
        return PositionGone(at, error.str())
    failure = port_error_of(error)
    if error.code() in PASSING_CODES or isinstance(failure, PassingError):
        return None
    raise failure


def _where(message: Message) -> tuple[Partition, int]:
    number = message.partition()
    return Partition(message.topic() or "", -1 if number is None else number), message.offset() or 0
