"""Adds outputs to the tables of a store, and unites the clusters that they join; one transaction has all of it.

Clusters are disjoint sets of articles, united where an article and its match meet. An article carries the number of its
cluster. Where two clusters become one, the articles of the lighter one get the number of the heavier: each article
changes its number at most log2(n) times, however the outputs arrive, and the cluster of an article is one look-up.

A match may arrive after its article: until then it is a placeholder, the first article of its cluster. Each article has
one match, so a cluster is a tree, and its first article is its root: uniting the cluster that begins with a placeholder
with that of the placeholder's match keeps the first article of the latter.

``size``, ``lone_ms`` and the buckets are written at the end of a batch (``finish``): many articles of one cluster then
take one row. Until then ``lone_ms`` may be that of an article among others.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter, defaultdict
from typing import NamedTuple

from stream_dedup.clusters.model import BucketWidth, JudgedOutput
from stream_dedup.clusters.queries import REJECTED_KIND, UPDATE_KIND
from stream_dedup.core.columns import as_stored
from stream_dedup.core.model import Coordinates, Verdict

log = logging.getLogger(__name__)

NOTE_CHANGED = """
INSERT OR REPLACE INTO changed (topic_id, partition, offset)
SELECT s.topic_id, g.partition, g.offset FROM cluster g JOIN source_topic s ON s.number = g.topic
"""
"""Notes clusters that are to be published; all of them where no ``WHERE`` follows."""
_AUDIT = "the outputs contradict the log; run stream-dedup audit"
_NEW_ARTICLE = """
INSERT INTO article (
    id, verdict, written_ms, source_ms, output, output_partition, output_offset, match_topic, match_partition,
    match_offset, match_id, match_distance, match_similarity, match_ms, copies, reason_code,
    number, topic, partition, offset, cluster
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FILL_ARTICLE = """
UPDATE article SET
    id = ?, verdict = ?, written_ms = ?, source_ms = ?, output = ?, output_partition = ?, output_offset = ?,
    match_topic = ?, match_partition = ?, match_offset = ?, match_id = ?, match_distance = ?, match_similarity = ?,
    match_ms = ?, copies = ?, reason_code = ?
WHERE number = ?
"""
_ADD_BUCKET = """
INSERT INTO bucket VALUES (?, ?, ?, ?)
ON CONFLICT (width, cluster, start) DO UPDATE SET count = count + excluded.count
"""
_ADD_TOTAL = """
INSERT INTO total VALUES (?, ?, ?, ?)
ON CONFLICT (width, start, kind) DO UPDATE SET count = count + excluded.count
"""
_MOVE_BUCKETS = """
INSERT INTO bucket SELECT width, ?1, start, count FROM bucket WHERE width = ?2 AND cluster = ?3
ON CONFLICT (width, cluster, start) DO UPDATE SET count = count + excluded.count
"""
_TAKE_IN = """
UPDATE cluster SET topic = ?, partition = ?, offset = ?, size = size + ? WHERE number = ?
"""


class StoredAt(NamedTuple):
    """Coordinates with the small number of their topic id."""

    topic: int
    partition: int
    offset: int


class _Row(NamedTuple):
    """What is stored of an article."""

    number: int
    cluster: int | None
    """None of a rejected record."""
    arrived: bool
    """Whether its output has been read; False of a placeholder."""


class _Cluster(NamedTuple):
    """A row of ``cluster``, with the articles that the batch has added to it."""

    first: StoredAt
    size: int
    lone_ms: int | None


class OutputUnion:
    """The outputs of one batch, in an open transaction; ``finish`` comes after the last ``add``."""

    def __init__(self, connection: sqlite3.Connection, *, notes_changes: bool) -> None:
        """``notes_changes``: clusters that change are to be published."""
        self._connection = connection
        self._notes_changes = notes_changes
        self._topics = dict(connection.execute("SELECT topic_id, number FROM source_topic").fetchall())
        self._begin_number = int(connection.execute("SELECT next_number FROM state").fetchone()[0])
        self._next_number = self._begin_number
        self._times: defaultdict[int, list[int]] = defaultdict(list)
        """Times of articles that are in no bucket, by the clusters that have got them."""
        self._added: Counter[int] = Counter()
        """Articles of the batch, by the clusters that have got them."""
        self._totals: Counter[tuple[BucketWidth, int, str]] = Counter()

    def add(self, output: JudgedOutput) -> None:
        """Add an output; one of an article that has arrived before changes nothing."""
        stamp = output.stamp
        at = self._at(stamp.topic, stamp.coordinates)
        row = self._row(at)
        if row is not None and row.arrived:
            return
        self._count(output)
        match_at = None if stamp.match is None else self._at(stamp.match.topic, stamp.match.coordinates)
        cluster = self._new(output, at, match_at) if row is None else self._arrived(row, output, at, match_at)
        if cluster is not None:
            self._added[cluster] += 1
            self._times[cluster].append(output.written_ms)

    def finish(self) -> None:
        """Write what was gathered."""
        write = self._connection
        buckets: Counter[tuple[BucketWidth, int, int]] = Counter()
        for number, new in self._times.items():
            _, size, lone_ms = self._cluster(number)
            if size == 1:
                write.execute("UPDATE cluster SET size = 1, lone_ms = ? WHERE number = ?", (*new, number))
                continue
            times = new if lone_ms is None else [*new, lone_ms]
            write.execute("UPDATE cluster SET size = ?, lone_ms = NULL WHERE number = ?", (size, number))
            buckets.update((width, number, width.start(at)) for at in times for width in BucketWidth)
        write.executemany(_ADD_BUCKET, [(int(width), *rest, count) for (width, *rest), count in buckets.items()])
        write.executemany(_ADD_TOTAL, [(int(width), *rest, count) for (width, *rest), count in self._totals.items()])
        write.execute("UPDATE state SET next_number = ?", (self._next_number,))
        if self._notes_changes:
            write.executemany(f"{NOTE_CHANGED} WHERE g.number = ?", [(number,) for number in self._times])

    def _new(self, output: JudgedOutput, at: StoredAt, match_at: StoredAt | None) -> int | None:
        """Store an article that nothing has named before, and return its cluster."""
        cluster = None
        if output.stamp.verdict is not Verdict.REJECTED:
            cluster = self._cluster_of_match(output, at, match_at)
            if cluster is None:
                cluster = self._begin_cluster(at)
        self._insert(at, cluster, _columns(output, match_at))
        return cluster

    def _arrived(self, row: _Row, output: JudgedOutput, at: StoredAt, match_at: StoredAt | None) -> int | None:
        """Store the output of a placeholder, and return its cluster, united with that of its match."""
        self._connection.execute(_FILL_ARTICLE, (*_columns(output, match_at), row.number))
        parent = self._cluster_of_match(output, at, match_at, begun=row)
        if row.cluster is None or parent is None or parent == row.cluster:
            return row.cluster
        self._note_lost_id(row)
        return self._unite(row.cluster, parent)

    def _cluster_of_match(
        self, output: JudgedOutput, at: StoredAt, match_at: StoredAt | None, begun: _Row | None = None
    ) -> int | None:
        """Return the cluster of the match; None of none, and where an article cannot have this match.

        A match that has not arrived becomes a placeholder, the first article of its cluster: of the one that the
        article has ``begun``, else of a new one.
        """
        match = output.stamp.match
        if match is None or match_at is None:
            return None
        row = None if match_at == at else self._row(match_at)
        if match_at == at or (row is not None and row.cluster is None):
            log.warning(
                "article %s has an impossible match, %s: %s", output.stamp.coordinates, match.coordinates, _AUDIT
            )
            return None
        if row is not None:
            if begun is not None and row.cluster == begun.cluster:
                log.warning("article %s follows from itself: %s", output.stamp.coordinates, _AUDIT)
            return row.cluster
        if begun is None or begun.cluster is None:
            cluster = self._begin_cluster(match_at)
        else:
            cluster = begun.cluster
            self._note_lost_id(begun)
            self._connection.execute(_TAKE_IN, (*match_at, 0, cluster))
        self._insert(match_at, cluster, (as_stored(match.id), *(None,) * 15))
        return cluster

    def _unite(self, begun: int, parent: int) -> int:
        """Unite the cluster that began with a placeholder with the one of its match, and return what it is now."""
        own, other = self._cluster(begun), self._cluster(parent)
        number, lost, lost_number = (parent, own, begun) if other.size >= own.size else (begun, other, parent)
        in_batch = self._times.pop(lost_number, [])
        in_buckets = lost.size - len(in_batch) - (lost.lone_ms is not None)
        self._times[number] += in_batch
        self._times[number] += [] if lost.lone_ms is None else [lost.lone_ms]
        write = self._connection
        write.execute("UPDATE article SET cluster = ? WHERE cluster = ?", (number, lost_number))
        for width in BucketWidth if in_buckets else ():
            write.execute(_MOVE_BUCKETS, (number, int(width), lost_number))
            write.execute("DELETE FROM bucket WHERE width = ? AND cluster = ?", (int(width), lost_number))
        write.execute("DELETE FROM cluster WHERE number = ?", (lost_number,))
        added = self._added.pop(lost_number, 0)
        self._added[number] += added
        write.execute(_TAKE_IN, (*other.first, lost.size - added, number))
        return number

    def _begin_cluster(self, first: StoredAt) -> int:
        """Begin a cluster; its number is that of the article that is inserted next."""
        self._connection.execute("INSERT INTO cluster VALUES (?, ?, ?, ?, 0, NULL)", (self._next_number, *first))
        return self._next_number

    def _insert(self, at: StoredAt, cluster: int | None, columns: tuple[object, ...]) -> None:
        self._connection.execute(_NEW_ARTICLE, (*columns, self._next_number, *at, cluster))
        self._next_number += 1

    def _row(self, at: StoredAt) -> _Row | None:
        found = self._connection.execute(
            "SELECT number, cluster, written_ms IS NOT NULL FROM article "
            "WHERE topic = ? AND partition = ? AND offset = ?",
            at,
        ).fetchone()
        return None if found is None else _Row(*found)

    def _cluster(self, number: int) -> _Cluster:
        sql = "SELECT topic, partition, offset, size, lone_ms FROM cluster WHERE number = ?"
        *first, size, lone_ms = self._connection.execute(sql, (number,)).fetchone()
        return _Cluster(StoredAt(*first), size + self._added[number], lone_ms)

    def _at(self, topic: str, coordinates: Coordinates) -> StoredAt:
        number = self._topics.get(coordinates.topic_id)
        if number is None:
            number = self._topics[coordinates.topic_id] = len(self._topics) + 1
            self._connection.execute("INSERT INTO source_topic VALUES (?, ?, ?)", (number, coordinates.topic_id, topic))
        return StoredAt(number, coordinates.partition, coordinates.offset)

    def _count(self, output: JudgedOutput) -> None:
        stamp = output.stamp
        if stamp.verdict is Verdict.REJECTED:
            kind = f"{REJECTED_KIND}{stamp.reason_code}"
        else:
            kind = UPDATE_KIND if stamp.update else str(stamp.verdict)
        for width in BucketWidth:
            self._totals[width, width.start(output.written_ms), kind] += 1

    def _note_lost_id(self, first: _Row) -> None:
        """Note a cluster that is about to get another first article; one that began in this batch is on no topic."""
        if self._notes_changes and first.number < self._begin_number:
            self._connection.execute(f"{NOTE_CHANGED} WHERE g.number = ?", (first.cluster,))


def _columns(output: JudgedOutput, match_at: StoredAt | None) -> tuple[object, ...]:
    """Return the columns of an article that its output sets."""
    stamp, match = output.stamp, output.stamp.match
    return (
        as_stored(output.article_id),
        str(stamp.verdict),
        output.written_ms,
        stamp.timestamp,
        *output.partition,
        output.offset,
        *(match_at or (None, None, None)),
        *((None,) * 4 if match is None else (match.id, match.distance, match.similarity, match.time)),
        stamp.copies,
        stamp.reason_code,
    )
