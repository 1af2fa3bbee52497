"""An open store, and the worlds of the contract suite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.clusters.store import ClusterStore
from tests.clusters.following import GroupWorld
from tests.clusters.outputs import LOG_ID
from tests.contract.conftest import kafka_world, memory_world
from tests.contract.world import World

__all__ = ["kafka_world", "memory_world"]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=[pytest.mark.broker, pytest.mark.full])])
def world(request: pytest.FixtureRequest) -> World:
    """Each test runs in memory; one marked ``ONE_CLIENT`` on a broker too, with the client that follows outputs.

    The contract suite proves that followers and sinks of both do the same.
    """
    made: World = request.getfixturevalue(f"{request.param}_world")
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClusterStore]:
    with closing(ClusterStore.open(tmp_path / "clusters", LOG_ID, publishes=True)) as opened:
        yield opened


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the topics, and publish a few clusters, in every step."""
    monkeypatch.setattr("stream_dedup.clusters.follow.TOPICS_LOOK_S", 0.0)
    monkeypatch.setattr("stream_dedup.clusters.follow.PUBLISH_S", 0.0)
    for module in ("publish", "follow"):
        monkeypatch.setattr(f"stream_dedup.clusters.{module}.PUBLISHED_AT_ONCE", 7)
    monkeypatch.setattr("stream_dedup.clusters.publish.KEYS_AT_ONCE", 5)


@pytest.fixture
def group(world: World, tmp_path: Path) -> GroupWorld:
    return GroupWorld(world, tmp_path)


@pytest.fixture
def stepwise(request: pytest.FixtureRequest, tmp_path: Path) -> GroupWorld:
    return GroupWorld(request.getfixturevalue(request.param), tmp_path)
