"""The committer: step 7, one Kafka transaction for judged batches and their source offsets.

In order, each with a crash point behind it:

    7a  begin; send every verdict record
    7b  send the source offsets with the membership of the batches' assignment; wait until every record is acknowledged
    7c  commit

Readers of committed records see nothing before 7c and everything after it. Before 7b and before 7c the committer looks
whether the assignment has ended meanwhile: if it has, the transaction is aborted. An assignment that ends after the
look before 7c waits for the outcome: the batches are released only when it is known (``assignments``).

When the outcome of a transaction is unknown (a time-out, a broker that is away, a fenced producer), the sink is
renewed: the broker then completes or aborts the open transaction. The assignment ends, and the next one begins at the
committed offsets: articles before them have left, the others are polled again.

A partition that was read past markers of transactions or aborted records, with nothing in flight, has a batch without
records: its offset is committed in the same way, under the same membership, and no record is sent for it.

A delete leaves no output: its offset is committed as that of any record.

An article at whose log position the rules only observe goes to the topic of unique articles, whatever its verdict.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.core.fingerprint.entry_maker import checksum
from stream_dedup.core.headers import OmittedValue, OutputHeaders, without_ours
from stream_dedup.core.model import Verdict
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.kafka.clients import call_limit_s
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES, record_bytes
from stream_dedup.kafka.topics import MESSAGE_BYTES
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    NotAMemberError,
    Output,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
)
from stream_dedup.worker.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.ports import Clock, Partition, SourceRecord, VerdictSink
    from stream_dedup.worker.assignments import Assignment, AssignmentOwner
    from stream_dedup.worker.batches import JudgedBatch, PolledBatch
    from stream_dedup.worker.watchdog import Watchdog

log = logging.getLogger(__name__)

BATCH_WAIT_S = 0.5
"""How long the committer waits for a batch, which wakes it at once, as the end of the worker does."""
MOST_RECORDS = 4_000
"""Most records in one transaction: a commit costs some 13 ms, however many there are."""
MOST_BYTES = 16 << 20
"""Most bytes in one transaction: the broker takes them well within the time-out."""
MOST_FENCINGS = 10
"""So many in a row mean that another process uses the same transactional id. After a rebalance each other worker may
fence a worker once that was away for a moment."""
MOST_FAILURES = 20
"""So many in a row have a lasting cause."""
START_PAUSE_S = 0.1
"""Seconds between two tries to start the sink."""


class _EndedError(Exception):
    """The assignment ended before its transaction was committed."""


@dataclass(frozen=True, slots=True)
class CommitterParts:
    """What a committer works with."""

    config: Config
    sink: VerdictSink
    clock: Clock
    assignments: AssignmentOwner
    transactional_id: str
    scheme_id: str
    record_bytes: int
    """Largest record that the output topics take with our headers; of a larger one only where it is, is sent."""
    watchdog: Watchdog
    metrics: Metrics
    on_step: Callable[[Step], None]


class Committer:
    """Commits judged batches in order; ``submit`` may be called from other threads."""

    def __init__(self, parts: CommitterParts) -> None:
        """Start the sink; the broker aborts a transaction that a former process left open under its id."""
        self._parts = parts
        self._queue: deque[JudgedBatch] = deque()
        self._arrived = parts.clock.event()
        self._fencings = self._failures = 0
        self._topics = {
            Verdict.UNIQUE: parts.config.topics.unique,
            Verdict.DUPLICATE: parts.config.topics.duplicate,
            Verdict.REJECTED: parts.config.topics.rejected,
        }
        self._renew()

    def submit(self, batches: Iterable[JudgedBatch]) -> None:
        """Hand in batches that were judged together; they leave in one transaction, within its limits."""
        self._queue.extend(batches)
        self._arrived.set()

    def wake(self) -> None:
        """Let a ``step`` that waits for a batch return."""
        self._arrived.set()

    def step(self) -> None:
        """Commit the batches that are there; waits ``BATCH_WAIT_S`` for the first."""
        batches = self._next_batches()
        if not batches:
            return
        assignment = batches[0].polled.assignment
        if assignment.membership.generation < 0:
            msg = "partitions were assigned without a generation; the commit would not be checked by the broker"
            raise RefusedError(msg)
        try:
            with self._parts.metrics.stage("transaction"):
                self._transact(assignment, batches)
        except (_EndedError, PortError) as error:
            self._failed(assignment, batches, error)
        else:
            self._fencings = self._failures = 0
            self._done(batches)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._parts.sink.close()

    # batches

    def _next_batches(self) -> list[JudgedBatch]:
        """Return the batches of one assignment that are there, in order, within the limits of one transaction."""
        if not self._queue:
            self._arrived.wait(BATCH_WAIT_S)
        self._arrived.clear()
        batches: list[JudgedBatch] = []
        records = size = 0
        while (batch := self._first()) is not None:
            records += len(batch.polled.records)
            size += batch.polled.size_bytes
            full = records > MOST_RECORDS or size > MOST_BYTES
            if batches and (full or batch.polled.assignment is not batches[0].polled.assignment):
                break
            batches.append(self._queue.popleft())
        return batches

    def _first(self) -> JudgedBatch | None:
        """Return the first batch in the queue, and leave it there; drop the batches of ended assignments."""
        while self._queue:
            batch = self._queue[0]
            if self._parts.assignments.is_working(batch.polled.assignment):
                return batch
            self._give_up(batch.polled.assignment, [self._queue.popleft()], "its membership has ended")
        return None

    # the transaction

    def _transact(self, assignment: Assignment, batches: list[JudgedBatch]) -> None:
        sink = self._parts.sink
        with self._guard("a transaction's records and offsets"):
            # 7a
            sink.begin()
            for batch in batches:
                self._send(batch)
            self._parts.on_step(Step.SENT)
            # 7b
            self._stop_if_ended(assignment)
            sink.send_offsets(_offsets(batches), assignment.membership)
            sink.flush()
            self._parts.on_step(Step.OFFSETS_SENT)
        with self._guard("a commit"):
            # 7c
            self._stop_if_ended(assignment)
            sink.commit()
        self._parts.on_step(Step.COMMITTED)

    def _stop_if_ended(self, assignment: Assignment) -> None:
        if not self._parts.assignments.is_working(assignment):
            raise _EndedError

    def _send(self, batch: JudgedBatch) -> None:
        self._parts.sink.send(self._outputs(batch))

    def _outputs(self, batch: JudgedBatch) -> Iterator[Output]:
        """Yield the outputs of a batch: a delete has none."""
        polled, now_ms = batch.polled, self._parts.clock.time_ms()
        headers_of = OutputHeaders(self._parts.scheme_id, *polled.partition, polled.topic_id).of
        delete, unique = Verdict.DELETE, Verdict.UNIQUE  # once a batch: Python looks a member up by a function
        rows = zip(polled.records, batch.judgements, batch.fingerprints, batch.observed, strict=True)
        for record, judgement, fingerprint, observed in rows:
            verdict = judgement.verdict
            if verdict is delete:
                continue
            key, value, own, omitted = record.key, record.value, record.headers, None
            if record_bytes(record) > self._parts.record_bytes:
                if verdict is not Verdict.REJECTED:
                    raise _no_room(polled, record, verdict)
                omitted = OmittedValue(len(value or b""), checksum(value))
                key, value, own = None, b"", ()
            headers = headers_of(judgement, fingerprint, record.offset, record.timestamp, omitted)
            yield Output(
                self._topics[unique if observed else verdict],
                key,
                b"" if value is None and key is None else value,
                without_ours(own) + headers if own else headers,
                now_ms,
            )

    # outcomes

    def _done(self, batches: list[JudgedBatch]) -> None:
        now_ms = self._parts.clock.time_ms()
        metrics = self._parts.metrics
        metrics.transactions.labels("committed").inc()
        metrics.count_verdicts([judgement for batch in batches for judgement in batch.judgements])
        times = [record.timestamp for batch in batches for record in batch.polled.records]
        metrics.count_delays((now_ms - np.array(times, np.float64)) / 1000)
        for batch in batches:
            if batch.polled.records:
                metrics.passed("end_to_end", max(0.0, (now_ms - batch.polled.records[0].timestamp) / 1000))
            self._parts.assignments.release(batch.polled)

    def _failed(self, assignment: Assignment, batches: list[JudgedBatch], error: Exception) -> None:
        """Settle a transaction that was not committed, or whose outcome is unknown; then let its batches go.

        Raises:
            RefusedError, UserError, UnavailableError: another try would fail, too.
        """
        if isinstance(error, RecordTooLargeError):
            self._abort()
            msg = (
                f"a record that fitted at the start no longer fits its output topic ({error}): "
                "max.message.bytes of the output topics was lowered; see stream-dedup topics check"
            )
            raise RefusedError(msg) from error
        if isinstance(error, RefusedByBrokerError):
            raise self._refused(error) from error
        if isinstance(error, (_EndedError, NotAMemberError)):
            self._abort()
            outcome, reason = "aborted", "its membership has ended; the transaction was aborted"
        else:
            self._count_failure(error)
            self._settle(error)
            outcome, reason = "unknown", "the outcome of a transaction was unknown"
        self._parts.metrics.transactions.labels(outcome).inc()
        self._give_up(assignment, batches, reason)

    def _give_up(self, assignment: Assignment, batches: list[JudgedBatch], reason: str) -> None:
        self._parts.assignments.end(assignment, reason)
        for batch in batches:
            self._parts.assignments.release(batch.polled)

    def _count_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > MOST_FAILURES:
            msg = f"{self._failures} transactions failed one after the other, the last one with {error!r}"
            raise UnavailableError(msg) from error

    def _abort(self) -> None:
        try:
            with self._guard("an abort"):
                self._parts.sink.abort()
        except PortError as error:
            self._settle(error)

    def _settle(self, error: Exception) -> None:
        """Renew the sink: the broker completes or aborts the open transaction."""
        hint = ""
        if isinstance(error, FencedError):
            self._fencings += 1
            copied = "was this worker's index folder copied? Delete the file worker-id in one of the copies"
            if self._fencings >= MOST_FENCINGS:
                msg = f"transactional id {self._parts.transactional_id} is used by another process as well: {copied}"
                raise RefusedError(msg)
            hint = f". If this comes again and again: {copied}"
        log.warning("the outcome of a transaction is unknown (%r); a new producer settles it%s", error, hint)
        self._renew()

    def _renew(self) -> None:
        """Start the sink anew; wait up to ``broker_wait_s`` for a coordinator."""
        clock, wait_s = self._parts.clock, self._parts.config.kafka.broker_wait_s
        deadline = clock.monotonic() + wait_s
        while True:
            try:
                # Two producers, one after the other.
                with self._guard("the start of the transactional producers", calls=2):
                    self._parts.sink.renew()
            except RefusedByBrokerError as error:
                raise self._refused(error) from error
            except PassingError as error:
                if clock.monotonic() > deadline:
                    msg = f"the transactional producer cannot start within {wait_s:g} s: {error}"
                    raise UnavailableError(msg) from error
                log.debug("start of the transactional producer: %r", error)
                clock.sleep(START_PAUSE_S)
            else:
                return

    def _refused(self, error: RefusedByBrokerError) -> UserError:
        return UserError(
            f"the broker at {self._parts.config.kafka.brokers} refuses the transactions of "
            f"{self._parts.transactional_id}: {error}"
        )

    def _guard(self, what: str, calls: int = 1) -> AbstractContextManager[None]:
        return self._parts.watchdog.guard(
            f"{what} ({self._parts.config.kafka.brokers})", calls * call_limit_s(self._parts.config)
        )


def _no_room(polled: PolledBatch, record: SourceRecord, verdict: Verdict) -> RefusedError:
    """Return the error for a record without room in the outputs that was judged by its text: the text must not be lost.

    Another worker logged it, when or where more fitted.
    """
    size = record_bytes(record)
    needed = size + MESSAGE_FRAME_BYTES + HEADER_ALLOWANCE_BYTES
    return RefusedError(
        f"{polled.partition.topic}-{polled.partition.number}-{record.offset}: this record of {size} bytes is "
        f"{verdict}, but the output topics took less when this worker started; see that each has "
        f"{MESSAGE_BYTES} of {needed} or more, then start the worker again"
    )


def _offsets(batches: list[JudgedBatch]) -> dict[Partition, CommittedOffset]:
    """Return for each partition the offset behind the last of its batches."""
    return {batch.polled.partition: batch.polled.next for batch in batches}
