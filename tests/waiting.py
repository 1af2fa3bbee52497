"""Waiting for a condition instead of sleeping for a guess."""

import time
from collections.abc import Callable

LONGEST_PAUSE_S = 0.1
"""Between two looks, seconds: a look may be a request to a broker, which takes processor time of both."""


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Return as soon as the condition holds; it is looked at often in the beginning.

    Raises:
        AssertionError: it does not within ``limit_s``; ``what`` says what was waited for.
    """
    begun = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begun
        assert waited_s < limit_s, f"not within {limit_s} s: {what}"
        time.sleep(min(LONGEST_PAUSE_S, 0.005 + waited_s / 4))
