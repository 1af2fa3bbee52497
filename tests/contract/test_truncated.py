"""A source that lost its records and was filled again, on a real broker: only the leader epoch shows it.

And one that only seems so: its last record is of an earlier leader epoch than the aborted records behind it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from stream_dedup.dev.broker import DevBroker
from stream_dedup.ports import ArticleSource, Partition, PortError, SourceChangedError, SourceRecord
from tests.contract.kafka_world import CLIENTS, KafkaWorld
from tests.contract.members import join, read, start_at, values
from tests.contract.world import World


def partition_of(client: str) -> Partition:
    return Partition(f"articles-{client}", 0)


def whole_partition_of(client: str) -> Partition:
    """One that loses nothing."""
    return Partition(f"whole-{client}", 0)


def lose_records(broker: DevBroker, data: Path) -> None:
    """Kill the broker, remove the records of all articles, as a disk does, and start it again."""
    broker.kill()
    for client in CLIENTS:
        for path in (data / str(partition_of(client))).iterdir():
            if path.name != "partition.metadata":
                path.unlink()
    broker.start()


def outcome(world: World, source: ArticleSource) -> PortError | list[bytes | None]:
    """Read two records; return their values, or the error."""
    try:
        return values(read(world, source, 2))
    except PortError as error:
        return error


@pytest.mark.slow
def test_a_source_that_was_truncated_and_filled_again_between_runs_is_noticed(
    disk_broker: DevBroker, data: Path
) -> None:
    """By each client: the committed offset exists again, with other records before it, and only the epoch shows it.

    A topic beside it that lost nothing is read on, from behind aborted records of a later leader epoch, too.
    """
    found = {client: commit_after_three(disk_broker, client) for client in CLIENTS}
    lose_records(disk_broker, data)
    for client, (topic_id, last) in found.items():
        notice(disk_broker, client, topic_id, last)


def commit_after_three(broker: DevBroker, client: str) -> tuple[bytes, SourceRecord]:
    """Write three records to the client's topic, read and commit them; return the topic's id and the last one."""
    at = partition_of(client)
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client=client)
        topic_id = world.make_topic(at.topic)
        world.make_log(client)
        world.write(at, [b"0", b"1", b"2"])
        world.make_topic(whole_partition_of(client).topic)
        world.write(whole_partition_of(client), [b"0"])
        first = world.ports(client, f"{client}-first").source
        join(world, first, [at])
        first.begin(at, start_at(0, topic_id))
        last = read(world, first, 3)[-1]
        first.commit_start(at, start_at(last.offset + 1, topic_id, last.leader_epoch))
    return topic_id, last


def notice(broker: DevBroker, client: str, topic_id: bytes, last: SourceRecord) -> None:
    """Fill the topic with others, and read on: it is an error, and from the offset alone it would not be."""
    at = partition_of(client)
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client=client)
        world.write(at, [b"other"] * 5)
        second = world.ports(client, f"{client}-second").source
        join(world, second, [at, whole_partition_of(client)])
        committed = second.committed(at)
        assert committed == start_at(3, topic_id, last.leader_epoch)
        second.begin(at, committed)
        assert isinstance(outcome(world, second), SourceChangedError)
        second.hold()
        second.begin(at, start_at(3, topic_id))
        assert outcome(world, second) == [b"other"] * 2
        second.hold()
        read_on_behind_aborted(world, second, whole_partition_of(client))


def read_on_behind_aborted(world: World, source: ArticleSource, at: Partition) -> None:
    """Begin at the position behind an abort, under the leader epoch that the source gives it."""
    world.open_transaction(at, [b"aborted"]).abort()
    source.begin(at, start_at(0))
    (record,) = read(world, source, 1)
    world.wait_until(lambda: not source.poll(0.1) and source.positions()[at].offset == 3, "the abort is read past")
    position = source.positions()[at]
    assert world.write(at, [b"1"]) == [3]
    source.hold()
    source.begin(at, position)
    (behind,) = read(world, source, 1)
    assert (behind.value, behind.leader_epoch > record.leader_epoch) == (b"1", True)
