"""Polls the articles of the partitions that are assigned to this worker, in batches.

A partition is *settled* when its start offset is known and it has begun (``start_offsets``). Each poll, in order:

    1  join with the topics that patterns match, where these are others now, and poll the client, which takes part in
       the group meanwhile
    2  end the assignment if its membership is no longer the present one, or if one of its topics was recreated;
       the records of this poll are dropped
    3  once an ended assignment has let go of everything: begin the next one, with every partition held
    4  make batches of the records
    5  settle the partitions that are not settled yet: no other partition waits for them

Once a second, ``passed`` says how far partitions were read past records that nobody is given, to be committed.

Only this thread begins assignments (``assignments``), so the committed offsets that it reads when it settles are final.
"""

from __future__ import annotations

import logging
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
from stream_dedup.worker.assignments import AssignmentState
from stream_dedup.worker.batches import JudgedBatch, PolledBatch
from stream_dedup.worker.start_offsets import LoggedSources, StartOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stream_dedup.config.model import Config
    from stream_dedup.ports import ArticleSource, Clock, Membership, Partition, SourceRecord
    from stream_dedup.worker.assignments import Assignment, AssignmentOwner
    from stream_dedup.worker.topic_watch import TopicWatch

log = logging.getLogger(__name__)

SETTLE_S = 5.0
"""After so many seconds the settling of many partitions continues in the next poll."""
SETTLE_PAUSE_S = 0.05
"""Seconds between two tries to settle a partition."""
RECORD_BYTES = 400
"""Memory of a record in flight beside its key, value and headers: with many partitions there may be a million."""
ERROR_PAUSE_S = 0.05
"""Seconds after a poll that failed: until the next assignment begins, a poll may fail at once for the same reason."""


class BatchSource:
    """Polls batches from the partitions assigned to this worker."""

    def __init__(
        self,
        config: Config,
        *,
        client: ArticleSource,
        clock: Clock,
        watch: TopicWatch,
        assignments: AssignmentOwner,
        known: LoggedSources,
    ) -> None:
        """``known`` is what the log says of the source."""
        self._kafka = config.kafka
        self._topics: tuple[str, ...] = ()
        self._client = client
        self._clock = clock
        self._watch = watch
        self._assignments = assignments
        self._known = known
        self._settled: dict[Partition, SourceOffset] = {}
        """With the offset that is committed, or will be once everything in flight has left."""
        self._paused: frozenset[Partition] = frozenset()
        self._warned: set[str] = set()
        self.begun = 0
        """Number of assignments begun."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads, by their names."""
        return self._topics

    def poll(self, wait_s: float) -> list[PolledBatch]:
        """Return the next batches, at most one for each partition; each is counted as in flight.

        Raises:
            RefusedError: committed offsets are lost, or the next records are deleted or cannot be read.
            UserError: the broker does not let this client read the topics or join the group.
        """
        # 1
        self._join()
        if not self._topics:
            self._clock.sleep(wait_s)
            return []
        self._pause()
        records = self._fetch(wait_s)
        # 2, 3
        assignment = self._followed()
        if assignment is None:
            return []
        # 4
        polled_at = self._clock.monotonic()
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
        """Return a batch without records for each partition that was read past what is returned to nobody.

        Its offset is committed like that of any other batch: else the group's offset would stay before the markers of
        transactions and aborted records at the end of a partition, as if articles waited there. Only where nothing of
        the partition is in flight: everything that was returned before the position has left. Each is counted as in
        flight.
        """
        assignment = self._assignments.current
        if assignment is None:
            return []
        passed = [
            (partition, position)
            for partition, position in self._client.positions().items()
            if position.offset > self._settled.get(partition, position.offset)
            and not self._assignments.has_in_flight(partition)
        ]
        batches = [
            self._polled_batch(assignment, partition, (), self._clock.monotonic(), position)
            for partition, position in passed
        ]
        return [JudgedBatch(batch, (), (), ()) for batch in batches if self._reserve(batch)]

    def lag(self) -> dict[str, int]:
        """Return the number of records not polled yet, by topic; see ``ArticleSource.lag``."""
        return self._client.lag()

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def _join(self) -> None:
        """Join the group; join again where patterns match other topics. Without any, the last ones are waited for."""
        topics = self._watch.topics
        if topics and topics != self._topics:
            self._topics = topics
            self._client.join(topics)
        elif not self._topics and self._watch.latest_ids:
            self._warn_once("no topic matches topics.input; waiting for one to be made")

    def _pause(self) -> None:
        """Pause the partitions that have enough in flight, and resume the others; the membership continues."""
        crowded = self._assignments.crowded(self._settled.keys())
        if crowded != self._paused:
            self._client.pause(crowded)
            self._paused = crowded

    def _followed(self) -> Assignment | None:
        """Return the assignment that works: end it where it has to, or begin the next one, with nothing settled."""
        membership = self._client.membership()
        current = self._assignments.current
        if current is None:
            return None if membership is None else self._begin(membership)
        if current.membership is not membership:
            self._assignments.end(current, "its partitions were given back")
        elif self._recreated(current):
            self._assignments.end(current, "an article topic was recreated")
        return current if self._assignments.state is AssignmentState.WORKING else None

    def _begin(self, membership: Membership) -> Assignment:
        self._client.hold()
        self._settled.clear()
        self.begun += 1
        return self._assignments.begin(membership)

    def _recreated(self, assignment: Assignment) -> bool:
        return _differ(assignment, self._watch.latest_ids)

    # what the client raises

    def _fetch(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        try:
            return self._client.poll(wait_s)
        except OffsetGoneError as error:
            if self._settled.keys() & error.partitions:
                self._refuse_unless_ended(self._records_gone(error.partitions))
        except SourceChangedError as error:
            if self._settled:
                self._refuse_unless_ended(self._truncated(error))
        except RefusedByBrokerError as error:
            raise self._refused(error) from error
        self._clock.sleep(ERROR_PAUSE_S)
        return {}

    def _refused(self, error: RefusedByBrokerError) -> UserError:
        return UserError(
            f"group {self._kafka.group}: the broker at {self._kafka.brokers} refuses this client: {error}; "
            "docs/acls.md lists the rights"
        )

    def _refuse_unless_ended(self, message: str) -> None:
        """Raise ``RefusedError``, unless what was read may have been said of a topic that is deleted by now.

        The topic ids are looked up after that was read. Where one is another, the assignment ends: it begins anew, and
        settling sets another offset. A topic that is deleted and not recreated yet is waited for.
        """
        assignment = self._assignments.current
        if assignment is None or not self._assignments.is_working(assignment):
            return
        try:
            ids = self._watch.fresh_ids(self._topics)
        except PassingError as error:
            log.debug("not known whether a topic was recreated: %r", error)
            return
        if _differ(assignment, ids):
            self._assignments.end(assignment, "an article topic was recreated")
        elif assignment.topic_ids.keys() <= ids.keys():
            raise RefusedError(message)

    def _records_gone(self, partitions: Iterable[Partition]) -> str:
        return (
            f"group {self._kafka.group}: {_names(partitions)}: the source no longer has the articles that come next "
            "(deleted before they were read, or the offset was set past the end). "
            f"To go on with what is there: stream-dedup offsets set --brokers {self._kafka.brokers} "
            f"--group {self._kafka.group} --to beginning"
        )

    def _truncated(self, error: SourceChangedError) -> str:
        return (
            f"group {self._kafka.group}: an article topic lost records that were read, and has others at their "
            f"offsets ({error}). Restore the topic, or begin a new group (a new log) with --group; to go on behind "
            f"what is there: stream-dedup offsets set --brokers {self._kafka.brokers} --group {self._kafka.group} "
            "--topic TOPIC --partition NUMBER --to OFFSET"
        )

    # settling

    def _settle(self, assignment: Assignment) -> None:
        """Settle the partitions of the assignment; a partition that fails is tried again in the next poll."""
        waiting = [
            partition for partition in sorted(assignment.membership.partitions) if partition not in self._settled
        ]
        if not waiting:
            return
        deadline = self._clock.monotonic() + SETTLE_S
        start_offsets = StartOffsets(self._kafka, self._client, self._known)
        ids = self._watch.fresh_ids(self._topics)
        for partition in waiting:
            if not self._assignments.is_working(assignment) or self._clock.monotonic() > deadline:
                return
            if partition.topic not in ids:
                self._warn_once(f"topic {partition.topic} does not exist; waiting for it to be made")
                continue
            # Before the offset is read: partitions of one topic settle under one id, or the assignment begins anew.
            assignment.topic_ids.setdefault(partition.topic, ids[partition.topic])
            self._settle_one(partition, start_offsets, assignment.topic_ids[partition.topic])

    def _settle_one(self, partition: Partition, start_offsets: StartOffsets, topic_id: bytes) -> None:
        try:
            start = start_offsets.start_of(partition, topic_id)
            self._client.begin(partition, start)
        except NotAMemberError as error:
            log.debug("%s: no longer a member: %r", partition, error)
            self._clock.sleep(SETTLE_PAUSE_S)
        except PassingError as error:
            self._warn_once(f"{partition}: its committed offset cannot be read yet ({error})")
            self._clock.sleep(SETTLE_PAUSE_S)
        except RefusedError as error:
            # A broker drops the committed offsets of a topic that is deleted: they are not lost.
            self._refuse_unless_ended(str(error))
        else:
            self._settled[partition] = start.offset
            log.info("%s: begins at offset %d", partition, start.offset)

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
        if not self._assignments.reserve(batch):
            return False
        self._settled[batch.partition] = batch.next.offset
        return True

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            log.warning("%s", line)


def _differ(assignment: Assignment, seen: Mapping[str, bytes]) -> bool:
    return any(seen.get(topic, known) != known for topic, known in assignment.topic_ids.items())


def _behind(record: SourceRecord) -> CommittedOffset:
    return CommittedOffset(SourceOffset(record.offset + 1), None, record.leader_epoch)


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
