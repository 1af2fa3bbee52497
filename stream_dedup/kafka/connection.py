"""Makes the Kafka clients: admin clients, consumers and producers. Only this module knows their settings.

A client connects to the broker when it is made. A caller whose broker may be away calls ``wait_for_broker`` first,
which waits for a limited time.

No client made here creates a topic by using it (``allow_auto_create_topics`` is off). No consumer commits or resets an
offset by itself, and every consumer reads committed records only.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from stream_dedup.config.model import MAX_RECORD_BYTES, read_secret
from stream_dedup.errors import UnavailableError, reason_of
from stream_dedup.kafka.client_workarounds import ask_anew, construct, end_sender, keep_transaction_requests
from stream_dedup.kafka.consumer_workarounds import name_undecoded
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES, HEADER_ALLOWANCE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_BACKOFF_MS = 5
"""With the client's default of 100 ms a transaction waits too long for its coordinator to finish the previous one."""
RECONNECT_BACKOFF_MAX_MS = 1_000
"""A broker that is back is found within a second."""
REQUEST_TIMEOUT_MS = 10_000
"""A request that a frozen broker does not answer is dropped and sent again."""
ADMIN_REQUESTS = 100
"""Requests in flight of an admin client, which several threads use: one more would fail at once."""
METADATA_MS = 5_000
"""Each client looks up its topics so often, in one small request: partitions that are added, and topics that are made
later, are found within this time. The clients' default is 5 minutes."""
BOOTSTRAP_TIMEOUT_MS = 5_000
"""One try of a client to reach a broker."""
CLOSE_TIMEOUT_S = 5.0
"""A client that does not close in this time is abandoned."""
FETCH_WAIT_MS = 100
"""How long the broker may hold a fetch: other requests of the same connection wait for it."""
FETCH_BYTES = 1 << 20
"""What a fetch asks for of one partition. The broker sends the first batch of a response whole, however large it is."""
MAX_RESPONSE_BYTES = MAX_RECORD_BYTES + (50 << 20)
"""The client's own limit on one response of the broker: 50 MiB, the client's limit of a fetch, and one batch of the
largest record. A response beyond it would be asked for again without an end. The first bytes of TLS and HTTP, read as a
size, are beyond it, and are refused."""


def make_admin(kafka: KafkaConfig) -> KafkaAdminClient:
    """Make an admin client; the broker must answer."""
    admin = _made(kafka, KafkaAdminClient, _common(kafka) | {"max_in_flight_requests_per_connection": ADMIN_REQUESTS})
    ask_anew(admin)
    return admin


def make_consumer(kafka: KafkaConfig, **settings: Any) -> KafkaConsumer:  # noqa: ANN401 - the client's own settings
    """Make a consumer of committed records that neither commits nor resets an offset by itself."""
    consumer = _made(
        kafka,
        KafkaConsumer,
        _common(kafka)
        | {
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "max_partition_fetch_bytes": FETCH_BYTES,
            "receive_message_max_bytes": MAX_RESPONSE_BYTES,
            "metrics_enabled": False,
            "client_rack": kafka.client_rack or "",
        }
        | settings,
    )
    name_undecoded(consumer)
    return consumer


def make_producer(kafka: KafkaConfig, **settings: Any) -> KafkaProducer:  # noqa: ANN401 - the client's own settings
    """Make an idempotent producer; with ``transactional_id`` a transactional one."""
    producer = _made(
        kafka,
        KafkaProducer,
        _common(kafka)
        | {
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "max_request_size": DEFAULT_RECORD_BYTES + HEADER_ALLOWANCE_BYTES,
            "delivery_timeout_ms": max(int(kafka.broker_wait_s * 1_000), REQUEST_TIMEOUT_MS + 1_000),
            "max_block_ms": int(kafka.broker_wait_s * 1_000),
            "compression_type": None if kafka.compression == "none" else kafka.compression,
            "metrics_enabled": False,
        }
        | settings,
    )
    keep_transaction_requests(producer)
    return producer


def wait_for_broker(kafka: KafkaConfig, stopped: Callable[[], bool] = lambda: False) -> None:
    """Return as soon as the broker answers, or ``stopped`` returns true.

    Raises:
        UnavailableError: no answer within ``broker_wait_s``, or the broker refuses this client.
    """
    deadline = time.monotonic() + kafka.broker_wait_s
    warned = False
    while not stopped():
        try:
            left_ms = max(1_000, int((deadline - time.monotonic()) * 1_000))
            limit = {"bootstrap_timeout_ms": min(BOOTSTRAP_TIMEOUT_MS, left_ms)}
            _constructed(kafka, KafkaAdminClient, _common(kafka) | limit).close()
        except (KafkaError, OSError) as error:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"no Kafka broker answers at {kafka.brokers} within {kafka.broker_wait_s:g} s ({_short(error)}); "
                    f"start it, name another with --brokers, or see whether {kafka.security_protocol} "
                    "(kafka.security_protocol) is what it speaks"
                ) from error
            if not warned:
                log.warning("no Kafka broker answers at %s yet; waiting up to %g s", kafka.brokers, kafka.broker_wait_s)
                warned = True
        else:
            return


def discard(producer: KafkaProducer) -> None:
    """Close a producer at once and drop its unsent records."""
    try:
        producer.close(timeout=0)
    except KafkaError as error:
        # With unsent records the client stops closing and its thread goes on: end the thread, too.
        log.debug("closing a producer: %r", error)
        end_sender(producer)


@contextmanager
def unavailable_on_kafka_error(kafka: KafkaConfig) -> Iterator[None]:
    """Raise ``UnavailableError`` for a ``KafkaError`` that the block does not handle."""
    try:
        yield
    except KafkaError as error:
        raise UnavailableError(
            f"Kafka at {kafka.brokers} refused or failed: {_short(error)}; nothing is lost, start again later"
        ) from error


def _made(kafka: KafkaConfig, kind: Callable[..., T], settings: dict[str, Any]) -> T:
    """Make a client.

    Raises:
        UnavailableError: the broker cannot be reached, or refuses this client.
    """
    try:
        return _constructed(kafka, kind, settings)
    except (KafkaError, OSError) as error:
        raise UnavailableError(
            f"cannot reach a Kafka broker at {kafka.brokers}: {_short(error)}; is it running, and is the address right?"
        ) from error


def _constructed(kafka: KafkaConfig, kind: Callable[..., T], settings: dict[str, Any]) -> T:
    """Do as ``_made``, but raise the error of a constructor that reaches no broker as it is."""
    refusals: list[Exception] = []
    try:
        return construct(kind, settings, refusals)
    except (KafkaError, OSError) as error:
        if refusals:
            raise _refused(kafka, refusals[-1]) from error
        raise


class TokenFile(AbstractTokenProvider):  # type: ignore[misc] # the client has no types
    """The token in a file. The client asks for it at each connection, and before the session of a connection ends."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return the token.

        Raises:
            KafkaConnectionError: the file cannot be read just now; the client connects again.
        """
        try:
            return self._path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KafkaConnectionError(
                f"token file {self._path} (kafka.sasl_token_file) cannot be read: {_short(error)}"
            ) from error


def _refused(kafka: KafkaConfig, refusal: Exception) -> UnavailableError:
    """Return the error for a broker that refuses this client (password, certificate), or is refused by it."""
    name = type(refusal).__name__
    said = refusal.strerror if isinstance(refusal, ssl.SSLError) else next(iter(refusal.args), name)
    reason = str(said).removeprefix(f"{name}: ").partition(" (_ssl.c")[0]
    return UnavailableError(
        f"the Kafka broker at {kafka.brokers} and this client do not come together by {kafka.security_protocol}: "
        f"{reason}; see kafka.security_protocol, kafka.sasl_* and kafka.ssl_* (stream-dedup config show)"
    )


def _short(error: BaseException) -> str:
    """Return the text of an error, without the name of its class where there is a text."""
    if isinstance(error, OSError):
        return reason_of(error)
    return str(error).removeprefix(f"{type(error).__name__}: ") or type(error).__name__


def _common(kafka: KafkaConfig) -> dict[str, Any]:
    return {
        "bootstrap_servers": [part.strip() for part in kafka.brokers.split(",")],
        "client_id": kafka.client_id,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "metadata_max_age_ms": METADATA_MS,
        "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MAX_MS,
        "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
        **_security(kafka),
    }


def _security(kafka: KafkaConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security_protocol": kafka.security_protocol,
        "ssl_check_hostname": kafka.ssl_check_hostname,
        "ssl_cafile": kafka.ssl_cafile,
        "ssl_certfile": kafka.ssl_certfile,
        "ssl_keyfile": kafka.ssl_keyfile,
        "ssl_password": read_secret(kafka.ssl_password_file),
        "sasl_mechanism": kafka.sasl_mechanism,
        "sasl_plain_username": kafka.sasl_username,
        "sasl_plain_password": read_secret(kafka.sasl_password_file),
        "sasl_oauth_token_provider": None if kafka.sasl_token_file is None else TokenFile(kafka.sasl_token_file),
    }
    return {name: value for name, value in settings.items() if value is not None}
