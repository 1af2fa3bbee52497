"""A configuration of its own for each test, on the real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from stream_dedup.broker.client import make_admin
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevBroker


@pytest.fixture
def config(broker: DevBroker) -> Config:
    """Names that no other test uses."""
    mark = uuid.uuid4().hex[:12]
    topics = {role: f"{role}-{mark}" for role in ("unique", "duplicate", "rejected")}
    return load_config(
        overrides={
            "kafka": {"brokers": broker.bootstrap, "group": f"group-{mark}", "broker_wait_s": 10},
            "topics": {"input": [f"articles-{mark}"], **topics},
        },
        environment={},
    )


@pytest.fixture
def admin(config: Config) -> Iterator[KafkaAdminClient]:
    with closing(make_admin(config.kafka)) as client:
        yield client


@pytest.fixture
def flags(config: Config) -> list[str]:
    """The configuration as flags of the command line."""
    topics = config.topics
    return [
        f"--brokers={config.kafka.brokers}",
        f"--group={config.kafka.group}",
        f"--input={topics.input[0]}",
        f"--unique={topics.unique}",
        f"--duplicate={topics.duplicate}",
        f"--rejected={topics.rejected}",
    ]
