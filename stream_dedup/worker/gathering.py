"""Lets the batches of one poll leave together: a fingerprinted batch waits a moment for the others.

Together they take one request to the log, one fetch of it, one search and one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stream_dedup.worker.batches import PendingBatch

GATHER_S = 0.005
"""How long a fingerprinted batch waits for the others of its poll."""


class Gathering:
    """Which polls wait for the rest of their batches, and until when. One thread calls."""

    def __init__(self) -> None:
        """Wait for nothing yet."""
        self.until: float | None = None
        """When the spans that wait for others of their poll are appended without them; None if none waits."""
        self._ended_to = float("-inf")
        """The latest poll whose spans wait no more."""

    def polls(self, pending: Iterable[PendingBatch], now: float) -> set[float]:
        """Return the polls, by their times, of which something waits for the rest; set or end the time for that."""
        fingerprinted: dict[bool, set[float]] = {True: set(), False: set()}
        for batch in pending:
            for span in batch.spans:
                if span.appends is None and batch.polled.polled_at > self._ended_to:
                    fingerprinted[span.columns.done()].add(batch.polled.polled_at)
        waiting = fingerprinted[True] & fingerprinted[False]
        if waiting and (self.until is None or now < self.until):
            self.until = self.until or now + GATHER_S
            return waiting
        if waiting:
            self._ended_to = max(waiting)
        self.until = None
        return set()
