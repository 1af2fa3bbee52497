"""A source that lost its records and was filled again, on a real broker: only the leader epoch shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stream_dedup.dev.broker import BrokerSettings, DevBroker
from stream_dedup.dev.broker.settings import SMALL_HEAP_MIB
from stream_dedup.ports import ArticleSource, Partition, PortError, SourceChangedError
from tests.conftest import found_broker
from tests.contract.kafka_world import CLIENTS, KafkaWorld
from tests.contract.members import join, read, start_at, values
from tests.contract.world import World

GROUP = "group"
AT = Partition("articles", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path) -> Iterator[DevBroker]:
    settings = BrokerSettings(heap_mib=SMALL_HEAP_MIB, short_lived=True, data=data)
    with found_broker(settings, own=True) as started:
        yield started


def lose_records(broker: DevBroker, data: Path) -> None:
    """Kill the broker, remove the partition's records, as a disk does, and start it again."""
    broker.kill()
    for path in (data / str(AT)).iterdir():
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
@pytest.mark.parametrize("client", CLIENTS)
def test_a_source_that_was_truncated_and_filled_again_between_runs_is_noticed(
    broker: DevBroker, data: Path, client: str
) -> None:
    """The committed offset exists again, with other records before it. Without the epoch it would be read from."""
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client=client)
        topic_id = world.make_topic(AT.topic)
        world.make_log(GROUP)
        world.write(AT, [b"0", b"1", b"2"])
        first = world.ports(GROUP, f"{GROUP}-first").source
        join(world, first, [AT])
        first.begin(AT, start_at(0, topic_id))
        last = read(world, first, 3)[-1]
        first.commit_start(AT, start_at(last.offset + 1, topic_id, last.leader_epoch))
    lose_records(broker, data)
    with ExitStack() as stack:
        world = KafkaWorld(broker.bootstrap, stack, client=client)
        world.write(AT, [b"other"] * 5)
        second = world.ports(GROUP, f"{GROUP}-second").source
        join(world, second, [AT])
        committed = second.committed(AT)
        assert committed == start_at(3, topic_id, last.leader_epoch)
        second.begin(AT, committed)
        assert isinstance(outcome(world, second), SourceChangedError)
        second.hold()
        second.begin(AT, start_at(3, topic_id))
        assert outcome(world, second) == [b"other"] * 2
