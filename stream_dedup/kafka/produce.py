"""Sends lines to a topic, with bounded memory and every record acknowledged.

An idempotent producer keeps unsent records in memory without a limit. At most ``UNACKNOWLEDGED_RECORDS`` are therefore
under way: before another is sent, the oldest must be acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, RecordListTooLargeError

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
    from kafka import KafkaProducer
    from kafka.future import Future

    from stream_dedup.config.model import Config, KafkaConfig

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
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
    window = _Window(config.kafka, topic)
    try:
        for line in lines:
            value = line.rstrip(b"\r\n")
            if not is_blank(value):
                window.append(_send(producer, topic, value, key_field, window), len(value))
                progress(window.count)
        window.wait_for_all()
    finally:
        producer.close(timeout=CLOSE_TIMEOUT_S)
    return window.count


def _send(producer: KafkaProducer, topic: str, value: bytes, key_field: FieldPath | None, window: _Window) -> Future:
    try:
        return producer.send(topic, value=value, key=_key(value, key_field))
    except _TOO_LARGE as error:
        raise window.too_large(window.count + 1, len(value), error) from error
    except KafkaTimeoutError as error:
        raise window.unavailable(error) from error


class _Window:
    """Records that are not acknowledged yet, oldest first."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self._brokers = kafka.brokers
        self._wait_s = kafka.broker_wait_s
        self._topic = topic
        self._open: deque[tuple[Future, int]] = deque()
        self._bytes = 0
        self.count = 0

    def append(self, future: Future, size: int) -> None:
        self._open.append((future, size))
        self._bytes += size
        self.count += 1
        while len(self._open) > UNACKNOWLEDGED_RECORDS or self._bytes > UNACKNOWLEDGED_BYTES:
            self._wait()

    def wait_for_all(self) -> None:
        while self._open:
            self._wait()

    def too_large(self, number: int, size: int, error: KafkaError) -> UserError:
        needed = size + HEADER_ALLOWANCE_BYTES
        command = mend_command(self._brokers, self._topic, {MESSAGE_BYTES: str(needed)})
        return UserError(
            f"record {number} of {size} bytes is larger than topic {self._topic} takes ({error}). If workers read it, "
            f"first see that each of their output topics has {MESSAGE_BYTES} of {needed + HEADER_ALLOWANCE_BYTES} or "
            f"more, and start them again: else they reject the record, without its value. Then raise that of the "
            f"topic: {command}"
        )

    def unavailable(self, error: KafkaError) -> UnavailableError:
        done = self.count - len(self._open)
        return UnavailableError(
            f"record {done + 1} was not acknowledged within {self._wait_s:g} s ({error!r}); "
            f"{done} before it were, some after it may have been"
        )

    def _wait(self) -> None:
        future, size = self._open[0]
        try:
            future.get(timeout=self._wait_s)
        except _TOO_LARGE as error:
            raise self.too_large(self.count - len(self._open) + 1, size, error) from error
        except KafkaError as error:
            raise self.unavailable(error) from error
        self._open.popleft()
        self._bytes -= size


def _key(value: bytes, field: FieldPath | None) -> bytes | None:
    """Return the article id in the field as a key, or None if there is none."""
    found = None if field is None else id_at(value, field)
    return None if found is None else found.encode("utf-8", "backslashreplace")
