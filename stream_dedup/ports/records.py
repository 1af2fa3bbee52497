"""Partitions, the records that are read from them, and the offsets that a group commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stream_dedup.core.model import SourceOffset


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Return topic and number, joined by a dash."""
        return f"{self.topic}-{self.number}"


class SourceRecord(Protocol):
    """A record of a source or output topic."""

    @property
    def topic(self) -> str:
        """Name of its topic."""

    @property
    def partition(self) -> int:
        """Number of its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def leader_epoch(self) -> int:
        """Leader epoch under which it was appended, for ``CommittedOffset``; below 0 if it is not known."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""

    @property
    def key(self) -> bytes | None:
        """The key, None of none."""

    @property
    def value(self) -> bytes | None:
        """The value, None for a tombstone."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Names and values, in order; a name may come more than once."""


class CommittedOffset(NamedTuple):
    """A committed offset of a group: the offset of the next record, and what is said beside it."""

    offset: SourceOffset
    topic_id: bytes | None
    """Id of the topic that the offset belongs to; None if it was set by hand."""
    leader_epoch: int | None = None
    """Leader epoch of the last record before it; None or below 0 if it is not known."""
