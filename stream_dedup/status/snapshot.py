"""A snapshot of a group, and the rates between two of them: plain values, made without a broker in tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.kafka.admin import Member
from stream_dedup.kafka.rules_log import LostLog
from stream_dedup.kafka.topics import TopicProblem
from stream_dedup.ports import Partition


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition of an input topic."""

    partition: Partition
    first: int
    end: int
    committed: int | None
    is_stale: bool = False
    """Whether the committed offset belongs to a deleted topic of this name."""
    owner: str | None = None
    """Client id of the member that reads it."""
    first_ms: int | None = None
    """Time of its first record, of a partition that no member reads; None of an empty one."""
    open_from: int | None = None
    """Last stable offset, where a transaction is open that holds back what follows it; None of none."""

    @property
    def lag(self) -> int:
        """Number of offsets that are not committed, of open transactions and what they hold back among them."""
        return max(0, self.end - self._begun)

    @property
    def readable(self) -> int:
        """Number of offsets that are not committed and that a worker can read now."""
        return max(0, self.stable - self._begun)

    @property
    def stable(self) -> int:
        """The last stable offset: how far readers of committed records get."""
        return self.end if self.open_from is None else self.open_from

    @property
    def is_held(self) -> bool:
        """Whether a worker has read everything up to an open transaction."""
        return self.open_from is not None and self._begun >= self.open_from

    @property
    def _begun(self) -> int:
        begun = None if self.is_stale else self.committed
        return max(self.first, begun or 0)


@dataclass(frozen=True, slots=True)
class LogState:
    """The log, and the rules in force at its end."""

    topic: str
    exists: bool
    first: LogOffset = LogOffset(0)
    end: LogOffset = LogOffset(0)
    size_bytes: int | None = None
    """Of one replica; None if the broker does not report it."""
    last_record_ms: int | None = None
    """Log time of the last record."""
    trims: int | None = None
    """None if the log was not read for its rules; so are ``rules`` and ``rules_offset``."""
    rules: Rules | None = None
    rules_offset: LogOffset | None = None
    damage: str | None = None
    """Why a record of the log cannot be read; None if each was read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a group at one moment, as its brokers described it."""

    at_s: float
    """This machine's monotonic clock."""
    at_ms: int
    """Milliseconds since 1970 by this machine's clock."""
    group: str
    group_state: str
    """Kafka's word: Stable, Empty, PreparingRebalance, CompletingRebalance or Dead."""
    members: tuple[Member, ...]
    partitions: tuple[PartitionState, ...]
    log: LogState
    out_of_sync: Mapping[Partition, tuple[int, int]]
    """Partitions of any topic of the group with fewer replicas in sync than replicas: both numbers."""
    topic_problems: tuple[TopicProblem, ...]
    hanging: tuple[str, ...]
    """Transactional ids of open transactions of workers that are no members."""
    lost: LostLog | None
    """How the log lost its history; None if it did not."""
    brokers: str = ""
    """``kafka.brokers``, for commands."""
    silent_brokers: tuple[int, ...] = ()
    """Brokers that were not asked for open transactions: they are down, or did not answer."""

    @property
    def lag(self) -> int:
        """Number of offsets of all partitions that are not committed."""
        return sum(partition.lag for partition in self.partitions)

    @property
    def readable(self) -> int:
        """Number of offsets that are not committed and that workers can read now."""
        return sum(partition.readable for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Rates:
    """Changes a second between two snapshots."""

    articles: float
    """Source offsets committed."""
    log_records: float
    readable: float
    """Growth of what is not committed and can be read; below 0 it shrinks."""
    seconds: float

    @classmethod
    def between(cls, before: Snapshot, now: Snapshot) -> Rates:
        """Return the rates from one snapshot to a later one. Offsets that were set back count for nothing."""
        seconds = max(now.at_s - before.at_s, 1e-3)
        committed = {each.partition: each.committed for each in before.partitions}
        moved = sum(
            max(0, each.committed - begun)
            for each in now.partitions
            if each.committed is not None and (begun := committed.get(each.partition)) is not None
        )
        appended = max(0, now.log.end - before.log.end)
        return cls(moved / seconds, appended / seconds, (now.readable - before.readable) / seconds, seconds)
