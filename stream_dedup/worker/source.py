"""Step 1: polls the articles of the partitions that are assigned to this worker, in batches.

A partition is *settled* when its start offset is known and it has begun. Each poll, in order:

    1  join with the topics that patterns match, where these are others now, and poll the client, which takes part in
       the group meanwhile
    2  end the assignment if its membership is no longer the present one, or if one of its topics was recreated; the
       records of this poll are dropped
    3  once every batch of an ended assignment is released: begin the next assignment, with every partition held
    4  make batches of the records
    5  settle the partitions that are not settled yet: no other partition waits for them

Once a second, ``passed`` returns how far partitions were read past markers and aborted records, to be committed.

Only this thread begins assignments (``assignments``), so the committed offsets that it reads when it settles are final.
A partition begins at

* the committed offset, if its metadata names the topic's present id, or no id (the offset was set by hand).
* Without such an offset the beginning, if no article of the partition was ever logged. If the metadata names another
  id, the topic was deleted and recreated.
* Otherwise the group has lost its offsets, or the topic was seeded: stop, and say how to set them.
* A committed offset below what trims have forgotten: stop, and say how to set it. Those articles were logged and
  judged; their verdicts are no longer known.

A beginning that was not read from a committed offset is committed at once, before anything is logged. If the worker
dies after that, its successor does not conclude that the group lost its offsets.

A topic that is deleted and recreated has another id (``watches``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.kafka.record import record_bytes
from stream_dedup.ports import (
    CommittedOffset,
    NotAMemberError,
    OffsetGoneError,
    PassingError,
    RefusedByBrokerError,
    SourceChangedError,
)
from stream_dedup.worker.assignments import JudgedBatch, PolledBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stream_dedup.config.model import KafkaConfig
    from stream_dedup.ports import ArticleSource, Clock, Membership, Partition, SourceRecord
    from stream_dedup.worker.assignments import Assignment, AssignmentOwner
    from stream_dedup.worker.watches import TopicWatch

    LoggedPartitions = Callable[[], frozenset[tuple[bytes, int]]]
    """Reads the log to its present end; returns topic id and number of each source partition that was logged."""

log = logging.getLogger(__name__)

SETTLE_S = 5.0
"""After so many seconds the settling of many partitions continues in the next poll."""
SETTLE_PAUSE_S = 0.05
"""Seconds between two tries to settle a partition."""
RECORD_BYTES = 400
"""Memory of a record in flight beside its key, value and headers: with many partitions there may be a million."""
ERROR_PAUSE_S = 0.05
"""Seconds after a poll that failed: until the next assignment begins, a poll may fail at once for the same reason."""


@dataclass(eq=False)
class BatchSource:
    """Polls batches from the partitions assigned to this worker."""

    kafka: KafkaConfig
    client: ArticleSource
    clock: Clock
    watch: TopicWatch
    assignments: AssignmentOwner
    logged_partitions: LoggedPartitions
    """May block."""
    forgotten_before: Callable[[bytes, int], SourceOffset]
    """Returns at once the offset of a partition below which everything is forgotten; 0 if nothing is."""
    begun: int = 0
    """Number of assignments begun."""

    def __post_init__(self) -> None:
        """Join later."""
        self.topics: tuple[str, ...] = ()
        """Names of the topics that it reads."""
        self._settled: dict[Partition, SourceOffset] = {}
        """With the offset that is committed, or will be once everything in flight has left."""
        self._paused: frozenset[Partition] = frozenset()
        self._warned: set[str] = set()

    def poll(self, wait_s: float) -> list[PolledBatch]:
        """Return the next batches, at most one for each partition; each is counted as in flight.

        Raises:
            RefusedError: committed offsets are lost, or the next records are deleted or cannot be read.
            UserError: the broker does not let this client read the topics or join the group.
        """
        # 1
        self._join()
        if not self.topics:
            self.clock.sleep(wait_s)
            return []
        self._pause()
        records = self._fetch(wait_s)
        # 2, 3
        assignment = self._followed()
        if assignment is None:
            return []
        # 4
        polled_at = self.clock.monotonic()
        batches = [
            self._polled_batch(assignment, partition, polled, polled_at, _behind(polled[-1]))
            for partition, polled in records.items()
            if partition in self._settled and polled
        ]
        # 5
        try:
            self._settle(assignment)
        except PassingError as error:
            log.debug("settled later: %r", error)
        except RefusedByBrokerError as error:
            raise self._refused(error) from error
        return [batch for batch in batches if self._reserve(batch)]

    def passed(self) -> list[JudgedBatch]:
        """Return a batch without records for each partition that was read past records that are never returned.

        Its offset is committed like that of any other batch. Otherwise the group's offset would stay before the markers
        of transactions and aborted records at the end of a partition, as if articles waited there. A partition with a
        batch in flight has none: the verdicts of all records before the position must have left. Each batch is counted
        as in flight.
        """
        assignment = self.assignments.current
        if assignment is None:
            return []
        passed = [
            (partition, position)
            for partition, position in self.client.positions().items()
            if position.offset > self._settled.get(partition, position.offset)
            and not self.assignments.has_in_flight(partition)
        ]
        batches = [
            self._polled_batch(assignment, partition, (), self.clock.monotonic(), position)
            for partition, position in passed
        ]
        return [JudgedBatch(batch, (), (), ()) for batch in batches if self._reserve(batch)]

    def _join(self) -> None:
        """Join the group; join again when patterns match other topics. If none matches now, the topics stay."""
        topics = self.watch.topics
        if topics and topics != self.topics:
            self.topics = topics
            self.client.join(topics)
        elif not self.topics and self.watch.latest_ids:
            self._warn_once("no topic matches topics.input; waiting for a topic to be created")

    def _pause(self) -> None:
        """Pause the partitions that have enough in flight, and resume the others; the membership continues."""
        crowded = self.assignments.crowded(self._settled.keys())
        if crowded != self._paused:
            self.client.pause(crowded)
            self._paused = crowded

    def _followed(self) -> Assignment | None:
        """Return the working assignment; end it if it has to end, or begin the next one, with nothing settled."""
        membership = self.client.membership()
        current = self.assignments.current
        if current is None:
            return None if membership is None else self._begin(membership)
        if current.membership is not membership:
            self.assignments.end(current, "its partitions were revoked")
        elif _differ(current, self.watch.latest_ids):
            self.assignments.end(current, "an article topic was recreated")
        return None if current.ended else current

    def _begin(self, membership: Membership) -> Assignment:
        self.client.hold()
        self._settled.clear()
        self.begun += 1
        return self.assignments.begin(membership)

    # what the client raises

    def _fetch(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        try:
            return self.client.poll(wait_s)
        except OffsetGoneError as error:
            if self._settled.keys() & error.partitions:
                self._refuse_unless_ended(self._records_gone(error.partitions))
        except SourceChangedError as error:
            if self._settled:
                self._refuse_unless_ended(self._truncated(error))
        except RefusedByBrokerError as error:
            raise self._refused(error) from error
        self.clock.sleep(ERROR_PAUSE_S)
        return {}

    def _refused(self, error: RefusedByBrokerError) -> UserError:
        return UserError(
            f"group {self.kafka.group}: the broker at {self.kafka.brokers} refuses this client: {error}; "
            "docs/acls.md lists the rights"
        )

    def _refuse_unless_ended(self, message: str) -> None:
        """Raise ``RefusedError``, unless the client's answer may concern a topic that was deleted meanwhile.

        The topic ids are looked up after the answer. If a topic was recreated, the assignment ends: the next one
        settles at another offset. A topic that was deleted and is not recreated yet is waited for.
        """
        assignment = self.assignments.current
        if assignment is None or not self.assignments.is_working(assignment):
            return
        try:
            ids = self.watch.fresh_ids(self.topics)
        except PassingError as error:
            log.debug("not known whether a topic was recreated: %r", error)
            return
        if _differ(assignment, ids):
            self.assignments.end(assignment, "an article topic was recreated")
        elif assignment.topic_ids.keys() <= ids.keys():
            raise RefusedError(message)

    def _records_gone(self, partitions: Iterable[Partition]) -> str:
        return (
            f"group {self.kafka.group}: {_names(partitions)}: the source no longer has the articles that come next "
            "(deleted before they were read, or the offset was set past the end). "
            f"To continue with the articles that are left: {_set_offsets(self.kafka)} --to beginning"
        )

    def _truncated(self, error: SourceChangedError) -> str:
        return (
            f"group {self.kafka.group}: an article topic lost records that were read, and has others at their "
            f"offsets ({error}). Restore the topic, or begin a new group (a new log) with --group; to continue behind "
            f"them: {_set_offsets(self.kafka)} --topic TOPIC --partition NUMBER --to OFFSET"
        )

    # settling

    def _settle(self, assignment: Assignment) -> None:
        """Settle the partitions of the assignment; a partition that fails is retried in the next poll."""
        waiting = [
            partition for partition in sorted(assignment.membership.partitions) if partition not in self._settled
        ]
        if not waiting:
            return
        deadline = self.clock.monotonic() + SETTLE_S
        logged_partitions = cache(self.logged_partitions)
        ids = self.watch.fresh_ids(self.topics)
        for partition in waiting:
            if not self.assignments.is_working(assignment) or self.clock.monotonic() > deadline:
                return
            if partition.topic not in ids:
                self._warn_once(f"topic {partition.topic} does not exist; waiting for it to be created")
                continue
            # Before the offset is read: all partitions of a topic settle under the same id, or the assignment ends.
            assignment.topic_ids.setdefault(partition.topic, ids[partition.topic])
            self._settle_partition(partition, assignment.topic_ids[partition.topic], logged_partitions)

    def _settle_partition(self, partition: Partition, topic_id: bytes, logged_partitions: LoggedPartitions) -> None:
        try:
            start = self.start_of(partition, topic_id, logged_partitions)
            self.client.begin(partition, start)
        except NotAMemberError as error:
            log.debug("%s: no longer a member: %r", partition, error)
            self.clock.sleep(SETTLE_PAUSE_S)
        except PassingError as error:
            self._warn_once(f"{partition}: its committed offset cannot be read yet ({error})")
            self.clock.sleep(SETTLE_PAUSE_S)
        except RefusedError as error:
            # A broker drops the committed offsets of a topic that is deleted: they are not lost.
            self._refuse_unless_ended(str(error))
        else:
            self._settled[partition] = start.offset
            log.info("%s: begins at offset %d", partition, start.offset)

    def start_of(self, partition: Partition, topic_id: bytes, logged_partitions: LoggedPartitions) -> CommittedOffset:
        """Return where a partition begins; blocks for some seconds at most.

        Raises:
            RefusedError: the group lost its offsets, or its offset is below what is forgotten.
            PassingError: the broker did not answer, or another member has begun the partition; call again later.
            NotAMemberError: the partition is not assigned any more.
        """
        committed = self.client.committed(partition)
        if committed is not None and committed.topic_id in (None, topic_id):
            forgotten = self.forgotten_before(topic_id, partition.number)
            if committed.offset < forgotten:
                raise RefusedError(self._forgotten(partition, committed.offset, forgotten))
            return committed
        if (topic_id, partition.number) in logged_partitions():
            # Whoever logs an article has committed the beginning before: another member may have, since the first look.
            if self.client.committed(partition) != committed:
                raise PassingError(f"{partition}: another member of the group has begun it meanwhile")
            forgotten = self.forgotten_before(topic_id, partition.number)
            raise RefusedError(self._lost(partition, committed, forgotten))
        if committed is not None:
            log.warning("%s: the topic was recreated; begins at its beginning", partition)
        start = CommittedOffset(self.client.beginning(partition), topic_id)
        self.client.commit_start(partition, start)
        return start

    def _lost(self, partition: Partition, committed: CommittedOffset | None, forgotten: SourceOffset) -> str:
        what = "no committed offset for" if committed is None else "the committed offset of a deleted topic for"
        again = "--to beginning (judge everything again, the same verdicts) or " if not forgotten else ""
        return (
            f"group {self.kafka.group} has {what} {partition}, but its log has articles of it: the "
            f"group lost its offsets (an idle group's expire), or the topic was seeded. Set them: "
            f"{_set_offsets(self.kafka)} --topic {partition.topic} {again}--to logged (go on behind what is logged)"
        )

    def _forgotten(self, partition: Partition, committed: SourceOffset, forgotten: SourceOffset) -> str:
        return (
            f"the committed offset of group {self.kafka.group} for {partition} is {committed}, and every article "
            f"below {forgotten} was logged, judged and trimmed: its verdict cannot be given again. Set the offset: "
            f"{_set_offsets(self.kafka)} --topic {partition.topic} --to logged (go on behind what is logged)"
        )

    # batches

    def _polled_batch(
        self,
        assignment: Assignment,
        partition: Partition,
        records: Sequence[SourceRecord],
        polled_at: float,
        end: CommittedOffset,
    ) -> PolledBatch:
        topic_id = assignment.topic_ids[partition.topic]
        return PolledBatch(
            assignment=assignment,
            partition=partition,
            topic_id=topic_id,
            records=records,
            offsets=np.fromiter((record.offset for record in records), np.int64, len(records)),
            size_bytes=sum(map(record_bytes, records)) + RECORD_BYTES * len(records),
            polled_at=polled_at,
            next=CommittedOffset(end.offset, topic_id, end.leader_epoch),
        )

    def _reserve(self, batch: PolledBatch) -> bool:
        """Count a batch as in flight; return False, and count nothing, if its assignment has ended."""
        if not self.assignments.reserve(batch):
            return False
        self._settled[batch.partition] = batch.next.offset
        return True

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            log.warning("%s", line)


def _set_offsets(kafka: KafkaConfig) -> str:
    return f"stream-dedup offsets set --brokers {kafka.brokers} --group {kafka.group}"


def _differ(assignment: Assignment, seen: Mapping[str, bytes]) -> bool:
    return any(seen.get(topic, known) != known for topic, known in assignment.topic_ids.items())


def _behind(record: SourceRecord) -> CommittedOffset:
    return CommittedOffset(SourceOffset(record.offset + 1), None, record.leader_epoch)


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
