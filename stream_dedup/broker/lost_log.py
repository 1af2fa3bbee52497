"""Whether the log of a group lost its history, and the error that says so.

Every verdict is a function of the log. If its topic was deleted, or emptied, a new log would begin: every article that
was seen before would be unique again, and nothing would tell. So nothing begins a log, neither a worker nor
``rules apply`` nor ``topics create``, while the group has committed offsets: a worker commits offsets only after the
log has its first rules. A worker looks at its index, too (``worker.opening``).

The committed offsets are read before the log. Otherwise a worker that starts together with the first worker of a new
group could see no log yet, and then the offsets that the other worker has committed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import TopicPartition

from stream_dedup.broker.group_offsets import committed_offsets, offset_bounds
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.topics import DESCRIBE, topic_ids
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.errors import RefusedError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import Config

SHOWN_OFFSETS = 3
"""Most committed offsets that the message names."""


ABSENT_LOG = "its log {topic} does not exist"
EMPTY_LOG = "its log {topic} has no records"
HAS_OFFSETS = "group {group} has committed offsets ({offsets}), but "


@dataclass(frozen=True, slots=True)
class LostLog:
    """The contradiction between the committed offsets of a group and its log."""

    group: str
    offsets: str
    """The first of them."""
    topic: str
    exists: bool
    """Whether the log's topic exists; then it has no records."""

    def __str__(self) -> str:
        """Return it in English."""
        sentence = HAS_OFFSETS + (EMPTY_LOG if self.exists else ABSENT_LOG)
        return sentence.format(group=self.group, offsets=self.offsets, topic=self.topic)


@dataclass(frozen=True, slots=True)
class FoundLog:
    """The log's topic as it was found, before anything is made."""

    topic: str
    log_id: bytes | None
    """None: there is no topic."""
    first: LogOffset
    end: LogOffset
    committed: Mapping[TopicPartition, SourceOffset]
    """The group's offsets; they were read before the topic."""

    @property
    def absence(self) -> str | None:
        """Why there is no log to read; None if it has records."""
        if self.log_id is None:
            return ABSENT_LOG.format(topic=self.topic)
        return EMPTY_LOG.format(topic=self.topic) if self.first == self.end else None


def find_log(admin: KafkaAdminClient, config: Config) -> FoundLog:
    """Look for the group's offsets and its log.

    Raises:
        UnavailableError: the broker did not answer.
    """
    kafka, topic = config.kafka, config.log_topic
    committed = patiently(
        kafka, "committed offsets", lambda: committed_offsets(admin, kafka.group), "Describe of the group"
    )
    log_id = patiently(kafka, topic, lambda: topic_ids(admin, [topic]), DESCRIBE).get(topic)
    first = end = LogOffset(0)
    if log_id is not None:
        partition = TopicPartition(topic, 0)
        bounds = patiently(kafka, topic, lambda: offset_bounds(admin, [partition]), DESCRIBE)[partition]
        first, end = map(LogOffset, bounds)
    return FoundLog(topic, log_id, first, end, {at: offset for at, (offset, _) in committed.items()})


def refuse_lost_log(admin: KafkaAdminClient, config: Config) -> None:
    """Refuse to begin a log for a group that has committed offsets.

    Raises:
        RefusedError: there is no log to read, and the group has committed offsets.
    """
    lost = offsets_without_log(config, find_log(admin, config))
    if lost is not None:
        raise lost_log_error(lost)


def offsets_without_log(config: Config, found: FoundLog) -> LostLog | None:
    """Return the contradiction between the group's offsets and its log; None if there is none."""
    if found.absence is None or not found.committed:
        return None
    offsets = [f"{at.topic}-{at.partition}: {offset}" for at, offset in sorted(found.committed.items())]
    shown = ", ".join(offsets[:SHOWN_OFFSETS]) + (", ..." if len(offsets) > SHOWN_OFFSETS else "")
    return LostLog(config.kafka.group, shown, found.topic, exists=found.log_id is not None)


def lost_log_error(reason: LostLog | str) -> RefusedError:
    """Return the error for a log that lost its history."""
    return RefusedError(
        f"{reason}. Verdicts depend on the whole log, so nothing was changed. Restore the topic; or, if its history is "
        "lost, accept the log as it is, in which earlier articles are missing: stream-dedup run --new-log (it keeps "
        "the index aside), or begin with another --group and another --index"
    )
