"""Makes the clients of confluent-kafka, and reads what they report: records, events and errors.

The rules are those of ``kafka.connection``: no client creates a topic by using it, no consumer commits or resets an
offset by itself, every consumer reads committed records only, and every producer is idempotent. A client connects by
itself after it was made: whoever may not find a broker calls ``wait_for_broker`` of kafka-python first.

An error of the broker has the number of Kafka's protocol, and is mapped and named as kafka-python's error of that
number: one table for both clients. An error of the client itself has a number below 0, and is in the table here.

A fatal error is raised by whatever call collects it (``poll``, ``flush``). Where that call has reports of deliveries as
well, it goes on to them with the exception set, and what comes out is a ``SystemError``, with the exception as its
cause or without any. The next call of the client says the reason again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import kafka.errors as kafka_errors
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_dedup.config.model import read_secret
from stream_dedup.kafka.connection import (
    FETCH_BYTES,
    MAX_RESPONSE_BYTES,
    METADATA_MS,
    RECONNECT_BACKOFF_MAX_MS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    TokenFile,
)
from stream_dedup.kafka.errors import BY_ANOTHER_RELEASE, FROM_ANOTHER_REPLICA, port_error
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES
from stream_dedup.ports import (
    FencedError,
    NotAMemberError,
    Partition,
    PassingError,
    PortError,
    RefusedByBrokerError,
    SourceChangedError,
    UnreadableError,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

RETRY_BACKOFF_MAX_MS = 100
"""A request that fails again and again is tried ten times a second; the client's default is once a second."""
RECONNECT_BACKOFF_MS = 50
"""First wait before a connection is made again."""
QUEUE_KIB = 32 << 10
"""Records that a consumer fetches ahead of its caller, and a producer holds unsent: 32 MiB. The client's defaults are
64 MiB and 1 GiB."""
QUEUE_FULL_MS = 50
"""A consumer that has fetched so much looks again after this time; the client's default of a second would show as
latency."""
TOKEN_S = 60.0
"""A token is read again before it is so old: what it says of its own end is not looked at."""
REFUSALS_TO_CONNECT = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Somebody has to do something about a password or a certificate. The client tries again."""

client_log = logging.getLogger("confluent_kafka")


def make_member(kafka: KafkaConfig, **settings: Any) -> Consumer:  # noqa: ANN401 - the client's own settings
    """Make a consumer of the group, of committed records; ``settings`` are the client's, with underscores for dots.

    It says when it reaches the end of a partition: with the position there, which is behind the markers of
    transactions.
    """
    return Consumer(
        _common(kafka)
        | {
            "group.id": kafka.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "max.partition.fetch.bytes": FETCH_BYTES,
            "receive.message.max.bytes": MAX_RESPONSE_BYTES,
            "queued.max.messages.kbytes": QUEUE_KIB,
            "fetch.queue.backoff.ms": QUEUE_FULL_MS,
            "client.rack": kafka.client_rack or "",
        }
        | _dotted(settings),
    )


def make_sender(
    kafka: KafkaConfig,
    on_failure: Callable[[KafkaError | None, Message], None],
    record_bytes: int,
    **settings: Any,  # noqa: ANN401 - the client's own settings
) -> Producer:
    """Make an idempotent producer; ``settings`` are the client's, with underscores for dots.

    ``record_bytes`` is the size of the largest record without our headers.

    It reports failures of deliveries, and nothing else, in ``poll`` and ``flush``. A record with a key goes to the
    partition that kafka-python and the Java client would choose for it.
    """
    largest = record_bytes + HEADER_ALLOWANCE_BYTES
    return Producer(
        _common(kafka)
        | {
            "enable.idempotence": True,
            "acks": "all",
            "message.max.bytes": largest,
            "queue.buffering.max.kbytes": max(QUEUE_KIB, 4 * largest >> 10),
            "partitioner": "murmur2_random",
            "compression.type": kafka.compression,
            "on_delivery": on_failure,
            "delivery.report.only.error": True,
        }
        | _dotted(settings),
    )


def drop_unsent(producer: Producer) -> None:
    """Drop the records that are not acknowledged; the caller lets go of the producer, which ends its connections.

    ``Producer.close`` would wait for the records, without a limit.
    """
    try:
        producer.purge()
        producer.poll(0)
    except CLIENT_EXCEPTIONS as error:
        log.debug("dropping unsent records: %r", error)


def within(limit_s: float, call: Callable[[], object]) -> None:
    """Make a call of the client in a thread of its own, for what it does not end at the time-out that it is given.

    A call that is late goes on in its thread; its client is of no use any more. No frame, future or local name keeps a
    call that was made: an exception would keep them, and with them a producer and its threads, for good.

    Raises:
        TimeoutError: it has not ended within the limit, or no thread could be started. Else what the call raises.
    """
    outcome: Future[object] = Future()
    try:
        try:
            threading.Thread(target=_make, args=(outcome, call), name="client-call", daemon=True).start()
        except RuntimeError as error:
            raise TimeoutError(str(error)) from error
        outcome.result(limit_s)
    finally:
        del outcome, call


def _make(outcome: Future[object], call: Callable[[], object]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
        outcome.set_exception(error)
    finally:
        del outcome, call


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items() if value is not None}


def _common(kafka: KafkaConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(part.strip() for part in kafka.brokers.split(",")),
        "client.id": kafka.client_id,
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MAX_MS,
        "reconnect.backoff.ms": RECONNECT_BACKOFF_MS,
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        "topic.metadata.refresh.interval.ms": METADATA_MS,
        "allow.auto.create.topics": False,
        "log_level": 0,  # what fails in the end is an error of a call
        "error_cb": _note_error,
        **_security(kafka),
    }


def _note_error(error: KafkaError) -> None:
    """Write what the client tries again by itself and somebody must mend; what it gives up is an error of a call."""
    if error.code() in REFUSALS_TO_CONNECT:
        client_log.warning("%s", error.str())
    else:
        log.debug("client: %s", error)


def _security(kafka: KafkaConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security.protocol": kafka.security_protocol,
        "ssl.endpoint.identification.algorithm": "https" if kafka.ssl_check_hostname else "none",
        "ssl.ca.location": _path(kafka.ssl_cafile),
        "ssl.certificate.location": _path(kafka.ssl_certfile),
        "ssl.key.location": _path(kafka.ssl_keyfile),
        "ssl.key.password": read_secret(kafka.ssl_password_file),
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": read_secret(kafka.sasl_password_file),
        "oauth_cb": None if kafka.sasl_token_file is None else _token_source(TokenFile(kafka.sasl_token_file)),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _token_source(file: TokenFile) -> Callable[[str], tuple[str, float]]:
    """Return the callback that reads the token again, with the time at which it asks for the next."""
    return lambda _config: (file.token(), time.time() + TOKEN_S)


def _path(path: object) -> str | None:
    return None if path is None else str(path)


_LOCAL: dict[int, type[PortError]] = {
    KafkaError._FENCED: FencedError,
    KafkaError._ASSIGNMENT_LOST: NotAMemberError,
    KafkaError._LOG_TRUNCATION: SourceChangedError,
    KafkaError._AUTHENTICATION: RefusedByBrokerError,
    KafkaError._INVALID_ARG: RefusedByBrokerError,
}

CLIENT_EXCEPTIONS = (KafkaException, SystemError)
"""What a call of the client raises."""


def error_of(error: BaseException) -> KafkaError:
    """Return what an exception of the client carries."""
    while not isinstance(error, KafkaException):
        if error.__cause__ is None:
            return KafkaError(KafkaError._FAIL, str(error))
        error = error.__cause__
    found: KafkaError = error.args[0]
    return found


def port_error_of(error: KafkaError) -> PortError:
    """Return the error of ``ports`` that stands for an error of the client; an unknown one is a ``PassingError``."""
    if error.code() >= 0:
        return port_error(kafka_errors.for_code(error.code())(error.str()))
    return _LOCAL.get(error.code(), PassingError)(f"{error.name()}: {error.str()}")


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise errors of the client in the block as errors of ``ports``."""
    try:
        yield
    except CLIENT_EXCEPTIONS as error:
        raise port_error_of(error_of(error)) from error


TRUNCATED = KafkaError(KafkaError._LOG_TRUNCATION).str()
"""The client reports a truncation as a position that is gone, with these words in the reason."""
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
    at, offset = _where(message)
    _, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    try:
        headers = message.headers()
    except (UnicodeDecodeError, SystemError) as error:
        reason = "the name of a header is not UTF-8, which confluent-kafka cannot read"
        raise UnreadableError(at, offset, reason, 'Set kafka.client = "kafka-python"') from error
    return ConsumedRecord(
        *at,
        offset,
        -1 if epoch is None else epoch,
        timestamp,
        message.key(),
        message.value(),
        [] if headers is None else headers,  # type: ignore[arg-type] # a list of pairs, when it was received
    )


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
    if isinstance(failure, PassingError):  # among them a topic that is not there yet, or not any more
        return None
    raise failure


def _where(message: Message) -> tuple[Partition, int]:
    number = message.partition()
    return Partition(message.topic() or "", -1 if number is None else number), message.offset() or 0
