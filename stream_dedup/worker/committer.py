"""The committer: step 7, one Kafka transaction for judged batches and their source offsets.

In order, each with a crash point behind it:

    7a  begin; send every verdict record
    7b  send the source offsets with the membership of the batches' assignment; wait until every record is acknowledged
    7c  commit

Readers of committed records see nothing before 7c and everything after it. Before 7b and before 7c the committer checks
whether the assignment has ended meanwhile: if it has, the transaction is aborted. An assignment that ends after the
check before 7c waits for the outcome: the batches are released only when it is known (``assignments``).

When the outcome of a transaction is unknown (a time-out, a broker that is away, a fenced producer), the sink is
renewed: the broker then completes or aborts the open transaction. The assignment ends, and the next one begins at the
committed offsets: articles before them have left, the others are polled again.

A partition that was read past markers of transactions or aborted records, with nothing in flight, has a batch without
records: its offset is committed in the same way, under the same membership, and no record is sent for it. A delete has
no output either.

If the rules at an article's log position only observe, it goes to the topic of unique articles, whatever its verdict.

The transactional id stays the same over restarts. It is in a file in the index folder:

    worker-id 1     the format
    GROUP-UUID      the id
    PLACE           where the file was written: a hash of machine, file system and folder

A copy of an index folder is an index like any other, but two workers with one id would fence each other. So a worker
whose place is not that of the file takes a new id. That does no harm where the folder was only moved: the first worker
of the group that joins aborts what was left open under the former id (``abort_hanging``). The place is a hint: of a
copy that looks like its original (a cloned machine) the broker tells (``MOST_FENCINGS``).
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from stream_dedup.core.fingerprinter import checksum
from stream_dedup.core.headers import OmittedValue, OutputHeaders, without_ours
from stream_dedup.core.model import Verdict
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.folders import read_text, replace_text, writing
from stream_dedup.index.folder import ID_FILE
from stream_dedup.kafka.clients import call_limit_s
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES, record_bytes
from stream_dedup.kafka.topics import MESSAGE_BYTES
from stream_dedup.ports import (
    FencedError,
    NotAMemberError,
    Output,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
)
from stream_dedup.worker import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from stream_dedup.config.model import Config
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.ports import Clock, SourceRecord, VerdictSink
    from stream_dedup.worker.assignments import Assignment, AssignmentOwner, JudgedBatch, PolledBatch
    from stream_dedup.worker.health import Watchdog

log = logging.getLogger(__name__)

BATCH_WAIT_S = 0.5
"""How long the committer waits for a batch, which wakes it at once, as the end of the worker does."""
MOST_RECORDS = 4_000
"""Most records in one transaction: a commit costs some 13 ms, however many there are."""
MOST_BYTES = 16 << 20
"""Most bytes in one transaction: the broker takes them well within the time-out."""
MOST_FENCINGS = 10
"""So many fencings in a row mean that another process uses the same transactional id. After a rebalance each other
worker may fence a worker once that was away for a moment."""
MOST_FAILURES = 20
"""Most failed transactions in a row: more have a lasting cause."""
START_PAUSE_S = 0.1
"""Seconds between two tries to start the sink."""
MACHINE_FILE = Path("/etc/machine-id")
"""Names the machine; missing in most containers."""

_FORMAT = "worker-id 1"
_CONTENT = re.compile(_FORMAT + r"\n(?P<id>\S[^\n]*)\n(?P<place>[0-9a-f]{16})\n")


class _EndedError(Exception):
    """The assignment ended before its transaction was committed."""


@dataclass(eq=False)
class Committer:
    """Commits judged batches in order; ``submit`` may be called from other threads."""

    config: Config
    sink: VerdictSink
    clock: Clock
    assignments: AssignmentOwner
    transactional_id: str
    scheme_id: str
    record_bytes: int
    """Largest record that the output topics take with our headers; of a larger one only its coordinates are sent."""
    watchdog: Watchdog
    metrics: Metrics
    on_step: Callable[[Step], None]

    def __post_init__(self) -> None:
        """Start the sink; the broker aborts a transaction that a former process left open under its id."""
        self._queue: deque[JudgedBatch] = deque()
        self._arrived = self.clock.event()
        self._fencings = self._failures = 0
        self._topics = {
            Verdict.UNIQUE: self.config.topics.unique,
            Verdict.DUPLICATE: self.config.topics.duplicate,
            Verdict.REJECTED: self.config.topics.rejected,
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
        """Commit the batches in the queue; waits ``BATCH_WAIT_S`` for the first."""
        batches = self._next_batches()
        if not batches:
            return
        assignment = batches[0].polled.assignment
        if assignment.membership.generation < 0:
            raise RefusedError(
                "partitions were assigned without a generation; the commit would not be checked by the broker"
            )
        try:
            with self.metrics.stage("transaction"):
                self._transact(assignment, batches)
        except (_EndedError, PortError) as error:
            self._failed(assignment, batches, error)
        else:
            self._fencings = self._failures = 0
            self._done(batches)

    # batches

    def _next_batches(self) -> list[JudgedBatch]:
        """Return the first batches in the queue: of one assignment, in order, within the limits of one transaction."""
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
            if self.assignments.is_working(batch.polled.assignment):
                return batch
            self._give_up(batch.polled.assignment, [self._queue.popleft()], "its membership has ended")
        return None

    # the transaction

    def _transact(self, assignment: Assignment, batches: list[JudgedBatch]) -> None:
        sink = self.sink
        with self._guard("a transaction's records and offsets"):
            # 7a
            sink.begin()
            for batch in batches:
                sink.send(self._outputs(batch))
            self.on_step(Step.SENT)
            # 7b
            self._stop_if_ended(assignment)
            offsets = {batch.polled.partition: batch.polled.next for batch in batches}  # of each, behind the last batch
            sink.send_offsets(offsets, assignment.membership)
            sink.flush()
            self.on_step(Step.OFFSETS_SENT)
        with self._guard("a commit"):
            # 7c
            self._stop_if_ended(assignment)
            sink.commit()
        self.on_step(Step.COMMITTED)

    def _stop_if_ended(self, assignment: Assignment) -> None:
        if not self.assignments.is_working(assignment):
            raise _EndedError

    def _outputs(self, batch: JudgedBatch) -> Iterator[Output]:
        """Yield the outputs of a batch: a delete has none."""
        polled, now_ms = batch.polled, self.clock.time_ms()
        headers_of = OutputHeaders(self.scheme_id, *polled.partition, polled.topic_id).of
        delete, unique = Verdict.DELETE, Verdict.UNIQUE  # once a batch: Python looks a member up by a function
        rows = zip(polled.records, batch.judgements, batch.fingerprints, batch.observed, strict=True)
        for record, judgement, fingerprint, observed in rows:
            verdict = judgement.verdict
            if verdict is delete:
                continue
            key, value, input_headers, omitted = record.key, record.value, record.headers, None
            if record_bytes(record) > self.record_bytes:
                if verdict is not Verdict.REJECTED:
                    raise _too_large(polled, record, verdict)
                omitted = OmittedValue(len(value or b""), checksum(value))
                key, value, input_headers = None, b"", ()
            headers = headers_of(judgement, fingerprint, record.offset, record.timestamp, omitted)
            yield Output(
                self._topics[unique if observed else verdict],
                key,
                b"" if value is None and key is None else value,
                without_ours(input_headers) + headers if input_headers else headers,
                now_ms,
            )

    # outcomes

    def _done(self, batches: list[JudgedBatch]) -> None:
        now_ms = self.clock.time_ms()
        metrics = self.metrics
        metrics.transactions.labels("committed").inc()
        metrics.count_verdicts([judgement for batch in batches for judgement in batch.judgements])
        times = [record.timestamp for batch in batches for record in batch.polled.records]
        metrics.count_delays((now_ms - np.array(times, np.float64)) / 1000)
        for batch in batches:
            self.assignments.release(batch.polled)

    def _failed(self, assignment: Assignment, batches: list[JudgedBatch], error: Exception) -> None:
        """Settle a transaction that was not committed, or whose outcome is unknown; then release its batches.

        Raises:
            RefusedError, UserError, UnavailableError: a retry would fail, too.
        """
        if isinstance(error, RecordTooLargeError):
            self._abort()
            raise RefusedError(
                f"a record that fitted at the start no longer fits its output topic ({error}): "
                "max.message.bytes of the output topics was lowered; see stream-dedup topics check"
            ) from error
        if isinstance(error, RefusedByBrokerError):
            raise self._refused(error) from error
        if isinstance(error, (_EndedError, NotAMemberError)):
            self._abort()
            outcome, reason = "aborted", "its membership has ended; the transaction was aborted"
        else:
            self._count_failure(error)
            self._settle(error)
            outcome, reason = "unknown", "the outcome of a transaction was unknown"
        self.metrics.transactions.labels(outcome).inc()
        self._give_up(assignment, batches, reason)

    def _give_up(self, assignment: Assignment, batches: list[JudgedBatch], reason: str) -> None:
        self.assignments.end(assignment, reason)
        for batch in batches:
            self.assignments.release(batch.polled)

    def _count_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > MOST_FAILURES:
            raise UnavailableError(
                f"{self._failures} transactions failed in a row, the last one with {error!r}"
            ) from error

    def _abort(self) -> None:
        try:
            with self._guard("an abort"):
                self.sink.abort()
        except PortError as error:
            self._settle(error)

    def _settle(self, error: Exception) -> None:
        """Renew the sink: the broker completes or aborts the open transaction."""
        hint = ""
        if isinstance(error, FencedError):
            self._fencings += 1
            copied = "was this worker's index folder copied? Delete the file worker-id in one of the copies"
            if self._fencings >= MOST_FENCINGS:
                raise RefusedError(
                    f"transactional id {self.transactional_id} is used by another process as well: {copied}"
                )
            hint = f". If this happens repeatedly: {copied}"
        log.warning("the outcome of a transaction is unknown (%r); a new producer settles it%s", error, hint)
        self._renew()

    def _renew(self) -> None:
        """Restart the sink; wait up to ``broker_wait_s`` for a coordinator."""
        clock, wait_s = self.clock, self.config.kafka.broker_wait_s
        deadline = clock.monotonic() + wait_s
        while True:
            try:
                # Two producers, one after the other.
                with self._guard("the start of the transactional producers", calls=2):
                    self.sink.renew()
            except RefusedByBrokerError as error:
                raise self._refused(error) from error
            except PassingError as error:
                if clock.monotonic() > deadline:
                    raise UnavailableError(
                        f"the transactional producer cannot start within {wait_s:g} s: {error}"
                    ) from error
                log.debug("start of the transactional producer: %r", error)
                clock.sleep(START_PAUSE_S)
            else:
                return

    def _refused(self, error: RefusedByBrokerError) -> UserError:
        return UserError(
            f"the broker at {self.config.kafka.brokers} refuses the transactions of {self.transactional_id}: {error}"
        )

    def _guard(self, what: str, calls: int = 1) -> AbstractContextManager[None]:
        return self.watchdog.guard(f"{what} ({self.config.kafka.brokers})", calls * call_limit_s(self.config))


def _too_large(polled: PolledBatch, record: SourceRecord, verdict: Verdict) -> RefusedError:
    """Return the error for a record that was judged by its text but exceeds the outputs: the text must not be lost.

    Another worker logged it when the limit was higher.
    """
    size = record_bytes(record)
    needed = size + MESSAGE_FRAME_BYTES + HEADER_ALLOWANCE_BYTES
    return RefusedError(
        f"{polled.partition.topic}-{polled.partition.number}-{record.offset}: this record of {size} bytes is "
        f"{verdict}, but the output topics took less when this worker started; see that each has "
        f"{MESSAGE_BYTES} of {needed} or more, then start the worker again"
    )


def worker_id(folder: Path, group: str) -> str:
    """Return the transactional id of the worker in an index folder; create one for a new folder, or for a copy.

    Raises:
        CorruptError: its file cannot be read, or has no id.
        UserError, UnavailableError: it cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        text = read_text(folder / ID_FILE)
        former = None if text is None else _parsed(folder / ID_FILE, text)
        if former is not None and former["place"] == _place_of(folder):
            return str(former["id"])
        fresh = f"{group}-{uuid.uuid4()}"
        write_worker_id(folder, fresh)
    if former is not None:
        log.info("index %s was copied or moved here: this worker takes a new transactional id, %s", folder, fresh)
    return fresh


def write_worker_id(folder: Path, transactional_id: str) -> None:
    """Give the worker in an index folder this transactional id.

    Raises:
        OSError: its file cannot be written.
    """
    replace_text(folder / ID_FILE, f"{_FORMAT}\n{transactional_id}\n{_place_of(folder)}\n")


def _place_of(folder: Path) -> str:
    machine = ""
    with suppress(OSError, UnicodeDecodeError):
        machine = MACHINE_FILE.read_text("ascii").strip()
    # The id of the file system, for the number of its device changes when a volume is attached again.
    file_system, inode = os.statvfs(folder).f_fsid, folder.stat().st_ino
    return xxhash.xxh3_64_hexdigest(f"{machine} {file_system} {inode}".encode())


def _parsed(file: Path, text: str) -> re.Match[str]:
    match = _CONTENT.fullmatch(text)
    if match is None or not match["id"].isprintable():
        raise CorruptError(
            f"{file} holds no transactional id: put it back from a copy, or delete it once no worker has had this "
            "index folder for the transaction time-out"
        )
    return match
