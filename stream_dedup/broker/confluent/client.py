"""Makes the clients of confluent-kafka. Only this module knows their settings.

The rules are those of ``broker.client``: no client creates a topic by using it, no consumer commits or resets an offset
by itself, every consumer reads committed records only, and every producer is idempotent. A client connects by itself
after it was made: whoever may not find a broker calls ``broker.client.wait_for_broker`` first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_dedup.broker.client import (
    DEFAULT_RECORD_BYTES,
    FETCH_BYTES,
    FETCH_WAIT_MS,
    HEADER_ALLOWANCE_BYTES,
    MAX_RESPONSE_BYTES,
    METADATA_MS,
    RECONNECT_BACKOFF_MAX_MS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    TokenFile,
)
from stream_dedup.broker.confluent.port_errors import CLIENT_EXCEPTIONS, error_of
from stream_dedup.errors import UserError

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
TIMEOUT_MARGIN_MS = 100
"""The client demands that a request ends so long before its transaction does."""
CODECS = ("gzip", "snappy", "lz4", "zstd")
"""Kafka's codecs, as the client's library names what it was built with."""
REFUSALS_TO_CONNECT = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Somebody has to do something about a password or a certificate. The client tries again."""
client_log = logging.getLogger("confluent_kafka")


def check_codecs() -> None:
    """Refuse a client whose library was built without one of Kafka's codecs, as that of a distribution may be.

    Raises:
        UserError: names the codec.
    """
    try:
        Producer({"builtin.features": ",".join(CODECS), "log_level": 0})  # connects to nothing
    except KafkaException as error:
        msg = (
            f"the installed librdkafka cannot read every codec of Kafka ({error_of(error).str()}): install "
            "confluent-kafka with the library that it brings: "
            "pip install --force-reinstall --only-binary confluent-kafka confluent-kafka"
        )
        raise UserError(msg) from error


def make_member(kafka: KafkaConfig, **settings: Any) -> Consumer:  # noqa: ANN401 - the client's own settings
    """Make a consumer of committed records; ``settings`` are the client's, with underscores for dots.

    It says when it reaches the end of a partition: with the position there, which is behind the markers of
    transactions. It belongs to the group ``kafka.group`` if it subscribes to topics; this client wants a group in any
    case.
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
            "fetch.wait.max.ms": FETCH_WAIT_MS,
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
    on_failure: Callable[[KafkaError | None, Message], None] | None = None,
    record_bytes: int = DEFAULT_RECORD_BYTES,
    **settings: Any,  # noqa: ANN401 - the client's own settings
) -> Producer:
    """Make an idempotent producer; ``settings`` are the client's, with underscores for dots.

    ``record_bytes`` is the size of the largest record without our headers.

    With ``on_failure`` it reports failures of deliveries, and nothing else, in ``poll`` and ``flush``. A record with a
    key goes to the partition that kafka-python and the Java client would choose for it.
    """
    largest = record_bytes + HEADER_ALLOWANCE_BYTES
    reports = {} if on_failure is None else {"on_delivery": on_failure, "delivery.report.only.error": True}
    return Producer(
        _common(kafka)
        | {
            "enable.idempotence": True,
            "acks": "all",
            "message.max.bytes": largest,
            "delivery.timeout.ms": max(int(kafka.broker_wait_s * 1_000), REQUEST_TIMEOUT_MS + 1_000),
            "queue.buffering.max.kbytes": max(QUEUE_KIB, 4 * largest >> 10),
            "partitioner": "murmur2_random",
            "compression.type": kafka.compression,
        }
        | reports
        | _dotted(settings),
    )


def request_timeout_ms(transaction_ms: int) -> int:
    """Return the time for one request of a transactional producer: less than that of its transaction."""
    return min(REQUEST_TIMEOUT_MS, transaction_ms - TIMEOUT_MARGIN_MS)


def drop_unsent(producer: Producer) -> None:
    """Drop the records that are not acknowledged; the caller lets go of the producer, which ends its connections.

    ``Producer.close`` would wait for the records, without a limit.
    """
    try:
        producer.purge()
        producer.poll(0)
    except CLIENT_EXCEPTIONS as error:
        log.debug("dropping unsent records: %r", error)


class LimitedCalls:
    """Makes calls of the client in a thread of its own, for what it does not end at the time-out that it is given.

    A call that is late goes on in its thread; its client is of no use any more, and the next call gets another thread.
    No frame, future or local name keeps a call that was made: an exception would keep them, and with them a producer
    and its threads, for good. One thread calls.
    """

    def __init__(self) -> None:
        """Start the thread with the first call."""
        self._calls: SimpleQueue[_Call | None] | None = None

    def within(self, limit_s: float, call: Callable[[], object]) -> None:
        """Make a call.

        Raises:
            TimeoutError: it has not ended within the limit. Else what the call raises.
        """
        if self._calls is None:
            calls: SimpleQueue[_Call | None] = SimpleQueue()
            threading.Thread(target=_make_calls, args=(calls,), name="client-calls", daemon=True).start()
            self._calls = calls
        outcome: Future[object] = Future()
        self._calls.put((outcome, call))
        try:
            outcome.result(limit_s)
        except TimeoutError:
            self.end()
            raise
        finally:
            del outcome, call

    def end(self) -> None:
        """Let the thread end when it has made its call."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


_Call = tuple[Future[object], Callable[[], object]]


def _make_calls(calls: SimpleQueue[_Call | None]) -> None:
    while _made(calls.get()):
        continue


def _made(given: _Call | None) -> bool:
    """Make a call; return whether there was one."""
    if given is None:
        return False
    outcome, call = given
    del given
    try:
        outcome.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
        outcome.set_exception(error)
    finally:
        del outcome, call
    return True


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
        "ssl.key.password": kafka.ssl_secret(),
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": kafka.sasl_secret(),
        "oauth_cb": None if kafka.sasl_token_file is None else _token_source(TokenFile(kafka.sasl_token_file)),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _token_source(file: TokenFile) -> Callable[[str], tuple[str, float]]:
    """Return the callback that reads the token again, with the time at which it asks for the next."""
    return lambda _config: (file.token(), time.time() + TOKEN_S)


def _path(path: object) -> str | None:
    return None if path is None else str(path)
