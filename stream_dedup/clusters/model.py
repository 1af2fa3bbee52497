"""Clusters, their articles, the windows in which they are counted, and output records as the clusters need them.

The time of an article is the timestamp of its output: when its verdict was written. It says what grows now. The source
timestamp may be years old, and any producer may set it. Of an article that was written several times, the output that
was read first counts.

The headers of an output say nearly everything. The article id is decoded from the value, as the worker decoded it; of a
value that was too large for its output topic, it is the fallback, and of one whose schema is unknown the key.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from stream_dedup.core.decode import RawRecord
from stream_dedup.core.headers import Stamp, StampedMatch, parse_headers, source_text
from stream_dedup.core.model import Coordinates, SourceOffset, Verdict
from stream_dedup.errors import CorruptError
from stream_dedup.ports import Partition, SourceRecord
from stream_dedup.registry.values import RecordReader

log = logging.getLogger(__name__)


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MAX_OFFSET = (1 << 63) - 1
"""Kafka's largest offset."""

_CLUSTER_ID = re.compile(
    r"(?P<topic>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?P<partition>0|[1-9]\d{0,9})-(?P<offset>0|[1-9]\d{0,18})",
    re.ASCII,
)


class BucketWidth(IntEnum):
    """Width of the buckets of time in which articles are counted, ms; a bucket begins at a multiple of it."""

    MINUTE = MINUTE_MS
    HOUR = HOUR_MS
    DAY = DAY_MS

    def start(self, time_ms: int) -> int:
        """Return the beginning of the bucket of a time."""
        return time_ms - time_ms % self


class Window(StrEnum):
    """A window of time up to now. It ends with the present bucket, which is not full yet."""

    HOUR = "hour"
    """60 buckets of a minute."""
    DAY = "day"
    """24 buckets of an hour."""
    WEEK = "week"
    """168 buckets of an hour."""
    ALL = "all"
    """Everything that the store holds; buckets of a day."""

    @property
    def width(self) -> BucketWidth:
        """The width of its buckets."""
        return _WIDTHS[self][0]

    @property
    def buckets(self) -> int | None:
        """The number of its buckets; None: without limit."""
        return _WIDTHS[self][1]

    def begin(self, now_ms: int) -> int:
        """Return the beginning of its first bucket, ms since 1970; 0 of ``all``."""
        return 0 if self.buckets is None else self.width.start(now_ms) - (self.buckets - 1) * self.width


COUNTED_WINDOWS = (Window.HOUR, Window.DAY, Window.WEEK)
"""The windows of limited length: those that articles leave."""
_WIDTHS = {
    Window.HOUR: (BucketWidth.MINUTE, 60),
    Window.DAY: (BucketWidth.HOUR, 24),
    Window.WEEK: (BucketWidth.HOUR, 168),
    Window.ALL: (BucketWidth.DAY, None),
}


@dataclass(frozen=True, slots=True)
class ClusteredArticle:
    """An article as the store holds it; times are ms since 1970."""

    coordinates: Coordinates
    topic: str
    """Name of the source topic."""
    id: str
    verdict: Verdict
    cluster_id: str | None
    """None of a rejected record, which belongs to no cluster."""
    match: StampedMatch | None
    copies: int | None
    """How many earlier articles are near; None: none."""
    reason_code: str | None
    """Of a rejected record."""
    source_ms: int
    """Timestamp of the source record."""
    written_ms: int
    """Timestamp of the output."""
    output: Partition
    output_offset: int

    @property
    def update(self) -> bool:
        """Whether it is a later version of its match."""
        return self.verdict is Verdict.UNIQUE and self.match is not None


@dataclass(frozen=True, slots=True)
class ArticleCluster:
    """A cluster of articles."""

    id: str
    first: Coordinates
    """The first article: the one without a match."""
    first_topic: str
    first_article_id: str
    size: int
    """Articles that the store holds. The first one is not among them while its output has not been read."""
    first_ms: int
    """The time of its earliest article."""
    last_ms: int
    counts: Mapping[Window, int]
    """Articles in each window."""


@dataclass(frozen=True, slots=True)
class MemberPage:
    """Some articles of a cluster, oldest first."""

    members: tuple[ClusteredArticle, ...]
    after: str | None
    """Where the next page begins; None: this is the last one."""


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Articles in a window or a bucket, by verdict. Each article is counted once, however often it was written."""

    unique: int = 0
    """Without updates."""
    updates: int = 0
    duplicates: int = 0
    rejected: Mapping[str, int] | None = None
    """By reason code; None: none."""

    @property
    def articles(self) -> int:
        """All of them, rejected records included."""
        return self.unique + self.updates + self.duplicates + sum((self.rejected or {}).values())


@dataclass(frozen=True, slots=True)
class MissingOutputs:
    """Outputs that were deleted before they were read; their articles are in no cluster."""

    partition: Partition
    first: int
    """The first missing offset."""
    end: int
    """The offset after the last missing one."""


def cluster_id_of(first: Coordinates) -> str:
    """Return the id of the cluster that an article begins: topic id, partition and offset, joined by dashes."""
    return str(first)


def parse_cluster_id(text: str) -> Coordinates | None:
    """Return the coordinates of the first article of the cluster with this id; None: the text is no such id."""
    found = _CLUSTER_ID.fullmatch(text)
    if found is None or int(found["offset"]) > MAX_OFFSET:
        return None
    topic_id = uuid.UUID(found["topic"]).bytes
    return Coordinates(topic_id, int(found["partition"]), SourceOffset(int(found["offset"])))


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
    """Reads output records, and leaves out those of other programs."""

    def __init__(self, reader: RecordReader) -> None:
        """``reader`` reads the source records."""
        self._reader = reader
        self._warned: set[str] = set()

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
                self._warn(record, error)
                continue
            raw = RawRecord(record.key, record.value, source_text(stamp.topic, stamp.coordinates))
            article_id, partition = self._reader.decode(raw).id, Partition(record.topic, record.partition)
            found.append(JudgedOutput(stamp, article_id, record.timestamp, partition, record.offset))
        return found

    def _warn(self, record: SourceRecord, error: CorruptError) -> None:
        if record.topic not in self._warned:
            self._warned.add(record.topic)
            log.warning(
                "topic %s has records that are no outputs of this program; they belong to no cluster. The first one: "
                "partition %d, offset %d: %s",
                record.topic,
                record.partition,
                record.offset,
                error,
            )
