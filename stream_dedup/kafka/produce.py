"""Sends lines to a topic, with bounded memory and every record acknowledged.

An idempotent producer keeps unsent records in memory without a limit. When ``UNACKNOWLEDGED_RECORDS`` or
``UNACKNOWLEDGED_BYTES`` are under way, all of them must be acknowledged before another is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from kafka.future import Future

from stream_dedup.config.model import MAX_RECORD_BYTES
from stream_dedup.core.decode import id_at, is_blank
from stream_dedup.core.paths import FieldPath
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin, make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES
from stream_dedup.kafka.topics import MESSAGE_BYTES, mend_command

if TYPE_CHECKING:
    from stream_dedup.config.model import Config, KafkaConfig

UNACKNOWLEDGED_RECORDS = 2_000
"""Most records under way."""
UNACKNOWLEDGED_BYTES = 32 << 20
"""Most bytes under way: as many as the Java client keeps."""
LINGER_MS = 20
"""How long a record waits for others, milliseconds: few large requests instead of many small ones."""


def produce_lines(
    config: Config, topic: str, lines: Iterable[bytes], key_field: FieldPath | None, progress: Callable[[int], None]
) -> int:
    """Send each line that is not blank as one record; return their number when all are acknowledged.

    Raises:
        UserError: the topic does not exist, or a line is larger than it allows.
        UnavailableError: a record was not acknowledged in time.
    """
    with closing(make_admin(config.kafka)) as admin:
        if topic not in patiently(config.kafka, "topics", lambda: topic_ids(admin, [topic])):
            inputs = [name for name in config.topics.input if name not in config.topics.patterns]
            others = f"name an input topic of the configuration ({', '.join(inputs)}), or make this one"
            remedy = "make it: stream-dedup topics create" if topic in inputs else others
            raise UserError(f"topic {topic} does not exist: {remedy}")
    # How large a record may be is up to the topic.
    producer = make_producer(config.kafka, acks="all", linger_ms=LINGER_MS, max_request_size=MAX_RECORD_BYTES)
    done, size, sent = 0, 0, list[tuple[Future, int]]()
    try:
        for value in (line.rstrip(b"\r\n") for line in lines if not is_blank(line)):
            try:
                sent.append((producer.send(topic, value=value, key=_key(value, key_field)), len(value)))
            except KafkaError as error:
                _wait(config.kafka, topic, sent, done)
                raise _unsent(config.kafka, topic, done + len(sent) + 1, len(value), error) from error
            size += len(value)
            progress(done + len(sent))
            if len(sent) == UNACKNOWLEDGED_RECORDS or size >= UNACKNOWLEDGED_BYTES:
                _wait(config.kafka, topic, sent, done)
                done, size = done + len(sent), 0
                sent.clear()
        _wait(config.kafka, topic, sent, done)
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
    return done + len(sent)


def _wait(kafka: KafkaConfig, topic: str, sent: Iterable[tuple[Future, int]], done: int) -> None:
    """Wait until the records that follow the first ``done`` are acknowledged."""
    for number, (future, size) in enumerate(sent, done + 1):
        try:
            future.get(timeout=kafka.broker_wait_s)
        except KafkaError as error:
            raise _unsent(kafka, topic, number, size, error) from error


def _unsent(kafka: KafkaConfig, topic: str, number: int, size: int, error: KafkaError) -> UserError | UnavailableError:
    """Return the error for a record that failed when all before it were acknowledged."""
    if isinstance(error, (MessageSizeTooLargeError, RecordListTooLargeError)):
        needed = size + HEADER_ALLOWANCE_BYTES
        return UserError(
            f"record {number} of {size} bytes is larger than topic {topic} takes ({error}). If workers read it, "
            f"first see that each of their output topics has {MESSAGE_BYTES} of {needed + HEADER_ALLOWANCE_BYTES} "
            "or more, and start them again: else they reject the record, without its value. Then raise that of the "
            f"topic: {mend_command(kafka.brokers, topic, {MESSAGE_BYTES: str(needed)})}"
        )
    return UnavailableError(
        f"record {number} was not acknowledged within {kafka.broker_wait_s:g} s ({error!r}); "
        f"{number - 1} before it were, some after it may have been"
    )


def _key(value: bytes, field: FieldPath | None) -> bytes | None:
    """Return the article id in the field as a key, or None if there is none."""
    found = None if field is None else id_at(value, field)
    return None if found is None else found.encode("utf-8", "backslashreplace")
