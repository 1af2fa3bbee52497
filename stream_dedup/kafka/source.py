"""What the article sources of both clients have in common: the membership, its first commits, and the lag.

The settings of a member are the same, so that workers of either client share a group.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition

from stream_dedup.kafka.admin import AdminConnection, AskedEnds, offset_and_metadata
from stream_dedup.kafka.client_workarounds import commit_for_member
from stream_dedup.kafka.errors import port_errors
from stream_dedup.ports import CommittedOffset, Membership, NotAMemberError, Partition

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


class GroupSource(ABC):
    """A member of the group, whose client calls back when partitions are given to it and taken away."""

    def __init__(self, config: Config, admin: AdminConnection) -> None:
        """``admin`` commits, and asks about paused partitions; its owner closes it."""
        self._kafka = config.kafka
        self._admin = admin
        self._ends = AskedEnds(admin)
        self._membership: Membership | None = None
        self._paused: frozenset[Partition] = frozenset()

    def membership(self) -> Membership | None:
        """Return the present membership."""
        return self._membership

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
        """Return the number of records that were not returned yet, by topic."""
        lags: dict[str, int] = {}
        begun = self._begun_partitions()
        ends = self._ends.known(begun & self._paused)
        for at in begun:
            lags[at.topic] = lags.get(at.topic, 0) + self._left(at, ends.get(at, 0))
        return lags

    def close(self) -> None:
        """End the membership in this process."""
        self._membership = None

    @abstractmethod
    def _as_member(self, membership: Membership) -> ConsumerGroupMetadata:
        """Return what the broker compares with its own knowledge of the member."""

    @abstractmethod
    def _begun_partitions(self) -> frozenset[Partition]:
        """Return the partitions that have begun."""

    @abstractmethod
    def _left(self, partition: Partition, end: int) -> int:
        """Return the offsets that were not returned yet, up to the end as of the last fetch or to ``end``."""

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
