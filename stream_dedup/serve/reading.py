"""What requests read of Kafka when they ask for it: the texts of articles, and the state of the consumer group.

Whatever blocks runs off the event loop, in a lane: one thread with a short queue and a time limit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from enum import StrEnum
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from stream_dedup.audit.sources import read_ranges
from stream_dedup.config.effective import input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.decode import Article
from stream_dedup.core.model import Coordinates, SourceOffset
from stream_dedup.errors import StreamDedupError
from stream_dedup.ports import Clock, Partition, PortError, SourceRecord, TopicReader, raw_of
from stream_dedup.registry.values import RecordReader, Schemas, asks_registry
from stream_dedup.serve.follower import LogFollower, TopicPorts
from stream_dedup.serve.problems import ProblemError, busy, not_ready
from stream_dedup.status.findings import find
from stream_dedup.status.reading import StatusReader
from stream_dedup.status.snapshot import Rates, Snapshot
from stream_dedup.status.text import values_of

_T = TypeVar("_T")

QUEUED = 8
"""Pieces of work of one lane that may wait."""
END_LANE_S = 5.0
"""Longest wait for the work under way when the service ends; its thread does not keep the process alive."""

_Task = tuple[Callable[[], Any], "Future[Any]"]


class Lane:
    """Does one piece of work after the other, on a thread of its own. One event loop."""

    def __init__(self, name: str, limit_s: float) -> None:
        """``name`` is that of the thread; ``limit_s`` is the longest time that a request waits for its work."""
        self._name = name
        self._limit_s = limit_s
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return what the work returns.

        Work that takes longer than the limit goes on: its lane is occupied until it ends.

        Raises:
            ProblemError: too much is under way, or it took too long; or what the work raises.
        """
        if self._tasks.qsize() >= QUEUED:
            raise busy(f"{QUEUED} requests wait ({self._name})")
        future: Future[_T] = Future()
        self._tasks.put((work, future))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limit_s)
        except TimeoutError:
            detail = f"no answer within {self._limit_s:g} s ({self._name})"
            raise ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", detail) from None

    def close(self) -> None:
        """End the thread when its work is done; wait for it for ``END_LANE_S``."""
        self._tasks.put(None)
        self._thread.join(END_LANE_S)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, future = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                    future.set_exception(error)


TEXTS_S = 10.0
"""Longest wait for texts."""
MOST_TEXTS = 50
"""Articles whose texts one request reads."""


class TextAbsence(StrEnum):
    """Why the text of an article cannot be shown."""

    DELETED = "deleted"
    """Retention, compaction or somebody deleted the record."""
    OTHER_TOPIC = "other_topic"
    """The topic was deleted, or recreated under the same name."""
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


class SourceTexts:
    """Reads texts. ``read`` belongs to the event loop."""

    def __init__(self, config: Config, connect: Callable[[], TopicPorts]) -> None:
        """``connect`` makes the ports, again after an error."""
        schemas = Schemas(config, wait_s=0) if asks_registry(config) else None
        self._reader = RecordReader(config, input_format_of(config), schemas)
        self._connect = connect
        self._ports: TopicPorts | None = None
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

    def _found(self, ports: TopicPorts, places: Iterable[Place]) -> dict[Coordinates, SourcedText]:
        ids = ports.offsets.topic_ids({topic for topic, _ in places})
        texts = {at: _DELETED for _, at in places}
        wanted: dict[Partition, list[tuple[SourceOffset, SourceOffset]]] = {}
        for topic, at in sorted(places):
            if ids.get(topic) == at.topic_id:
                wanted.setdefault(Partition(topic, at.partition), []).append((at.offset, SourceOffset(at.offset + 1)))
            else:
                reason = f"topic {topic} does not exist, or was recreated"
                texts[at] = SourcedText(None, TextAbsence.OTHER_TOPIC, reason)
        for record in read_ranges(ports.reader, _kept(ports.reader, wanted)):
            at = Coordinates(ids[record.topic], record.partition, SourceOffset(record.offset))
            texts[at] = self._decoded(record)
        return texts

    def _decoded(self, record: SourceRecord) -> SourcedText:
        try:
            article = self._reader.decode(raw_of(record))
        except StreamDedupError as error:
            return SourcedText(None, TextAbsence.NO_BROKER, str(error))
        if isinstance(article, Article):
            return SourcedText(article)
        return SourcedText(None, TextAbsence.UNREADABLE, article.reason)

    def _disconnect(self) -> None:
        ports, self._ports = self._ports, None
        if ports is not None:
            ports.close()


def _kept(
    reader: TopicReader, wanted: Mapping[Partition, list[tuple[SourceOffset, SourceOffset]]]
) -> dict[Partition, list[tuple[SourceOffset, SourceOffset]]]:
    """Return the ranges that the partitions still have."""
    bounds = reader.bounds(wanted)
    return {at: [one for one in ranges if bounds[at][0] <= one[0] < bounds[at][1]] for at, ranges in wanted.items()}


STATUS_S = 20.0
"""Longest wait for a snapshot."""
FRESH_S = 2.0
"""A snapshot that is no older is returned again: many viewers cost the brokers no more than one."""
RATES_S = 60.0
"""Longest time over which rates are computed."""


class StatusValues(NamedTuple):
    """The state of the group as ``stream-dedup status --json`` writes it, and when the brokers said so."""

    values: dict[str, Any]
    read_ms: int


class GroupStatus:
    """Reads snapshots. ``read`` belongs to the event loop."""

    def __init__(self, config: Config, follower: LogFollower, clock: Clock) -> None:
        """Connect at the first request."""
        self._config = config
        self._follower = follower
        self._clock = clock
        self._lane = Lane("status", STATUS_S)
        self._reader: StatusReader | None = None
        self._now: Snapshot | None = None
        self._reading: asyncio.Future[dict[str, Any]] | None = None
        """What all wait for that ask meanwhile."""
        self.last: StatusValues | None = None
        """What was read last, however old it is. Any thread."""

    async def read(self) -> dict[str, Any]:
        """Return the state of the group, as ``stream-dedup status --json`` writes it.

        Raises:
            ProblemError: no broker answers, or not in time.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._lane.run(self._read))
        return await asyncio.shield(self._reading)

    def close(self) -> None:
        """End the thread and close the connections."""
        self._lane.close()
        self._disconnect()

    def _read(self) -> dict[str, Any]:
        now = self._now
        if self.last is None or now is None or self._clock.monotonic() - now.at_s >= FRESH_S:
            self.last = self._newest()
        return self.last.values

    def _newest(self) -> StatusValues:
        try:
            if self._reader is None:
                self._reader = StatusReader(self._config, with_rules=False, progress=lambda *_: None)
            snapshot = self._reader.read()
        except StreamDedupError as error:
            self._disconnect()
            raise not_ready(str(error)) from error
        rules = self._follower.position.rules
        snapshot = replace(snapshot, log=replace(snapshot.log, rules=rules))
        before = self._now if self._now is not None and snapshot.at_s - self._now.at_s < RATES_S else None
        rates = None if before is None else Rates.between(before, snapshot)
        self._now = snapshot
        values = values_of(snapshot, rates, find(snapshot, before, rules_of(self._config)))
        return StatusValues(values, self._clock.time_ms())

    def _disconnect(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.__exit__()
