"""The worlds that the suite runs on, and a member of a group with its topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from stream_dedup.dev.broker import BrokerSettings, DevBroker
from stream_dedup.dev.broker.base import SMALL_HEAP_MIB
from stream_dedup.ports import Partition, WorkerPorts
from tests.conftest import found_broker
from tests.contract.kafka_world import KafkaWorld
from tests.contract.world import World
from tests.memory.world import MemoryWorld

ONE_CLIENT = pytest.mark.parametrize(
    "world", ["memory", pytest.param("kafka", marks=pytest.mark.broker)], indirect=True
)
"""Tests of ports that the same client serves, whichever the workers have: in memory, and once on a broker."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of ``disk_broker``."""
    return tmp_path / "data"


@pytest.fixture
def disk_broker(data: Path) -> Iterator[DevBroker]:
    """A broker of the test's own, with its files."""
    settings = BrokerSettings(heap_mib=SMALL_HEAP_MIB, short_lived=True, data=data)
    with found_broker(settings, own=True) as started:
        yield started


@pytest.fixture
def kafka_world(broker: DevBroker) -> Iterator[World]:
    with ExitStack() as stack:
        yield KafkaWorld(broker.bootstrap, stack)


@pytest.fixture
def confluent_world(broker: DevBroker) -> Iterator[World]:
    """Members with the other Kafka client."""
    with ExitStack() as stack:
        yield KafkaWorld(broker.bootstrap, stack, client="confluent")


@pytest.fixture
def memory_world() -> World:
    return MemoryWorld()


@pytest.fixture(params=["memory", *(pytest.param(name, marks=pytest.mark.broker) for name in ("kafka", "confluent"))])
def world(request: pytest.FixtureRequest) -> World:
    """Each test runs in each world."""
    made: World = request.getfixturevalue(f"{request.param}_world")
    return made


@dataclass(frozen=True)
class Group:
    """A group with its log and topics, and its members."""

    world: World
    name: str
    topic: str
    """The article topic, of one partition."""
    output: str
    """An output topic, of one partition."""
    topic_id: bytes

    @property
    def partition(self) -> Partition:
        return Partition(self.topic, 0)

    def member_id(self) -> str:
        """The id of another worker."""
        return f"{self.name}-{uuid.uuid4()}"

    def member(self, member_id: str | None = None) -> WorkerPorts:
        """The ports of a worker; without an id, of another one."""
        return self.world.ports(self.name, member_id or self.member_id())


@pytest.fixture
def make_group(world: World) -> Callable[..., Group]:
    """Return a function that makes the topics of a group: ``partitions`` of the article topic."""

    def make(partitions: int = 1) -> Group:
        name, topic, output = world.name("group"), world.name("articles"), world.name("unique")
        world.make_log(name)
        topic_id = world.make_topic(topic, partitions)
        world.make_topic(output)
        return Group(world, name, topic, output, topic_id)

    return make


@pytest.fixture
def group(make_group: Callable[..., Group]) -> Group:
    return make_group()
