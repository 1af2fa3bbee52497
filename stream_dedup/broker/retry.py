"""Retries a request to the broker while its error is a passing one, within a time limit.

Such errors come while a coordinator is elected, after a leader has moved, and before every broker knows a new topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kafka.errors import KafkaError, RetriableError

from stream_dedup.errors import UnavailableError

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

T = TypeVar("T")

RETRY_S = 0.1
"""Seconds between two tries."""


def patiently(kafka: KafkaConfig, about: str, ask: Callable[[], T]) -> T:
    """Return what ``ask`` returns, which may be called several times; blocks up to ``broker_wait_s``.

    Raises:
        UnavailableError: the broker did not answer in that time, or answered with an error that does not pass.
    """
    deadline = time.monotonic() + kafka.broker_wait_s
    while True:
        try:
            return ask()
        except (KafkaError, OSError) as error:
            if not isinstance(error, RetriableError) or time.monotonic() > deadline:
                reason = str(error) or type(error).__name__
                msg = f"the broker at {kafka.brokers} gave no answer about {about} ({reason}); is it up?"
                raise UnavailableError(msg) from error
        time.sleep(RETRY_S)
