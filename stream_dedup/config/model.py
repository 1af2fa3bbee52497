"""The configuration as plain data: every section with its keys.

Units stand in the names (``_s``, ``_mib``, ``_bytes``); durations carry theirs ("24h"). Each key has its meaning and
what may be given, in one place (``sections``): the errors, ``config show`` and the README's table are made of
them. ``load`` makes a configuration; ``effective`` derives what it comes to with its profile.

No algorithm and no effect here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from stream_dedup.config import checks
from stream_dedup.config.sections import (
    FeaturesConfig,
    IndexConfig,
    InputConfig,
    KafkaConfig,
    MatchConfig,
    MetricsConfig,
    TextConfig,
    TopicsConfig,
    WorkerConfig,
    key,
)

__all__ = ["Config", "KafkaConfig"]

LOG_SUFFIX = ".fingerprints"
"""The log topic is the group's name with this behind it."""


class Config(BaseModel):
    """Everything that can be set."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    input: InputConfig = InputConfig()
    text: TextConfig = TextConfig()
    features: FeaturesConfig = FeaturesConfig()
    match: MatchConfig = MatchConfig()
    index: IndexConfig = IndexConfig()
    worker: WorkerConfig = WorkerConfig()
    metrics: MetricsConfig = MetricsConfig()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(checks.lower)] = key(
        "info", "least severe lines written to standard error", "debug, info, warning or error"
    )

    @property
    def log_topic(self) -> str:
        """Topic of the fingerprint log."""
        return f"{self.kafka.group}{LOG_SUFFIX}"
