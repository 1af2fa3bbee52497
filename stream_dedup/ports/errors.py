"""The errors of ports, named by the reaction to them."""

from __future__ import annotations

from collections.abc import Iterable

from stream_dedup.errors import CorruptError
from stream_dedup.ports.records import Partition


class PortError(Exception):
    """Base of the errors of ports."""


class PassingError(PortError):
    """The broker is away, busy, or electing a leader or coordinator: the same call may succeed later."""


class NotAMemberError(PortError):
    """The membership that the call was made under has ended: the partitions belong to another worker, or will."""


class FencedError(PortError):
    """Another producer was started with the same transactional id; this one can do nothing more."""


class RefusedByBrokerError(PortError):
    """The broker refuses the call and will refuse it again: a missing right, a setting beyond the broker's limit."""


class RecordTooLargeError(PortError):
    """A record is larger than its topic takes."""


class OffsetGoneError(PortError):
    """The offset to read from is before the first or after the last offset of its partition."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """``partitions`` are those without their next offset."""
        self.partitions = frozenset(partitions)
        super().__init__(", ".join(map(str, sorted(self.partitions))) or "no partition")


class SourceChangedError(PortError):
    """A partition was truncated below the offset that was read, or its topic was made again: offsets denote others."""


class UnreadableError(PortError, CorruptError):
    """The broker has the records at the next offset, and the client cannot decode them.

    It ends every command that reads, with this message: whoever does not handle it lets it pass.
    """

    def __init__(self, partition: Partition, offset: int, reason: str, remedy: str) -> None:
        """``remedy`` is a sentence without its full stop: what to do, so that no record is lost."""
        super().__init__(
            f"topic {partition.topic}, partition {partition.number}: the records from offset {offset} on cannot be "
            f"read: {reason}. {remedy}, then start again"
        )
