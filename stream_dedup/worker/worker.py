"""The worker: three threads and a watchdog.

    source     the caller's thread: polls batches (step 1), keeps the membership, watches the other threads
    engine     steps 2 to 6 and the index
    committer  step 7

A thread that fails ends the worker with its error. A stop (SIGTERM, SIGINT) ends the polling, waits up to
``shutdown_s`` for the batches in flight, and leaves the group. Articles that are not committed by then are polled
again.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from stream_dedup.broker.client import call_limit_s
from stream_dedup.broker.hanging_transactions import abort_hanging_transactions
from stream_dedup.broker.log import LogAppender
from stream_dedup.broker.tail import LogTail
from stream_dedup.broker.topic_watch import TopicWatch
from stream_dedup.errors import UnavailableError
from stream_dedup.exit_codes import EXIT_UNAVAILABLE
from stream_dedup.worker.batches import Budget
from stream_dedup.worker.committer import Committer, CommitterParts
from stream_dedup.worker.engine import Engine, EngineParts
from stream_dedup.worker.fingerprinting import BatchFingerprinter
from stream_dedup.worker.source import ArticleSource
from stream_dedup.worker.steps import Step, TrimStep
from stream_dedup.worker.trimmer import Trimmer
from stream_dedup.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.pool import FingerprintPool
    from stream_dedup.worker.opening import OpenedLog

log = logging.getLogger(__name__)

SOURCE_POLL_MS = 100
"""Longest wait for articles: the delay until a stop or the failure of another thread is noticed."""
INFLIGHT_BYTES = 64 << 20
"""Bytes in flight before polling pauses: the limit on the memory of both producers."""
DRAIN_PAUSE_S = 0.01
"""Seconds between two checks of the batches in flight while stopping."""
WORKER_GAUGES_S = 1.0
"""Seconds between two updates of the worker's gauges."""
FORCED_EXTRA_S = 10.0
"""The watchdog ends a stop that takes so many seconds longer than ``shutdown_s``."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is made of, and the event that stops it."""

    config: Config
    opened: OpenedLog
    transactional_id: str
    pool: FingerprintPool
    processes: int
    metrics: Metrics
    stop: threading.Event
    on_step: Callable[[Step | TrimStep], None] = lambda step: None  # noqa: ARG005 - for tests


class Worker:
    """Runs until stopped; ``ready`` is whether it takes part in its group."""

    def __init__(self, parts: WorkerParts) -> None:
        """Connect every client; the index must hold the log up to its end."""
        config = parts.config
        self._parts = parts
        self._failures: list[BaseException] = []
        self._ending = threading.Event()
        self._budget = Budget(config.worker.max_inflight_batches, INFLIGHT_BYTES)
        self._watchdog = Watchdog()
        wake = threading.Event()
        self._watch = TopicWatch(config, parts.opened.log_id, wake.set)
        self._tail = LogTail(parts.opened.reader, wake.set, config.kafka.broker_wait_s)
        self._appender = LogAppender(config.kafka, config.log_topic)
        self._trimmer = Trimmer(
            config, parts.opened.index, self._appender.append, parts.opened.first_offset, parts.on_step
        )
        self._source = ArticleSource(config, self._watch, parts.transactional_id, self._logged_partitions)
        self._committer = Committer(
            CommitterParts(
                config=config,
                transactional_id=parts.transactional_id,
                scheme_id=parts.opened.scheme_id,
                watchdog=self._watchdog,
                metrics=parts.metrics,
                drop=self._budget.release,
                resync=self._source.resync,
                on_step=parts.on_step,
            )
        )
        self._engine = Engine(
            EngineParts(
                index=parts.opened.index,
                tail=self._tail,
                appender=self._appender,
                fingerprinter=BatchFingerprinter(
                    parts.pool, parts.processes, config.kafka.max_record_bytes, config.features.tables
                ),
                watch=self._watch,
                trimmer=self._trimmer,
                metrics=parts.metrics,
                hand_on=self._committer.submit,
                drop=self._budget.release,
                resync=self._source.resync,
                on_step=parts.on_step,
            ),
            wake,
        )
        self._threads = [
            threading.Thread(target=self._run, args=(name, step), name=name, daemon=True)
            for name, step in (("engine", self._engine.step), ("committer", self._committer.step))
        ]
        self._gauges_at = 0.0
        self._rebalances = 0

    @property
    def ready(self) -> bool:
        """Whether the worker takes part in its group and the broker answers."""
        return self._rebalances > 0 and self._watch.answered and not self._failures

    def run(self) -> None:
        """Work until ``stop`` is set.

        Raises:
            StreamDedupError: the error that ended the worker.
        """
        self._watchdog.start()
        self._watch.start()
        self._tail.start()
        for thread in self._threads:
            thread.start()
        try:
            self._source.join()
            while not self._parts.stop.is_set():
                self._round()
            self._drain()
        finally:
            self._close()

    def _round(self) -> None:
        limit = 2 * call_limit_s(self._parts.config)  # start offsets need the broker and the log, one after the other
        with self._watchdog.guard("polling the article topics", limit), self._parts.metrics.stage("poll"):
            self._source.pause(full=self._budget.full)
            batches = self._source.poll(SOURCE_POLL_MS)
        for batch in batches:
            self._budget.reserve(batch)
            self._parts.on_step(Step.POLLED)
            self._engine.submit(batch)
        self._raise_failure()
        if self._source.rebalances != self._rebalances:
            self._after_rebalance()
        self._set_gauges()

    def _after_rebalance(self) -> None:
        self._parts.metrics.rebalances.inc(self._source.rebalances - self._rebalances)
        self._rebalances = self._source.rebalances
        abort = threading.Thread(
            target=abort_hanging_transactions,
            args=(self._parts.config.kafka, self._parts.transactional_id),
            name="hanging-transactions",
            daemon=True,
        )
        abort.start()

    def _drain(self) -> None:
        """Wait for the batches in flight, up to ``shutdown_s``."""
        deadline = time.monotonic() + self._parts.config.worker.shutdown_s
        log.info("stopping: %d batches in flight", self._budget.batches)
        while self._budget.batches and time.monotonic() < deadline:
            failure = self._failure()
            if failure is not None:
                log.warning("failed while stopping: %s", failure)
                break
            time.sleep(DRAIN_PAUSE_S)
        if self._budget.batches:
            log.warning("%d batches were not finished in time; their articles are polled again", self._budget.batches)

    def _close(self) -> None:
        """Join the threads and close the clients; the watchdog ends a close that hangs in the client."""
        limit = self._parts.config.worker.shutdown_s + FORCED_EXTRA_S
        exit_code = 0 if self._parts.stop.is_set() else EXIT_UNAVAILABLE
        with self._watchdog.guard("the end of the worker", limit, exit_code):
            self._ending.set()
            for thread in self._threads:
                thread.join()
            self._tail.stop()
            for part in (self._source, self._committer, self._appender, self._trimmer):
                try:
                    part.close()
                except KafkaError as error:
                    log.debug("closing: %r", error)
            self._watch.stop()
        self._watchdog.stop()

    def _run(self, name: str, step: Callable[[], None]) -> None:
        try:
            while not self._ending.is_set():
                step()
        except BaseException as error:
            log.debug("%s failed", name, exc_info=True)
            self._failures.append(error)

    def _raise_failure(self) -> None:
        failure = self._failure()
        if failure is not None:
            raise failure

    def _failure(self) -> BaseException | None:
        return self._failures[0] if self._failures else self._watch.failure

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        answer = self._engine.request_logged_partitions()
        deadline = time.monotonic() + self._parts.config.kafka.broker_wait_s
        while not answer.done():
            self._raise_failure()
            if time.monotonic() > deadline:
                msg = f"the log was not read to its end within {self._parts.config.kafka.broker_wait_s:g} s"
                raise UnavailableError(msg)
            time.sleep(0.005)
        return answer.result()

    def _set_gauges(self) -> None:
        now = time.monotonic()
        if now < self._gauges_at:
            return
        self._gauges_at = now + WORKER_GAUGES_S
        metrics = self._parts.metrics
        metrics.inflight_batches.set(self._budget.batches)
        metrics.up_to_date.set(1 if self.ready else 0)
        for topic, lag in self._source.lag().items():
            metrics.source_lag.labels(topic).set(lag)
