"""The article source on Kafka: a consumer of the group.

The client joins the group and calls the listener on its own thread, during a poll or between two polls. The listener
replaces the membership, under the lock; when one begins, it holds every partition, before the client can fetch from it.
All else happens on the worker's thread.

* A membership is valid from ``on_partitions_assigned``, where the proof is taken, to ``on_partitions_revoked``. A proof
  that was taken later could be that of a later generation, and without a membership the client returns an empty one,
  which the broker accepts unchecked.
* A held partition is paused, and its position is set: without a position the client would look for a committed offset.
* Records that the client fetched before a partition was held are dropped when it begins.
* A position is set with the leader epoch of the committed offset. The client validates it (``OffsetForLeaderEpoch``)
  when the leader changed since, and the broker compares it at each fetch: both end in ``LogTruncationError``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import (
    IllegalStateError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
)

from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.admin import committed_offset, epoch_of
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_consumer
from stream_dedup.kafka.consumer_workarounds import (
    RoundRobinAssignor,
    drop_fetched,
    drop_fetched_of,
    keep_rejoining,
    position_of,
    refuse_unauthorized_topics,
    return_set_aside,
    seek_with_epoch,
)
from stream_dedup.kafka.errors import out_of_range, port_error, port_errors
from stream_dedup.kafka.source import GATHER_MS, OFFSET_REQUEST_MS, GroupSource, member_settings
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    SourceChangedError,
    SourceRecord,
)

if TYPE_CHECKING:
    from kafka.structs import ConsumerGroupMetadata

    from stream_dedup.config.model import Config
    from stream_dedup.kafka.admin import AdminConnection

log = logging.getLogger(__name__)


class KafkaSource(GroupSource, ConsumerRebalanceListener):  # type: ignore[misc] # the client has no types
    """A consumer of kafka-python."""

    def __init__(self, config: Config, member_id: str, admin: AdminConnection) -> None:
        """Connect; ``join`` asks for membership.

        Raises:
            UnavailableError: no broker can be reached, or it refuses this client.
        """
        super().__init__(config, admin)
        self._lock = threading.Lock()
        self._begun: set[TopicPartition] = set()
        self._consumer = make_consumer(
            config.kafka,
            group_id=config.kafka.group,
            fetch_max_wait_ms=GATHER_MS,
            max_poll_records=config.worker.batch_records,
            partition_assignment_strategy=[RoundRobinAssignor],
            **member_settings(config, member_id),
        )

    def join(self, topics: Sequence[str]) -> None:
        with self._lock:
            self._membership = None
            self._hold()
        self._consumer.subscribe(list(topics), listener=self)

    # The listener, on the client's thread.

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """End the membership; the partitions stay the client's until it has joined again."""
        with self._lock:
            self._end(revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin a membership, with the proof as it is now."""
        metadata = self._consumer.group_metadata()
        partitions = frozenset(Partition(*at) for at in assigned)
        with self._lock:
            self._begin(Membership(partitions, int(metadata.generation_id), metadata))
            self._hold()

    # The worker's thread.

    def poll(self, wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
        keep_rejoining(self._consumer)
        return_set_aside(self._consumer)
        before = self._membership
        polled = self._poll(wait_s)
        with self._lock:
            if before is None or self._membership is not before:
                return {}
            return {Partition(*at): records for at, records in polled.items() if records and at in self._begun}

    def hold(self) -> None:
        with self._lock:
            self._hold()
        drop_fetched(self._consumer)

    def begin(self, partition: Partition, start: CommittedOffset) -> None:
        at = TopicPartition(*partition)
        with self._lock:
            self._check_assigned(partition)
            drop_fetched_of(self._consumer, at)
            try:
                seek_with_epoch(self._consumer, at, int(start.offset), epoch_of(start))
                if partition not in self._paused:
                    self._consumer.resume(at)
            except (IllegalStateError, KeyError, ValueError) as error:
                raise NotAMemberError(f"{partition} is not assigned to this worker any more") from error
            self._begun.add(at)

    def pause(self, partitions: Collection[Partition]) -> None:
        with self._lock:
            before, self._paused = self._paused, frozenset(partitions)
            begun = [at for at in self._consumer.assignment() if at in self._begun]
            self._consumer.pause(*(at for at in begun if Partition(*at) in self._paused - before))
            self._consumer.resume(*(at for at in begun if Partition(*at) in before - self._paused))

    def positions(self) -> dict[Partition, CommittedOffset]:
        with self._lock:
            found = {Partition(*at): position_of(self._consumer, at) for at in self._begun}
        return {at: committed_offset(at, position) for at, position in found.items() if position is not None}

    def beginning(self, partition: Partition) -> SourceOffset:
        at = TopicPartition(*partition)
        with port_errors():
            return SourceOffset(self._consumer.beginning_offsets([at], timeout_ms=OFFSET_REQUEST_MS)[at])

    def close(self) -> None:
        super().close()
        self._consumer.close(timeout_ms=int(CLOSE_TIMEOUT_S * 1_000))

    def _as_member(self, membership: Membership) -> ConsumerGroupMetadata:
        return membership.proof

    def _poll(self, wait_s: float) -> dict[TopicPartition, list[Any]]:
        try:
            polled: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=int(wait_s * 1_000))
            refuse_unauthorized_topics(self._consumer)
        except OffsetOutOfRangeError as error:
            if begun := self._begun_of(out_of_range(error)):
                raise OffsetGoneError(begun) from error
        except LogTruncationError as error:
            if begun := self._begun_of(Partition(*at) for at in error.divergent_offsets):
                names = ", ".join(map(str, begun))
                raise SourceChangedError(
                    f"{names}: truncated below the offset that was read, by an unclean leader election, or recreated"
                ) from error
        except KafkaError as error:
            failure = port_error(error)
            if not isinstance(failure, PassingError | NotAMemberError):
                raise failure from error
            log.debug("poll: %r", error)
        else:
            return polled
        return {}

    def _begun_of(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Return those that have begun: the position of a held partition has no meaning."""
        with self._lock:
            return sorted(at for at in partitions if TopicPartition(*at) in self._begun)

    def _hold(self) -> None:
        """Pause every partition, with a position: a partition without one makes the client look for an offset."""
        self._begun.clear()
        for at in self._consumer.assignment():
            self._consumer.pause(at)
            self._consumer.seek(at, 0)
