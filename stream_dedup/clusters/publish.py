"""Publishes the clusters that changed on ``topics.clusters``: one record for each, exactly once.

A record's key is the id of the cluster. Its value is JSON:

    log_id       UUID of the log
    cluster_id   as the key
    first        the first article: ``id``, ``source`` (topic-partition-offset), ``topic_id``
    size         articles
    first_time   time of the earliest article, ms since 1970
    last_time    time of the latest article, ms since 1970

A tombstone (no value) says that there is no such cluster any more: it became part of another one, since its first
article has a match that arrived later, or all its articles are forgotten. It may come for an id that had no record.

The store and Kafka cannot commit together. The order of effects, all on one thread:

    1  The store commits outputs, clusters, positions, and the changed clusters, each with a number that rises and never
       comes again (``changed``).
    2  The next changed clusters are read, in the order of their numbers, as they are now.
    3  One Kafka transaction commits their records, and the mark: this store's id and the last of these numbers.
    4  The store drops the changed clusters up to that number.

A crash before 3 is committed leaves nothing of it; the clusters are published later. After 3 and before 4 the mark is
ahead of the store: ``start`` does step 4 first. It does so before any output is applied, so no cluster has changed
since step 2. The outcome of a commit that was not answered is read from the mark in the same way.

The mark and the store do not continue each other when the store was built anew or put back from a copy, when another
store published meanwhile, or when the topic is another one. Then every cluster of the store is published, and a
tombstone for every key of this log on the topic that is none of its clusters (steps a to c of ``_begin_anew``). Where
the broker has forgotten an old mark, the store is right.

Nothing is published before the follower has read what was there: meanwhile clusters grow together that are one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import orjson

from stream_dedup.clusters.model import ArticleCluster, parse_cluster_id
from stream_dedup.clusters.schema import store_errors, transaction
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.clusters.union import NOTE_CHANGED
from stream_dedup.core.headers import source_text
from stream_dedup.core.model import Coordinates
from stream_dedup.ports import FollowPorts, MarkedSink, Output, PublishedMark, TopicReader

log = logging.getLogger(__name__)

PUBLISHED_AT_ONCE = 1_000
"""Clusters of one transaction: some 300 KB."""
KEYS_AT_ONCE = 5_000
"""Keys of the topic that are noted in one transaction of the store."""


class _StoreState(NamedTuple):
    """What the store says of itself."""

    log_id: bytes
    store_id: bytes
    published_on: bytes | None
    """The id of the topic."""
    last_sequence: int


class ClusterPublisher:
    """Publishes the clusters of one store. Belongs to the thread that writes the store."""

    def __init__(self, store: ClusterStore, ports: FollowPorts, sink: MarkedSink, topic: str) -> None:
        """``start`` comes before the first output is applied."""
        self._store = store
        self._connection = store.writer
        self._path = store.path
        self._ports = ports
        self._sink = sink
        self._topic = topic
        self.is_settled = False
        """Whether the outcome of everything that was published is known: ``start`` need not be called."""
        self._is_there = False

    def start(self) -> None:
        """Settle what an earlier process, or a failed transaction, left; no output is applied before.

        Raises:
            PassingError, RefusedByBrokerError, FencedError: of the ports; call it again.
            CorruptError, UnavailableError: of the store.
        """
        self.is_settled = False
        topic_id = self._ports.offsets.topic_ids([self._topic]).get(self._topic)
        self._is_there = topic_id is not None
        if topic_id is None:
            log.warning(
                "there is no topic %s: clusters are published when it is made (stream-dedup topics create)", self._topic
            )
            with store_errors(self._path):
                self._connection.execute("UPDATE state SET published_on = NULL")
            self.is_settled = True
            return
        mark = self._sink.renew()
        with store_errors(self._path):
            if not self._fits(mark, topic_id):
                self._begin_anew(topic_id, 0 if mark is None else mark.sequence)
            elif mark is not None:
                self._drop_published(mark.sequence)
        self.is_settled = True

    def note_topic(self, topic_id: bytes | None) -> None:
        """Take note of the id that the topic has now: another topic has to be settled first."""
        with store_errors(self._path):
            if topic_id != self._state().published_on:
                self.is_settled = False

    def publish(self) -> int:
        """Publish the next changed clusters; return their number: 0 if nothing has changed, or there is no topic.

        After an error, ``start`` settles the outcome.

        Raises:
            PassingError, FencedError, RefusedByBrokerError, RecordTooLargeError: of the sink.
            CorruptError, UnavailableError: of the store.
        """
        if not (self.is_settled and self._is_there):
            return 0
        with store_errors(self._path):
            # 2
            sql = "SELECT sequence, topic_id, partition, offset FROM changed ORDER BY sequence LIMIT ?"
            changed = self._connection.execute(sql, (PUBLISHED_AT_ONCE,)).fetchall()
            outputs = list(self._outputs([Coordinates(*row[1:]) for row in changed]))
        if not changed:
            return 0
        # 3
        self.is_settled = False
        mark = PublishedMark(self._state().store_id, changed[-1][0])
        self._sink.publish(outputs, mark)
        # 4
        with store_errors(self._path):
            self._drop_published(mark.sequence)
        self.is_settled = True
        return len(changed)

    def left(self) -> int:
        """Return the number of clusters that are to be published."""
        with store_errors(self._path):
            return int(self._connection.execute("SELECT COUNT(*) FROM changed").fetchone()[0])

    # The mark and the store.

    def _fits(self, mark: PublishedMark | None, topic_id: bytes) -> bool:
        state = self._state()
        continues = mark is None or (mark.store_id == state.store_id and mark.sequence <= state.last_sequence)
        return continues and state.published_on == topic_id

    def _begin_anew(self, topic_id: bytes, sequence: int) -> None:
        """Note every cluster of the store, and every key of this log on the topic, as changed."""
        write = self._connection
        log.info("topic %s is written from the beginning: every cluster of the store", self._topic)
        # a. Whatever comes before c begins anew. What is noted from here on has higher numbers than any mark.
        with transaction(write):
            write.execute("UPDATE state SET published_on = NULL")
            write.execute("DELETE FROM changed")
            write.execute("UPDATE sqlite_sequence SET seq = MAX(seq, ?) WHERE name = 'changed'", (sequence,))
        # b
        for keys in _chunks(_keys(self._ports.reader, self._topic, str(uuid.UUID(bytes=self._state().log_id)))):
            with transaction(write):
                write.executemany("INSERT OR REPLACE INTO changed (topic_id, partition, offset) VALUES (?, ?, ?)", keys)
        # c
        with transaction(write):
            write.execute(NOTE_CHANGED)
            write.execute("UPDATE state SET published_on = ?", (topic_id,))

    def _drop_published(self, sequence: int) -> None:
        """Drop the changed clusters up to this number: the topic has them as they are now."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM changed WHERE sequence <= ?", (sequence,))

    # Records.

    def _outputs(self, changed: list[Coordinates]) -> Iterator[Output]:
        now_ms = self._ports.clock.time_ms()
        log_id = str(uuid.UUID(bytes=self._state().log_id))
        for first in changed:
            cluster = self._store.cluster_of_first(first, now_ms)
            value = None if cluster is None else orjson.dumps(_value(cluster, log_id))
            yield Output(self._topic, str(first).encode(), value, [], now_ms)

    def _state(self) -> _StoreState:
        sql = "SELECT log_id, store_id, published_on, seq FROM state, sqlite_sequence WHERE name = 'changed'"
        return _StoreState(*self._connection.execute(sql).fetchone())


def _value(cluster: ArticleCluster, log_id: str) -> dict[str, Any]:
    return {
        "log_id": log_id,
        "cluster_id": cluster.id,
        "first": {
            "id": cluster.first_article_id,
            "source": source_text(cluster.first_topic, cluster.first),
            "topic_id": str(uuid.UUID(bytes=cluster.first.topic_id)),
        },
        "size": cluster.size,
        "first_time": cluster.first_ms,
        "last_time": cluster.last_ms,
    }


def _keys(reader: TopicReader, topic: str, log_id: str) -> Iterator[Coordinates]:
    """Yield the first article of each cluster of this log that the topic has a record of; some of them twice."""
    for record in reader.read(reader.bounds(reader.partitions([topic]))):
        first = parse_cluster_id((record.key or b"").decode("utf-8", "replace"))
        if first is not None and record.value is not None and _log_of(record.value) == log_id:
            yield first


def _log_of(value: bytes) -> object:
    """Return the log id in the value of a record; None, if another program wrote it."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return found.get("log_id") if isinstance(found, dict) else None


def _chunks(keys: Iterator[Coordinates]) -> Iterator[list[Coordinates]]:
    while chunk := list(islice(keys, KEYS_AT_ONCE)):
        yield chunk
