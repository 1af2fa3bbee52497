"""The worker: its threads, from their start to their end.

    source      the caller's thread: polls batches (step 1), keeps the membership, watches the other threads
    engine      steps 2 to 6 and the index
    committer   step 7
    log-tail    reads the log
    topic-watch looks up topic ids
    schemas     looks up schemas, where records are decoded by those of a registry
    watchdog    checks whether there is progress; ends the process if a call to the broker hangs

A thread that fails ends the worker with its error, whatever the error is. A stop (SIGTERM, SIGINT) ends the polling,
waits up to ``shutdown_s`` for the batches in flight, and leaves the group. Articles that are not committed by then are
polled again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.errors import EXIT_UNAVAILABLE, UnavailableError
from stream_dedup.kafka.clients import call_limit_s
from stream_dedup.ports import PassingError, PortError
from stream_dedup.worker import Step
from stream_dedup.worker.assignments import AssignmentOwner
from stream_dedup.worker.committer import Committer
from stream_dedup.worker.engine import Engine
from stream_dedup.worker.health import Watchdog
from stream_dedup.worker.log_tail import LogTail
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.trimmer import Trimmer
from stream_dedup.worker.watches import SchemaWatch, TopicWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.ports import Event, SourceRecord, Thread, WorkerPorts
    from stream_dedup.registry.values import Schemas
    from stream_dedup.threads import FingerprintThreads
    from stream_dedup.worker.opening import OpenedLog

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
"""The watchdog ends a shutdown that takes so many seconds longer than ``shutdown_s``."""
ANSWER_PAUSE_S = 0.005
"""Seconds between two checks whether the log is read to its end."""


@dataclass(eq=False)
class Worker:
    """Runs until stopped; ``ready`` is whether it takes part in its group."""

    config: Config
    ports: WorkerPorts
    opened: OpenedLog
    """The index and the log, read up to the log's end."""
    transactional_id: str
    fingerprinter: FingerprintThreads[SourceRecord]
    metrics: Metrics
    stop: Event
    schemas: Schemas | None = None
    """Of the registry, where records need them."""
    on_step: Callable[[Step], None] = lambda step: None  # noqa: ARG005 - for tests
    end: Callable[[int], None] = os._exit
    """Ends the process with an exit code, where a call hangs."""

    def __post_init__(self) -> None:
        """Start the transactional producer."""
        config, ports, clock, index = self.config, self.ports, self.ports.clock, self.opened.index
        self._failures: list[BaseException] = []
        self._ending = False
        self._wake = wake = clock.event()
        self._assignments = AssignmentOwner(
            ports.source.membership,
            config.worker.max_inflight_batches,
            INFLIGHT_BYTES,
            held=lambda: self._engine.held,
        )
        self._watch = TopicWatch(clock, config, ports.offsets, self.opened.log_id, wake.set, ends=self._is_to_end)
        self._tail = LogTail(
            ports.log, clock, wake.set, config.log_topic, is_wanted=lambda: self._assignments.batches > 0
        )
        self._schema_watch = None if self.schemas is None else SchemaWatch(clock, self.schemas, wake.set)
        self._watchdog = Watchdog(
            clock, self._assignments, config.worker.watchdog_s, lambda: self._watch.answered, self.end
        )
        self._source = BatchSource(
            config.kafka,
            client=ports.source,
            clock=clock,
            watch=self._watch,
            assignments=self._assignments,
            logged_partitions=self._logged_partitions,
            forgotten_before=index.forgotten_before,
        )
        self._committer = self._new_committer()
        self._engine = self._new_engine()
        self._threads: list[Thread] = []
        self._next_second = 0.0
        self._topics: set[str] = set()
        """Those that have a lag."""

    def _new_committer(self) -> Committer:
        return Committer(
            config=self.config,
            sink=self.ports.sink,
            clock=self.ports.clock,
            assignments=self._assignments,
            transactional_id=self.transactional_id,
            scheme_id=self.opened.scheme_id,
            record_bytes=self.opened.record_bytes,
            watchdog=self._watchdog,
            metrics=self.metrics,
            on_step=self.on_step,
        )

    def _new_engine(self) -> Engine:
        trimmer = Trimmer(
            config=self.config,
            index=self.opened.index,
            log=self.ports.log,
            offsets=self.ports.offsets,
            clock=self.ports.clock,
            metrics=self.metrics,
            on_step=self.on_step,
            cut_to=self.opened.first_offset,
        )
        return Engine(
            config=self.config,
            index=self.opened.index,
            tail=self._tail,
            log=self.ports.log,
            fingerprinter=self.fingerprinter,
            watch=self._watch,
            schemas=self._schema_watch,
            trimmer=trimmer,
            assignments=self._assignments,
            clock=self.ports.clock,
            wake=self._wake,
            metrics=self.metrics,
            on_step=self.on_step,
        )

    @property
    def ready(self) -> bool:
        """Whether the worker takes part in its group and the broker answers."""
        return self._source.begun > 0 and self._watch.answered and not self._failures

    @property
    def waits_for(self) -> str | None:
        """Why articles wait for the schema registry, which does not answer; None if none waits."""
        return None if self._schema_watch is None or not self._engine.held else self._schema_watch.problem

    @property
    def problem(self) -> str | None:
        """Why the worker makes no progress although there is work; None if it does."""
        return self._watchdog.problem

    def run(self) -> None:
        """Work until ``stop`` is set.

        Raises:
            StreamDedupError: the error that ended the worker.
        """
        self._start("watchdog", self._watchdog.run)
        self._start("topic-watch", self._watch.run)
        self._start("log-tail", self._tail.run)
        if self._schema_watch is not None:
            self._start("schemas", self._schema_watch.run)
        self._start("engine", lambda: self._repeat("engine", self._engine_round))
        self._start("committer", lambda: self._repeat("committer", self._committer.step))
        try:
            while not self.stop.is_set():
                self._round()
            self._drain()
        except BaseException as error:
            self._close(f"the end of the worker (which ends because: {error})", failed=True)
            raise
        self._close("the end of the worker")

    # the threads

    def _start(self, name: str, run: Callable[[], None]) -> None:
        self._threads.append(self.ports.clock.spawn(name, lambda: self._guarded(name, run)))

    def _guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            log.debug("thread %s failed", name, exc_info=True)
            self._failures.append(error)

    def _repeat(self, name: str, step: Callable[[], None]) -> None:
        self._watchdog.completed(name)  # a first round that never ends is noticed as well
        while not self._ending:
            step()
            self._watchdog.completed(name)

    def _engine_round(self) -> None:
        if judged := self._engine.step():
            self._committer.submit(judged)

    def _round(self) -> None:
        begun = self._source.begun
        with self._guard_polling(), self.metrics.stage("poll"):
            batches = self._source.poll(SOURCE_POLL_S)
        for _ in batches:
            self.on_step(Step.POLLED)
        self._engine.submit(*batches)
        self._raise_failure()
        if self._source.begun != begun:
            self._after_rebalance()
        now = self.ports.clock.monotonic()
        if now >= self._next_second:
            self._next_second = now + SECOND_S
            with self._guard_polling():
                passed = self._source.passed()
                self._set_gauges()
            if passed:
                self._committer.submit(passed)

    def _guard_polling(self) -> AbstractContextManager[None]:
        limit = 2 * call_limit_s(self.config)  # start offsets need the broker and the log, one after the other
        return self._watchdog.guard("polling the article topics", limit)

    def _after_rebalance(self) -> None:
        self.metrics.rebalances.inc()
        # No thread joins it at the end: it may end at any point.
        self.ports.clock.spawn(
            "hanging-transactions", lambda: self._guarded("hanging-transactions", self._abort_hanging)
        )

    def _abort_hanging(self) -> None:
        try:
            ended = self.ports.sink.abort_hanging()
        except PortError as error:
            log.warning(
                "hanging transactions could not be aborted (%r); the broker aborts them at their time-out", error
            )
            return
        for transactional_id in ended:
            log.info("the hanging transaction of a dead worker (%s) was aborted", transactional_id)

    # the end

    def _drain(self) -> None:
        """Wait up to ``shutdown_s`` for the batches in flight, except those that wait for a schema.

        Raises:
            BaseException: what a thread failed with meanwhile.
        """
        deadline = self.ports.clock.monotonic() + self.config.worker.shutdown_s
        log.info("stopping: %d batches in flight", self._assignments.batches)
        while self._assignments.moving > 0 and self.ports.clock.monotonic() < deadline:
            self._raise_failure()
            self.ports.clock.sleep(DRAIN_PAUSE_S)
        if self._assignments.moving > 0:
            log.warning("%d batches did not finish in time; their articles are polled again", self._assignments.batches)

    def _close(self, what: str, *, failed: bool = False) -> None:
        """End the threads and close the clients; if that hangs, the watchdog names ``what`` and ends the process."""
        limit = self.config.worker.shutdown_s + FORCED_EXTRA_S
        exit_code = 0 if self.stop.is_set() and not failed else EXIT_UNAVAILABLE
        with self._watchdog.guard(what, limit, exit_code):
            self._ending = True
            self._watchdog.note_end()
            self._tail.stop()
            self._watch.stop()
            if self._schema_watch is not None:
                self._schema_watch.stop()
            self._wake.set()
            self._committer.wake()
            watchdog, *others = self._threads
            for thread in others:
                thread.join()
            self.fingerprinter.close()  # its threads complete the articles that they have begun
            for port in (self.ports.source, self.ports.sink):
                try:
                    port.close()
                except PortError as error:
                    log.debug("closing: %r", error)
        self._watchdog.stop()
        watchdog.join()

    def _is_to_end(self) -> bool:
        """Return whether the worker was stopped, or a thread has failed: then the source's thread waits no longer."""
        return self.stop.is_set() or bool(self._failures)

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    # what the source asks of the log, and gauges

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        end = self._tail.request_end()
        deadline = self.ports.clock.monotonic() + self.config.kafka.broker_wait_s
        while not end.done() or self._engine.logged[0] < end.result():
            if self._is_to_end():
                raise PassingError("the worker ends")
            if self.ports.clock.monotonic() > deadline:
                raise UnavailableError(f"the log was not read to its end within {self.config.kafka.broker_wait_s:g} s")
            self.ports.clock.sleep(ANSWER_PAUSE_S)
        return self._engine.logged[1]

    def _set_gauges(self) -> None:
        metrics = self.metrics
        metrics.inflight_batches.set(self._assignments.moving)
        metrics.up_to_date.set(1 if self.ready else 0)
        lags = self.ports.source.lag()
        for topic in self._topics - set(self._source.topics):
            metrics.source_lag.remove(topic)
        self._topics = set(self._source.topics)
        for topic in self._topics:  # 0 for a topic without an assigned partition
            metrics.source_lag.labels(topic).set(lags.get(topic, 0))
