"""The workaround for the assignor changes nothing where it is not needed."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from stream_dedup.broker.kafka_python.consumer_workarounds import RoundRobinAssignor


@pytest.mark.parametrize("instances", [(None, None, None), ("b", "a", None)])
def test_members_of_the_same_topics_are_given_what_the_client_would_give(instances: Sequence[str | None]) -> None:
    """So workers with and without the workaround, which are in one group while a release is rolled out, agree."""
    counts = {"one": {0, 1, 2}, "two": {0, 1}, "gone": None}
    cluster = SimpleNamespace(partitions_for_topic=counts.get)
    members = [
        SimpleNamespace(member_id=name, group_instance_id=instance, metadata=SimpleNamespace(topics=list(counts)))
        for name, instance in zip("zxy", instances, strict=True)
    ]
    ours, theirs = (
        {name: share.encode() for name, share in assignor.assign(cluster, members).items()}
        for assignor in (RoundRobinAssignor, RoundRobinPartitionAssignor)
    )
    assert ours == theirs
