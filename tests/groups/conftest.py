"""An open store, and the worlds of the contract suite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.groups import GroupStore
from tests.contract.conftest import kafka_world, memory_world, world
from tests.groups.outputs import LOG_ID

__all__ = ["kafka_world", "memory_world", "world"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GroupStore]:
    with closing(GroupStore.open(tmp_path / "groups", LOG_ID, publishes=True)) as opened:
        yield opened
