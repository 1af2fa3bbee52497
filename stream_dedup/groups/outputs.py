"""An output record as the groups need it.

The headers say nearly everything. The article id is decoded from the value, as the worker decoded it; of a value that
was too large for its output topic, it is the fallback, and of one whose schema is unknown the key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from stream_dedup.core.headers import Stamp, parse_headers, source_text
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import CorruptError
from stream_dedup.ports import Partition, SourceRecord
from stream_dedup.registry.values import RecordReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """An output record."""

    stamp: Stamp
    article_id: str
    written_ms: int
    """Its timestamp, ms since 1970."""
    partition: Partition
    offset: int


class OutputReading:
    """Reads output records. Records of other programs are counted and left out."""

    def __init__(self, reader: RecordReader) -> None:
        """``reader`` reads the source records."""
        self._reader = reader
        self._warned: set[str] = set()
        self.unreadable = 0
        """Records without readable headers of this program."""

    def read(self, records: Iterable[SourceRecord]) -> list[JudgedOutput]:
        """Return the outputs in the order of the records; the first unreadable record of a topic is a warning.

        Raises:
            UnavailableError: the schema registry did not answer.
        """
        found = []
        for record in records:
            try:
                stamp = parse_headers(record.headers)
            except CorruptError as error:
                self._count_unreadable(record, error)
                continue
            found.append(self._output(record, stamp))
        return found

    def _output(self, record: SourceRecord, stamp: Stamp) -> JudgedOutput:
        raw = RawRecord(record.key, record.value, source_text(stamp.topic, stamp.coordinates))
        return JudgedOutput(
            stamp,
            self._reader.decode(raw).id,
            record.timestamp,
            Partition(record.topic, record.partition),
            record.offset,
        )

    def _count_unreadable(self, record: SourceRecord, error: CorruptError) -> None:
        self.unreadable += 1
        if record.topic not in self._warned:
            self._warned.add(record.topic)
            log.warning(
                "topic %s has records that are no outputs of this program; they belong to no group. The first one: "
                "partition %d, offset %d: %s",
                record.topic,
                record.partition,
                record.offset,
                error,
            )
