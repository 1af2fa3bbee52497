"""The engine: steps 2 to 6 of an article's way, and the only thread that touches the index.

    2, 3  decode and fingerprint, in the pool, what does not stand in the log yet
    4     append it to the log
    5     read the log; every record, one's own and the others', is applied to the index in log order
    6     judge one's own articles as of their log positions, oldest batch first

Rules:

* What was logged first decides. An article that already stands is neither decoded nor logged
  again; its value must have the checksum that was logged, or the worker stops.
* A batch is appended only after a look at the topic's id that began after its poll.
* Batches leave in the order in which they came, so verdicts leave in source order.
* A batch whose assignment has ended is thrown away, whatever has been done for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.broker.record import record_bytes
from stream_dedup.core.arrays import I64
from stream_dedup.core.entry import Batch, Trim
from stream_dedup.core.fingerprint.columns import Columns, checksum, rejected_columns
from stream_dedup.core.model import ROW_BITS, log_offset_of
from stream_dedup.core.rules import Rules
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.worker.batches import Flight, Stretch
from stream_dedup.worker.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from stream_dedup.broker.log import LogAppender
    from stream_dedup.broker.record import ConsumerRecord
    from stream_dedup.broker.tail import LogTail
    from stream_dedup.broker.topic_watch import TopicWatch
    from stream_dedup.index import LogIndex
    from stream_dedup.metrics.metrics import Metrics, Stage
    from stream_dedup.pool import FingerprintPool
    from stream_dedup.worker.trimmer import Trimmer

log = logging.getLogger(__name__)

WAIT_S = 0.1
"""Longest wait for something to do; whatever comes wakes the engine at once."""
CHUNK_RECORDS = 64
"""Records in one piece of work for the pool: small enough to share a batch out, large enough for one matrix product."""
FEWEST_RECORDS = 8
"""Fewer than that (4 ms of work) are not worth sharing out."""
GAUGES_S = 1.0
"""How often the gauges of index and log are set."""
APPEND_RETRIES = 5
"""Failed appends of one stretch before the worker stops; each is waited for up to the delivery time-out."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine works with."""

    index: LogIndex
    tail: LogTail
    appender: LogAppender
    pool: FingerprintPool
    watch: TopicWatch
    trimmer: Trimmer
    metrics: Metrics
    max_record_bytes: int
    tables: int
    processes: int
    hand_on: Callable[[Flight], None]
    drop: Callable[[Flight], None]
    restart: Callable[[Flight], None]
    on_step: Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class _Question:
    """Which partitions stand in the log, once it was read to its end as of now."""

    end: Future[int]
    answer: Future[frozenset[tuple[bytes, int]]]


class Engine:
    """``step`` does one round; ``submit`` and ``ask_logged_partitions`` may be called from other threads."""

    def __init__(self, parts: EngineParts, wake: threading.Event) -> None:
        """The index must have been read up to the log's end; ``wake`` is set whenever there may be something to do."""
        self._parts = parts
        self._wake = wake
        self._inbox: SimpleQueue[Flight] = SimpleQueue()
        self._questions: deque[_Question] = deque()
        self._flights: deque[Flight] = deque()
        self._failed_appends = 0
        self._gauges_at = 0.0

    def submit(self, flight: Flight) -> None:
        """Hand in a polled batch."""
        self._inbox.put(flight)
        self._wake.set()

    def ask_logged_partitions(self) -> Future[frozenset[tuple[bytes, int]]]:
        """Which partitions stand in the log, after reading it to its present end."""
        question = _Question(self._parts.tail.ask_end(), Future())
        self._questions.append(question)
        return question.answer

    def step(self) -> None:
        """One round of steps 2 to 6, as soon as there may be something to do."""
        self._wake.wait(WAIT_S)
        self._wake.clear()
        self._take_in()
        self._drop_ended()
        self._append_ready()
        self._read_log()
        self._answer()
        self._judge_ready()
        self._parts.trimmer.step(time.monotonic())
        self._set_gauges()

    # 2, 3: decode and fingerprint

    def _take_in(self) -> None:
        while True:
            try:
                flight = self._inbox.get_nowait()
            except Empty:
                return
            flight.positions = self._standing(flight)
            now = time.monotonic()
            flight.stretches = [
                Stretch(rows, self._fingerprint(flight, rows), now) for rows in _runs(flight.positions < 0)
            ]
            for stretch in flight.stretches:
                for part in stretch.columns:
                    part.add_done_callback(self._woken)
            self._parts.watch.ids_since(flight.polled_at)  # asks for the look that the append will need
            self._parts.on_step(Step.DECODING)
            self._flights.append(flight)

    def _fingerprint(self, flight: Flight, rows: slice) -> list[Future[Columns]]:
        records = flight.records[rows]
        share = -(-len(records) // max(self._parts.processes, 1))
        size = min(max(share, FEWEST_RECORDS), CHUNK_RECORDS)
        return [
            future
            for start in range(0, len(records), size)
            for future in self._columns(flight, records[start : start + size])
        ]

    def _columns(self, flight: Flight, records: Sequence[ConsumerRecord]) -> Iterator[Future[Columns]]:
        """Futures of the columns of these records, in order; what no topic can hold is rejected here."""
        fitting: list[RawRecord] = []
        for record in records:
            size = record_bytes(record)
            raw = _raw(flight, record)
            if size <= self._parts.max_record_bytes:
                fitting.append(raw)
                continue
            if fitting:
                yield self._parts.pool.submit(fitting)
                fitting = []
            reason = f"record too large: {size} bytes with key and headers, {self._parts.max_record_bytes} fit"
            yield _done(rejected_columns(raw, reason, self._parts.tables))
        if fitting:
            yield self._parts.pool.submit(fitting)

    # 4: append

    def _append_ready(self) -> None:
        for flight in self._flights:
            for stretch in flight.stretches or ():
                if stretch.sent is not None:
                    if not self._acknowledged(stretch):
                        return
                    continue
                if not all(part.done() for part in stretch.columns):
                    return
                self._parts.on_step(Step.FINGERPRINTED)
                if not self._is_of_its_topic(flight):
                    return
                with self._parts.metrics.stage("append"):
                    self._append(flight, stretch)

    def _is_of_its_topic(self, flight: Flight) -> bool:
        """Whether a look at the topics that began after the poll saw the id that was read; if another, begin again."""
        ids = self._parts.watch.ids_since(flight.polled_at)
        if ids is None:
            return False
        if ids.get(flight.partition.topic) == flight.topic_id:
            return True
        if flight.assignment.valid:
            log.warning("topic %s is no longer the one that was read; begins again", flight.partition.topic)
            self._parts.restart(flight)
        return False

    def _append(self, flight: Flight, stretch: Stretch) -> None:
        """Append the rows that still do not stand: another worker may have logged some meanwhile."""
        columns = Columns.concat([part.result() for part in stretch.columns])
        self._pass("decode_fingerprint", stretch)
        self._parts.metrics.count_texts(columns.statuses)
        missing = self._standing(flight)[stretch.rows] < 0
        stretch.sent = []
        for run in _runs(missing):
            rows = slice(stretch.rows.start + run.start, stretch.rows.start + run.stop)
            batch = columns.rows(run).batch(
                flight.topic_id, flight.partition.topic, flight.partition.partition, flight.offsets[rows]
            )
            stretch.sent.append(self._parts.appender.append(batch))

    def _acknowledged(self, stretch: Stretch) -> bool:
        """Whether an append has not failed; a failed one is made again.

        Raises:
            UnavailableError: too many appends failed one after the other.
        """
        sent = stretch.sent or []
        failed = next((future for future in sent if future.failed()), None)
        if failed is None:
            if sent and all(future.succeeded() for future in sent):
                self._failed_appends = 0
            return True
        self._failed_appends += 1
        if self._failed_appends > APPEND_RETRIES:
            msg = f"{self._failed_appends} appends to the log failed one after the other: {failed.exception}"
            raise UnavailableError(msg) from failed.exception
        log.warning("an append to the log failed (%s) and is made again", failed.exception)
        self._parts.appender.renew()
        for flight in self._flights:
            for other in flight.stretches or ():
                if other.sent is not None and not all(future.succeeded() for future in other.sent):
                    other.sent = None
        return False

    # 5: read the log

    def _read_log(self) -> None:
        while records := self._parts.tail.take():
            self._parts.on_step(Step.APPENDED)
            with self._parts.metrics.stage("apply"):
                self._parts.index.apply(records)
            for record in records:
                kind = {Batch: "batch", Rules: "rules", Trim: "trim"}[type(record.payload)]
                self._parts.metrics.log_records.labels(kind).inc()
            self._parts.on_step(Step.READ)

    def _answer(self) -> None:
        while self._questions and self._questions[0].end.done():
            question = self._questions[0]
            error = question.end.exception()
            if error is not None:
                question.answer.set_exception(error)
            elif self._parts.index.next_offset < question.end.result():
                return
            else:
                question.answer.set_result(frozenset(self._parts.index.partitions()))
            self._questions.popleft()

    def _woken(self, _done: object) -> None:
        self._wake.set()

    # 6: judge

    def _judge_ready(self) -> None:
        """Judge the oldest batches together, up to the first that does not stand whole yet."""
        ready: list[Flight] = []
        for flight in self._flights:
            if (flight.positions < 0).any():
                flight.positions = self._standing(flight)
                if (flight.positions < 0).any():
                    break
            if not self._is_of_its_topic(flight):
                break
            ready.append(flight)
        if not ready:
            return
        for flight in ready:
            for stretch in flight.stretches or ():
                self._pass("log_read", stretch)
            self._check_values(flight)
        counters = self._parts.index.counters
        before = (counters.lookups, counters.lists, counters.candidates)
        with self._parts.metrics.stage("judge"):
            judgements = iter(self._parts.index.judge(np.concatenate([flight.positions for flight in ready])))
        after = (counters.lookups, counters.lists, counters.candidates)
        self._parts.metrics.count_lookups(*(now - then for now, then in zip(after, before, strict=True)))
        for flight in ready:
            flight.judgements = list(islice(judgements, len(flight.records)))
            flight.observed = self._observed(flight)
            self._parts.on_step(Step.JUDGED)
            self._flights.popleft()
            self._parts.hand_on(flight)

    def _observed(self, flight: Flight) -> list[bool]:
        """Whether the rules at each article's log position only observe."""
        offsets = flight.positions >> ROW_BITS
        rules = {offset: self._parts.index.rules_at(offset << ROW_BITS) for offset in set(offsets.tolist())}
        return [rules[offset].observe for offset in offsets.tolist()]

    def _check_values(self, flight: Flight) -> None:
        """Hold every value against the checksum that was logged; note the fingerprints.

        Raises:
            RefusedError: the source has another article at a log position that was logged.
        """
        checksums, fingerprints = self._parts.index.logged(flight.positions)
        flight.fingerprints = fingerprints.tolist()
        for record, position, logged in zip(flight.records, flight.positions.tolist(), checksums.tolist(), strict=True):
            if checksum(record.value) != logged:
                msg = (
                    f"{record.topic}-{record.partition}-{record.offset}: not the article that was logged there "
                    f"(log offset {log_offset_of(position)}): the topic lost records and got others in their place, "
                    "under the same id. "
                    "Nothing was judged. Restore the topic, or begin a new group (a new log) with --group"
                )
                raise RefusedError(msg)

    # what is told

    def _pass(self, stage: Stage, stretch: Stretch) -> None:
        """A step of a stretch is done, and the next one begins."""
        now = time.monotonic()
        self._parts.metrics.passed(stage, now - stretch.began)
        stretch.began = now

    def _set_gauges(self) -> None:
        now = time.monotonic()
        if now < self._gauges_at:
            return
        self._gauges_at = now + GAUGES_S
        stats = self._parts.index.stats()
        self._parts.metrics.index_entries.set(int(stats["articles"] or 0))
        self._parts.metrics.index_bytes.set(int(stats["bytes_on_disk"] or 0))
        self._parts.metrics.image_bytes.set(int(stats.get("image_bytes") or 0))
        self._parts.metrics.log_lag.set(max(0, self._parts.tail.high_water - self._parts.index.next_offset))

    # what ends

    def _drop_ended(self) -> None:
        ended = [flight for flight in self._flights if not flight.assignment.valid]
        for flight in ended:
            self._flights.remove(flight)
            self._parts.drop(flight)

    def _standing(self, flight: Flight) -> I64:
        return self._parts.index.standing(flight.topic_id, flight.partition.partition, flight.offsets)


def _raw(flight: Flight, record: ConsumerRecord) -> RawRecord:
    topic, partition = flight.partition
    return RawRecord(record.key, record.value, f"{topic}-{partition}-{record.offset}")


def _runs(wanted: NDArray[np.bool_]) -> list[slice]:
    """Stretches of rows that are wanted, each as long as possible."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False]))))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _done(columns: Columns) -> Future[Columns]:
    future: Future[Columns] = Future()
    future.set_result(columns)
    return future
