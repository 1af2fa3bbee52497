"""An open store, and the worlds of the contract suite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.groups import GroupStore
from tests.contract.conftest import kafka_world, memory_world
from tests.contract.world import World
from tests.groups.following import GroupWorld
from tests.groups.outputs import LOG_ID

__all__ = ["kafka_world", "memory_world"]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> World:
    """Each test runs in memory and on a broker, with the one client that follows outputs."""
    made: World = request.getfixturevalue(f"{request.param}_world")
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GroupStore]:
    with closing(GroupStore.open(tmp_path / "groups", LOG_ID, publishes=True)) as opened:
        yield opened


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the topics, and publish a few groups, in every step."""
    monkeypatch.setattr("stream_dedup.groups.follow.TOPICS_LOOK_S", 0.0)
    monkeypatch.setattr("stream_dedup.groups.follow.PUBLISH_S", 0.0)
    for module in ("publish", "follow"):
        monkeypatch.setattr(f"stream_dedup.groups.{module}.PUBLISHED_AT_ONCE", 7)
    monkeypatch.setattr("stream_dedup.groups.publish.KEYS_AT_ONCE", 5)


@pytest.fixture
def group(world: World, tmp_path: Path) -> GroupWorld:
    return GroupWorld(world, tmp_path)


@pytest.fixture
def stepwise(request: pytest.FixtureRequest, tmp_path: Path) -> GroupWorld:
    return GroupWorld(request.getfixturevalue(request.param), tmp_path)
