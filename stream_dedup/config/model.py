"""The configuration as plain data: every section with its keys.

The name of a key ends with its unit (``_s``, ``_mib``, ``_bytes``); a duration contains it ("24h"). Each key is
declared once, in ``sections``: error messages, the help of flags, ``config show`` and the reference are derived
from the declaration. ``load`` makes a configuration; ``effective`` derives the settings of the core and of the index.

This module contains no algorithm and has no effects.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from stream_dedup.config import checks
from stream_dedup.config.keys import Section, key
from stream_dedup.config.sections import (
    ClustersConfig,
    IndexConfig,
    InputConfig,
    KafkaConfig,
    MatchConfig,
    MetricsConfig,
    RegistryConfig,
    ServeConfig,
    TopicsConfig,
    WorkerConfig,
)

__all__ = ["Config", "KafkaConfig"]

LOG_SUFFIX = ".fingerprints"
"""The log topic is the group's name followed by this suffix."""
MARK_SUFFIX = ".clusters"
"""The consumer group that says how far ``topics.clusters`` is written is the group's name followed by this suffix."""


class Config(Section):
    """The whole configuration."""

    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    input: InputConfig = InputConfig()
    registry: RegistryConfig = RegistryConfig()
    match: MatchConfig = MatchConfig()
    index: IndexConfig = IndexConfig()
    worker: WorkerConfig = WorkerConfig()
    clusters: ClustersConfig = ClustersConfig()
    metrics: MetricsConfig = MetricsConfig()
    serve: ServeConfig = ServeConfig()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(checks.lower)] = key(
        "info", "lowest severity that is written to standard error"
    )

    @property
    def log_topic(self) -> str:
        """The topic of the fingerprint log."""
        return f"{self.kafka.group}{LOG_SUFFIX}"

    @property
    def mark_group(self) -> str:
        """The consumer group, without members, whose offset says how far ``topics.clusters`` is written."""
        return f"{self.kafka.group}{MARK_SUFFIX}"
