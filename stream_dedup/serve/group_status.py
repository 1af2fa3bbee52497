"""The state of the group: a snapshot of its brokers, read when it is asked for, not more often than needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stream_dedup.config.effective import rules_of
from stream_dedup.errors import StreamDedupError
from stream_dedup.serve.lanes import Lane
from stream_dedup.serve.problems import not_ready
from stream_dedup.status.findings import find
from stream_dedup.status.reading import StatusReader
from stream_dedup.status.snapshot import Rates, Snapshot
from stream_dedup.status.text import values_of

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import Clock
    from stream_dedup.serve.follower import LogFollower

STATUS_S = 20.0
"""Longest wait for a snapshot."""
FRESH_S = 2.0
"""A snapshot that is no older is returned again: many viewers cost the brokers no more than one."""
RATES_S = 60.0
"""Longest time over which rates are computed."""


class GroupStatus:
    """Reads snapshots. ``read`` belongs to the event loop."""

    def __init__(self, config: Config, follower: LogFollower, clock: Clock) -> None:
        """Connect at the first request."""
        self._config = config
        self._follower = follower
        self._clock = clock
        self._lane = Lane("status", STATUS_S)
        self._reader: StatusReader | None = None
        self._now: Snapshot | None = None
        self._values: dict[str, Any] = {}

    async def read(self) -> dict[str, Any]:
        """Return the state of the group, as ``stream-dedup status --json`` writes it.

        Raises:
            ProblemError: no broker answers, or too many requests are under way.
        """
        return await self._lane.run(self._read)

    def close(self) -> None:
        """End the thread and close the connections."""
        self._lane.close()
        self._disconnect()

    def _read(self) -> dict[str, Any]:
        now = self._now
        if now is not None and self._clock.monotonic() - now.at_s < FRESH_S:
            return self._values
        try:
            if self._reader is None:
                self._reader = StatusReader(self._config, with_rules=False, progress=lambda *_: None)
            snapshot = self._reader.read()
        except StreamDedupError as error:
            self._disconnect()
            raise not_ready(str(error)) from error
        self._take(snapshot)
        return self._values

    def _take(self, snapshot: Snapshot) -> None:
        rules = self._follower.position.rules
        snapshot = replace(snapshot, log=replace(snapshot.log, rules=rules))
        before = self._now if self._now is not None and snapshot.at_s - self._now.at_s < RATES_S else None
        rates = None if before is None else Rates.between(before, snapshot)
        self._now = snapshot
        self._values = values_of(snapshot, rates, find(snapshot, before, rules_of(self._config)))

    def _disconnect(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.__exit__()
