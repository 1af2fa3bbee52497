"""Counts the appends to the log that fail one after the other, and says when another try is of no use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.ports import RecordTooLargeError, RefusedByBrokerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_dedup.ports import Append, PortError

log = logging.getLogger(__name__)

MAX_APPEND_FAILURES = 5
"""Failed appends in a row before the worker stops; each is waited for up to the delivery time-out."""


class AppendFailures:
    """Appends that failed since the last one that reached the log."""

    def __init__(self, log_topic: str) -> None:
        self._log_topic = log_topic
        self._in_a_row = 0

    def clear(self) -> None:
        """Note that an append has reached the log."""
        self._in_a_row = 0

    def add(self, error: PortError) -> None:
        """Note that an append has failed.

        Raises:
            UserError: the broker refuses the append, and would refuse it again.
            UnavailableError: too many appends in a row have failed.
        """
        if isinstance(error, (RefusedByBrokerError, RecordTooLargeError)):
            msg = (
                f"topic {self._log_topic}: the broker refuses appends: {error}; see stream-dedup topics check, "
                "and docs/acls.md for the rights"
            )
            raise UserError(msg) from error
        self._in_a_row += 1
        if self._in_a_row > MAX_APPEND_FAILURES:
            msg = f"{self._in_a_row} appends to the log failed one after the other: {error}"
            raise UnavailableError(msg) from error
        log.warning("an append to the log failed (%s) and is made again", error)


def first_failure(appends: Sequence[Append]) -> PortError | None:
    """Return why the first of these appends failed that has, None of none."""
    return next((error for append in appends if (error := append.error()) is not None), None)


def are_logged(appends: Sequence[Append]) -> bool:
    """Return whether the records of all these appends are in the log."""
    return all(append.done() and append.error() is None for append in appends)
