"""The offset at which a worker begins to read a partition that was assigned to it.

* The committed offset, if its metadata names the topic's present id, or no id (the offset was set by hand).
* The beginning, if the metadata names another id: that topic was deleted and made again.
* Without a committed offset: the beginning, if the log has no article of the partition. Otherwise the group has lost
  its offsets: stop, and say how to set them.

A beginning that was not read from a committed offset is committed at once, before anything is logged. If the worker
dies after that, its successor does not conclude that the group lost its offsets.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka import OffsetAndMetadata, TopicPartition

from stream_dedup.core.headers import offset_metadata, topic_id_of_metadata
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka import KafkaConsumer

    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)

TIMEOUT_MS = 1_000
"""One try to read or write a committed offset, milliseconds; the caller tries again."""


class StartOffsets:
    """Finds the start offsets of the partitions of one assignment; reads the log at most once."""

    def __init__(
        self,
        kafka: KafkaConfig,
        consumer: KafkaConsumer,
        logged_partitions: Callable[[], frozenset[tuple[bytes, int]]],
    ) -> None:
        """``logged_partitions`` reads the log to its present end and returns the partitions in it."""
        self._kafka = kafka
        self._consumer = consumer
        self._ask = logged_partitions
        self._logged: frozenset[tuple[bytes, int]] | None = None

    def offset_of(self, partition: TopicPartition, topic_id: bytes) -> SourceOffset:
        """Return the start offset of a partition; blocks for a few times ``TIMEOUT_MS`` at most.

        Raises:
            RefusedError: the group lost its offsets.
            KafkaError: the broker did not answer; call again later.
        """
        committed = self._consumer.committed(partition, metadata=True, timeout_ms=TIMEOUT_MS)
        if committed is not None:
            if topic_id_of_metadata(committed.metadata) in (None, topic_id):
                return SourceOffset(committed.offset)
            log.warning("%s-%d: the topic was made again; begins at its beginning", *partition)
        elif (topic_id, partition.partition) in self._logged_partitions():
            raise RefusedError(self._lost(partition))
        return self._beginning(partition, topic_id)

    def _beginning(self, partition: TopicPartition, topic_id: bytes) -> SourceOffset:
        offset = SourceOffset(self._consumer.beginning_offsets([partition], timeout_ms=TIMEOUT_MS)[partition])
        first = OffsetAndMetadata(offset, offset_metadata(topic_id), -1)
        self._consumer.commit({partition: first}, timeout_ms=TIMEOUT_MS)
        return offset

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        if self._logged is None:
            self._logged = self._ask()
        return self._logged

    def _lost(self, partition: TopicPartition) -> str:
        group, (topic, number) = self._kafka.group, partition
        return (
            f"group {group} has no committed offset for {topic}-{number}, but its log has articles of it: the group "
            "lost its offsets (an idle group's expire). Set them: "
            f"stream-dedup offsets set --brokers {self._kafka.brokers} --group {group} --topic {topic} "
            "--to beginning (judge everything again, the same verdicts) or --to logged (go on behind what is logged)"
        )
