"""Requests about the group's offsets and the topics, with an admin client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, OffsetAndMetadata

from stream_dedup.broker.adapter.port_errors import port_errors
from stream_dedup.broker.client import make_admin
from stream_dedup.broker.topics import topic_ids
from stream_dedup.core.headers import offset_metadata, topic_id_of_metadata
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import CommittedOffset, Partition

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

UNKNOWN_EPOCH = -1
"""Kafka's value for a leader epoch that is not known."""


class AdminConnection:
    """An admin client that connects at its first use, and again after ``close``."""

    def __init__(self, kafka: KafkaConfig) -> None:
        """Connect later."""
        self._kafka = kafka
        self._admin: KafkaAdminClient | None = None

    def client(self) -> KafkaAdminClient:
        """Return the client, connected.

        Raises:
            UnavailableError: the broker cannot be reached, or refuses this client.
        """
        if self._admin is None:
            self._admin = make_admin(self._kafka)
        return self._admin

    def close(self) -> None:
        """Close the connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class KafkaOffsets:
    """Implements ``ports.GroupOffsets``."""

    def __init__(self, kafka: KafkaConfig) -> None:
        """Connect at the first request."""
        self._kafka = kafka
        self._connection = AdminConnection(kafka)

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        """Return the present id of each of these topics that exists; None: of every topic."""
        with port_errors():
            return topic_ids(self._connection.client(), names)

    def committed(self) -> dict[Partition, CommittedOffset]:
        """Return every committed offset of the group."""
        group = self._kafka.group
        with port_errors():
            found = self._connection.client().list_group_offsets({group: None})[group]
        return {Partition(*at): committed_offset(at, offset) for at, offset in found.items() if offset.offset >= 0}

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()


def committed_offset(partition: tuple[str, int], found: OffsetAndMetadata) -> CommittedOffset:
    """Return a committed offset of the client in the terms of the ports.

    Raises:
        CorruptError: its metadata are of another form.
    """
    epoch = found.leader_epoch
    known = epoch is not None and epoch > UNKNOWN_EPOCH
    topic_id = topic_id_of_metadata(found.metadata, partition)
    return CommittedOffset(SourceOffset(found.offset), topic_id, int(epoch) if known else None)


def offset_and_metadata(committed: CommittedOffset) -> OffsetAndMetadata:
    """Return a committed offset in the client's terms."""
    metadata = "" if committed.topic_id is None else offset_metadata(committed.topic_id)
    return OffsetAndMetadata(int(committed.offset), metadata, epoch_of(committed))


def epoch_of(committed: CommittedOffset) -> int:
    """Return the leader epoch as the client wants it."""
    return UNKNOWN_EPOCH if committed.leader_epoch is None else max(UNKNOWN_EPOCH, committed.leader_epoch)
