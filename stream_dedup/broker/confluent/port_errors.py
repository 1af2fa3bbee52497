"""Maps the errors of confluent-kafka to those of the ports.

An error of the broker has the number of Kafka's protocol, and is mapped and named as kafka-python's error of that
number: one table for both clients. An error of the client itself has a number below 0, and is in the table here.

A fatal error is raised by whatever call collects it (``poll``, ``flush``). Where that call has reports of deliveries as
well, it goes on to them with the exception set, and what comes out is a ``SystemError``, with the exception as its
cause or without any. The next call of the client says the reason again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import kafka.errors as kafka_errors
from confluent_kafka import KafkaError, KafkaException

from stream_dedup.broker.adapter.port_errors import port_error
from stream_dedup.ports import (
    FencedError,
    NotAMemberError,
    PassingError,
    PortError,
    RefusedByBrokerError,
    SourceChangedError,
)

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
