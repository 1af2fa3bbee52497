"""Watches whether the log is still the one that was opened.

A topic that is deleted and made again has another id. A reader goes by its name: it would go on in the other log at its
own offset as soon as that log is long enough, and the index would hold the beginning of one log and the end of another.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stream_dedup.errors import RefusedError, UserError
from stream_dedup.ports import PassingError, RefusedByBrokerError

if TYPE_CHECKING:
    from stream_dedup.ports import Clock, GroupOffsets

log = logging.getLogger(__name__)

LOG_LOOK_S = 2.0
"""Seconds between two looks: answers may be of both logs for so long."""


class LogWatch:
    """``run`` is the thread; ``stop`` may be called from any."""

    def __init__(self, topic: str, log_id: bytes, offsets: GroupOffsets, clock: Clock) -> None:
        """Watch the log of this name and id through ``offsets``, which ``run`` closes."""
        self._topic = topic
        self._log_id = log_id
        self._offsets = offsets
        self._stopped = clock.event()

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopped.set()

    def run(self) -> None:
        """Look until ``stop``. A broker that is away, and a log that is gone, are waited for.

        Raises:
            RefusedError: the log was made again.
            UserError: this client may not describe it.
        """
        try:
            while not self._stopped.is_set():
                self._look()
                self._stopped.wait(LOG_LOOK_S)
        finally:
            self._offsets.close()

    def _look(self) -> None:
        try:
            found = self._offsets.topic_ids([self._topic]).get(self._topic)
        except PassingError as error:
            log.debug("id of topic %s: %r", self._topic, error)
            return
        except RefusedByBrokerError as error:
            msg = f"topic {self._topic}: this client may not describe it: {error}"
            raise UserError(msg) from error
        if found not in {self._log_id, None}:
            msg = f"topic {self._topic} was deleted and made again"
            raise RefusedError(msg)
