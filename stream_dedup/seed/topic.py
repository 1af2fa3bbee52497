"""The articles of a topic, from its beginning to its end as of the start, committed ones only.

They are entered with their own coordinates: a worker that consumes the topic later finds them in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.broker.record import too_large_reason
from stream_dedup.core.model import SourceOffset
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, RefusedByBrokerError, SourceChangedError
from stream_dedup.seed.articles import RawBatch, SeedSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stream_dedup.config.model import Config
    from stream_dedup.ports import GroupOffsets, SourceRecord, TopicReader

TOPIC_BATCH_RECORDS = 256
"""Records of one batch: as many as lines of a file."""
TOPIC_HELD_BYTES = 32 << 20
"""Bytes of the records that are held until a batch of their partition is full. With more, each partition makes
a batch of what it has, so that large records and many partitions take no more memory."""


class TopicArchive:
    """A topic as it is when the archive is made; ``read`` counts the offsets that were gone through."""

    remedy = "the topic lost records, and others have their offsets. Restore it, or begin a new group with --group"

    def __init__(
        self, config: Config, topic: str, reader: TopicReader, offsets: GroupOffsets, record_bytes: int
    ) -> None:
        """Ask for the topic's id and its bounds; records larger than ``record_bytes`` are rejected.

        Raises:
            UserError: there is no such topic, it is the group's log, or a right is missing.
            UnavailableError: the broker did not answer.
        """
        if topic == config.log_topic:
            msg = f"--topic {topic} is the log of the group: name a topic of articles"
            raise UserError(msg)
        self._reader = reader
        self._offsets = offsets
        self._topic = topic
        self._largest = record_bytes
        self.read = 0
        with self._reading():
            topic_id = offsets.topic_ids([topic]).get(topic)
            self._bounds: Mapping[Partition, tuple[int, int]] = reader.bounds(reader.partitions([topic]))
        if topic_id is None:
            msg = f"there is no topic {topic}: check the name after --topic"
            raise UserError(msg)
        self.sources = {at: SeedSource(topic_id, at.number, topic) for at in self._bounds}
        self.total = sum(end - begin for begin, end in self._bounds.values())

    def batches(self) -> Iterator[RawBatch]:
        """Yield the records of each partition, in order."""
        waiting: dict[Partition, list[SourceRecord]] = defaultdict(list)
        held = 0
        with self._reading():
            for record in self._reader.read(self._bounds):
                at = Partition(record.topic, record.partition)
                waiting[at].append(record)
                held += _bytes_of(record)
                for full in self._full(waiting, at, held):
                    held -= sum(map(_bytes_of, waiting[full]))
                    yield self._batch(full, waiting.pop(full))
            for at, records in waiting.items():
                yield self._batch(at, records)
        self.read = self.total

    def location(self, source: SeedSource, offset: SourceOffset) -> str:
        """Return topic, partition and offset."""
        return f"{source.topic}-{source.partition}-{offset}"

    @staticmethod
    def _full(waiting: Mapping[Partition, Sequence[SourceRecord]], at: Partition, held: int) -> list[Partition]:
        """Return the partitions whose records become a batch, after one of ``at`` has come."""
        if held >= TOPIC_HELD_BYTES:
            return list(waiting)
        return [at] if len(waiting[at]) == TOPIC_BATCH_RECORDS else []

    def _batch(self, at: Partition, records: Sequence[SourceRecord]) -> RawBatch:
        """Make a batch of records, all of which are of the topic as it was in the beginning."""
        if self._offsets.topic_ids([self._topic]).get(self._topic) != self.sources[at].topic_id:
            msg = f"topic {self._topic} was deleted or made anew while it was read: start the command again"
            raise UnavailableError(msg)
        self.read += len(records)
        raw = [RawRecord(one.key, one.value, f"{self._topic}-{at.number}-{one.offset}") for one in records]
        reasons = {row: too_large_reason(record, self._largest) for row, record in enumerate(records)}
        too_large = {row: reason for row, reason in reasons.items() if reason is not None}
        return RawBatch(self.sources[at], np.array([one.offset for one in records], np.int64), raw, too_large)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise the errors of the ports as errors of the program."""
        try:
            yield
        except RefusedByBrokerError as error:
            msg = f"the broker does not let this client read topic {self._topic}: {error}; see docs/acls.md"
            raise UserError(msg) from error
        except PassingError as error:
            msg = f"topic {self._topic}: the broker did not answer in time: {error}; start the command again"
            raise UnavailableError(msg) from error
        except (OffsetGoneError, SourceChangedError) as error:
            msg = f"topic {self._topic} changed while it was read ({error}): start the command again"
            raise UnavailableError(msg) from error


def _bytes_of(record: SourceRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
