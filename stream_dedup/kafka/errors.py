"""The errors of kafka-python: retried while they pass, and mapped to those of the ports by one table.

Errors pass while a coordinator is elected, after a leader has moved, and before every broker knows a new topic.

The client wraps some errors of the broker in a text ("Unexpected error in InitProducerIdResponse: [Error 50] ..."), and
answers every call of a producer in an error state with "Invalid transition" or "because we are in an error state". The
number in the text, or the second argument, names the error of the broker; it is that one which is mapped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import kafka.errors as kafka_errors
from kafka import TopicPartition
from kafka.errors import AuthorizationError, KafkaError, RetriableError

from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.ports import (
    FencedError,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
    SourceChangedError,
)

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

T = TypeVar("T")

RETRY_S = 0.1
"""Seconds between two tries."""


def patiently(kafka: KafkaConfig, about: str, ask: Callable[[], T], right: str = "") -> T:
    """Return what ``ask`` returns, which may be called several times; blocks up to ``broker_wait_s``.

    ``right`` names what an ACL must allow for it.

    Raises:
        UserError: this client has no right to ask; at once.
        UnavailableError: the broker did not answer in that time, or answered with an error that does not pass.
    """
    try:
        return while_passing(kafka.broker_wait_s, ask)
    except AuthorizationError as error:
        raise missing_right(kafka, about, error, right) from error
    except (KafkaError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise UnavailableError(
            f"the broker at {kafka.brokers} gave no answer about {about} ({reason}); is it up?"
        ) from error


def while_passing(limit_s: float, ask: Callable[[], T]) -> T:
    """Do as ``patiently`` within another limit, but raise the last error of ``ask`` as it is.

    Raises:
        KafkaError, OSError: it does not pass, or did not in that time.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return ask()
        except RetriableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def missing_right(kafka: KafkaConfig, about: str, error: KafkaError, right: str = "") -> UserError:
    """Return the error for a request that the broker does not allow this client."""
    client = f"user {kafka.sasl_username}" if kafka.sasl_username else "this client"
    needed = f"it needs the right {right}" if right else "it lacks a right"
    return UserError(
        f"the broker at {kafka.brokers} does not allow {client} to ask about {about} "
        f"({str(error) or type(error).__name__}): {needed}; docs/acls.md lists the rights of every command"
    )


_KINDS: dict[type[KafkaError], type[PortError]] = {
    kafka_errors.ProducerFencedError: FencedError,
    kafka_errors.InvalidProducerEpochError: FencedError,
    kafka_errors.TransactionCoordinatorFencedError: FencedError,
    kafka_errors.CommitFailedError: NotAMemberError,
    kafka_errors.IllegalGenerationError: NotAMemberError,
    kafka_errors.UnknownMemberIdError: NotAMemberError,
    kafka_errors.RebalanceInProgressError: NotAMemberError,
    kafka_errors.MessageSizeTooLargeError: RecordTooLargeError,
    kafka_errors.RecordListTooLargeError: RecordTooLargeError,
    kafka_errors.LogTruncationError: SourceChangedError,
    kafka_errors.AuthorizationError: RefusedByBrokerError,
    kafka_errors.SaslAuthenticationFailedError: RefusedByBrokerError,
    kafka_errors.InvalidTransactionTimeoutError: RefusedByBrokerError,
    kafka_errors.InvalidSessionTimeoutError: RefusedByBrokerError,
    kafka_errors.InvalidGroupIdError: RefusedByBrokerError,
    kafka_errors.InconsistentGroupProtocolError: RefusedByBrokerError,
    kafka_errors.GroupMaxSizeReachedError: RefusedByBrokerError,
    kafka_errors.FencedInstanceIdError: RefusedByBrokerError,  # another process has this kafka.group_instance_id
    kafka_errors.InvalidTopicError: RefusedByBrokerError,
    kafka_errors.InvalidRecordError: RefusedByBrokerError,
    kafka_errors.InvalidTimestampError: RefusedByBrokerError,
    kafka_errors.InvalidRequestError: RefusedByBrokerError,
    kafka_errors.PolicyViolationError: RefusedByBrokerError,
    kafka_errors.UnsupportedVersionError: RefusedByBrokerError,
    kafka_errors.UnsupportedForMessageFormatError: RefusedByBrokerError,
    kafka_errors.OffsetMetadataTooLargeError: RefusedByBrokerError,
}
"""The error of a port for each error of the broker or the client, and for those derived from it."""

FROM_ANOTHER_REPLICA = (
    "No record was skipped: make another in-sync replica the leader of the partition (docs/operations.md)"
)
"""What to do about records that are damaged."""
BY_ANOTHER_RELEASE = "No record was skipped: install the package or a release that knows this format"
"""What to do about records of a codec or a format that the client does not know."""
_NUMBER = re.compile(r"\[Error (\d+)\]")


def port_error(error: BaseException) -> PortError:
    """Return the error of ``ports`` that stands for an error of the client; an unknown one is a ``PassingError``."""
    if isinstance(error, PortError):
        return error
    if isinstance(error, kafka_errors.OffsetOutOfRangeError):
        return OffsetGoneError(out_of_range(error))
    named = kind_of(error)
    kind = next((_KINDS[one] for one in named.__mro__ if one in _KINDS), None)
    if kind is None:
        return PassingError(text_of(error))
    return kind(_described(named) if named is not type(error) else text_of(error))


@contextmanager
def port_errors() -> Iterator[None]:
    """Raise errors of the client in the block as errors of ``ports``; a broker that is away is a ``PassingError``."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise port_error(error) from error
    except UnavailableError as error:
        raise PassingError(str(error)) from error


def out_of_range(error: KafkaError) -> list[Partition]:
    """Return the partitions that an ``OffsetOutOfRangeError`` of the consumer names."""
    found = error.args[0] if error.args else ()
    return [Partition(*partition) for partition in found if isinstance(partition, TopicPartition)]


def text_of(error: BaseException) -> str:
    """Return the text of an error, and what its class says, where the text does not."""
    text = str(error)
    described = _described(type(error))
    parts = [part for part in described.split(": ", 1) if part not in text]
    return ": ".join([*parts, text] if text else parts)


def _described(kind: type[BaseException]) -> str:
    """Return the name of a class of errors, with the description that the broker's errors have."""
    description = getattr(kind, "description", None)
    return f"{kind.__name__}: {description}" if description else kind.__name__


def kind_of(error: BaseException) -> type[BaseException]:
    """Return the class of an error, or of the error of the broker that it wraps."""
    if type(error) is not KafkaError:
        return type(error)
    for argument in error.args:
        if isinstance(argument, KafkaError):
            return kind_of(argument)
    number = _NUMBER.search(str(error))
    if number is not None:
        kind: type[BaseException] = kafka_errors.for_code(int(number.group(1)))
        return kind
    return KafkaError
