"""The parts of a running service: what the routes use, and what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import Clock
    from stream_dedup.serve.checking import Checker
    from stream_dedup.serve.follower import LogFollower
    from stream_dedup.serve.serve_metrics import ServeMetrics
    from stream_dedup.worker.log_topic import LogTopic


@dataclass(frozen=True, slots=True)
class ServePorts:
    """What the service reads of Kafka, and its clock."""

    topic: LogTopic
    clock: Clock


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a running service."""

    config: Config
    follower: LogFollower
    checker: Checker
    metrics: ServeMetrics
