"""Looks up the present ids of the topics, on a thread of its own.

A topic that is deleted and recreated has another id, and its offsets denote other articles. A batch may therefore be
appended only after a look-up that began after its poll saw the same id.

The thread looks up the ids on request, and every ``LOOK_UP_INTERVAL_S`` without one: so the worker also notices in
time that the broker is away while nothing is in flight.

Where input topics are named by patterns, it also looks which topics these match, every ``MATCH_INTERVAL_S``.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from stream_dedup.config.effective import with_input_topics
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.ports import PassingError, RefusedByBrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stream_dedup.config.model import Config
    from stream_dedup.ports import Clock, GroupOffsets

log = logging.getLogger(__name__)

LOOK_UP_INTERVAL_S = 2.0
"""Seconds between two look-ups without a request."""
MATCH_INTERVAL_S = 10.0
"""Seconds between two looks which topics match: a new one is to be read within 30 s, and each look reads the names of
all topics of the cluster."""
LOOK_UP_RETRY_S = 0.2
"""Pause in seconds after a look-up that failed, and between two looks at the answer of a request."""


class TopicWatch:
    """Keeps the latest topic ids; ``run`` is its thread, the other methods may be called from any thread."""

    def __init__(
        self,
        config: Config,
        offsets: GroupOffsets,
        clock: Clock,
        log_id: bytes,
        wake: Callable[[], None],
        *,
        ends: Callable[[], bool] = lambda: False,
    ) -> None:
        """Watch the input topics and the log, whose id must stay ``log_id``; ``wake`` is called after each look-up.

        ``ends`` returns whether the worker is to end: nothing is waited for then.
        """
        self._wake = wake
        self._ends = ends
        self._config = config
        self._offsets = offsets
        self._clock = clock
        self._log_topic = config.log_topic
        self._log_id = log_id
        self._topics = () if config.topics.patterns else tuple(config.topics.input)
        self._match_at = float("-inf")
        self._lock = threading.Lock()
        self._requested = clock.event()
        self._requested.set()
        self._answered = clock.event()
        self._done = False
        self._ids: dict[str, bytes] = {}
        self._begun_at = self._looked_up_at = float("-inf")
        """When the last look-up began, and the last one that was answered."""
        self._failing_since: float | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The input topics by their names: those that match as of the last look, none before the first."""
        return self._topics

    @property
    def latest_ids(self) -> dict[str, bytes]:
        """Ids of the last look-up, empty before the first; does not wait."""
        return self._ids

    def ids_since(self, moment: float) -> dict[str, bytes] | None:
        """Return ids looked up after ``moment`` (monotonic seconds), or None: a look-up is under way, or requested."""
        with self._lock:
            if self._looked_up_at > moment:
                return self._ids
            is_under_way = self._begun_at > moment
        if not is_under_way:
            self._requested.set()
        return None

    def fresh_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Look up the ids now; waits up to ``broker_wait_s``.

        Raises:
            PassingError: the worker is to end, because it was stopped or because a thread has failed.
            UnavailableError: no broker answered in that time.
        """
        moment = self._clock.monotonic()
        deadline = moment + self._config.kafka.broker_wait_s
        while (ids := self.ids_since(moment)) is None:
            if self._done or self._ends():
                msg = "the worker ends"
                raise PassingError(msg)
            if self._clock.monotonic() > deadline:
                raise self._away()
            self._answered.wait(LOOK_UP_RETRY_S)
            self._answered.clear()
        return {name: ids[name] for name in names if name in ids}

    @property
    def answered(self) -> bool:
        """Whether the broker answered the last look-up."""
        return self._failing_since is None

    def stop(self) -> None:
        """Let ``run`` return."""
        self._done = True
        self._requested.set()

    def run(self) -> None:
        """Look up until ``stop``.

        Raises:
            UnavailableError: no broker answered for ``broker_wait_s``.
            RefusedError: the log was deleted and recreated.
            UserError: this client may not describe the topics.
        """
        while True:
            self._requested.wait(LOOK_UP_INTERVAL_S)
            self._requested.clear()
            if self._done:
                return
            self._look_up()

    def _look_up(self) -> None:
        # Later than every moment at which it was requested: a request of this very moment gets it.
        began = self._clock.monotonic()
        with self._lock:
            self._begun_at = began
        try:
            self._match(began)
            ids = self._offsets.topic_ids([*self._topics, self._log_topic])
        except PassingError as error:
            self._note_failure(error)
            return
        except RefusedByBrokerError as error:
            names = [*self._config.topics.input, self._log_topic]
            msg = f"topics {', '.join(names)}: this client may not describe them: {error}"
            raise UserError(msg) from error
        if ids.get(self._log_topic) not in (self._log_id, None):
            msg = (
                f"topic {self._log_topic} was deleted and recreated while this worker ran; start it again: "
                "it says what the log lost, and how to go on"
            )
            raise RefusedError(msg)
        if self._failing_since is not None:
            log.info("a Kafka broker answers again, after %.1f s", self._clock.monotonic() - self._failing_since)
        with self._lock:
            self._ids = ids
            self._looked_up_at = began
            self._failing_since = None
        self._answered.set()
        self._wake()

    def _match(self, now: float) -> None:
        """Look which topics match, where that is not known or not lately."""
        if self._config.topics.patterns and now >= self._match_at:
            config = with_input_topics(self._config, lambda: self._offsets.topic_ids(None))
            if tuple(config.topics.input) != self._topics:
                log.info("input topics: %s", ", ".join(config.topics.input) or "none yet")
            self._topics = tuple(config.topics.input)
            self._match_at = now + MATCH_INTERVAL_S

    def _note_failure(self, error: PassingError) -> None:
        log.debug("topic ids: %r", error)
        # The time of the failure, not of the look-up's begin: the process may have been stopped in between.
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("no Kafka broker answers; the worker waits up to %g s", self._config.kafka.broker_wait_s)
        if now - self._failing_since > self._config.kafka.broker_wait_s:
            raise self._away()
        self._requested.set()
        self._clock.sleep(LOOK_UP_RETRY_S)

    def _away(self) -> UnavailableError:
        wait = self._config.kafka.broker_wait_s
        return UnavailableError(
            f"no Kafka broker at {self._config.kafka.brokers} answered for {wait:g} s (kafka.broker_wait_s); "
            "nothing is lost: start the worker again when it is back"
        )
