"""What batches wait for, looked up on threads of their own: topic ids at a broker, and schemas at a registry.

A topic that is deleted and recreated has another id, and its offsets denote other articles. A batch may therefore be
appended only after a look-up that began after its poll saw the same id. ``TopicWatch`` looks up the ids on request, and
every ``LOOK_UP_INTERVAL_S`` without one: so the worker also notices in time that the broker is away while nothing is in
flight. Where input topics are named by patterns, it also looks which topics these match, every ``MATCH_INTERVAL_S``.

A registry may be slow, or away. A schema that was requested is there, unknown to the registry, or not answered yet.
``SchemaWatch`` requests again what is not there: every ``AWAY_RETRY_S`` while the registry does not answer for some
schema, every ``UNKNOWN_RETRY_S`` for an id that it does not know, which it may have later. A schema for which it does
not answer holds up no other one.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.config.effective import with_input_topics
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.ports import PassingError, RefusedByBrokerError
from stream_dedup.registry.client import RegistryAwayError, UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stream_dedup.config.model import Config
    from stream_dedup.ports import Clock, GroupOffsets
    from stream_dedup.registry.values import Schemas

log = logging.getLogger(__name__)

LOOK_UP_INTERVAL_S = 2.0
"""Seconds between two look-ups without a request."""
MATCH_INTERVAL_S = 10.0
"""Seconds between two requests which topics match: a new topic must be read within 30 s, and each request returns the
names of all topics of the cluster."""
LOOK_UP_RETRY_S = 0.2
"""Pause in seconds after a look-up that failed, and between two checks whether a request was answered."""
AWAY_RETRY_S = 1.0
"""Seconds between two requests while the registry does not answer."""
UNKNOWN_RETRY_S = 5.0
"""Seconds between two requests for a schema that the registry does not know."""


@dataclass(eq=False)
class Watch(ABC):
    """``run`` is its thread, the other methods may be called from any thread."""

    clock: Clock

    def __post_init__(self) -> None:
        """Request nothing yet."""
        self._requested = self.clock.event()
        self._done = False

    def run(self) -> None:
        """Look up on request, and now and then, until ``stop``; raises as ``_look_up``."""
        pause_s = 0.0
        while True:
            self._requested.wait(pause_s)
            self._requested.clear()
            if self._done:
                return
            pause_s = self._look_up()

    def stop(self) -> None:
        """Let ``run`` return."""
        self._done = True
        self._requested.set()

    @abstractmethod
    def _look_up(self) -> float:
        """Look up once; return after how many seconds to do so without a request."""


@dataclass(eq=False)
class TopicWatch(Watch):
    """Keeps the latest topic ids."""

    config: Config
    offsets: GroupOffsets
    log_id: bytes
    """The id that the log must keep."""
    wake: Callable[[], None]
    """Called after each look-up."""
    ends: Callable[[], bool] = lambda: False
    """Returns whether the worker is to end: then no call waits."""

    def __post_init__(self) -> None:
        """Request a first look-up."""
        super().__post_init__()
        self._requested.set()
        self.topics = () if self.config.topics.patterns else tuple(self.config.topics.input)
        """Names of the input topics: of patterns, those that matched last; none before the first request."""
        self._match_at = float("-inf")
        self._lock = threading.Lock()
        self._answered = self.clock.event()
        self.latest_ids: dict[str, bytes] = {}
        """Ids of the last look-up, empty before the first."""
        self._begun_at = self._looked_up_at = float("-inf")
        """When the last look-up began, and the last one that was answered."""
        self._failing_since: float | None = None

    def ids_since(self, moment: float) -> dict[str, bytes] | None:
        """Return ids looked up after ``moment`` (monotonic seconds), or None: a look-up is under way, or requested."""
        with self._lock:
            if self._looked_up_at > moment:
                return self.latest_ids
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
        moment = self.clock.monotonic()
        deadline = moment + self.config.kafka.broker_wait_s
        while (ids := self.ids_since(moment)) is None:
            if self._done or self.ends():
                raise PassingError("the worker ends")
            if self.clock.monotonic() > deadline:
                raise self._away()
            self._answered.wait(LOOK_UP_RETRY_S)
            self._answered.clear()
        return {name: ids[name] for name in names if name in ids}

    @property
    def answered(self) -> bool:
        """Whether the broker answered the last look-up."""
        return self._failing_since is None

    def _look_up(self) -> float:
        """Look up once.

        Raises:
            UnavailableError: no broker answered for ``broker_wait_s``.
            RefusedError: the log was deleted and recreated.
            UserError: this client may not describe the topics.
        """
        # Later than every moment at which it was requested: a request of this very moment gets it.
        began = self.clock.monotonic()
        with self._lock:
            self._begun_at = began
        try:
            self._match(began)
            ids = self.offsets.topic_ids([*self.topics, self.config.log_topic])
        except PassingError as error:
            self._note_failure(error)
            return LOOK_UP_INTERVAL_S
        except RefusedByBrokerError as error:
            names = [*self.config.topics.input, self.config.log_topic]
            raise UserError(f"topics {', '.join(names)}: this client may not describe them: {error}") from error
        if ids.get(self.config.log_topic) not in (self.log_id, None):
            raise RefusedError(
                f"topic {self.config.log_topic} was deleted and recreated while this worker ran; start it again: "
                "it says what the log lost, and how to go on"
            )
        if self._failing_since is not None:
            log.info("a Kafka broker answers again, after %.1f s", self.clock.monotonic() - self._failing_since)
        with self._lock:
            self.latest_ids = ids
            self._looked_up_at = began
            self._failing_since = None
        self._answered.set()
        self.wake()
        return LOOK_UP_INTERVAL_S

    def _match(self, now: float) -> None:
        """Look up which topics match, unless that was done lately."""
        if self.config.topics.patterns and now >= self._match_at:
            config = with_input_topics(self.config, lambda: self.offsets.topic_ids(None))
            if tuple(config.topics.input) != self.topics:
                log.info("input topics: %s", ", ".join(config.topics.input) or "none yet")
            self.topics = tuple(config.topics.input)
            self._match_at = now + MATCH_INTERVAL_S

    def _note_failure(self, error: PassingError) -> None:
        log.debug("topic ids: %r", error)
        # The time of the failure, not of the look-up's begin: the process may have been stopped in between.
        now = self.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("no Kafka broker answers; the worker waits up to %g s", self.config.kafka.broker_wait_s)
        if now - self._failing_since > self.config.kafka.broker_wait_s:
            raise self._away()
        self._requested.set()
        self.clock.sleep(LOOK_UP_RETRY_S)

    def _away(self) -> UnavailableError:
        wait = self.config.kafka.broker_wait_s
        return UnavailableError(
            f"no Kafka broker at {self.config.kafka.brokers} answered for {wait:g} s (kafka.broker_wait_s); "
            "nothing is lost: start the worker again when it is back"
        )


@dataclass(eq=False)
class SchemaWatch(Watch):
    """Loads the schemas that records wait for. No method but ``run`` blocks."""

    schemas: Schemas
    wake: Callable[[], None]
    """Called when the registry has answered for a schema."""
    problem: str | None = None
    """Why the registry does not answer for some schema; None while it does."""
    changes: int = 0
    """Rises whenever a schema arrives, or becomes unknown."""

    def __post_init__(self) -> None:
        """Request nothing yet."""
        super().__post_init__()
        self._wanted: frozenset[int] = frozenset()
        self._unknown: frozenset[int] = frozenset()

    def __contains__(self, schema_id: int) -> bool:
        """Whether a schema is there."""
        return schema_id in self.schemas

    def is_unknown(self, schema_id: int) -> bool:
        """Return whether the registry last answered that it does not know the id."""
        return schema_id in self._unknown

    def want(self, ids: frozenset[int]) -> None:
        """Request these schemas, and no others."""
        before, self._wanted = self._wanted, ids
        if ids - before:
            self._requested.set()

    def _look_up(self) -> float:
        """Request the wanted schemas that are missing.

        Raises:
            UserError: the registry refuses this client, or is not a schema registry.
            UnavailableError: the temporary folder, in which schemas are compiled, cannot be used.
        """
        unknown, is_away = set[int](), False
        missing = [schema_id for schema_id in sorted(self._wanted) if schema_id not in self.schemas]
        for schema_id in missing:
            try:
                self.schemas.load(schema_id)
            except UnknownSchemaError:
                unknown.add(schema_id)
            except RegistryAwayError as error:
                self._note_away(str(error))
                is_away = True
                unknown |= self._unknown & {schema_id}
            else:
                self._note_change()
            if self._done:
                return UNKNOWN_RETRY_S
        if missing and not is_away:
            self._note_answer()
        if unknown != self._unknown:
            self._unknown = frozenset(unknown)
            self._note_change()
        return AWAY_RETRY_S if is_away else UNKNOWN_RETRY_S

    def _note_change(self) -> None:
        self.changes += 1
        self.wake()

    def _note_away(self, problem: str) -> None:
        if self.problem is None:
            log.warning("%s; articles wait until it answers, and none is rejected meanwhile", problem)
        self.problem = problem

    def _note_answer(self) -> None:
        if self.problem is not None:
            log.info("the schema registry answers again")
        self.problem = None
