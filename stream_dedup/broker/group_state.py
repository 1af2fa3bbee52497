"""The members of a consumer group, and the replicas and the size of topics, as the brokers describe them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import KafkaError

from stream_dedup.broker.workarounds import describe_group
from stream_dedup.ports import Partition

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

log = logging.getLogger(__name__)


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
    """Return Kafka's word for the state of a group, and its members by client id.

    Raises what the client raises.
    """
    described = describe_group(admin, group)
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
