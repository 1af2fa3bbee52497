"""The article source on confluent-kafka: a consumer of the group.

The client calls the callbacks of a rebalance during a poll, on the thread that polls: all happens on the worker's
thread. The protocol is the eager one with the assignor ``roundrobin``, as with kafka-python, so that workers of either
client share a group: every rebalance first takes all partitions away, and the client joins again only after that.

* A membership is valid from the assignment, where the proof is taken, to the revocation. The client answers with an
  empty proof of generation -1 where it has fallen out of the group, which the broker would accept unchecked: then there
  is no membership, and a revocation follows.
* The client is assigned the partitions that have begun, and no others: a held partition has no position that the client
  could read from. It is never given a position by name (the end, the beginning): an answer to its question where that
  is may come after a seek, and moves the partition there, without an error (seen with librdkafka 2.16).
* ``poll`` assigns what has begun since the poll before, all at once, each partition at its position. For a new one with
  a leader epoch a seek follows: only a seek asks the broker whether the partition still has that offset of that epoch.
* A pause drops what was fetched, and a resume goes back to the position of the pause, or to that of the last assignment
  where there was no pause: what is not paused is never resumed.
* So a paused partition is not paused in the client at once: what comes of it is kept, up to a batch, and is the first
  to be returned when it goes on. A worker under full load pauses many times a second, and fetching anew after each took
  three times the processor time. While every partition is paused the client is asked for one event at a time, for the
  sake of the group.
* The client stops a partition whose position is gone; only another assignment starts it again. As the report may be
  older than the last assignment, the position is compared with the partition's bounds first.
* The client's position stays behind at markers of transactions. It says where a partition ends, which is behind them.
  There it has the leader epoch of the last record still, and not that of the markers and aborted records: under a later
  one they would seem to be truncated. A position at an end has no epoch here.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, TopicPartition
from kafka.structs import ConsumerGroupMetadata

from stream_dedup.core.headers import offset_metadata
from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.admin import UNKNOWN_EPOCH, epoch_of
from stream_dedup.kafka.confluent.client import (
    CLIENT_EXCEPTIONS,
    ConsumedRecord,
    PartitionEnd,
    PositionGone,
    client_errors,
    error_of,
    make_member,
    next_events,
)
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S
from stream_dedup.kafka.source import GATHER_MS, OFFSET_REQUEST_MS, GroupSource, member_settings
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    OffsetGoneError,
    Partition,
    PassingError,
    SourceChangedError,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from stream_dedup.config.model import Config
    from stream_dedup.kafka.admin import AdminConnection

log = logging.getLogger(__name__)

REQUEST_S = OFFSET_REQUEST_MS / 1_000
"""One try to read or write an offset, seconds."""
ASSIGNED_WITHIN_S = 0.5
"""The client starts assigned partitions within milliseconds, on its own thread; else they are assigned again."""
START_POLL_S = 0.005
"""Between two looks whether it has, seconds."""
PROOF_MAGIC = b"CGMDv2:"
"""How a proof begins that the client gives away; the generation follows, in 4 bytes of this machine's order."""
GENERATION_BYTES = slice(len(PROOF_MAGIC), len(PROOF_MAGIC) + 4)


class ConfluentSource(GroupSource):
    """A consumer of confluent-kafka."""

    def __init__(self, config: Config, member_id: str, admin: AdminConnection) -> None:
        super().__init__(config, admin)
        self._most = config.worker.batch_records
        self._positions: dict[Partition, CommittedOffset] = {}
        """Of the partitions that have begun: where the next record is."""
        self._starting: set[Partition] = set()
        """Those that have begun since the last assignment to the client."""
        self._kept: dict[Partition, deque[ConsumedRecord | PartitionEnd]] = {}
        """What came of each partition and was not returned yet, in order."""
        self._stopped: set[Partition] = set()
        """Partitions that are paused in the client, too."""
        self._gone: dict[Partition, PositionGone] = {}
        """Partitions that the client has stopped, until it is said to the caller."""
        self._consumer: Consumer = make_member(
            config.kafka,
            fetch_wait_max_ms=GATHER_MS,
            partition_assignment_strategy="roundrobin",
            **member_settings(config, member_id),
        )

    def join(self, topics: Sequence[str]) -> None:
        self.hold()
        self._membership = None
        self._consumer.subscribe(list(topics), on_assign=self._begin_membership, on_revoke=self._end_membership)

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[ConsumedRecord]]:
        begun = time.monotonic()
        self._say_what_is_gone()
        self._start()
        for event in self._next_events(wait_s):
            at = Partition(event.topic, event.partition) if isinstance(event, ConsumedRecord) else event.at
            if at not in self._positions or at in self._gone:
                continue
            if isinstance(event, PositionGone):
                self._gone[at] = event
            else:
                self._kept.setdefault(at, deque()).append(event)
        # A rebalance during the poll has held everything: what came before it belongs to the membership that ended.
        polled = self._take()
        self._stop_full()
        if self._is_all_paused():
            time.sleep(max(0.0, begun + wait_s - time.monotonic()))
        return polled

    def hold(self) -> None:
        self._drop_positions()
        if self._membership is not None:
            with client_errors():
                self._consumer.assign([])

    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        self._check_assigned(partition)
        self._gone.pop(partition, None)
        self._kept.pop(partition, None)
        self._positions[partition] = start
        self._starting.add(partition)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused = frozenset(partitions)
        if going := self._stopped - self._paused:
            self._stopped -= going
            with client_errors():
                self._consumer.resume([TopicPartition(*at) for at in going])

    def positions(self) -> dict[Partition, CommittedOffset]:
        return dict(self._positions)

    def beginning(self, partition: Partition) -> SourceOffset:
        return SourceOffset(self._bounds(partition)[0])

    def close(self) -> None:
        """Leave the group; a client that does not close in time is abandoned."""
        super().close()
        self._drop_positions()
        closing = threading.Thread(target=self._consumer.close, name="close-source", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)

    # The callbacks of a rebalance, during a poll.

    def _end_membership(self, _consumer: Consumer, revoked: Iterable[TopicPartition]) -> None:
        self._end((at.topic, at.partition) for at in revoked)
        self._drop_positions()

    def _begin_membership(self, _consumer: Consumer, assigned: Iterable[TopicPartition]) -> None:
        """Begin a membership, with the proof as it is now, and with every partition held."""
        partitions = frozenset(Partition(at.topic, at.partition) for at in assigned)
        self._drop_positions()
        self._consumer.assign([])
        proof = self._consumer.consumer_group_metadata()
        generation = generation_of(proof)
        if generation < 0:
            return
        self._begin(Membership(partitions, generation, proof))

    # What came.

    def _next_events(self, wait_s: float) -> list[ConsumedRecord | PartitionEnd | PositionGone]:
        """Return the next events of the client: one at most where nothing more is wanted, for the group's sake."""
        if self._is_all_paused():
            return next_events(self._consumer, wait_s, 1)
        ready = sum(len(kept) for at, kept in self._kept.items() if at not in self._paused)
        return next_events(self._consumer, 0 if ready else wait_s, max(self._most - ready, 1))

    def _is_all_paused(self) -> bool:
        return bool(self._positions) and self._positions.keys() <= self._paused

    def _take(self) -> dict[Partition, list[ConsumedRecord]]:
        """Return the first records that were kept of partitions that are not paused, and move their positions."""
        polled: dict[Partition, list[ConsumedRecord]] = {}
        left = self._most
        for at in [at for at in self._kept if at not in self._paused]:
            kept = self._kept[at]
            while kept and left:
                event = kept.popleft()
                if isinstance(event, ConsumedRecord):
                    polled.setdefault(at, []).append(event)
                    self._move(at, event.offset + 1, event.leader_epoch)
                    left -= 1
                elif event.offset > self._positions[at].offset:
                    self._move(at, event.offset, UNKNOWN_EPOCH)
            if not kept:
                del self._kept[at]
        return polled

    def _stop_full(self) -> None:
        """Pause paused partitions in the client, too, once a batch is kept of each."""
        full = {at for at, kept in self._kept.items() if at in self._paused and len(kept) >= self._most}
        if stopping := full - self._stopped:
            self._stopped |= stopping
            with client_errors():
                self._consumer.pause([TopicPartition(*at) for at in stopping])

    # Positions.

    def _move(self, at: Partition, offset: int, epoch: int) -> None:
        self._positions[at] = CommittedOffset(SourceOffset(offset), None, epoch)

    def _drop_positions(self) -> None:
        self._positions.clear()
        self._starting.clear()
        self._gone.clear()
        self._kept.clear()
        self._stopped.clear()

    def _start(self) -> None:
        """Assign everything that has begun, if the client does not have it yet."""
        if not self._starting:
            return
        with client_errors():
            self._consumer.assign([_position(at, start) for at, start in sorted(self._positions.items())])
            deadline = time.monotonic() + ASSIGNED_WITHIN_S  # of all: the client starts them together
            for at in sorted(self._starting):
                if epoch_of(self._positions[at]) > UNKNOWN_EPOCH and not self._sought(at, deadline):
                    self._gone[at] = PositionGone(at, "not started")
            self._consumer.resume([TopicPartition(*at) for at in self._positions])
        self._kept.clear()  # the client begins at the positions again
        self._stopped.clear()
        self._starting.clear()

    def _sought(self, partition: Partition, deadline: float) -> bool:
        """Seek the position, as soon as the client has started the partition; return False if it does not.

        It has stopped it again where the first fetch already found that the position is gone.
        """
        at = _position(partition, self._positions[partition])
        while True:
            try:
                self._consumer.seek(at)
            except CLIENT_EXCEPTIONS as error:
                if error_of(error).code() not in {KafkaError._STATE, KafkaError._PREV_IN_PROGRESS}:
                    raise
            else:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(START_POLL_S)

    def _say_what_is_gone(self) -> None:
        """Raise for a partition that the client has stopped, or start it again if its position is there after all.

        A leader that does not answer ends this poll's questions: one that many partitions share takes one time-out.

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
                raise SourceChangedError(
                    f"{partition}: truncated below the offset that was read, or recreated ({gone.reason})"
                )
            try:
                first, end = self._bounds(partition)
            except PassingError as error:
                log.debug("bounds of %s: %r", partition, error)
                self._gone[partition] = self._gone.pop(partition)  # asked again when the others were
                return
            del self._gone[partition]
            if position.offset > end and epoch_of(position) > UNKNOWN_EPOCH:
                raise SourceChangedError(
                    f"{partition}: it ends at offset {end}, before offset {position.offset} that was read up to"
                )
            if not first <= position.offset <= end:
                raise OffsetGoneError([partition])
            log.debug("%s: %s, but it has offset %d", partition, gone.reason, position.offset)
            self.begin(partition, position)

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        with client_errors():
            first, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=REQUEST_S)
        return int(first), int(end)

    def _as_member(self, membership: Membership) -> ConsumerGroupMetadata:
        with client_errors():
            member_id = self._consumer.memberid()
        return ConsumerGroupMetadata(self._kafka.group, membership.generation, member_id, self._kafka.group_instance_id)


def client_offset(partition: Partition, committed: CommittedOffset) -> TopicPartition:
    """Return a committed offset in the client's terms."""
    metadata = "" if committed.topic_id is None else offset_metadata(committed.topic_id)
    return TopicPartition(*partition, int(committed.offset), metadata, epoch_of(committed))


def _position(partition: Partition, start: CommittedOffset) -> TopicPartition:
    return TopicPartition(*partition, int(start.offset), "", epoch_of(start))


def generation_of(proof: object) -> int:
    """Return the generation in a proof of the client, -1 if it has none."""
    if not isinstance(proof, bytes) or not proof.startswith(PROOF_MAGIC):
        return UNKNOWN_EPOCH
    return int.from_bytes(proof[GENERATION_BYTES], sys.byteorder, signed=True)
