"""What an admin client is asked about topics, groups and partitions.

Functions raise what the client raises; ``KafkaOffsets`` is a port.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import kafka.errors as kafka_errors
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from stream_dedup.core.headers import offset_metadata, topic_id_of_metadata
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import kind_of, port_errors
from stream_dedup.ports import CommittedOffset, GroupOffsets, Partition

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1
"""Kafka's value for a leader epoch that is not known."""


def topic_ids(admin: KafkaAdminClient, names: Iterable[str] | None) -> dict[str, bytes]:
    """Return the ids (16 bytes) of those topics that exist; None: of every topic but the broker's own.

    Raises what the client raises: a caller that watches goes on, a caller that starts gives up.
    """
    described = admin.describe_topics(None if names is None else list(names))
    wanted = [topic for topic in described if names is not None or not topic["is_internal"]]
    return {topic["name"]: uuid.UUID(str(topic["topic_id"])).bytes for topic in wanted if topic_exists(topic)}


def topic_of_id(admin: KafkaAdminClient, topic_id: uuid.UUID) -> str | None:
    """Return the name of the topic with this id; None if there is none, or this client may not describe it.

    Raises what the client raises.
    """
    described = admin.describe_topics([topic_id])[0]
    error = kafka_errors.for_code(described["error_code"])
    if error is kafka_errors.UnknownTopicIdError:
        return None
    return str(described["name"]) if topic_exists(described) else None


def topic_exists(topic: Mapping[str, Any]) -> bool:
    """Return whether the described topic exists.

    Raises:
        KafkaError: the broker answered with another error than its absence.
    """
    error = kafka_errors.for_code(topic["error_code"])
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return False
    if error not in (kafka_errors.NoError, kafka_errors.LeaderNotAvailableError):
        raise error(f"topic {topic['name']}: {error.__name__}")
    return True


def committed_offsets(admin: KafkaAdminClient, group: str) -> dict[Partition, CommittedOffset]:
    """Return the committed offsets of a group; offsets of open transactions are not among them.

    Raises:
        CorruptError: one has metadata of another form.
    """
    found = admin.list_group_offsets({group: None})[group]
    return {Partition(*at): committed_offset(at, offset) for at, offset in found.items() if offset.offset >= 0}


def offset_bounds(admin: KafkaAdminClient, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
    """Return the first offset and the offset after the last one of each, open transactions included."""
    begin = _offsets_at(admin, partitions, OffsetSpec.EARLIEST)
    end = _offsets_at(admin, partitions, OffsetSpec.LATEST)
    return {at: (begin[at].offset, end[at].offset) for at in partitions}


def first_times(admin: KafkaAdminClient, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return the time of the first record of each partition that has one, ms since 1970; 0 where it has no time."""
    found = _offsets_at(admin, partitions, 0)  # the first record that is not before 1970
    return {at: max(0, found[at].timestamp) for at in partitions}


def last_stable_offsets(admin: KafkaAdminClient, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return the offset of each partition that readers of committed records get to, before open transactions."""
    found = _offsets_at(admin, partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    return {at: found[at].offset for at in partitions}


def _offsets_at(
    admin: KafkaAdminClient,
    partitions: Collection[Partition],
    spec: int,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Any:  # noqa: ANN401 - the client is untyped
    request = {TopicPartition(*at): spec for at in partitions}  # each equals its ``Partition``
    return admin.list_partition_offsets(request, isolation_level=level) if request else {}


def partitions_of(admin: KafkaAdminClient, names: Iterable[str]) -> list[Partition]:
    """Return every partition of those topics that exist."""
    described = [topic for topic in admin.describe_topics(list(names)) if topic_exists(topic)]
    return [Partition(topic["name"], number) for topic in described for number in range(len(topic["partitions"]))]


class Member(NamedTuple):
    """A member of the consumer group."""

    client_id: str
    """A worker's is its transactional id, GROUP-UUID."""
    host: str
    partitions: tuple[Partition, ...]
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    """Topics that it subscribes to; a client may leave out those that do not exist."""


def described_group(admin: KafkaAdminClient, group: str) -> tuple[str, tuple[Member, ...]]:
    """Return Kafka's word for the state of a group, and its members by client id; a group that is not there has none.

    Raises what the client raises, and the error of the group, of which the client returns the text.
    """
    described = admin.describe_groups([group])[group]
    if described["error"] is not None:
        error = kind_of(KafkaError(described["error"]))
        if error is not kafka_errors.GroupIdNotFoundError:
            raise error(f"group {group}: {error.__name__}")
    return str(described["group_state"]), tuple(sorted(map(_member, described["members"])))


def out_of_sync(admin: KafkaAdminClient, topics: list[str]) -> dict[Partition, tuple[int, int]]:
    """Return replicas in sync, and replicas, of each partition of these topics where they are not equal.

    Topics that do not exist have no partitions. Raises what the client raises.
    """
    replicas = {
        Partition(topic["name"], each["partition_index"]): (len(each["isr_nodes"]), len(each["replica_nodes"]))
        for topic in admin.describe_topics(topics)
        for each in topic["partitions"]
    }
    return {partition: counts for partition, counts in replicas.items() if counts[0] < counts[1]}


def size_of(admin: KafkaAdminClient, topic: str) -> int | None:
    """Return the bytes of a topic on the broker that has most of it; None if this client may not know."""
    try:
        described = admin.describe_log_dirs([topic])
    except KafkaError as error:
        log.debug("size of topic %s: %r", topic, error)
        return None
    sizes = [_bytes_on(broker, topic) for broker in described]
    return max(sizes, default=0) or None


def _member(member: Mapping[str, Any]) -> Member:
    assignment = member["member_assignment"]
    # A client of another protocol, Kafka Connect for example, has bytes of its own here.
    assigned = assignment.get("assigned_partitions", ()) if isinstance(assignment, Mapping) else ()
    partitions = sorted(Partition(topic["topic"], number) for topic in assigned for number in topic["partitions"])
    host = str(member["client_host"]).removeprefix("/")
    metadata = member.get("member_metadata")
    topics = metadata.get("topics", ()) if isinstance(metadata, Mapping) else ()
    return Member(
        str(member["client_id"]), host, tuple(partitions), member.get("group_instance_id"), tuple(sorted(topics))
    )


def _bytes_on(broker: Mapping[str, Any], topic: str) -> int:
    return sum(
        int(each["partition_size"])
        for folder in broker["log_dirs"]
        for found in folder["topics"]
        if found["name"] == topic
        for each in found["partitions"]
    )


class AdminConnection:
    """An admin client that connects at its first use. Any thread."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._admin: KafkaAdminClient | None = None
        self._connecting = Lock()
        self._is_closed = False

    def client(self) -> KafkaAdminClient:
        """Return the client, connected.

        Raises:
            UnavailableError: the broker cannot be reached, or refuses this client; or this is closed.
        """
        with self._connecting:
            if self._admin is None and not self._is_closed:
                self._admin = make_admin(self._kafka)
            if self._is_closed:  # perhaps meanwhile
                self.close()
                raise UnavailableError("the admin client is closed")
            return self._admin

    def close(self) -> None:
        """Close the connections, for good; a request that is under way fails."""
        # It does not wait for a thread that connects: that one sees the mark, and closes.
        self._is_closed = True
        if self._admin is not None:
            self._admin.close()


class KafkaOffsets(AdminConnection, GroupOffsets):
    """The group's offsets and the topics, by an admin client."""

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        with port_errors():
            return topic_ids(self.client(), names)

    def committed(self) -> dict[Partition, CommittedOffset]:
        with port_errors():
            return committed_offsets(self.client(), self._kafka.group)


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
