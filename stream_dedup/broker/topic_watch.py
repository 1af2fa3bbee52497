"""Looks up the present ids of the topics, on a thread of its own.

A topic that is deleted and made again has another id, and its offsets denote other articles. A batch may therefore be
appended only after a look-up that began after its poll saw the same id.

The thread looks up the ids on request, and every ``LOOK_UP_INTERVAL_S`` without one: so the worker also notices in
time that the broker is away while nothing is in flight.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_admin
from stream_dedup.broker.topics import topic_ids
from stream_dedup.errors import RefusedError, StreamDedupError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka import KafkaAdminClient

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

LOOK_UP_INTERVAL_S = 2.0
"""Seconds between two look-ups without a request."""
LOOK_UP_RETRY_S = 0.2
"""Pause in seconds after a look-up that failed."""


class TopicWatch:
    """Keeps the latest topic ids; ``failure`` is set when the worker must stop."""

    def __init__(self, config: Config, log_id: bytes, wake: Callable[[], None]) -> None:
        """Watch the input topics and the log, whose id must stay ``log_id``; ``wake`` is called after each look-up."""
        self._wake = wake
        self._config = config
        self._log_topic = config.log_topic
        self._log_id = log_id
        self._names = [*config.topics.input, config.log_topic]
        self._admin: KafkaAdminClient = make_admin(config.kafka)
        self._changed = threading.Condition()
        self._requested = True
        self._done = False
        self._ids: dict[str, bytes] = {}
        self._looked_up_at = float("-inf")
        self._failing_since: float | None = None
        self.failure: StreamDedupError | None = None
        self._thread = threading.Thread(target=self._run, name="topic-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def latest_ids(self) -> dict[str, bytes]:
        """Ids of the last look-up, empty before the first; does not wait."""
        return self._ids

    def ids_since(self, moment: float) -> dict[str, bytes] | None:
        """Return ids looked up after ``moment`` (monotonic seconds), or None and request a look-up."""
        with self._changed:
            if self._looked_up_at > moment:
                return self._ids
            self._requested = True
            self._changed.notify_all()
            return None

    def fresh_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Look up the ids now; waits up to ``broker_wait_s``.

        Raises:
            UnavailableError: no broker answered in that time.
        """
        moment = time.monotonic()
        deadline = moment + self._config.kafka.broker_wait_s
        while (ids := self.ids_since(moment)) is None:
            if self.failure is not None:
                raise self.failure
            if time.monotonic() > deadline:
                raise self._away()
            with self._changed:
                self._changed.wait(LOOK_UP_RETRY_S)
        return {name: ids[name] for name in names if name in ids}

    @property
    def answered(self) -> bool:
        """Whether the broker answered the last look-up."""
        return self._failing_since is None

    def stop(self) -> None:
        """End the thread and close the connection to the broker."""
        with self._changed:
            self._done = True
            self._changed.notify_all()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._admin.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requested or self._done, LOOK_UP_INTERVAL_S)
                if self._done:
                    return
                self._requested = False
            self._look_up()

    def _look_up(self) -> None:
        began = time.monotonic()
        try:
            ids = topic_ids(self._admin, self._names)
        except (KafkaError, OSError, StreamDedupError) as error:
            log.debug("topic ids: %r", error)
            # The time of the failure, not of the look-up's begin: the process may have been stopped in between.
            now = time.monotonic()
            if self._failing_since is None:
                self._failing_since = now
                log.warning("no Kafka broker answers; the worker waits up to %g s", self._config.kafka.broker_wait_s)
            if now - self._failing_since > self._config.kafka.broker_wait_s:
                self.failure = self._away()
            time.sleep(LOOK_UP_RETRY_S)
            return
        if ids.get(self._log_topic) not in (self._log_id, None):
            self.failure = RefusedError(
                f"topic {self._log_topic} was deleted and made again while this worker ran; start it again: "
                "it rebuilds its index from the new log"
            )
        if self._failing_since is not None:
            log.info("a Kafka broker answers again, after %.1f s", time.monotonic() - self._failing_since)
        with self._changed:
            self._ids = ids
            self._looked_up_at = began
            self._failing_since = None
            self._changed.notify_all()
        self._wake()

    def _away(self) -> UnavailableError:
        wait = self._config.kafka.broker_wait_s
        return UnavailableError(
            f"no Kafka broker at {self._config.kafka.brokers} answered for {wait:g} s (kafka.broker_wait_s); "
            "nothing is lost: start the worker again when it is back"
        )
