"""The article source on confluent-kafka: a consumer of the group.

The client calls the callbacks of a rebalance during a poll, on the thread that polls: all happens on the worker's
thread. The protocol is the eager one with the assignor ``roundrobin``, as with kafka-python, so that workers of either
client share a group: every rebalance first takes all partitions away, and the client joins again only after that.

* A membership is valid from the assignment, where the proof is taken, to the revocation. The client answers with an
  empty proof of generation -1 where it has fallen out of the group, which the broker would accept unchecked: then there
  is no membership, and a revocation follows.
* A held partition is paused at the end of the partition. At any offset the client could find, before it is paused, that
  it has no such offset, and would report it later of another position.
* Pausing and seeking drop what was fetched. A seek asks the broker whether the partition still has that offset of that
  leader epoch.
* The client stops a partition whose position is gone, and accepts no seek of it: only another assignment starts it
  again. As the report may be older than the last seek, the position is compared with the partition's bounds first.
* The client's position stays behind at markers of transactions. It says where a partition ends, which is behind them.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition

from stream_dedup.broker.adapter.group import UNKNOWN_EPOCH, epoch_of
from stream_dedup.broker.adapter.source import (
    GATHER_BYTES,
    GATHER_MS,
    HEARTBEATS_A_SESSION,
    MAX_POLL_INTERVAL_MS,
    OFFSET_REQUEST_MS,
)
from stream_dedup.broker.client import CLOSE_TIMEOUT_S
from stream_dedup.broker.confluent.client import make_member
from stream_dedup.broker.confluent.port_errors import client_errors, error_of
from stream_dedup.broker.confluent.records import ConsumedRecord, PartitionEnd, PositionGone, next_events
from stream_dedup.core.headers import offset_metadata, topic_id_of_metadata
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    SourceChangedError,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

REQUEST_S = OFFSET_REQUEST_MS / 1_000
"""One try to read or write an offset, seconds."""
START_LIMIT_S = 2.0
"""The client starts an assigned partition within milliseconds, on its own thread."""
START_POLL_S = 0.005
"""Between two looks whether it has, seconds."""
PROOF_MAGIC = b"CGMDv2:"
"""How a proof begins that the client gives away; the generation follows, in 4 bytes of this machine's order."""
GENERATION_BYTES = slice(len(PROOF_MAGIC), len(PROOF_MAGIC) + 4)


class ConfluentSource:
    """Implements ``ports.ArticleSource``."""

    def __init__(self, config: Config, member_id: str) -> None:
        """Connect; ``join`` asks for membership."""
        session_ms = int(config.kafka.session_timeout_s * 1_000)
        self._most = config.worker.batch_records
        self._membership: Membership | None = None
        self._positions: dict[Partition, CommittedOffset] = {}
        """Of the partitions that have begun: where the next record is."""
        self._paused: frozenset[Partition] = frozenset()
        self._gone: dict[Partition, PositionGone] = {}
        """Partitions that the client has stopped, until it is said to the caller."""
        self._consumer: Consumer = make_member(
            config.kafka,
            client_id=member_id,
            group_instance_id=config.kafka.group_instance_id,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(session_ms // HEARTBEATS_A_SESSION, 1),
            max_poll_interval_ms=max(MAX_POLL_INTERVAL_MS, session_ms),
            fetch_min_bytes=GATHER_BYTES,
            fetch_wait_max_ms=GATHER_MS,
            partition_assignment_strategy="roundrobin",
        )

    def join(self, topics: Sequence[str]) -> None:
        """Ask to become a member of the group."""
        self._consumer.subscribe(list(topics), on_assign=self._begin_membership, on_revoke=self._end_membership)

    def membership(self) -> Membership | None:
        """Return the present membership."""
        return self._membership

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[ConsumedRecord]]:
        """Take part in the group, and return the next records of partitions that have begun and are not paused."""
        self._say_what_is_gone()
        polled: dict[Partition, list[ConsumedRecord]] = {}
        for event in next_events(self._consumer, wait_s, self._most):
            at = Partition(event.topic, event.partition) if isinstance(event, ConsumedRecord) else event.at
            if at not in self._positions:
                continue
            if isinstance(event, ConsumedRecord):
                polled.setdefault(at, []).append(event)
                self._move(at, event.offset + 1, event.leader_epoch)
            elif isinstance(event, PartitionEnd):
                self._move(at, event.offset, self._positions[at].leader_epoch)
            else:
                self._gone[at] = event
        # A rebalance during the poll has held everything: what came before it belongs to the membership that ended.
        return {at: records for at, records in polled.items() if at in self._positions}

    def hold(self) -> None:
        """Yield nothing of any partition until it begins again; drop every record that was fetched."""
        self._positions.clear()
        self._gone.clear()
        with client_errors():
            self._consumer.pause([TopicPartition(*at) for at in self._assigned()])

    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        """Yield the records of a held partition from an offset on."""
        self._check_assigned(partition)
        self._gone.pop(partition, None)
        self._positions.pop(partition, None)
        at = _position(partition, start)
        with client_errors():
            if not self._is_sought(at):
                self._assign_again()
                self._seek_when_started(at)
            if partition not in self._paused:
                self._consumer.resume([at])
        self._positions[partition] = start

    def pause(self, partitions: Collection[Partition]) -> None:
        """Yield nothing of these partitions, and go on with the others that have begun."""
        before, self._paused = self._paused, frozenset(partitions)
        begun = self._positions.keys() & self._assigned()
        with client_errors():
            if stopping := begun & (self._paused - before):
                self._consumer.pause([TopicPartition(*at) for at in stopping])
            if going := begun & (before - self._paused):
                self._consumer.resume([TopicPartition(*at) for at in going])

    def committed(self, partition: Partition) -> CommittedOffset | None:
        """Return the group's committed offset, None of none."""
        with client_errors():
            found = self._consumer.committed([TopicPartition(*partition)], timeout=REQUEST_S)[0]
            if found.error is not None:
                raise KafkaException(found.error)
        if found.offset < 0:
            return None
        epoch = None if found.leader_epoch is None or found.leader_epoch < 0 else found.leader_epoch
        return CommittedOffset(SourceOffset(found.offset), topic_id_of_metadata(found.metadata or ""), epoch)

    def commit_start(self, partition: Partition, start: CommittedOffset) -> None:
        """Commit an offset outside any transaction, under the present membership.

        The client commits under its generation of the moment. That is the membership's: only a poll begins another.
        """
        membership = self._check_assigned(partition)
        with client_errors():
            if _generation(self._consumer.consumer_group_metadata()) != membership.generation:
                msg = f"generation {membership.generation} of the group has ended"
                raise NotAMemberError(msg)
            for at in self._consumer.commit(offsets=[client_offset(partition, start)], asynchronous=False) or ():
                if at.error is not None:
                    raise KafkaException(at.error)

    def beginning(self, partition: Partition) -> SourceOffset:
        """Return the first offset that the partition holds now."""
        return SourceOffset(self._bounds(partition)[0])

    def lag(self) -> dict[str, int]:
        """Return the number of records that were not returned yet, by topic."""
        lags: dict[str, int] = {}
        for partition, position in self._positions.items():
            left = max(0, self._end(partition) - int(position.offset))
            lags[partition.topic] = lags.get(partition.topic, 0) + left
        return lags

    def close(self) -> None:
        """Leave the group; a client that does not close in time is abandoned."""
        self._membership = None
        self._positions.clear()
        closing = threading.Thread(target=self._consumer.close, name="close-source", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)

    # The callbacks of a rebalance, during a poll.

    def _end_membership(self, _consumer: Consumer, revoked: Iterable[TopicPartition]) -> None:
        had_one, self._membership = self._membership is not None, None
        self._positions.clear()
        if had_one:
            log.info("partitions given back: %s", _names(revoked))

    def _begin_membership(self, _consumer: Consumer, assigned: Iterable[TopicPartition]) -> None:
        """Begin a membership, with the proof as it is now, and with every partition held."""
        partitions = frozenset(Partition(at.topic, at.partition) for at in assigned)
        self._positions.clear()
        self._gone.clear()
        self._assign(partitions)
        proof = self._consumer.consumer_group_metadata()
        generation = _generation(proof)
        if generation < 0:
            return
        self._membership = Membership(partitions, generation, proof)
        log.info("partitions assigned: %s, generation %d", _names(assigned), generation)

    # Positions.

    def _move(self, at: Partition, offset: int, epoch: int | None) -> None:
        self._positions[at] = CommittedOffset(SourceOffset(offset), None, epoch)

    def _assign(self, partitions: Iterable[Partition]) -> None:
        """Assign partitions to the client: those that have begun at their positions, the others held."""
        begun = self._positions
        positions = [
            _position(at, begun[at]) if at in begun else TopicPartition(*at, OFFSET_END) for at in sorted(partitions)
        ]
        self._consumer.assign(positions)
        self._consumer.pause(positions)
        if going := [TopicPartition(*at) for at in begun.keys() - self._paused]:
            self._consumer.resume(going)

    def _assign_again(self) -> None:
        """Start every partition of the membership again, each where it is."""
        self._assign(self._assigned())

    def _is_sought(self, at: TopicPartition) -> bool:
        """Seek; return False where the client has stopped the partition, or has not started it yet."""
        try:
            self._consumer.seek(at)
        except KafkaException as error:
            if error_of(error).code() in {KafkaError._STATE, KafkaError._PREV_IN_PROGRESS}:
                return False
            raise
        return True

    def _seek_when_started(self, at: TopicPartition) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._is_sought(at):
            if time.monotonic() > deadline:
                msg = f"the client does not start {at.topic}-{at.partition}"
                raise PassingError(msg)
            time.sleep(START_POLL_S)

    def _say_what_is_gone(self) -> None:
        """Raise for a partition that the client has stopped, or start it again if its position is there after all.

        Raises:
            SourceChangedError, OffsetGoneError: as ``poll``.
        """
        for partition, gone in list(self._gone.items()):
            position = self._positions.get(partition)
            if position is None:
                del self._gone[partition]
                continue
            if gone.is_truncated:
                del self._gone[partition]
                msg = f"{partition}: truncated below the offset that was read, or made again ({gone.reason})"
                raise SourceChangedError(msg)
            try:
                first, end = self._bounds(partition)
            except PassingError as error:
                log.debug("bounds of %s: %r", partition, error)  # asked again by the next poll
                continue
            del self._gone[partition]
            if not first <= position.offset <= end:
                raise OffsetGoneError([partition])
            log.debug("%s: %s, but it has offset %d", partition, gone.reason, position.offset)
            self.begin(partition, position)

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        with client_errors():
            first, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=REQUEST_S)
        return int(first), int(end)

    def _end(self, partition: Partition) -> int:
        """Return where a partition ends as of the last fetch; of a paused one, of which nothing is fetched, now."""
        try:
            if partition in self._paused:
                return self._bounds(partition)[1]
            with client_errors():
                return int(self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)[1])
        except PassingError as error:
            log.debug("end of %s: %r", partition, error)
            return 0

    def _assigned(self) -> frozenset[Partition]:
        return frozenset() if self._membership is None else self._membership.partitions

    def _check_assigned(self, partition: Partition) -> Membership:
        """Return the membership that assigns the partition."""
        if self._membership is None or partition not in self._membership.partitions:
            msg = f"{partition} is not assigned to this worker"
            raise NotAMemberError(msg)
        return self._membership


def client_offset(partition: Partition, committed: CommittedOffset) -> TopicPartition:
    """Return a committed offset in the client's terms."""
    metadata = "" if committed.topic_id is None else offset_metadata(committed.topic_id)
    return TopicPartition(*partition, int(committed.offset), metadata, epoch_of(committed))


def _position(partition: Partition, start: CommittedOffset) -> TopicPartition:
    return TopicPartition(*partition, int(start.offset), "", epoch_of(start))


def _generation(proof: object) -> int:
    """Return the generation in a proof of the client, -1 if it has none."""
    if not isinstance(proof, bytes) or not proof.startswith(PROOF_MAGIC):
        return UNKNOWN_EPOCH
    return int.from_bytes(proof[GENERATION_BYTES], sys.byteorder, signed=True)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(sorted(f"{at.topic}-{at.partition}" for at in partitions)) or "none"
