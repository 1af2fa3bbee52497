"""The offset at which a worker begins to read a partition that was assigned to it.

* The committed offset, if its metadata names the topic's present id, or no id (the offset was set by hand).
* Without such an offset the beginning, if no article of the partition was ever logged. If the metadata names another
  id, the topic was deleted and recreated.
* Otherwise the group has lost its offsets, or the topic was seeded: stop, and say how to set them.
* A committed offset below what trims have forgotten: stop, and say how to set it. Those articles were logged and
  judged; nothing says any more what their verdicts were.

A beginning that was not read from a committed offset is committed at once, before anything is logged. If the worker
dies after that, its successor does not conclude that the group lost its offsets.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.errors import RefusedError
from stream_dedup.ports import CommittedOffset, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.config.model import KafkaConfig
    from stream_dedup.core.model import SourceOffset
    from stream_dedup.ports import ArticleSource, Partition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedSources:
    """What the log says of source partitions, each by its topic id and number."""

    partitions: Callable[[], frozenset[tuple[bytes, int]]]
    """Reads the log to its present end and returns the partitions that were logged; may block."""
    forgotten_before: Callable[[bytes, int], SourceOffset]
    """Returns at once the offset of a partition below which everything is forgotten, 0 of none."""


class StartOffsets:
    """Finds the start offsets of the partitions of one assignment; reads the log at most once."""

    def __init__(
        self,
        kafka: KafkaConfig,
        source: ArticleSource,
        known: LoggedSources,
    ) -> None:
        """``known`` is what the log says of the source."""
        self._kafka = kafka
        self._source = source
        self._ask = known.partitions
        self._forgotten_before = known.forgotten_before
        self._logged: frozenset[tuple[bytes, int]] | None = None

    def start_of(self, partition: Partition, topic_id: bytes) -> CommittedOffset:
        """Return where a partition begins; blocks for some seconds at most.

        Raises:
            RefusedError: the group lost its offsets, or its offset is below what is forgotten.
            PassingError: the broker did not answer, or another member has begun the partition; call again later.
            NotAMemberError: the partition is not assigned any more.
        """
        committed = self._source.committed(partition)
        if committed is not None and committed.topic_id in (None, topic_id):
            forgotten = self._forgotten_before(topic_id, partition.number)
            if committed.offset < forgotten:
                raise RefusedError(self._forgotten(partition, committed.offset, forgotten))
            return committed
        if (topic_id, partition.number) in self._logged_partitions():
            # Whoever logs an article has committed the beginning before: another member may have, since the first look.
            if self._source.committed(partition) != committed:
                msg = f"{partition}: another member of the group has begun it meanwhile"
                raise PassingError(msg)
            raise RefusedError(self._lost(partition, committed, self._forgotten_before(topic_id, partition.number)))
        if committed is not None:
            log.warning("%s: the topic was recreated; begins at its beginning", partition)
        start = CommittedOffset(self._source.beginning(partition), topic_id)
        self._source.commit_start(partition, start)
        return start

    def _logged_partitions(self) -> frozenset[tuple[bytes, int]]:
        if self._logged is None:
            self._logged = self._ask()
        return self._logged

    def _lost(self, partition: Partition, committed: CommittedOffset | None, forgotten: SourceOffset) -> str:
        what = "no committed offset for" if committed is None else "the committed offset of a deleted topic for"
        again = "--to beginning (judge everything again, the same verdicts) or " if not forgotten else ""
        return (
            f"group {self._kafka.group} has {what} {partition}, but its log has articles of it: the "
            f"group lost its offsets (an idle group's expire), or the topic was seeded. Set them: "
            f"{self._command(partition)} {again}--to logged (go on behind what is logged)"
        )

    def _forgotten(self, partition: Partition, committed: SourceOffset, forgotten: SourceOffset) -> str:
        return (
            f"the committed offset of group {self._kafka.group} for {partition} is {committed}, and every article "
            f"below {forgotten} was logged, judged and trimmed: its verdict cannot be given again. Set the offset: "
            f"{self._command(partition)} --to logged (go on behind what is logged)"
        )

    def _command(self, partition: Partition) -> str:
        kafka = self._kafka
        return f"stream-dedup offsets set --brokers {kafka.brokers} --group {kafka.group} --topic {partition.topic}"
