"""What the service reads of Kafka, and its clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.ports import Clock, FollowPorts, GroupOffsets
    from stream_dedup.serve.texts import TextPorts
    from stream_dedup.worker.log_topic import LogTopic


@dataclass(frozen=True, slots=True)
class ServePorts:
    """What the service reads of Kafka, and its clock."""

    topic: LogTopic
    clock: Clock
    connect_offsets: Callable[[], GroupOffsets]
    """For the id of the log."""
    connect_texts: Callable[[], TextPorts]
    connect_outputs: Callable[[], AbstractContextManager[FollowPorts]]
