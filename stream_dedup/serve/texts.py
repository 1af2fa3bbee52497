"""Texts of articles, read from the source topic when they are shown; the service keeps none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from stream_dedup.audit.sources import read_ranges
from stream_dedup.config.effective import input_format_of
from stream_dedup.core.headers import source_text
from stream_dedup.core.model import Coordinates, SourceOffset
from stream_dedup.core.text.decode import Article, RawRecord
from stream_dedup.errors import StreamDedupError
from stream_dedup.ports import Partition, PortError
from stream_dedup.registry.values import RecordReader, Schemas, asks_registry
from stream_dedup.serve.lanes import Lane

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.ports import GroupOffsets, SourceRecord, TopicReader

TEXTS_S = 10.0
"""Longest wait for texts."""
MOST_TEXTS = 50
"""Articles whose texts one request reads."""


class TextAbsence(StrEnum):
    """Why the text of an article cannot be shown."""

    DELETED = "deleted"
    """Retention, compaction or somebody deleted the record."""
    OTHER_TOPIC = "other_topic"
    """The topic was deleted, or made again under the same name."""
    UNREADABLE = "unreadable"
    """The record has no text that can be read."""
    NO_BROKER = "no_broker"
    """No broker or schema registry answered in time, or it refused the request."""


class SourcedText(NamedTuple):
    """The article of a source record, or why there is none."""

    article: Article | None
    absence: TextAbsence | None = None
    reason: str | None = None
    """The absence in English, with what is known of it."""

    @property
    def text(self) -> str | None:
        """The text of the article, its fields on lines of their own."""
        return None if self.article is None else "\n".join(self.article.texts)


_DELETED = SourcedText(None, TextAbsence.DELETED, "the source topic has no such record any more")
Place = tuple[str, Coordinates]
"""Name of a source topic, and coordinates in it."""


@dataclass(frozen=True, slots=True)
class TextPorts:
    """What reads the source topics; both connect at their first use. One thread."""

    reader: TopicReader
    offsets: GroupOffsets
    """For the ids of topics."""


class SourceTexts:
    """Reads texts. ``read`` belongs to the event loop."""

    def __init__(self, config: Config, connect: Callable[[], TextPorts]) -> None:
        """``connect`` makes the ports, again after an error."""
        schemas = Schemas(config, wait_s=0) if asks_registry(config) else None
        self._reader = RecordReader(config, input_format_of(config), schemas)
        self._connect = connect
        self._ports: TextPorts | None = None
        self._lane = Lane("texts", TEXTS_S)

    async def read(self, places: Iterable[Place]) -> dict[Coordinates, SourcedText]:
        """Return the text of each article, or why it is not there.

        Raises:
            ProblemError: too many requests are under way, or the broker did not answer in time.
        """
        wanted = dict.fromkeys(places)
        return await self._lane.run(lambda: self._read(wanted)) if wanted else {}

    def close(self) -> None:
        """End the thread and close the connections."""
        self._lane.close()
        self._disconnect()

    def _read(self, places: Iterable[Place]) -> dict[Coordinates, SourcedText]:
        try:
            if self._ports is None:
                self._ports = self._connect()
            return self._found(self._ports, places)
        except PortError as error:
            self._disconnect()
            return {
                at: SourcedText(None, TextAbsence.NO_BROKER, f"the source topic cannot be read: {error}")
                for _, at in places
            }

    def _found(self, ports: TextPorts, places: Iterable[Place]) -> dict[Coordinates, SourcedText]:
        ids = ports.offsets.topic_ids({topic for topic, _ in places})
        texts = {at: _DELETED for _, at in places}
        wanted: dict[Partition, list[tuple[SourceOffset, SourceOffset]]] = {}
        for topic, at in sorted(places):
            if ids.get(topic) == at.topic_id:
                wanted.setdefault(Partition(topic, at.partition), []).append((at.offset, SourceOffset(at.offset + 1)))
            else:
                reason = f"topic {topic} does not exist, or was made again"
                texts[at] = SourcedText(None, TextAbsence.OTHER_TOPIC, reason)
        for record in read_ranges(ports.reader, _kept(ports.reader, wanted)):
            at = Coordinates(ids[record.topic], record.partition, SourceOffset(record.offset))
            texts[at] = self._decoded(record, at)
        return texts

    def _decoded(self, record: SourceRecord, at: Coordinates) -> SourcedText:
        try:
            article = self._reader.decode(RawRecord(record.key, record.value, source_text(record.topic, at)))
        except StreamDedupError as error:
            return SourcedText(None, TextAbsence.NO_BROKER, str(error))
        if isinstance(article, Article):
            return SourcedText(article)
        return SourcedText(None, TextAbsence.UNREADABLE, article.reason)

    def _disconnect(self) -> None:
        ports, self._ports = self._ports, None
        if ports is not None:
            with ExitStack() as stack:
                stack.enter_context(closing(ports.reader))
                stack.enter_context(closing(ports.offsets))


def _kept(
    reader: TopicReader, wanted: Mapping[Partition, list[tuple[SourceOffset, SourceOffset]]]
) -> dict[Partition, list[tuple[SourceOffset, SourceOffset]]]:
    """Return the ranges that the partitions still have."""
    bounds = reader.bounds(wanted)
    return {at: [one for one in ranges if bounds[at][0] <= one[0] < bounds[at][1]] for at, ranges in wanted.items()}
