"""Asking the broker with patience: what will be right in a moment is asked for again, within a named time.

A coordinator that is being elected, a leader that has just moved, a topic that has not reached
every broker: none of these is an answer.
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
"""Seconds between two questions."""


def patiently(kafka: KafkaConfig, about: str, ask: Callable[[], T]) -> T:
    """What the broker answers; blocks up to ``broker_wait_s``. ``ask`` may be called several times.

    Raises:
        UnavailableError: it did not answer in that time, or answered that it will not.
    """
    deadline = time.monotonic() + kafka.broker_wait_s
    while True:
        try:
            return ask()
        except (KafkaError, OSError) as error:
            if not isinstance(error, RetriableError) or time.monotonic() > deadline:
                told = str(error) or type(error).__name__
                msg = f"the broker at {kafka.brokers} gave no answer about {about} ({told}); is it up?"
                raise UnavailableError(msg) from error
        time.sleep(RETRY_S)
