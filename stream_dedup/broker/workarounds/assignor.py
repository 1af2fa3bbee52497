"""Workaround for the assignor: members of one group that read different topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

from kafka.coordinator.assignors.abstract import ConsumerProtocolAssignment
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor


class RoundRobinAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc]
    """The client's, and where members read different topics each partition goes to a member that reads its topic.

    The client's raises KeyError there, in the member that is the leader of the group: it ends, and then the next one.
    Members read different topics while ``topics.input`` is changed in one worker after the other.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:  # noqa: ANN401 - the client is untyped
        """Return the partitions of each member: in turn, static members first, in the order of their ids."""
        ordered = sorted(
            members, key=lambda one: (one.group_instance_id is None, one.group_instance_id or "", one.member_id)
        )
        reads = {one.member_id: set(one.metadata.topics) for one in ordered}
        shares: dict[str, dict[str, list[int]]] = {member: {} for member in reads}
        turns = cycle(reads)
        for topic in sorted(set().union(*reads.values())):
            for partition in sorted(cluster.partitions_for_topic(topic) or ()):
                member = next(one for one in turns if topic in reads[one])
                shares[member].setdefault(topic, []).append(partition)
        return {
            member: ConsumerProtocolAssignment(cls.version, sorted(share.items()), b"")
            for member, share in shares.items()
        }
