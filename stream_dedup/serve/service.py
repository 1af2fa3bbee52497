"""The parts of a running service: what the routes use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import Clock
    from stream_dedup.serve.checking import Checker
    from stream_dedup.serve.explaining import Explainer
    from stream_dedup.serve.follower import LogFollower
    from stream_dedup.serve.group_status import GroupStatus
    from stream_dedup.serve.kept_groups import KeptGroups
    from stream_dedup.serve.schemes import SchemeFingerprinter
    from stream_dedup.serve.serve_metrics import ServeMetrics
    from stream_dedup.serve.texts import SourceTexts


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a running service."""

    config: Config
    clock: Clock
    follower: LogFollower
    fingerprinter: SchemeFingerprinter
    checker: Checker
    explainer: Explainer
    groups: KeptGroups
    texts: SourceTexts
    group_status: GroupStatus
    metrics: ServeMetrics
