"""Builds a worker from a configuration and runs it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from stream_dedup import __version__
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.kafka.clients import check_client, worker_ports
from stream_dedup.kafka.connection import unavailable_on_kafka_error, wait_for_broker
from stream_dedup.kafka.rules_log import KafkaLogTopic
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.metrics.server import MetricsServer
from stream_dedup.registry.values import RecordReader, Schemas, asks_registry
from stream_dedup.threads import FingerprintThreads, short_pauses, thread_count
from stream_dedup.worker import Step
from stream_dedup.worker.committer import worker_id
from stream_dedup.worker.decoding import SourceEntryMaker
from stream_dedup.worker.opening import RebuildPlan, open_log, plan_rebuild
from stream_dedup.worker.worker import Worker

if TYPE_CHECKING:
    from types import FrameType

    from stream_dedup.config.model import Config
    from stream_dedup.core.columns import Columns
    from stream_dedup.ports import SourceRecord

log = logging.getLogger(__name__)

PROGRESS_S = 2.0
"""Seconds between two log lines about the progress of a long read."""


class _Stopped(BaseException):
    """A signal came before the worker was running."""


def run_worker(
    config: Config,
    on_step: Callable[[Step], None] = lambda step: None,  # noqa: ARG005
    *,
    new_log: bool = False,
) -> int:
    """Run a worker until SIGTERM or SIGINT; return the exit code.

    With ``new_log`` it accepts a log that lost its history. ``on_step`` is called at each point between two effects,
    by the thread that does them.

    Raises:
        StreamDedupError: the error that ended the worker.
    """
    stop = threading.Event()
    with ExitStack() as stack:
        running = stack.enter_context(stopping_signals(stop))
        stack.enter_context(unavailable_on_kafka_error(config.kafka))
        try:
            worker = _start(config, stack, stop, on_step, new_log=new_log)
            running()
        except _Stopped:
            log.info("stopped before the worker was running")
            return 0
        with short_pauses():
            worker.run()
    log.info("stopped")
    return 0


def rebuild_index(config: Config, progress: Callable[[int, int], None]) -> None:
    """Empty the index and read the log into it again; calls ``progress`` with the records done and to do."""
    check_client(config)
    wait_for_broker(config.kafka)
    with unavailable_on_kafka_error(config.kafka):
        opened = open_log(config, KafkaLogTopic(config), progress, rebuild=True)
    opened.log.close()
    opened.index.close()


def rebuild_plan(config: Config, progress: Callable[[int, int], None]) -> RebuildPlan:
    """Return what ``rebuild_index`` would do; nothing is created or changed."""
    check_client(config)
    wait_for_broker(config.kafka)
    with unavailable_on_kafka_error(config.kafka):
        return plan_rebuild(config, KafkaLogTopic(config), progress)


def _start(
    config: Config, stack: ExitStack, stop: threading.Event, on_step: Callable[[Step], None], *, new_log: bool
) -> Worker:
    """Start what a worker needs; ``stack`` closes it."""
    # 1: metrics, from the start on
    check_client(config)
    schemas = Schemas(config) if asks_registry(config) else None
    metrics = Metrics(CollectorRegistry())
    metrics.watch_process()
    workers: list[Worker] = []
    if config.metrics.address != "off":
        _serve_metrics(config.metrics.address, metrics, workers, stack)
    # 2: the broker
    wait_for_broker(config.kafka, stop.is_set)
    # 3: the native core
    reader = RecordReader(config, input_format_of(config, deletes=True), schemas)
    maker = EntryMaker(fingerprint_settings_of(config), reader.format)
    maker.fingerprinter.warm()
    # 4: log and index
    opened = open_log(config, KafkaLogTopic(config), _ReadingProgress(), new_log=new_log)
    stack.callback(opened.log.close)
    stack.callback(opened.index.close)
    metrics.watch_disk(config.index.path)
    metrics.identify(__version__, opened.scheme_id)
    # 5: the worker
    transactional_id = worker_id(config.index.path, config.kafka.group)
    ports = worker_ports(config, transactional_id, opened.log, opened.record_bytes)
    stack.callback(ports.offsets.close)
    worker = Worker(
        config=config,
        ports=ports,
        opened=opened,
        transactional_id=transactional_id,
        fingerprinter=stack.enter_context(_fingerprinter(config, reader, maker, opened.record_bytes, metrics)),
        metrics=metrics,
        stop=stop,
        schemas=schemas,
        on_step=on_step,
    )
    workers.append(worker)
    return worker


def _serve_metrics(address: str, metrics: Metrics, workers: list[Worker], stack: ExitStack) -> None:
    """Serve the metrics and the health of the worker, once there is one in the list."""
    server = MetricsServer(
        address, metrics.registry, healthy=lambda: _health(workers), ready=lambda: _readiness(workers)
    )
    stack.enter_context(server)
    print(f"metrics: http://{server.address}/metrics", file=sys.stderr, flush=True)  # noqa: T201 - asked for by a port of 0


def _fingerprinter(
    config: Config, reader: RecordReader, maker: EntryMaker, record_bytes: int, metrics: Metrics
) -> FingerprintThreads[SourceRecord]:
    threads = thread_count(config.worker.threads)
    metrics.fingerprint_threads.set(threads)
    widths = fingerprint_settings_of(config).widths
    make = SourceEntryMaker(reader.entries(maker), reader.format, record_bytes, widths)

    def timed(records: Sequence[SourceRecord]) -> Columns:
        with metrics.fingerprinting():
            return make(records)

    return FingerprintThreads(threads, timed)


def _health(workers: list[Worker]) -> tuple[bool, str]:
    problem = workers[0].problem if workers else None
    return problem is None, problem or "running"


def _readiness(workers: list[Worker]) -> tuple[bool, str]:
    if not workers:
        return False, "reading the log"
    if (problem := workers[0].waits_for) is not None:
        return False, problem
    return (True, "in the group") if workers[0].ready else (False, "not in the group, or no broker answers")


@contextmanager
def stopping_signals(stop: threading.Event) -> Iterator[Callable[[], None]]:
    """Stop the program on SIGTERM and SIGINT: at once until the yielded function is called, in order afterwards."""
    is_running = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        again = stop.is_set()
        stop.set()
        if not is_running.is_set() and not again:
            raise _Stopped

    former = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield is_running.set
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class _ReadingProgress:
    """Logs the progress of reading the log."""

    def __init__(self) -> None:
        self._next = time.monotonic() + PROGRESS_S

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() > self._next:
            self._next = time.monotonic() + PROGRESS_S
            log.info("reading the log: %d of %d records (%d %%)", done, total, 100 * done // max(total, 1))
