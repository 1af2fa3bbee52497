"""The questions that a cluster store answers.

The largest clusters of a window are found by one pass over the buckets of its width: 0.1 s for a million of them.
``forget`` keeps little more than those that the longest window of the width shows.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stream_dedup.clusters.model import (
    COUNTED_WINDOWS,
    ArticleCluster,
    ClusteredArticle,
    MemberPage,
    MissingOutputs,
    VerdictCounts,
    Window,
    cluster_id_of,
    parse_cluster_id,
)
from stream_dedup.clusters.schema import open_reader, store_errors
from stream_dedup.core.columns import as_stored
from stream_dedup.core.headers import StampedMatch
from stream_dedup.core.model import Coordinates, SourceOffset, Verdict
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.ports import CommittedOffset, Partition

REJECTED_KIND = "rejected:"
"""Begins the kind of a rejected record in the totals; the reason code follows."""
UPDATE_KIND = "update"
"""The kind of an update in the totals; the other kinds are verdicts."""

_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,18})", re.ASCII)
_ARTICLE = """
SELECT s.topic_id, a.partition, a.offset, s.name, a.id, a.verdict, gs.topic_id, g.partition, g.offset,
       ms.topic_id, a.match_partition, a.match_offset, ms.name, a.match_id, a.match_distance, a.match_similarity,
       a.match_ms, a.copies, a.reason_code, a.source_ms, a.written_ms, a.output, a.output_partition, a.output_offset,
       a.number
FROM article a
JOIN source_topic s ON s.number = a.topic
LEFT JOIN cluster g ON g.number = a.cluster
LEFT JOIN source_topic gs ON gs.number = g.topic
LEFT JOIN source_topic ms ON ms.number = a.match_topic
"""
_AT = "WHERE s.topic_id = ? AND a.partition = ? AND a.offset = ? AND a.written_ms IS NOT NULL"
_CLUSTER = """
SELECT g.number, s.topic_id, g.partition, g.offset, s.name, a.id, g.size
FROM cluster g
JOIN source_topic s ON s.number = g.topic
JOIN article a ON a.topic = g.topic AND a.partition = g.partition AND a.offset = g.offset
"""


class ClusterQueries:
    """Answers from any thread, each by a connection of its own (0.3 ms to open), of one state of the store.

    Every question raises CorruptError or UnavailableError where the store cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is the folder of a store that this process has open for writing."""
        self.path = path
        self._is_closed = False

    def close(self) -> None:
        """Let questions that come later fail."""
        self._is_closed = True

    def article(self, coordinates: Coordinates) -> ClusteredArticle | None:
        """Return an article whose output has been read."""
        found = self._articles(_AT, *_bound(coordinates))
        return found[0] if found else None

    def cluster_ids(self, articles: Iterable[Coordinates]) -> dict[Coordinates, str | None]:
        """Return the id of the cluster of each article, None where its output has not been read."""
        with self._snapshot() as reader:
            found = {at: reader.execute(_ARTICLE + _AT, _bound(at)).fetchone() for at in articles}
        return {at: None if row is None else _article(row).cluster_id for at, row in found.items()}

    def articles_by_id(self, article_id: str, limit: int) -> list[ClusteredArticle]:
        """Return the articles with an id, newest first; one with half a surrogate pair is stored with its escape."""
        where = "WHERE a.id = ? AND a.written_ms IS NOT NULL ORDER BY a.written_ms DESC, a.number DESC LIMIT ?"
        return self._articles(where, as_stored(article_id), limit)

    def latest(self, limit: int) -> list[ClusteredArticle]:
        """Return the articles that were written last, newest first, rejected records among them."""
        where = "WHERE a.written_ms IS NOT NULL ORDER BY a.written_ms DESC, a.number DESC LIMIT ?"
        return self._articles(where, limit)

    def cluster(self, cluster_id: str, now_ms: int) -> ArticleCluster | None:
        """Return the cluster that an article belongs to, named by the id that a cluster would have that it begins.

        So an id stays good where its cluster has become part of another one.
        """
        with self._snapshot() as reader:
            number = _cluster_number(reader, cluster_id)
            return None if number is None else _cluster(reader, number, now_ms)

    def cluster_of_first(self, first: Coordinates, now_ms: int) -> ArticleCluster | None:
        """Return the cluster that begins with this article; None: the article begins none, or none any more."""
        cluster = self.cluster(cluster_id_of(first), now_ms)
        return cluster if cluster is not None and cluster.first == first else None

    def members(self, cluster_id: str, limit: int, after: str | None = None) -> MemberPage:
        """Return a page of the articles of a cluster, oldest first; an empty one, if there is no such cluster.

        Raises:
            UserError: ``after`` is not what a page said.
        """
        time_ms, last = _cursor(after)
        with self._snapshot() as reader:
            number = _cluster_number(reader, cluster_id)
            where = (
                "WHERE a.cluster = ? AND a.written_ms IS NOT NULL AND (a.written_ms, a.number) > (?, ?) "
                "ORDER BY a.written_ms, a.number LIMIT ?"
            )
            rows = reader.execute(_ARTICLE + where, (number, time_ms, last, limit + 1)).fetchall()
        shown = rows[:limit]
        further = f"{shown[-1][-5]}.{shown[-1][-1]}" if len(rows) > limit and shown else None
        return MemberPage(tuple(map(_article, shown)), further)

    def largest(self, window: Window, limit: int, now_ms: int) -> list[ArticleCluster]:
        """Return the clusters with most articles in a window, of those of more than one article; largest first."""
        sql = "SELECT number FROM cluster WHERE size > 1 ORDER BY size DESC, number LIMIT :limit"
        if window is not Window.ALL:
            sql = (
                "SELECT cluster FROM bucket WHERE width = :width AND start BETWEEN :begin AND :now "
                "GROUP BY cluster ORDER BY SUM(count) DESC, cluster LIMIT :limit"
            )
        values = {"width": int(window.width), "begin": window.begin(now_ms), "now": now_ms, "limit": limit}
        with self._snapshot() as reader:
            return [_cluster(reader, number, now_ms) for (number,) in reader.execute(sql, values).fetchall()]

    def growth(self, cluster_id: str, window: Window, now_ms: int) -> list[tuple[int, int]]:
        """Return the beginning (ms) and the articles of each bucket of a window, empty ones included, oldest first.

        Of ``all``, the first bucket is that of the cluster's earliest article. Empty, if there is no such cluster.
        """
        with self._snapshot() as reader:
            number = _cluster_number(reader, cluster_id)
            if number is None:
                return []
            counts = dict(_buckets(reader, number, window, now_ms))
        begin = window.begin(now_ms) or min(counts, default=window.width.start(now_ms))
        return [(start, counts.get(start, 0)) for start in range(begin, now_ms + 1, window.width)]

    def totals(self, window: Window, now_ms: int) -> VerdictCounts:
        """Return the articles of a window, by verdict."""
        return _counts(self._totals(window, now_ms))

    def history(self, window: Window, now_ms: int) -> list[tuple[int, VerdictCounts]]:
        """Return the beginning (ms) and the articles of each bucket of a window, by verdict, oldest first."""
        found: dict[int, list[tuple[int, str, int]]] = {}
        for row in self._totals(window, now_ms):
            found.setdefault(row[0], []).append(row)
        begin = window.begin(now_ms) or min(found, default=window.width.start(now_ms))
        return [(start, _counts(found.get(start, []))) for start in range(begin, now_ms + 1, window.width)]

    def missing(self) -> list[MissingOutputs]:
        """Return the outputs that were deleted before they were read."""
        rows = self._rows("SELECT topic, partition, first, past FROM missing ORDER BY 1, 2, 3")
        return [MissingOutputs(Partition(row[0], row[1]), row[2], row[3]) for row in rows]

    def positions(self) -> dict[Partition, CommittedOffset]:
        """Return the next offset of each output partition that was read, with the id of its topic."""
        rows = self._rows("SELECT topic, partition, topic_id, offset FROM position")
        return {Partition(row[0], row[1]): CommittedOffset(SourceOffset(row[3]), row[2]) for row in rows}

    def cluster_count(self) -> int:
        """Return the number of clusters of two or more articles, which have an index of their own."""
        return int(self._rows("SELECT COUNT(*) FROM cluster WHERE size > 1")[0][0])

    def _articles(self, where: str, *values: object) -> list[ClusteredArticle]:
        return [_article(row) for row in self._rows(_ARTICLE + where, *values)]

    def _totals(self, window: Window, now_ms: int) -> list[tuple[int, str, int]]:
        sql = "SELECT start, kind, count FROM total WHERE width = ? AND start >= ? AND start <= ?"
        return self._rows(sql, int(window.width), window.begin(now_ms), now_ms)

    def _rows(self, sql: str, *values: object) -> list[Any]:
        with self._snapshot() as reader:
            return reader.execute(sql, values).fetchall()

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to the calling thread, which sees one state of the store."""
        if self._is_closed:
            raise UnavailableError("the cluster store is closed")
        with store_errors(self.path), closing(open_reader(self.path)) as reader:
            reader.execute("BEGIN")
            yield reader


def _cluster(reader: sqlite3.Connection, number: int, now_ms: int) -> ArticleCluster:
    row = reader.execute(_CLUSTER + "WHERE g.number = ?", (number,)).fetchone()
    first = _coordinates(row[1:4])
    first_ms, last_ms = reader.execute(
        # SQLite finds one of each at an end of the index; together they would read all of it.
        "SELECT (SELECT MIN(written_ms) FROM article WHERE cluster = ?1), "
        "(SELECT MAX(written_ms) FROM article WHERE cluster = ?1)",
        (number,),
    ).fetchone()
    size = int(row[6])
    counts = {window: sum(count for _, count in _buckets(reader, number, window, now_ms)) for window in COUNTED_WINDOWS}
    counts[Window.ALL] = size
    return ArticleCluster(cluster_id_of(first), first, row[4], row[5], size, int(first_ms), int(last_ms), counts)


def _buckets(reader: sqlite3.Connection, number: int, window: Window, now_ms: int) -> list[tuple[int, int]]:
    """Return the buckets of a window that have articles."""
    begin = window.begin(now_ms)
    lone = reader.execute("SELECT lone_ms FROM cluster WHERE number = ?", (number,)).fetchone()[0]
    if lone is not None:
        start = window.width.start(lone)
        return [(start, 1)] if begin <= start <= now_ms else []
    sql = "SELECT start, count FROM bucket WHERE width = ? AND cluster = ? AND start >= ? AND start <= ?"
    return reader.execute(sql, (int(window.width), number, begin, now_ms)).fetchall()


def _cluster_number(reader: sqlite3.Connection, cluster_id: str) -> int | None:
    coordinates = parse_cluster_id(cluster_id)
    if coordinates is None:
        return None
    sql = (
        "SELECT a.cluster FROM article a JOIN source_topic s ON s.number = a.topic "
        "WHERE s.topic_id = ? AND a.partition = ? AND a.offset = ?"
    )
    row = reader.execute(sql, _bound(coordinates)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _bound(coordinates: Coordinates) -> tuple[bytes, int, int]:
    return coordinates.topic_id, coordinates.partition, int(coordinates.offset)


def _coordinates(row: Sequence[Any]) -> Coordinates:
    topic_id, partition, offset = row
    return Coordinates(bytes(topic_id), int(partition), SourceOffset(int(offset)))


def _article(row: Sequence[Any]) -> ClusteredArticle:
    """Make an article of a row of ``_ARTICLE``."""
    match = None
    if row[9] is not None:
        match = StampedMatch(row[13], row[14], row[15], row[12], _coordinates(row[9:12]), row[16])
    return ClusteredArticle(
        coordinates=_coordinates(row[:3]),
        topic=row[3],
        id=row[4],
        verdict=Verdict(row[5]),
        cluster_id=None if row[6] is None else cluster_id_of(_coordinates(row[6:9])),
        match=match,
        copies=row[17],
        reason_code=row[18],
        source_ms=row[19],
        written_ms=row[20],
        output=Partition(row[21], row[22]),
        output_offset=row[23],
    )


def _counts(rows: Iterable[tuple[int, str, int]]) -> VerdictCounts:
    counts: Counter[str] = Counter()
    for _, kind, count in rows:
        counts[kind] += count
    rejected = {
        kind.removeprefix(REJECTED_KIND): count for kind, count in counts.items() if kind.startswith(REJECTED_KIND)
    }
    return VerdictCounts(
        counts[str(Verdict.UNIQUE)], counts[UPDATE_KIND], counts[str(Verdict.DUPLICATE)], rejected or None
    )


def _cursor(after: str | None) -> tuple[int, int]:
    """Read where a page begins."""
    if after is None:
        return -(1 << 62), 0
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise UserError(f"{after!r} does not say where a page begins; take what the page before said")
    return int(found[1]), int(found[2])
