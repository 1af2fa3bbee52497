"""What the article sources of both clients have in common: the membership, its first commits, and the lag.

The settings of a member are the same, so that workers of either client share a group.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition

from stream_dedup.kafka.admin import AdminConnection, committed_offset, last_stable_offsets, offset_and_metadata
from stream_dedup.kafka.client_workarounds import commit_for_member, stable_offset
from stream_dedup.kafka.errors import port_errors
from stream_dedup.ports import ArticleSource, CommittedOffset, Membership, NotAMemberError, Partition, PortError

if TYPE_CHECKING:
    from kafka.structs import ConsumerGroupMetadata

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

GATHER_BYTES = 256 << 10
"""The broker answers a fetch when it has so many bytes, or after ``GATHER_MS``: a batch of a few articles costs nearly
as much as one of a hundred, in the log, the index and the transaction."""
GATHER_MS = 30
"""The most that gathering adds to the latency, milliseconds."""
HEARTBEATS_A_SESSION = 4
"""Three heartbeats may be lost before the group removes the worker."""
MAX_POLL_INTERVAL_MS = 60_000
"""A worker whose main loop does not poll for a minute loses its partitions."""
OFFSET_REQUEST_MS = 1_000
"""One try to read or write an offset, milliseconds; the caller tries again."""


def member_settings(config: Config, member_id: str) -> dict[str, Any]:
    """Return the settings of a member that both clients name alike."""
    session_ms = int(config.kafka.session_timeout_s * 1_000)
    return {
        "client_id": member_id,
        "group_instance_id": config.kafka.group_instance_id,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": max(session_ms // HEARTBEATS_A_SESSION, 1),
        "max_poll_interval_ms": max(MAX_POLL_INTERVAL_MS, session_ms),
        "fetch_min_bytes": GATHER_BYTES,
    }


class GroupSource(ArticleSource, ABC):
    """A member of the group, whose client calls back when partitions are given to it and taken away."""

    def __init__(self, config: Config, admin: AdminConnection) -> None:
        """``admin`` reads and commits offsets, and asks where partitions end; its owner closes it."""
        self._kafka = config.kafka
        self._admin = admin
        self._ends = AskedEnds(admin)
        self._membership: Membership | None = None
        self._paused: frozenset[Partition] = frozenset()

    def membership(self) -> Membership | None:
        return self._membership

    def committed(self, partition: Partition) -> CommittedOffset | None:
        with port_errors():
            found = stable_offset(
                self._admin.client(), self._kafka.group, TopicPartition(*partition), OFFSET_REQUEST_MS
            )
        return None if found.offset < 0 else committed_offset(partition, found)

    def commit_start(self, partition: Partition, start: CommittedOffset) -> None:
        """Commit an offset outside any transaction, under the present membership.

        Either client would commit, and try again, under whatever generation it has then: after a rebalance that the
        caller does not know of yet, the broker would take offsets of a partition that another member has by now.
        """
        member = self._as_member(self._check_assigned(partition))
        with port_errors():
            offsets = {TopicPartition(*partition): offset_and_metadata(start)}
            commit_for_member(self._admin.client(), offsets, member, OFFSET_REQUEST_MS)

    def lag(self) -> dict[str, int]:
        positions = self.positions()
        ends = self._ends.known(positions)
        lags = {at.topic: 0 for at in positions}
        for at, position in positions.items():
            lags[at.topic] += max(0, ends.get(at, 0) - position.offset)
        return lags

    def close(self) -> None:
        """End the membership in this process."""
        self._membership = None

    @abstractmethod
    def _as_member(self, membership: Membership) -> ConsumerGroupMetadata:
        """Return what the broker compares with its own knowledge of the member."""

    def _begin(self, membership: Membership) -> None:
        self._membership = membership
        log.info("partitions assigned: %s (generation %d)", _names(membership.partitions), membership.generation)

    def _end(self, revoked: Iterable[tuple[str, int]]) -> None:
        had_one, self._membership = self._membership is not None, None
        if had_one:
            log.info("partitions given back: %s", _names(revoked))

    def _check_assigned(self, partition: Partition) -> Membership:
        """Return the membership that assigns the partition."""
        membership = self._membership
        if membership is None or partition not in membership.partitions:
            raise NotAMemberError(f"{partition} is not assigned to this worker")
        return membership


def _names(partitions: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "none"


class AskedEnds:
    """The ends of partitions as the brokers answered last, asked for on a thread: no caller waits for a broker.

    A consumer learns where a partition ends from its fetches, and fetches nothing of a paused one. The brokers are
    asked for all at once, one request for each leader; a request that is late holds up the next one alone.
    """

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin
        self._ends: Mapping[Partition, int] = {}
        self._asking: Thread | None = None

    def known(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the ends that were asked for last, as they are known, and ask for those of these partitions."""
        if partitions and (self._asking is None or not self._asking.is_alive()):
            self._asking = Thread(target=self._ask, args=(frozenset(partitions),), name="source-ends", daemon=True)
            try:
                self._asking.start()
            except RuntimeError as error:  # the system has no thread at the moment
                log.debug("ends of %d partitions: %r", len(partitions), error)
        return self._ends

    def _ask(self, partitions: frozenset[Partition]) -> None:
        try:
            with port_errors():
                self._ends = last_stable_offsets(self._admin.client(), partitions)
        except PortError as error:
            log.debug("ends of %d partitions: %r", len(partitions), error)  # what was known stays
