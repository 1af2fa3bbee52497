"""Waiting for a condition instead of sleeping for a guess."""

import time
from collections.abc import Callable

POLL_S = 0.05
"""Between two looks, seconds."""


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Return as soon as the condition holds.

    Raises:
        AssertionError: it does not within ``limit_s``; ``what`` says what was waited for.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(POLL_S)
