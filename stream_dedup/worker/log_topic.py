"""The topic of a group's log before it is read: what is found there, and what is made."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.clients import worker_log
from stream_dedup.kafka.kafka_python.admin import topic_ids, topic_of_id
from stream_dedup.kafka.kafka_python.client import make_admin
from stream_dedup.kafka.kafka_python.errors import patiently
from stream_dedup.kafka.rules_log import FoundLog, find_log
from stream_dedup.kafka.topics import ensure_topics, refuse_wrong_topics

if TYPE_CHECKING:
    import uuid

    from stream_dedup.config.model import Config
    from stream_dedup.ports import FingerprintLog


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """The log's topic, when all topics of the group are there."""

    log_id: bytes
    record_bytes: int
    """Largest record that every output topic takes with our headers."""


class LogTopic(Protocol):
    """The topic of a group's log, while nothing of it has been read. May block, and raises ``UnavailableError``."""

    def find(self) -> FoundLog:
        """Return the group's offsets and what is there of the log."""

    def check(self) -> None:
        """Check the topics that exist, and whether the missing ones can be made; UserError for what is wrong."""

    def prepare(self) -> PreparedLog:
        """Do as ``check``, and make the missing topics."""

    def exists(self, topic_id: uuid.UUID) -> bool:
        """Return whether a topic of this id exists, under any name."""

    def connect(self) -> FingerprintLog:
        """Return the log; the caller closes it."""


class KafkaLogTopic:
    """Implements ``LogTopic``; each call connects and closes its connection."""

    def __init__(self, config: Config) -> None:
        """Connect later."""
        self._config = config

    def find(self) -> FoundLog:
        """Return the group's offsets and what is there of the log."""
        with closing(make_admin(self._config.kafka)) as admin:
            return find_log(admin, self._config)

    def check(self) -> None:
        """Check the topics; nothing is made."""
        with closing(make_admin(self._config.kafka)) as admin:
            refuse_wrong_topics(admin, self._config)

    def prepare(self) -> PreparedLog:
        """Check the topics, and make the missing ones."""
        kafka, topic = self._config.kafka, self._config.log_topic
        with closing(make_admin(kafka)) as admin:
            record_bytes = ensure_topics(admin, self._config).record_bytes
            ids = patiently(kafka, topic, lambda: topic_ids(admin, [topic]))
        if topic not in ids:
            msg = f"topic {topic} was there a moment ago and is gone; start again"
            raise UnavailableError(msg)
        return PreparedLog(ids[topic], record_bytes)

    def exists(self, topic_id: uuid.UUID) -> bool:
        """Return whether a topic of this id exists."""
        with closing(make_admin(self._config.kafka)) as admin:
            return patiently(self._config.kafka, f"topic {topic_id}", lambda: topic_of_id(admin, topic_id)) is not None

    def connect(self) -> FingerprintLog:
        """Return the log."""
        return worker_log(self._config)
