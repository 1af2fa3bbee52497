"""Polls the articles of the partitions that are assigned to this worker, in batches.

A partition is *settled* when its start offset is known and the client reads from it (``start_offsets``). Rules:

* Only committed records are read. The client neither commits nor resets an offset.
* The proof of membership is taken when partitions are assigned (``Assignment``).
* The assignment may be replaced at any moment, by the client's own thread (a rebalance) or by another thread of the
  worker (``resync``). Each poll therefore checks first whether the assignment is still the one that was settled. If
  not, every partition is settled again, and the records of this poll are dropped.
* A partition that is not settled is paused: it yields no records, and no other partition waits for it.
* A topic that is deleted and made again while this worker runs is settled again, too.

The client calls the listener's methods on its own thread; they only replace the assignment.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
)

from stream_dedup.broker.client import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.broker.record import record_bytes
from stream_dedup.broker.start_offsets import StartOffsets
from stream_dedup.broker.workarounds import drop_fetched, keep_rejoining
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError
from stream_dedup.worker.batches import Assignment, PolledBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stream_dedup.config.model import Config
from stream_dedup.broker.topic_watch import TopicWatch

log = logging.getLogger(__name__)

GATHER_BYTES = 256 << 10
"""The broker answers a fetch when it has so many bytes, or after ``GATHER_MS``: a batch of a few articles costs nearly
as much as one of a hundred, in the log, the index and the transaction."""
GATHER_MS = 30
"""The most that gathering adds to the latency of a slow stream, milliseconds."""
HEARTBEATS_A_SESSION = 4
"""Three heartbeats may be lost before the group removes the worker."""
MAX_POLL_INTERVAL_MS = 60_000
"""A worker whose main loop does not poll for a minute loses its partitions."""
SETTLE_S = 5.0
"""After so many seconds the settling of many partitions continues in the next poll."""
SETTLE_PAUSE_S = 0.05
"""Seconds between two tries to settle a partition."""

_NOT_A_MEMBER = (CommitFailedError, IllegalGenerationError, UnknownMemberIdError, RebalanceInProgressError)


class ArticleSource(ConsumerRebalanceListener):  # type: ignore[misc] # the client has no types
    """Polls batches from the partitions assigned to this worker."""

    def __init__(
        self,
        config: Config,
        watch: TopicWatch,
        member_id: str,
        logged_partitions: Callable[[], frozenset[tuple[bytes, int]]],
    ) -> None:
        """Connect the client; ``join`` joins the group.

        ``member_id`` is this worker's client id among the members: its transactional id.
        ``logged_partitions`` reads the log to its present end and returns the partitions in it.
        """
        session_ms = int(config.kafka.session_timeout_s * 1000)
        self._kafka = config.kafka
        self._topics = config.topics.input
        self._watch = watch
        self._logged_partitions = logged_partitions
        self._lock = threading.Lock()
        self._current: Assignment | None = None
        self._settling: Assignment | None = None
        self._next: dict[TopicPartition, SourceOffset] = {}
        self._paused = False
        self._warned: set[str] = set()
        self.rebalances = 0
        self._consumer = make_consumer(
            config.kafka,
            group_id=config.kafka.group,
            client_id=member_id,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(session_ms // HEARTBEATS_A_SESSION, 1),
            max_poll_interval_ms=max(MAX_POLL_INTERVAL_MS, session_ms),
            fetch_min_bytes=GATHER_BYTES,
            fetch_max_wait_ms=GATHER_MS,
            max_poll_records=config.worker.batch_records,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )

    def join(self) -> None:
        """Join the group; a later poll receives an assignment."""
        self._consumer.subscribe(list(self._topics), listener=self)
        # With the topics' partitions known beforehand, the first assignment is not an empty one.
        for topic in self._topics:
            self._consumer.partitions_for_topic(topic)

    # The listener, on the client's thread.

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """End the assignment; its batches in flight are dropped."""
        with self._lock:
            if self._current is not None:
                self._current.valid = False
                log.info("partitions given back: %s", _names(revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin an assignment, with the proof of membership as it is now."""
        metadata = self._consumer.group_metadata()
        with self._lock:
            if self._current is not None:
                self._current.valid = False
            self._current = Assignment(metadata, frozenset(assigned))
            self.rebalances += 1
        log.info("partitions assigned: %s (generation %d)", _names(assigned), metadata.generation_id)

    # The worker's side.

    def resync(self, assignment: Assignment) -> None:
        """Replace the assignment by a new one of the same member, which begins at the committed offsets.

        The batches in flight of the old assignment are dropped.
        """
        with self._lock:
            assignment.valid = False
            if self._current is assignment:
                self._current = Assignment(assignment.metadata, assignment.partitions)

    def poll(self, timeout_ms: int) -> list[PolledBatch]:
        """Return the next batches, one for each partition that has records.

        Raises:
            RefusedError: committed offsets are lost, or the next records are deleted or cannot be read.
        """
        keep_rejoining(self._consumer)
        records = self._poll(timeout_ms)
        assignment = self._current
        if assignment is None or not assignment.valid:
            return []
        if assignment is not self._settling:
            self._begin(assignment)
            records = {}
        if self._made_again(assignment):
            log.warning("an article topic was made again; begins anew")
            self.resync(assignment)
            return []
        polled_at = time.monotonic()
        batches = [
            self._polled_batch(assignment, partition, polled, polled_at)
            for partition, polled in records.items()
            if partition in self._next and polled
        ]
        self._settle(assignment)
        return batches

    def pause(self, *, full: bool) -> None:
        """Pause or resume fetching; the membership continues."""
        if full != self._paused:
            begun = [partition for partition in self._consumer.assignment() if partition in self._next]
            (self._consumer.pause if full else self._consumer.resume)(*begun)
            self._paused = full

    def lag(self) -> dict[str, int]:
        """Return the number of records not polled yet, by topic, as of the last fetch."""
        lags: dict[str, int] = {}
        for partition, offset in self._next.items():
            if partition in self._consumer.assignment():
                high = self._consumer.highwater(partition) or offset
                lags[partition.topic] = lags.get(partition.topic, 0) + max(0, high - offset)
        return lags

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1000))

    def _poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        try:
            polled: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=timeout_ms)
        except NoOffsetForPartitionError:
            return {}
        except OffsetOutOfRangeError as error:
            self._out_of_range(error)
            return {}
        except (LogTruncationError, CorruptRecordError) as error:
            msg = (
                f"group {self._kafka.group}: an article topic cannot be read on: {error}. When it is mended, or to "
                f"leave out what cannot be read: stream-dedup offsets set --brokers {self._kafka.brokers} "
                f"--group {self._kafka.group} --topic TOPIC --partition NUMBER --to OFFSET"
            )
            raise RefusedError(msg) from error
        except (RetriableError, KafkaConnectionError) as error:
            log.debug("poll: %r", error)
            return {}
        return polled

    def _out_of_range(self, error: OffsetOutOfRangeError) -> None:
        """Raise ``RefusedError`` if a settled partition has lost its next records."""
        assignment = self._current
        lost = [partition for partition in (error.args[0] if error.args else ()) if partition in self._next]
        if assignment is None or not assignment.valid or assignment is not self._settling or not lost:
            return  # not settled yet: settling seeks another offset
        present = self._watch.fresh_ids(self._topics)
        if any(present.get(topic) != known for topic, known in assignment.topic_ids.items()):
            self.resync(assignment)
            return
        msg = (
            f"group {self._kafka.group}: {_names(lost)}: the source no longer has the articles that come next "
            "(deleted before they were read, or the offset was set past the end). "
            f"To go on with what is there: stream-dedup offsets set --brokers {self._kafka.brokers} "
            f"--group {self._kafka.group} --to beginning"
        )
        raise RefusedError(msg)

    def _begin(self, assignment: Assignment) -> None:
        """Pause every partition of a new assignment until it is settled; drop the records of the last assignment."""
        self._settling = assignment
        self._next.clear()
        self._paused = False
        for partition in self._consumer.assignment():
            # With an offset set the client looks for none; while paused it does not read from there.
            self._consumer.pause(partition)
            self._consumer.seek(partition, 0)
        drop_fetched(self._consumer)

    def _made_again(self, assignment: Assignment) -> bool:
        seen = self._watch.latest_ids
        return any(topic in seen and seen[topic] != known for topic, known in assignment.topic_ids.items())

    def _settle(self, assignment: Assignment) -> None:
        """Settle the partitions of the assignment; a partition that fails is tried again in the next poll."""
        waiting = [partition for partition in sorted(assignment.partitions) if partition not in self._next]
        if not waiting:
            return
        deadline = time.monotonic() + SETTLE_S
        start_offsets = StartOffsets(self._kafka, self._consumer, self._logged_partitions)
        ids = self._watch.fresh_ids(self._topics)
        for partition in waiting:
            if not assignment.valid or time.monotonic() > deadline:
                return
            if partition.topic not in ids:
                self._warn_once(f"topic {partition.topic} does not exist; waiting for it to be made")
                continue
            # Before the offset is read: partitions of one topic settle under one id, or the assignment begins anew.
            assignment.topic_ids.setdefault(partition.topic, ids[partition.topic])
            self._settle_one(partition, start_offsets, assignment.topic_ids[partition.topic])

    def _settle_one(self, partition: TopicPartition, start_offsets: StartOffsets, topic_id: bytes) -> None:
        try:
            offset = start_offsets.offset_of(partition, topic_id)
            self._consumer.seek(partition, offset)
            if not self._paused:
                self._consumer.resume(partition)
        except (*_NOT_A_MEMBER, IllegalStateError, ValueError, AssertionError) as error:
            log.debug("%s: no longer a member: %r", partition, error)
            time.sleep(SETTLE_PAUSE_S)
        except KafkaError as error:
            self._warn_once(
                f"{partition.topic}-{partition.partition}: its committed offset cannot be read yet ({error})"
            )
            time.sleep(SETTLE_PAUSE_S)
        else:
            self._next[partition] = offset
            log.info("%s-%d: begins at offset %d", partition.topic, partition.partition, offset)

    def _polled_batch(
        self, assignment: Assignment, partition: TopicPartition, records: list[Any], polled_at: float
    ) -> PolledBatch:
        offsets = np.fromiter((record.offset for record in records), np.int64, len(records))
        self._next[partition] = SourceOffset(int(offsets[-1]) + 1)
        return PolledBatch(
            assignment=assignment,
            partition=partition,
            topic_id=assignment.topic_ids[partition.topic],
            records=records,
            offsets=offsets,
            size_bytes=sum(map(record_bytes, records)),
            polled_at=polled_at,
        )

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            log.warning("%s", line)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "none"
