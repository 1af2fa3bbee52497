"""The committer: step 7, one Kafka transaction for judged batches and their source offsets.

In order, each with a crash point behind it:

    7a  begin; send every verdict record
    7b  send the source offsets with the membership of the batches' assignment; wait until every record is acknowledged
    7c  commit

Readers of committed records see nothing before 7c and everything after it. When the outcome of a transaction is
unknown (a time-out, a broker that is away, a fenced producer), the transactional producer is initialised again: the
broker then completes or aborts the open transaction. The source begins again at the committed offsets: articles before
them have left, the others are polled again.

An article at whose log position the rules only observe goes to the topic of unique articles, whatever its verdict.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    CommitFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)

from stream_dedup.broker.client import REQUEST_TIMEOUT_MS, call_limit_s, discard, make_producer
from stream_dedup.broker.record import record_bytes
from stream_dedup.core.fingerprint.entry_maker import checksum
from stream_dedup.core.headers import OmittedValue, offset_metadata, output_headers, without_ours
from stream_dedup.core.model import Coordinates, Judgement, Verdict
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.worker.batches import Assignment, JudgedBatch, PolledBatch
from stream_dedup.worker.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.worker.watchdog import Watchdog

log = logging.getLogger(__name__)

BATCH_WAIT_S = 0.1
"""How long the committer waits for a batch before it checks whether it should end."""
GATHER_S = 0.005
"""How long a batch waits for the next one: batches that are judged together leave in one transaction."""
MOST_RECORDS = 4_000
"""Most records in one transaction: a commit costs some 13 ms, however many there are."""
MOST_BYTES = 16 << 20
"""Most bytes in one transaction: the broker takes them well within the time-out."""
PRODUCER_BATCH_BYTES = 256 << 10
"""Size of the producer's batches: a few requests for each transaction, not hundreds."""
DELIVERY_MS = REQUEST_TIMEOUT_MS + 1_000
"""A record that is not acknowledged in this time fails its transaction; a new producer tries again."""
MOST_FENCINGS = 10
"""So many in a row mean that another process uses the same transactional id. After a rebalance each other worker may
fence a worker once that was away for a moment."""
MOST_FAILURES = 20
"""So many in a row have a lasting cause: topics that may not be written to, say."""


@dataclass(frozen=True, slots=True)
class CommitterParts:
    """What a committer works with."""

    config: Config
    transactional_id: str
    scheme_id: str
    watchdog: Watchdog
    metrics: Metrics
    drop: Callable[[PolledBatch], None]
    resync: Callable[[Assignment], None]
    on_step: Callable[[Step], None]


class Committer:
    """Commits judged batches in order; ``submit`` may be called from other threads."""

    def __init__(self, parts: CommitterParts) -> None:
        """Connect; the broker aborts a transaction that a former process with this transactional id left open."""
        self._parts = parts
        self._queue: SimpleQueue[JudgedBatch] = SimpleQueue()
        self._held: JudgedBatch | None = None
        self._fencings = self._failures = 0
        self._sent: list[Any] = []
        self._topics = {
            Verdict.UNIQUE: parts.config.topics.unique,
            Verdict.DUPLICATE: parts.config.topics.duplicate,
            Verdict.REJECTED: parts.config.topics.rejected,
        }
        self._producer = self._connect()

    def submit(self, batch: JudgedBatch) -> None:
        """Hand in a judged batch."""
        self._queue.put(batch)

    def step(self) -> None:
        """Commit the batches that are there; waits ``BATCH_WAIT_S`` for the first."""
        batches = self._next_batches()
        if not batches:
            return
        assignment = batches[0].polled.assignment
        if assignment.metadata.generation_id < 0:
            msg = "partitions were assigned without a generation; the commit would not be checked by the broker"
            raise RefusedError(msg)
        self._sent = []
        try:
            with self._parts.metrics.stage("transaction"):
                self._transact(assignment, batches)
        except KafkaError as error:
            self._failed(assignment, batches, error)
        else:
            self._fencings = self._failures = 0
            self._done(batches)

    def close(self) -> None:
        """Close the connection to the broker."""
        discard(self._producer)

    # batches

    def _next_batches(self) -> list[JudgedBatch]:
        """Return the next batches of one assignment, in order, within the limits of one transaction."""
        batches: list[JudgedBatch] = []
        records = size = 0
        while True:
            batch = self._next(GATHER_S if batches else BATCH_WAIT_S)
            if batch is None:
                return batches
            if not batch.polled.assignment.valid:
                self._parts.drop(batch.polled)
                continue
            records += len(batch.polled.records)
            size += batch.polled.size_bytes
            full = records > MOST_RECORDS or size > MOST_BYTES
            if batches and (full or batch.polled.assignment is not batches[0].polled.assignment):
                self._held = batch
                return batches
            batches.append(batch)

    def _next(self, wait_s: float) -> JudgedBatch | None:
        if self._held is not None:
            batch, self._held = self._held, None
            return batch
        try:
            return self._queue.get(timeout=wait_s)
        except Empty:
            return None

    # the transaction

    def _transact(self, assignment: Assignment, batches: list[JudgedBatch]) -> None:
        with self._guard("a transaction's records and offsets"):
            # 7a
            self._producer.begin_transaction()
            for batch in batches:
                self._sent += self._send(batch)
            self._parts.on_step(Step.SENT)
            # 7b
            self._producer.send_offsets_to_transaction(_offsets(batches), assignment.metadata)
            # The client commits a transaction even if it dropped records of it, so each record is waited for.
            for future in self._sent:
                future.get(timeout=DELIVERY_MS / 1000)
            self._parts.on_step(Step.OFFSETS_SENT)
        with self._guard("a commit"):
            # 7c
            self._producer.commit_transaction()
        self._parts.on_step(Step.COMMITTED)

    def _send(self, batch: JudgedBatch) -> list[Any]:
        now_ms = time.time_ns() // 1_000_000
        return [self._send_one(batch, row, judgement, now_ms) for row, judgement in enumerate(batch.judgements)]

    def _send_one(self, batch: JudgedBatch, row: int, judgement: Judgement, now_ms: int) -> Any:  # noqa: ANN401 - the client's future
        record = batch.polled.records[row]
        fits = record_bytes(record) <= self._parts.config.kafka.max_record_bytes
        empty = record.value is None and record.key is None
        omitted = None if fits else OmittedValue(len(record.value or b""), checksum(record.value))
        headers = output_headers(
            judgement,
            batch.fingerprints[row],
            self._parts.scheme_id,
            record.topic,
            Coordinates(batch.polled.topic_id, record.partition, record.offset),
            record.timestamp,
            omitted,
        )
        own = [(name, value or b"") for name, value in record.headers] if fits else []
        return self._producer.send(
            self._topics[Verdict.UNIQUE if batch.observed[row] else judgement.verdict],
            value=record.value if fits and not empty else b"",
            key=record.key if fits else None,
            headers=without_ours(own) + headers,
            timestamp_ms=now_ms,
        )

    # outcomes

    def _done(self, batches: list[JudgedBatch]) -> None:
        now_ms = time.time_ns() / 1e6
        metrics = self._parts.metrics
        metrics.transactions.labels("committed").inc()
        for batch in batches:
            metrics.count_verdicts(batch.judgements)
            delay_s = max(0.0, (now_ms - batch.polled.records[0].timestamp) / 1000)
            metrics.passed("end_to_end", delay_s)
            self._parts.drop(batch.polled)

    def _failed(self, assignment: Assignment, batches: list[JudgedBatch], error: KafkaError) -> None:
        """Handle a failed transaction; the cause may be the error of a record, which the client hides."""
        cause = next((future.exception for future in self._sent if future.failed()), error)
        if isinstance(error, CommitFailedError):
            log.warning("no longer a member of the group that these articles were polled under (%s); given back", error)
            # kafka-python 3.0.12 keeps refused offsets, even over an abort, and commits them with the next transaction:
            # articles of another worker would be skipped. A new producer has none.
            self._renew()
            self._give_up(assignment, batches, "aborted")
            return
        if isinstance(cause, MessageSizeTooLargeError):
            self._abort()
            msg = (
                f"a record that fitted at the start no longer fits its output topic ({cause}): "
                "max.message.bytes of the output topics was lowered; see stream-dedup topics check"
            )
            raise RefusedError(msg) from error
        self._failures += 1
        if self._failures > MOST_FAILURES:
            msg = f"{self._failures} transactions failed one after the other, the last one with {cause!r}"
            raise UnavailableError(msg) from error
        self._settle(cause)
        self._give_up(assignment, batches, "unknown")

    def _give_up(self, assignment: Assignment, batches: list[JudgedBatch], outcome: str) -> None:
        self._parts.metrics.transactions.labels(outcome).inc()
        self._parts.resync(assignment)
        for batch in batches:
            self._parts.drop(batch.polled)

    def _abort(self) -> None:
        try:
            with self._guard("an abort"):
                self._producer.abort_transaction()
        except KafkaError as error:
            self._settle(error)

    def _settle(self, error: BaseException) -> None:
        """Replace the producer: the broker completes or aborts the transaction of the old one."""
        if isinstance(error, ProducerFencedError):
            self._fencings += 1
            if self._fencings >= MOST_FENCINGS:
                msg = (
                    f"transactional id {self._parts.transactional_id} is used by another process as well: was this "
                    "worker's index folder copied? Delete the file worker-id in one of the copies"
                )
                raise RefusedError(msg)
        log.warning("the outcome of a transaction is unknown (%r); a new producer settles it", error)
        self._renew()

    def _renew(self) -> None:
        """Replace the producer by one with the same transactional id; the broker aborts what the old one left open."""
        discard(self._producer)
        self._producer = self._connect()

    def _connect(self) -> KafkaProducer:
        config = self._parts.config
        producer = make_producer(
            config.kafka,
            transactional_id=self._parts.transactional_id,
            transaction_timeout_ms=int(config.kafka.transaction_timeout_s * 1000),
            batch_size=PRODUCER_BATCH_BYTES,
            delivery_timeout_ms=DELIVERY_MS,
            client_id=self._parts.transactional_id,
        )
        deadline = time.monotonic() + config.kafka.broker_wait_s
        while True:
            try:
                with self._guard("the start of the transactional producer"):
                    producer.init_transactions()
            except KafkaError as error:
                if time.monotonic() > deadline:
                    discard(producer)
                    msg = f"the transactional producer cannot start within {config.kafka.broker_wait_s:g} s: {error!r}"
                    raise UnavailableError(msg) from error
                log.debug("init_transactions: %r", error)
            else:
                return producer

    def _guard(self, what: str) -> Any:  # noqa: ANN401 - a context manager
        return self._parts.watchdog.guard(
            f"{what} ({self._parts.config.kafka.brokers})", call_limit_s(self._parts.config)
        )


def _offsets(batches: list[JudgedBatch]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return for each partition the offset after the last of its batches."""
    return {
        polled.partition: OffsetAndMetadata(int(polled.offsets[-1]) + 1, offset_metadata(polled.topic_id), -1)
        for polled in (batch.polled for batch in batches)
    }
