"""Topics and committed offsets, read outside any membership of the group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from stream_dedup.ports.records import CommittedOffset, Partition, SourceRecord


class GroupOffsets(Protocol):
    """Requests about the group's offsets and the topics, outside any membership. One thread each."""

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        """Return the present id of each of these topics that exists. May block for some seconds.

        None: of every topic that this client may describe, but for the broker's own.

        Raises:
            PassingError: no broker answered.
            RefusedByBrokerError: this client may not describe the topics.
        """

    def committed(self) -> dict[Partition, CommittedOffset]:
        """Return every committed offset of the group; offsets of open transactions are not among them. May block.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def close(self) -> None:
        """Close the connections. May block for some seconds."""


class TopicReader(Protocol):
    """Reads topics from offset to offset, outside any group: for the audit. One thread."""

    def partitions(self, names: Iterable[str]) -> list[Partition]:
        """Return every partition of those topics that exist.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the first offset and the offset after the last record of each, open transactions included.

        Raises:
            PassingError, RefusedByBrokerError.
        """

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[SourceRecord]:
        """Yield the committed records of each range, those of a partition in offset order; blocks.

        Transactions that are open in a range are waited for, for longer than they may stay open.

        Raises:
            OffsetGoneError: the first offset of a range is deleted.
            PassingError: nothing came for longer than a transaction may stay open.
        """

    def close(self) -> None:
        """Close the connections."""
