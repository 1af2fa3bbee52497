"""Looks up the schemas that records name, on a thread of its own: the registry may be slow, or away.

A schema that was asked for is there, unknown to the registry, or not answered yet. The thread asks again for what is
not there, every ``AWAY_RETRY_S`` while the registry does not answer, every ``UNKNOWN_RETRY_S`` for an id that it does
not know: it may have one later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stream_dedup.registry.client import RegistryAwayError, UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.ports import Clock
    from stream_dedup.registry.values import Schemas

log = logging.getLogger(__name__)

AWAY_RETRY_S = 1.0
"""Seconds between two requests while the registry does not answer."""
UNKNOWN_RETRY_S = 5.0
"""Seconds between two requests for a schema that the registry does not know."""


class SchemaWatch:
    """``run`` is its thread, the other methods may be called from any thread; none but ``run`` blocks."""

    def __init__(self, schemas: Schemas, clock: Clock, wake: Callable[[], None]) -> None:
        """``wake`` is called when something is known that was not."""
        self._schemas = schemas
        self._clock = clock
        self._wake = wake
        self._wanted: frozenset[int] = frozenset()
        self._requested = clock.event()
        self._done = False
        self._unknown: frozenset[int] = frozenset()
        self.problem: str | None = None
        """Why the registry does not answer; None while it does."""
        self.changes = 0
        """Rises whenever a schema is there, or is unknown, that was not."""

    def __contains__(self, schema_id: int) -> bool:
        """Whether a schema is there."""
        return schema_id in self._schemas

    def is_unknown(self, schema_id: int) -> bool:
        """Return whether the registry said last that it does not know the id."""
        return schema_id in self._unknown

    def want(self, ids: frozenset[int]) -> None:
        """Ask for these schemas, and for no others any more."""
        before, self._wanted = self._wanted, ids
        if ids - before:
            self._requested.set()

    def stop(self) -> None:
        """Let ``run`` return."""
        self._done = True
        self._requested.set()

    def run(self) -> None:
        """Look up until ``stop``.

        Raises:
            UserError: the registry refuses this client, or is none.
        """
        pause_s = UNKNOWN_RETRY_S
        while True:
            self._requested.wait(pause_s)
            self._requested.clear()
            if self._done:
                return
            pause_s = self._look_up()

    def _look_up(self) -> float:
        """Ask for what is wanted and not there; return after how many seconds to ask again."""
        unknown = set[int]()
        for schema_id in sorted(self._wanted):
            if schema_id in self._schemas:
                continue
            try:
                self._schemas.load(schema_id)
            except UnknownSchemaError:
                unknown.add(schema_id)
            except RegistryAwayError as error:
                self._note_away(str(error))
                return AWAY_RETRY_S
            else:
                self._note_change()
            self._note_answer()
            if self._done:
                return UNKNOWN_RETRY_S
        if unknown != self._unknown:
            self._unknown = frozenset(unknown)
            self._note_change()
        return UNKNOWN_RETRY_S

    def _note_change(self) -> None:
        self.changes += 1
        self._wake()

    def _note_away(self, problem: str) -> None:
        if self.problem is None:
            log.warning("%s; articles wait until it does, and none is rejected meanwhile", problem)
        self.problem = problem

    def _note_answer(self) -> None:
        if self.problem is not None:
            log.info("the schema registry answers again")
        self.problem = None
