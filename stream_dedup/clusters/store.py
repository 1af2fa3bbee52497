"""The store of clusters: one thread writes, any thread reads.

``apply`` stores outputs and the positions behind them in one transaction: a kill at any point leaves both or neither.
Memory is bounded by one batch and the page caches, whatever the number of articles.

Old articles: with ``keep_ms`` an article is forgotten when its output is older than that by this machine's clock. The
first article of a cluster stays as long as the cluster has a younger one, since it names the cluster. Without
``keep_ms`` every article is kept, as the log without a window keeps every entry. Buckets go when no window shows them
any more. It takes several short transactions (``_Forgetting``).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_dedup.clusters.model import BucketWidth, JudgedOutput, MissingOutputs, Window
from stream_dedup.clusters.queries import ClusterQueries, count_windows, counted_begins
from stream_dedup.clusters.schema import make_folder, open_writer, store_errors, transaction
from stream_dedup.clusters.union import BatchCluster, NewRow, Row, StoredAt, StoredRows, UnionBatch
from stream_dedup.folders import Owner
from stream_dedup.ports import CommittedOffset, Partition


class ClusterStore(ClusterQueries):
    """An open store. Its own methods belong to one thread, those of the questions to any."""

    def __init__(self, path: Path, lock: Owner, connection: sqlite3.Connection, *, publishes: bool) -> None:
        """Use ``open``."""
        super().__init__(path)
        self._lock = lock
        self._connection = connection
        self._publishes = publishes
        if not publishes:  # what changes from here on is not noted
            connection.execute("UPDATE state SET published_on = NULL")
            connection.execute("DELETE FROM changed")
        self._topics: dict[bytes, int] = {
            bytes(topic_id): int(number)
            for topic_id, number in connection.execute("SELECT topic_id, number FROM source_topic")
        }
        self._new_topics: list[tuple[int, bytes, str]] = []

    @classmethod
    def open(cls, path: Path, log_id: bytes, *, publishes: bool = False) -> ClusterStore:
        """Open a store, or begin an empty one, for the log with this id (16 bytes).

        With ``publishes`` the store notes which clusters change (``publish``).

        Raises:
            UserError: another process has it open, the folder holds something else, or a store of another format.
            RefusedError: it belongs to another log.
            CorruptError: it is damaged.
            UnavailableError: the disk is full or fails.
        """
        make_folder(path)
        lock = Owner.write(path, "cluster store")
        try:
            with store_errors(path):
                return cls(path, lock, open_writer(path, log_id), publishes=publishes)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Close the store; questions that come later fail."""
        super().close()
        self._connection.close()
        self._lock.release()

    # Writing.

    def apply(
        self,
        outputs: Sequence[JudgedOutput],
        positions: Mapping[Partition, CommittedOffset],
        missing: MissingOutputs | None = None,
    ) -> None:
        """Store outputs and the positions behind them, in one transaction.

        An output of an article that is stored already changes nothing. A position has the offset of the next output of
        its partition and the id of its topic. ``missing`` are outputs that were deleted before they were read.

        Raises:
            CorruptError, UnavailableError: nothing of it is stored.
        """
        with store_errors(self.path):
            try:
                with transaction(self._connection):
                    self._apply(outputs)
                    self._connection.executemany(
                        "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?)",
                        [(*at, offset.topic_id, int(offset.offset)) for at, offset in positions.items()],
                    )
                    if missing is not None:
                        topic_id = positions[missing.partition].topic_id
                        self._connection.execute(
                            "INSERT OR REPLACE INTO missing VALUES (?, ?, ?, ?, ?)",
                            (missing.partition.topic, topic_id, missing.partition.number, missing.first, missing.end),
                        )
            except BaseException:
                for number, topic_id, _ in self._new_topics:
                    if self._topics.get(topic_id) == number:
                        del self._topics[topic_id]
                raise
            finally:
                self._new_topics.clear()

    def forget(self, now_ms: int, keep_ms: int | None) -> int:
        """Forget buckets that no window shows, and articles older than ``keep_ms``; return the number of articles.

        Several transactions; a kill between two leaves the rest for the next call.
        """
        with store_errors(self.path):
            return _Forgetting(self._connection, notes_changes=self._publishes).run(now_ms, keep_ms)

    def count_windows(self, now_ms: int) -> None:
        """Take from the counts of each window what has left it, so that ``largest`` is answered fast."""
        with store_errors(self.path):
            count_windows(self._connection, now_ms)

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection of the one thread that writes, for publishing."""
        return self._connection

    # One batch.

    def _apply(self, outputs: Sequence[JudgedOutput]) -> None:
        write = self._connection
        begin = int(write.execute("SELECT next_number FROM state").fetchone()[0])
        batch = UnionBatch(StoredRows(self._article_row, self._cluster_row, self._topic_number), begin)
        batch.add(outputs)
        write.executemany("INSERT INTO source_topic VALUES (?, ?, ?)", self._new_topics)
        write.execute("UPDATE state SET next_number = ?", (batch.next_number,))
        topic_ids = {number: topic_id for topic_id, number in self._topics.items()} if self._publishes else None
        _write_batch(write, batch, topic_ids)

    def _article_row(self, at: StoredAt) -> Row | None:
        row = self._connection.execute(
            "SELECT number, cluster, written_ms IS NOT NULL FROM article "
            "WHERE topic = ? AND partition = ? AND offset = ?",
            at,
        ).fetchone()
        return None if row is None else Row(row[0], row[1], bool(row[2]))

    def _cluster_row(self, number: int) -> BatchCluster:
        row = self._connection.execute(
            "SELECT topic, partition, offset, size, weight, lone_ms, published, hour, day, week FROM cluster "
            "WHERE number = ?",
            (number,),
        ).fetchone()
        return BatchCluster(
            number,
            StoredAt(*row[:3]),
            size=row[3],
            weight=row[4],
            published=bool(row[6]),
            is_stored=True,
            has_buckets=row[3] > 1,
            times=[] if row[5] is None else [row[5]],
            counted=list(row[7:]),
        )

    def _topic_number(self, topic_id: bytes, name: str) -> int:
        number = self._topics.get(topic_id)
        if number is None:
            number = self._topics[topic_id] = len(self._topics) + 1
            self._new_topics.append((number, topic_id, name))
        return number


def _write_batch(connection: sqlite3.Connection, batch: UnionBatch, topic_ids: Mapping[int, bytes] | None) -> None:
    """Write a batch whose outputs were all added.

    ``topic_ids``: the ids of the source topics by their numbers in the store, to note which clusters have changed;
    None: nothing is published.
    """
    changed = batch.clusters()
    _merge_stored(connection, batch)
    buckets = _write_clusters(connection, changed)
    if topic_ids is not None:
        firsts = [*batch.lost_ids, *(cluster.first for cluster in changed)]
        connection.executemany(
            "INSERT OR REPLACE INTO changed (topic_id, partition, offset) VALUES (?, ?, ?)",
            [(topic_ids[topic], partition, offset) for topic, partition, offset in firsts],
        )
    connection.executemany(_INSERT_ARTICLE, [_inserted(batch, row) for row in batch.new_rows])
    connection.executemany(_FILL_ARTICLE, [(*_columns(row), row.number) for row in batch.filled])
    connection.executemany(
        "INSERT INTO bucket VALUES (?, ?, ?, ?) "
        "ON CONFLICT (width, cluster, start) DO UPDATE SET count = count + excluded.count",
        [(int(width), number, start, count) for (width, number, start), count in buckets.items()],
    )
    connection.executemany(
        "INSERT INTO total VALUES (?, ?, ?, ?) "
        "ON CONFLICT (width, start, kind) DO UPDATE SET count = count + excluded.count",
        [(int(width), start, kind, count) for (width, start, kind), count in batch.totals.items()],
    )


def _merge_stored(connection: sqlite3.Connection, batch: UnionBatch) -> None:
    """Give the articles and buckets of stored clusters that became part of others to these."""
    for lost, number in batch.merged():
        if lost.is_stored:
            connection.execute("UPDATE article SET cluster = ? WHERE cluster = ?", (number, lost.number))
            for width in BucketWidth if lost.has_buckets else ():
                connection.execute(_MOVE_BUCKETS, (number, int(width), lost.number))
                connection.execute("DELETE FROM bucket WHERE width = ? AND cluster = ?", (int(width), lost.number))
            connection.execute("DELETE FROM cluster WHERE number = ?", (lost.number,))


def _write_clusters(
    connection: sqlite3.Connection, changed: list[BatchCluster]
) -> Counter[tuple[BucketWidth, int, int]]:
    """Write the clusters that have changed; return what is to be added to buckets."""
    buckets: Counter[tuple[BucketWidth, int, int]] = Counter()
    begins = counted_begins(connection)
    for cluster in changed:
        if cluster.size > 1:
            for time_ms in cluster.times:
                for width in BucketWidth:
                    buckets[width, cluster.number, width.start(time_ms)] += 1
                for at, (window, begin) in enumerate(begins.items()):
                    cluster.counted[at] += window.width.start(time_ms) >= begin
    connection.executemany(
        "INSERT OR REPLACE INTO cluster VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_cluster_columns, changed)
    )
    return buckets


_INSERT_ARTICLE = """
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
_MOVE_BUCKETS = """
INSERT INTO bucket SELECT width, ?1, start, count FROM bucket WHERE width = ?2 AND cluster = ?3
ON CONFLICT (width, cluster, start) DO UPDATE SET count = count + excluded.count
"""


def _columns(row: NewRow) -> tuple[object, ...]:
    """Return the columns of an article that its output sets."""
    if row.output is None:
        return (row.article_id, *(None,) * 15)
    output, stamp = row.output, row.output.stamp
    match = (
        (None,) * 7
        if stamp.match is None or row.match_at is None
        else (
            *row.match_at,
            stamp.match.id,
            stamp.match.distance,
            stamp.match.similarity,
            stamp.match.time,
        )
    )
    return (
        row.article_id,
        str(stamp.verdict),
        output.written_ms,
        stamp.timestamp,
        output.partition.topic,
        output.partition.number,
        output.offset,
        *match,
        stamp.copies,
        stamp.reason_code,
    )


def _inserted(batch: UnionBatch, row: NewRow) -> tuple[object, ...]:
    cluster = None if row.cluster is None else batch.cluster_number(row.cluster)
    return (*_columns(row), row.number, *row.at, cluster)


def _cluster_columns(cluster: BatchCluster) -> tuple[object, ...]:
    lone_ms = cluster.times[0] if cluster.size == 1 else None
    return (cluster.number, *cluster.first, cluster.size, cluster.weight, lone_ms, cluster.published, *cluster.counted)


FORGOTTEN_AT_ONCE = 5_000
"""Articles that one transaction looks at: the outputs wait for it."""

_SHOWN = {
    width: max(window.buckets or 0 for window in Window if window.width is width) * width for width in BucketWidth
}
"""Time that the windows of each width show, ms; 0: everything."""


class _Forgetting:
    """One run; on the thread that writes."""

    def __init__(self, connection: sqlite3.Connection, *, notes_changes: bool) -> None:
        """Use a connection that is in no transaction. ``notes_changes``: clusters that change are to be published."""
        self._connection = connection
        self._notes_changes = notes_changes

    def run(self, now_ms: int, keep_ms: int | None) -> int:
        """Forget what is too old; return the number of articles."""
        count_windows(self._connection, now_ms)
        self._forget_buckets(now_ms, keep_ms)
        if keep_ms is None:
            return 0
        forgotten, after = 0, (-(1 << 62), 0)
        while True:
            with transaction(self._connection):
                old = self._old(now_ms - keep_ms, after)
                forgotten += self._forget(old, now_ms - keep_ms)
            if len(old) < FORGOTTEN_AT_ONCE:
                return forgotten
            after = (old[-1][1], old[-1][0])

    def _forget_buckets(self, now_ms: int, keep_ms: int | None) -> None:
        for width in BucketWidth:
            shown = _SHOWN[width] or keep_ms
            if shown is not None:
                # One bucket more than is shown now: who asks may have an earlier time.
                before = width.start(now_ms - shown)
                with transaction(self._connection):
                    for table in ("bucket", "total"):
                        sql = f"DELETE FROM {table} WHERE width = ? AND start < ?"  # noqa: S608 - our own names
                        self._connection.execute(sql, (int(width), before))

    def _old(self, horizon: int, after: tuple[int, int]) -> list[tuple[int, int, int | None, int]]:
        """Return number, time, cluster of the next old articles, and whether each is the first of its cluster."""
        return self._connection.execute(
            "SELECT a.number, a.written_ms, a.cluster, "
            "g.topic IS a.topic AND g.partition IS a.partition AND g.offset IS a.offset "
            "FROM article a LEFT JOIN cluster g ON g.number = a.cluster "
            "WHERE a.written_ms < ? AND (a.written_ms, a.number) > (?, ?) "
            "ORDER BY a.written_ms, a.number LIMIT ?",
            (horizon, *after, FORGOTTEN_AT_ONCE),
        ).fetchall()

    def _forget(self, old: list[tuple[int, int, int | None, int]], horizon: int) -> int:
        """Forget old articles, and the clusters that have no younger one."""
        write = self._connection
        ended = {cluster for _, _, cluster, _ in old if cluster is not None and not self._has_younger(cluster, horizon)}
        left = [(number, cluster) for number, _, cluster, first in old if not first and cluster not in ended]
        write.executemany("DELETE FROM article WHERE number = ?", [(number,) for number, _ in left])
        for cluster, count in Counter(cluster for _, cluster in left if cluster is not None).items():
            self._shrink(cluster, count)
        return len(left) + sum(map(self._end, ended))

    def _has_younger(self, cluster: int, horizon: int) -> bool:
        sql = "SELECT 1 FROM article WHERE cluster = ? AND written_ms >= ? LIMIT 1"
        return self._connection.execute(sql, (cluster, horizon)).fetchone() is not None

    def _shrink(self, cluster: int, count: int) -> None:
        """Count a cluster's articles anew; one that has a single article left has no buckets."""
        write = self._connection
        write.execute("UPDATE cluster SET size = size - ?1, weight = weight - ?1 WHERE number = ?2", (count, cluster))
        if write.execute("SELECT size FROM cluster WHERE number = ?", (cluster,)).fetchone()[0] == 1:
            write.execute(
                "UPDATE cluster SET lone_ms = (SELECT MAX(written_ms) FROM article WHERE cluster = ?1), "
                "hour = 0, day = 0, week = 0 WHERE number = ?1",
                (cluster,),
            )
            write.executemany(
                "DELETE FROM bucket WHERE width = ? AND cluster = ?", [(int(width), cluster) for width in BucketWidth]
            )
        self._note_change(cluster)

    def _end(self, cluster: int) -> int:
        """Remove a cluster and all its articles; return their number."""
        write = self._connection
        self._note_change(cluster)  # whether or not this store has published it: another one may have
        count = write.execute("DELETE FROM article WHERE cluster = ? AND written_ms IS NOT NULL", (cluster,)).rowcount
        write.execute("DELETE FROM article WHERE cluster = ?", (cluster,))
        write.execute("DELETE FROM cluster WHERE number = ?", (cluster,))
        write.executemany(
            "DELETE FROM bucket WHERE width = ? AND cluster = ?", [(int(width), cluster) for width in BucketWidth]
        )
        return count

    def _note_change(self, cluster: int) -> None:
        if self._notes_changes:
            self._connection.execute(
                "INSERT OR REPLACE INTO changed (topic_id, partition, offset) SELECT s.topic_id, g.partition, g.offset "
                "FROM cluster g JOIN source_topic s ON s.number = g.topic WHERE g.number = ?",
                (cluster,),
            )
