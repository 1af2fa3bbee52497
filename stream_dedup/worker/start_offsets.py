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

from stream_dedup.errors import RefusedError
from stream_dedup.ports import CommittedOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.config.model import KafkaConfig
    from stream_dedup.ports import ArticleSource, Partition

log = logging.getLogger(__name__)


class StartOffsets:
    """Finds the start offsets of the partitions of one assignment; reads the log at most once."""

    def __init__(
        self,
        kafka: KafkaConfig,
        source: ArticleSource,
        logged_partitions: Callable[[], frozenset[tuple[bytes, int]]],
    ) -> None:
        """``logged_partitions`` reads the log to its present end and returns the partitions in it."""
        self._kafka = kafka
        self._source = source
        self._ask = logged_partitions
        self._logged: frozenset[tuple[bytes, int]] | None = None

    def start_of(self, partition: Partition, topic_id: bytes) -> CommittedOffset:
        """Return where a partition begins; blocks for some seconds at most.

        Raises:
            RefusedError: the group lost its offsets.
            PassingError: the broker did not answer; call again later.
            NotAMemberError: the partition is not assigned any more.
        """
        committed = self._source.committed(partition)
        if committed is not None:
            if committed.topic_id in (None, topic_id):
                return committed
            log.warning("%s: the topic was made again; begins at its beginning", partition)
        elif (topic_id, partition.number) in self._logged_partitions():
            raise RefusedError(self._lost(partition))
        start = CommittedOffset(self._source.beginning(partition), topic_id)
        self._source.commit_start(partition, start)
        return start

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        if self._logged is None:
            self._logged = self._ask()
        return self._logged

    def _lost(self, partition: Partition) -> str:
        group = self._kafka.group
        return (
            f"group {group} has no committed offset for {partition}, but its log has articles of it: the group "
            "lost its offsets (an idle group's expire). Set them: "
            f"stream-dedup offsets set --brokers {self._kafka.brokers} --group {group} --topic {partition.topic} "
            "--to beginning (judge everything again, the same verdicts) or --to logged (go on behind what is logged)"
        )
