"""Retries a request to the broker while its error is a passing one, within a time limit.

Such errors come while a coordinator is elected, after a leader has moved, and before every broker knows a new topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kafka.errors import AuthorizationError, KafkaError, RetriableError

from stream_dedup.errors import UnavailableError, UserError

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
        return while_passing(kafka, ask)
    except AuthorizationError as error:
        raise missing_right(kafka, about, error, right) from error
    except (KafkaError, OSError) as error:
        reason = str(error) or type(error).__name__
        msg = f"the broker at {kafka.brokers} gave no answer about {about} ({reason}); is it up?"
        raise UnavailableError(msg) from error


def while_passing(kafka: KafkaConfig, ask: Callable[[], T]) -> T:
    """Do as ``patiently``, but raise the last error of ``ask`` as it is.

    Raises:
        KafkaError, OSError: it does not pass, or did not in that time.
    """
    deadline = time.monotonic() + kafka.broker_wait_s
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
