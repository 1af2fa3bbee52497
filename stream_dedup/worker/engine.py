"""The engine: steps 2 to 6 of an article's way. Its thread is the only one that uses the index.

    2, 3  decode and fingerprint, in threads, the articles that are not in the log yet; batches that wait for a schema
          are held (``decoding``)
    4     append their entries to the log
    5     read the log; apply every record, of this worker and of others, to the index in log order
    6     judge this worker's articles as of their log positions, oldest batch first

Rules:

* The first entry of an article in the log counts. An article that is in the log is neither decoded nor logged
  again; its value must have the logged checksum, or the worker stops.
* A batch is appended only after the topic's id was looked up by a request that began after the batch was polled.
* Batches of one source partition leave in the order in which they were polled, so verdicts leave in source order. The
  batches of other partitions do not wait for them. But a fingerprinted batch waits a moment for others that are being
  fingerprinted: together they take one request to the log, one fetch of it, one search and one transaction.
* Articles that were logged once and that a trim has forgotten are never logged again.
* A batch whose assignment has ended is dropped, whatever its step, and its fingerprinting is cancelled.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.entry import Batch, LogRecord, Trim, Withdrawal, make_batch
from stream_dedup.core.fingerprinter import checksum
from stream_dedup.core.model import ROW_BITS, Status, log_offset_of
from stream_dedup.core.rules import Rules, rule_changes
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.index import FORGOTTEN, UNLOGGED
from stream_dedup.ports import RecordTooLargeError, RefusedByBrokerError
from stream_dedup.registry.values import other_format
from stream_dedup.worker import Step
from stream_dedup.worker.assignments import JudgedBatch, PolledBatch
from stream_dedup.worker.decoding import HeldBatches, PendingBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stream_dedup.config.model import Config
    from stream_dedup.core.columns import Columns
    from stream_dedup.core.model import Judgement
    from stream_dedup.index import LogIndex
    from stream_dedup.metrics.metrics import Metrics, Stage
    from stream_dedup.ports import Append, Clock, Event, FingerprintLog, Partition, PortError, SourceRecord
    from stream_dedup.threads import FingerprintThreads
    from stream_dedup.worker.assignments import AssignmentOwner
    from stream_dedup.worker.log_tail import LogTail
    from stream_dedup.worker.trimmer import Trimmer
    from stream_dedup.worker.watches import SchemaWatch, TopicWatch

log = logging.getLogger(__name__)

IDLE_WAIT_S = 0.1
"""Longest wait for work while batches are pending: the end of their assignment wakes nobody."""
REST_WAIT_S = 0.5
"""Longest wait without a batch, for trims and gauges: any other work wakes the engine at once."""
READ_LOG_S = 1.0
"""Longest time for which one round applies records of the log."""
INDEX_GAUGES_S = 1.0
"""How often the gauges of index and log are set."""
GATHER_S = 0.005
"""How long a fingerprinted batch waits for others."""
MAX_APPEND_FAILURES = 5
"""Failed appends in a row before the worker stops, if the first of them is older than ``kafka.broker_wait_s``: while no
broker answers, each fails within seconds."""
_KINDS = {Batch: "batch", Rules: "rules", Trim: "trim", Withdrawal: "withdrawal"}


@dataclass(eq=False)
class Engine:
    """``step`` does one round; other threads may call ``submit``."""

    config: Config
    index: LogIndex
    """Read up to the log's end."""
    tail: LogTail
    log: FingerprintLog
    fingerprinter: FingerprintThreads[SourceRecord]
    watch: TopicWatch
    schemas: SchemaWatch | None
    """Where records are decoded by the schemas of a registry."""
    trimmer: Trimmer
    assignments: AssignmentOwner
    clock: Clock
    wake: Event
    """Set whenever there may be work."""
    metrics: Metrics
    on_step: Callable[[Step], None]

    def __post_init__(self) -> None:
        """Begin with nothing in flight."""
        self._inbox: deque[PolledBatch] = deque()
        self._pending: deque[PendingBatch] = deque()
        self.logged = (self.index.next_offset, frozenset(self.index.partitions()))
        """The log offset that the index was read to, and the source partitions that were logged before. Any thread."""
        self._failures, self._failing_since = 0, 0.0
        """Appends that failed since a batch was judged last, or a trim was logged; and when the first of them did."""
        self._gather_until: float | None = None
        """When fingerprinted batches are appended without the others; None if none waits."""
        self._gauges_at = 0.0
        self._held = HeldBatches(
            self.schemas,
            self.assignments,
            unlogged=lambda batch: self._positions(batch) == UNLOGGED,
            reads_keys=self.config.input.key_field is not None,
        )

    @property
    def held(self) -> int:
        """Number of batches in flight that wait for a schema. Any thread."""
        return self._held.batches

    def submit(self, *batches: PolledBatch) -> None:
        """Hand in the batches of a poll."""
        if batches:
            self._inbox.extend(batches)
            self.wake.set()
            self.tail.hurry()

    def step(self) -> list[JudgedBatch]:
        """Do one round of steps 2 to 6, as soon as there may be work; return the batches that it judged, in order."""
        self.wake.wait(self._longest_wait_s())
        self.wake.clear()
        self._receive_batches()
        self._drop_ended_batches()
        self._append_fingerprinted()
        self._read_log()
        judged = self._judge_logged_batches()
        self.trimmer.step(self.clock.monotonic())
        self._set_gauges()
        return judged

    def _longest_wait_s(self) -> float:
        if not self._pending:
            return IDLE_WAIT_S if self._held.batches else REST_WAIT_S
        if self._gather_until is None:
            return IDLE_WAIT_S
        return max(0.0, self._gather_until - self.clock.monotonic())

    # 2, 3: decode and fingerprint

    def _receive_batches(self) -> None:
        now = self.clock.monotonic()
        batches = self._held.receive([self._inbox.popleft() for _ in range(len(self._inbox))], now)
        for batch in batches:
            rows = np.flatnonzero(self._positions(batch) == UNLOGGED)
            self.watch.ids_since(batch.polled_at)  # begins the look-up that the append will need
            pending = PendingBatch(batch, rows, now)
            if len(rows):
                pending.columns = self.fingerprinter.submit([batch.records[row] for row in rows.tolist()])
                pending.columns.add_done_callback(lambda _done: self.wake.set())
            self.on_step(Step.DECODING)
            self._pending.append(pending)

    # 4: append

    def _append_fingerprinted(self) -> None:
        """Append the batches of each partition in order, up to the first that cannot be appended now."""
        trims = self.trimmer.appends
        if trims and not self._has_failed(trims) and are_logged(trims):
            trims.clear()
            self._failures = 0
        gathers = self._gathers()
        waiting: set[Partition] = set()
        for pending in self._pending:
            at = pending.polled.partition
            if at in waiting or not self._is_appended(pending, gathers=gathers):
                waiting.add(at)

    def _gathers(self) -> bool:
        """Return whether fingerprinted batches wait a moment for those that are not fingerprinted yet."""
        now = self.clock.monotonic()
        waiting = [pending.columns for pending in self._pending if pending.appends is None]
        are_done = {columns.done() for columns in waiting if columns is not None}
        if are_done != {True, False} or (self._gather_until is not None and now >= self._gather_until):
            self._gather_until = None
            return False
        self._gather_until = self._gather_until or now + GATHER_S
        return True

    def _is_appended(self, pending: PendingBatch, *, gathers: bool) -> bool:
        """Return whether a batch was sent to the log, now or before, and no append of it has failed."""
        if pending.columns is None:
            return True
        if pending.appends is not None:
            return not self._has_failed(pending.appends)
        if gathers or not pending.columns.done():
            return False
        self.on_step(Step.FINGERPRINTED)
        if not self._is_of_its_topic(pending.polled):
            return False
        with self.metrics.stage("append"):
            pending.appends = self._append(pending, pending.columns.result())
        return True

    def _is_of_its_topic(self, batch: PolledBatch) -> bool:
        """Return whether a look-up begun after the poll saw the topic id of the batch; if not, end its assignment."""
        ids = self.watch.ids_since(batch.polled_at)
        if ids is None:
            return False
        if ids.get(batch.partition.topic) == batch.topic_id:
            return True
        if self.assignments.is_working(batch.assignment):
            log.warning("topic %s was recreated after it was read; the worker begins anew", batch.partition.topic)
            self.assignments.end(batch.assignment, "an article topic was recreated")
        return False

    def _append(self, pending: PendingBatch, columns: Columns) -> list[Append]:
        """Append the rows that are still not in the log: another worker may have logged some meanwhile."""
        batch = pending.polled
        self._refuse_other_format(pending, columns)
        if not pending.is_counted:
            self._observe_stage("decode_fingerprint", pending)
            self.metrics.count_texts(columns.statuses)
            pending.is_counted = True
        appends = []
        for rows in runs_of(self._positions(batch) == UNLOGGED):
            first = int(np.searchsorted(pending.rows, rows.start))
            entries = make_batch(
                columns.rows(slice(first, first + rows.stop - rows.start)),
                batch.topic_id,
                batch.partition.topic,
                batch.partition.number,
                batch.offsets[rows],
                read_to=self.index.next_offset,
            )
            appends.append(self.log.append(entries))
        return appends

    def _refuse_other_format(self, pending: PendingBatch, columns: Columns) -> None:
        """Refuse to log rejections of values of another format, if no article of the topic was ever accepted.

        Raises:
            UserError: it names the format, and what to set.
        """
        if (columns.statuses != Status.REJECTED).any():
            return
        batch = pending.polled
        for record in map(batch.records.__getitem__, pending.rows.tolist()):
            problem = other_format(record.value, self.config.input.format)
            if problem is None:
                continue
            if self.index.has_accepted(batch.topic_id):
                return
            raise UserError(
                f"{batch.partition}-{record.offset}: the value is {problem}. No article of topic "
                f"{batch.partition.topic} was ever accepted, so this one is not rejected either: it was not logged"
            )

    def _has_failed(self, appends: Sequence[Append]) -> bool:
        """Return whether one of these appends has failed; if so, every unfinished append is retried.

        Raises:
            UserError: the broker refuses the append, and would refuse it again.
            UnavailableError: too many appends in a row have failed, for too long.
        """
        error = next((error for append in appends if (error := append.error()) is not None), None)
        if error is None:
            return False
        self._count_failure(error)
        self.log.renew()
        self.trimmer.appends.clear()  # its next round appends what is still wanted
        for pending in self._pending:
            if pending.appends is not None and not are_logged(pending.appends):
                pending.appends = None
        return True

    def _count_failure(self, error: PortError) -> None:
        topic = self.config.log_topic
        if isinstance(error, (RefusedByBrokerError, RecordTooLargeError)):
            raise UserError(
                f"topic {topic}: the broker refuses appends: {error}; see stream-dedup topics check, and docs/acls.md "
                "for the rights"
            ) from error
        self._failures += 1
        now = self.clock.monotonic()
        if self._failures == 1:
            self._failing_since = now
        lasts = now - self._failing_since >= self.config.kafka.broker_wait_s
        if lasts and self._failures > MAX_APPEND_FAILURES:
            raise UnavailableError(f"{self._failures} appends to the log failed in a row: {error}") from error
        log.warning("an append to the log failed (%s) and is retried", error)

    # 5: read the log

    def _read_log(self) -> None:
        """Apply the log records that were read, for at most ``READ_LOG_S``: a fast log leaves time for the rest."""
        until = self.clock.monotonic() + READ_LOG_S
        while records := self.tail.next_records():
            self.on_step(Step.APPENDED)
            in_force = self.index.rules
            with self.metrics.stage("apply"):
                self.index.apply(records)
            self.logged = (self.index.next_offset, frozenset(self.index.partitions()))
            note_applied(records, in_force, self.metrics)
            self.on_step(Step.READ)
            if self.clock.monotonic() >= until:
                self.wake.set()
                return

    # 6: judge

    def _judge_logged_batches(self) -> list[JudgedBatch]:
        """Judge together the oldest batches of each partition, up to the first with a record that is not in the log."""
        ready = self._logged_batches()
        if not ready:
            return []
        for pending, _ in ready:
            if pending.columns is not None:
                self._observe_stage("log_read", pending)
        self._failures = 0
        fingerprints = [self._check_values(pending.polled, positions) for pending, positions in ready]
        judgements = iter(self._judge(np.concatenate([positions for _, positions in ready])))
        judged = []
        for (pending, positions), of_batch in zip(ready, fingerprints, strict=True):
            verdicts = list(islice(judgements, len(positions)))
            judged.append(JudgedBatch(pending.polled, verdicts, of_batch, self._observed(positions)))
            self.on_step(Step.JUDGED)
            self._pending.remove(pending)
        return judged

    def _logged_batches(self) -> list[tuple[PendingBatch, I64]]:
        """Return the batches that can be judged, of each partition the oldest ones, with their log positions."""
        ready = []
        waiting: set[Partition] = set()
        for pending in self._pending:
            at = pending.polled.partition
            positions = None if at in waiting else self._logged(pending)
            if positions is None or not self._is_of_its_topic(pending.polled):
                waiting.add(at)
            else:
                ready.append((pending, positions))
        return ready

    def _logged(self, pending: PendingBatch) -> I64 | None:
        """Return the log positions of a batch, or None while a record of it is not in the log.

        They are looked up again whenever the log was read further: a trim may have forgotten a batch that waits for the
        id of its topic.
        """
        read_to = self.index.next_offset
        if pending.seen_to != read_to:
            positions = self._positions(pending.polled)
            pending.positions = positions if (positions >= 0).all() else None
            pending.seen_to = read_to
        return pending.positions

    def _judge(self, positions: I64) -> list[Judgement]:
        counters = self.index.counters
        before = (counters.lookups, counters.lists, counters.candidates)
        with self.metrics.stage("judge"):
            judgements = self.index.judge(positions)
        after = (counters.lookups, counters.lists, counters.candidates)
        self.metrics.count_lookups(*(now - then for now, then in zip(after, before, strict=True)))
        return judgements

    def _observed(self, positions: I64) -> list[bool]:
        """Return for each log position whether the rules in force there only observe."""
        offsets = (positions >> ROW_BITS).tolist()
        rules = {offset: self.index.rules_at(offset) for offset in set(offsets)}
        return [rules[offset].observe for offset in offsets]

    def _check_values(self, batch: PolledBatch, positions: I64) -> list[int]:
        """Compare every value with the logged checksum; return the logged fingerprints.

        Raises:
            RefusedError: the source has another article where one was logged.
        """
        checksums, fingerprints = self.index.logged(positions)
        for record, position, logged in zip(batch.records, positions.tolist(), checksums.tolist(), strict=True):
            if checksum(record.value) != logged:
                raise RefusedError(
                    f"{batch.partition}-{record.offset}: not the article that was logged there "
                    f"(log offset {log_offset_of(position)}): the topic lost records and got others in their place, "
                    "under the same id. Nothing was judged. Restore the topic, or begin a new group (a new log) with "
                    "--group"
                )
        return cast("list[int]", fingerprints.tolist())

    # metrics

    def _observe_stage(self, stage: Stage, pending: PendingBatch) -> None:
        """Record how long the present step of a batch took; its next step begins."""
        now = self.clock.monotonic()
        self.metrics.passed(stage, now - pending.began)
        pending.began = now

    def _set_gauges(self) -> None:
        now = self.clock.monotonic()
        if now < self._gauges_at:
            return
        self._gauges_at = now + INDEX_GAUGES_S
        self.metrics.show_index(self.index.stats(), self.index.rules)
        unknown, unanswered = self._held.waiting()
        self.metrics.waiting_partitions.labels("unknown_schema").set(unknown)
        self.metrics.waiting_partitions.labels("registry_away").set(unanswered)
        self.metrics.log_lag.set(max(0, self.log.high_water() - self.index.next_offset))

    # ended assignments

    def _drop_ended_batches(self) -> None:
        is_working = self.assignments.is_working
        for pending in [pending for pending in self._pending if not is_working(pending.polled.assignment)]:
            self._pending.remove(pending)
            self.assignments.end(pending.polled.assignment, "its membership has ended")
            if pending.columns is not None:
                pending.columns.cancel()
            self.assignments.release(pending.polled)
        for batch in self._held.drop_ended():
            self.assignments.end(batch.assignment, "its membership has ended")
            self.assignments.release(batch)

    def _positions(self, batch: PolledBatch) -> I64:
        """Return the log position of each record, UNLOGGED or FORGOTTEN; end the assignment if any is forgotten.

        A trim forgets only what is committed: the committed offset is behind these articles, and this worker polled
        them before it was. It begins again at the committed offset.
        """
        positions = self.index.logged_positions(batch.topic_id, batch.partition.number, batch.offsets)
        if (positions == FORGOTTEN).any():
            self.assignments.end(batch.assignment, "its articles were committed and are forgotten")
        return positions


def runs_of(wanted: NDArray[np.bool_]) -> list[slice]:
    """Return the runs of consecutive wanted rows, each as long as possible."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False]))))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def are_logged(appends: Sequence[Append]) -> bool:
    """Return whether the records of all these appends are in the log."""
    return all(append.done() and append.error() is None for append in appends)


def note_applied(records: Sequence[LogRecord], in_force: Rules | None, metrics: Metrics) -> None:
    """Count consecutive log records, and log each change of rules; ``in_force`` are the rules before them."""
    counts = Counter(_KINDS[type(record.payload)] for record in records)
    for kind, count in counts.items():
        metrics.log_records.labels(kind).inc(count)
    for record in records:
        if isinstance(record.payload, Rules) and record.payload.takes_force_after(in_force):
            changes = [] if in_force is None else rule_changes(in_force, record.payload)
            in_force = record.payload
            text = "; ".join(changes) or "no rule differs"
            log.info("rules: revision %d in force from log offset %d on: %s", in_force.revision, record.offset, text)
