"""The worker: its threads, from their start to their end.

    source      the caller's thread: polls batches (step 1), keeps the membership, watches the other threads
    engine      steps 2 to 6 and the index
    committer   step 7
    log-tail    reads the log
    topic-watch looks up topic ids
    schemas     looks up schemas, where records are decoded by those of a registry
    health      sees whether there is progress
    watchdog    ends the process if a call to the broker hangs

A thread that fails ends the worker with its error, whatever the error is. A stop (SIGTERM, SIGINT) ends the polling,
waits up to ``shutdown_s`` for the batches in flight, and leaves the group. Articles that are not committed by then are
polled again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.errors import UnavailableError
from stream_dedup.exit_codes import EXIT_UNAVAILABLE
from stream_dedup.kafka.clients import call_limit_s
from stream_dedup.ports import PassingError, PortError
from stream_dedup.worker.assignments import AssignmentOwner
from stream_dedup.worker.committer import Committer, CommitterParts
from stream_dedup.worker.engine import Engine, EngineParts
from stream_dedup.worker.health import Health
from stream_dedup.worker.log_tail import LogTail
from stream_dedup.worker.schema_watch import SchemaWatch
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.start_offsets import LoggedSources
from stream_dedup.worker.steps import Step, TrimStep
from stream_dedup.worker.topic_watch import TopicWatch
from stream_dedup.worker.trimmer import Trimmer, TrimmerParts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.ports import Event, SourceRecord, Thread, WorkerPorts
    from stream_dedup.registry.values import Schemas
    from stream_dedup.threads import FingerprintThreads
    from stream_dedup.worker.opening import OpenedLog
    from stream_dedup.worker.watchdog import Watchdog

log = logging.getLogger(__name__)

SOURCE_POLL_S = 0.1
"""Longest wait for articles: the delay until a stop or the failure of another thread is noticed."""
INFLIGHT_BYTES = 64 << 20
"""Bytes in flight before polling pauses: the limit on the memory of both producers."""
DRAIN_PAUSE_S = 0.01
"""Seconds between two checks of the batches in flight while stopping."""
SECOND_S = 1.0
"""Seconds between two commits of positions without articles, and between two updates of the worker's gauges."""
FORCED_EXTRA_S = 10.0
"""The watchdog ends a stop that takes so many seconds longer than ``shutdown_s``."""
ANSWER_PAUSE_S = 0.005
"""Seconds between two looks whether the log is read to its end."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is made of, and the event that stops it."""

    config: Config
    ports: WorkerPorts
    opened: OpenedLog
    transactional_id: str
    fingerprinter: FingerprintThreads[SourceRecord]
    watchdog: Watchdog
    metrics: Metrics
    stop: Event
    schemas: Schemas | None = None
    """Of the registry, where records need them."""
    on_step: Callable[[Step | TrimStep], None] = lambda step: None  # noqa: ARG005 - for tests


class Worker:
    """Runs until stopped; ``ready`` is whether it takes part in its group."""

    def __init__(self, parts: WorkerParts) -> None:
        """Start the transactional producer; the index must hold the log up to its end."""
        config, ports = parts.config, parts.ports
        self._parts = parts
        self._clock = ports.clock
        self._failures: list[BaseException] = []
        self._ending = False
        self._watchdog = parts.watchdog
        self._assignments = AssignmentOwner(
            ports.source.membership,
            config.worker.max_inflight_batches,
            INFLIGHT_BYTES,
            held=lambda: self._engine.held,
        )
        self._wake = wake = ports.clock.event()
        self._watch = TopicWatch(
            config, ports.watch_offsets, ports.clock, parts.opened.log_id, wake.set, ends=self._is_to_end
        )
        self._tail = LogTail(
            ports.log, ports.clock, wake.set, config.log_topic, is_wanted=lambda: self._assignments.batches > 0
        )
        self._schemas = None if parts.schemas is None else SchemaWatch(parts.schemas, ports.clock, wake.set)
        self._health = Health(
            ports.clock,
            self._assignments,
            config.worker.watchdog_s,
            answered=lambda: self._watch.answered,
            held=lambda: self._engine.held,
        )
        self._source = BatchSource(
            config,
            client=ports.source,
            clock=ports.clock,
            watch=self._watch,
            assignments=self._assignments,
            known=LoggedSources(self._logged_partitions, parts.opened.index.forgotten_before),
        )
        self._committer = self._make_committer()
        self._engine = self._make_engine(wake)
        self._threads: list[Thread] = []
        self._next_second = 0.0
        self._begun = 0
        self._topics: set[str] = set()
        """Those that have a lag."""

    def _make_committer(self) -> Committer:
        parts = self._parts
        return Committer(
            CommitterParts(
                record_bytes=parts.opened.record_bytes,
                config=parts.config,
                sink=parts.ports.sink,
                clock=parts.ports.clock,
                assignments=self._assignments,
                transactional_id=parts.transactional_id,
                scheme_id=parts.opened.scheme_id,
                watchdog=self._watchdog,
                metrics=parts.metrics,
                on_step=parts.on_step,
            )
        )

    def _make_engine(self, wake: Event) -> Engine:
        parts = self._parts
        trimmer = Trimmer(
            parts.config,
            TrimmerParts(
                index=parts.opened.index,
                log=parts.ports.log,
                offsets=parts.ports.offsets,
                clock=parts.ports.clock,
                metrics=parts.metrics,
                on_step=parts.on_step,
            ),
            parts.opened.first_offset,
        )
        return Engine(
            EngineParts(
                index=parts.opened.index,
                tail=self._tail,
                log=parts.ports.log,
                log_topic=parts.config.log_topic,
                fingerprinter=parts.fingerprinter,
                watch=self._watch,
                trimmer=trimmer,
                metrics=parts.metrics,
                assignments=self._assignments,
                clock=parts.ports.clock,
                on_step=parts.on_step,
                schemas=self._schemas,
                input_format=parts.config.input.format,
                reads_keys=parts.config.input.key_field is not None,
            ),
            wake,
        )

    @property
    def ready(self) -> bool:
        """Whether the worker takes part in its group and the broker answers."""
        return self._begun > 0 and self._watch.answered and not self._failures

    @property
    def waits_for(self) -> str | None:
        """Why articles wait for the schema registry, which does not answer; None where they do not."""
        return None if self._schemas is None or not self._engine.held else self._schemas.problem

    @property
    def problem(self) -> str | None:
        """Why the worker makes no progress though there is something to do; None if it does."""
        return self._health.problem

    def run(self) -> None:
        """Work until ``stop`` is set.

        Raises:
            StreamDedupError: the error that ended the worker.
        """
        self._start("watchdog", self._watchdog.run)
        self._start("topic-watch", self._watch.run)
        self._start("log-tail", self._tail.run)
        if self._schemas is not None:
            self._start("schemas", self._schemas.run)
        self._start("health", self._health.run)
        self._start("engine", lambda: self._repeat("engine", self._engine_round))
        self._start("committer", lambda: self._repeat("committer", self._committer.step))
        try:
            while not self._parts.stop.is_set():
                self._round()
            self._drain()
        except BaseException as error:
            self._close(f"the end of the worker (which ends because: {error})", failed=True)
            raise
        self._close("the end of the worker")

    # the threads

    def _start(self, name: str, run: Callable[[], None]) -> None:
        self._threads.append(self._clock.spawn(name, lambda: self._guarded(name, run)))

    def _guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            log.debug("thread %s failed", name, exc_info=True)
            self._failures.append(error)

    def _repeat(self, name: str, step: Callable[[], None]) -> None:
        self._health.completed(name)  # a first round that never ends is seen as well
        while not self._ending:
            step()
            self._health.completed(name)

    def _engine_round(self) -> None:
        if judged := self._engine.step():
            self._committer.submit(judged)

    def _round(self) -> None:
        with self._guard_polling(), self._parts.metrics.stage("poll"):
            batches = self._source.poll(SOURCE_POLL_S)
        for _ in batches:
            self._parts.on_step(Step.POLLED)
        self._engine.submit(*batches)
        self._raise_failure()
        if self._source.begun != self._begun:
            self._after_rebalance()
        now = self._clock.monotonic()
        if now >= self._next_second:
            self._next_second = now + SECOND_S
            with self._guard_polling():
                passed = self._source.passed()
                self._set_gauges()
            if passed:
                self._committer.submit(passed)

    def _guard_polling(self) -> AbstractContextManager[None]:
        limit = 2 * call_limit_s(self._parts.config)  # start offsets need the broker and the log, one after the other
        return self._watchdog.guard("polling the article topics", limit)

    def _after_rebalance(self) -> None:
        self._parts.metrics.rebalances.inc(self._source.begun - self._begun)
        self._begun = self._source.begun
        # Nobody waits for it at the end: it is harmless at any point.
        self._clock.spawn("hanging-transactions", lambda: self._guarded("hanging-transactions", self._abort_hanging))

    def _abort_hanging(self) -> None:
        try:
            ended = self._parts.ports.sink.abort_hanging()
        except PortError as error:
            log.warning(
                "hanging transactions could not be aborted (%r); the broker aborts them at their time-out", error
            )
            return
        for transactional_id in ended:
            log.info("the hanging transaction of a dead worker (%s) is aborted", transactional_id)

    # the end

    def _drain(self) -> None:
        """Wait for the batches in flight but those that wait for a schema, up to ``shutdown_s``.

        Raises what a thread fails with meanwhile.
        """
        deadline = self._clock.monotonic() + self._parts.config.worker.shutdown_s
        log.info("stopping: %d batches in flight", self._assignments.batches)
        while self._assignments.batches > self._engine.held and self._clock.monotonic() < deadline:
            self._raise_failure()
            self._clock.sleep(DRAIN_PAUSE_S)
        if (left := self._assignments.batches) > self._engine.held:
            log.warning("%d batches were not finished in time; their articles are polled again", left)

    def _close(self, what: str, *, failed: bool = False) -> None:
        """End the threads and close the clients; the watchdog names ``what`` when it ends one that hangs."""
        limit = self._parts.config.worker.shutdown_s + FORCED_EXTRA_S
        exit_code = 0 if self._parts.stop.is_set() and not failed else EXIT_UNAVAILABLE
        with self._watchdog.guard(what, limit, exit_code):
            self._ending = True
            self._tail.stop()
            self._watch.stop()
            self._health.stop()
            if self._schemas is not None:
                self._schemas.stop()
            self._wake.set()
            self._committer.wake()
            watchdog, *others = self._threads
            for thread in others:
                thread.join()
            self._parts.fingerprinter.close()  # its threads end with the articles that they are at work on
            for part in (self._source, self._committer):
                try:
                    part.close()
                except PortError as error:
                    log.debug("closing: %r", error)
        self._watchdog.stop()
        watchdog.join()

    def _is_to_end(self) -> bool:
        """Return whether the worker was stopped, or a thread has failed: the source's thread waits for nothing then."""
        return self._parts.stop.is_set() or bool(self._failures)

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    # small things

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        answer = self._engine.request_logged_partitions()
        deadline = self._clock.monotonic() + self._parts.config.kafka.broker_wait_s
        while not answer.done():
            if self._is_to_end():
                msg = "the worker ends"
                raise PassingError(msg)
            if self._clock.monotonic() > deadline:
                msg = f"the log was not read to its end within {self._parts.config.kafka.broker_wait_s:g} s"
                raise UnavailableError(msg)
            self._clock.sleep(ANSWER_PAUSE_S)
        return answer.result()

    def _set_gauges(self) -> None:
        metrics = self._parts.metrics
        metrics.inflight_batches.set(self._assignments.batches - self._engine.held)
        metrics.up_to_date.set(1 if self.ready else 0)
        lags = self._source.lag()
        for topic in self._topics - set(self._source.topics):
            metrics.source_lag.remove(topic)
        self._topics = set(self._source.topics)
        for topic in self._topics:  # 0 of a topic of which it holds nothing any more
            metrics.source_lag.labels(topic).set(lags.get(topic, 0))
