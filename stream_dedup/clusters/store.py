"""The store of clusters: one thread writes, any thread reads.

``apply`` stores outputs and the positions behind them in one transaction: a kill at any point leaves both or neither.
Memory is bounded by one batch and the page caches, whatever the number of articles.

Old articles: with ``keep_ms`` an article is forgotten when its output is older than that by this machine's clock. The
first article of a cluster stays as long as the cluster has a younger one, since it names the cluster. Without
``keep_ms`` every article is kept, as the log without a window keeps every entry. Buckets go when no window shows them
any more. It takes several short transactions.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_dedup.clusters.model import BucketWidth, JudgedOutput, MissingOutputs, Window
from stream_dedup.clusters.queries import ClusterQueries
from stream_dedup.clusters.schema import make_folder, open_writer, store_errors, transaction
from stream_dedup.clusters.union import NOTE_CHANGED, OutputUnion
from stream_dedup.folders import Owner
from stream_dedup.ports import CommittedOffset, Partition

FORGOTTEN_AT_ONCE = 5_000
"""Articles that one transaction looks at: the outputs wait for it."""

_SHOWN = {
    width: max(window.buckets or 0 for window in Window if window.width is width) * width for width in BucketWidth
}
"""Time that the windows of each width show, ms; 0: everything."""


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
        with store_errors(self.path), transaction(self._connection):
            union = OutputUnion(self._connection, notes_changes=self._publishes)
            for output in outputs:
                union.add(output)
            union.finish()
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

    def forget(self, now_ms: int, keep_ms: int | None) -> int:
        """Forget buckets that no window shows, and articles older than ``keep_ms``; return the number of articles.

        Several transactions; a kill between two leaves the rest for the next call.
        """
        with store_errors(self.path):
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

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection of the one thread that writes, for publishing."""
        return self._connection

    # Forgetting.

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
        write.execute("UPDATE cluster SET size = size - ? WHERE number = ?", (count, cluster))
        if write.execute("SELECT size FROM cluster WHERE number = ?", (cluster,)).fetchone()[0] == 1:
            write.execute(
                "UPDATE cluster SET lone_ms = (SELECT MAX(written_ms) FROM article WHERE cluster = ?1) "
                "WHERE number = ?1",
                (cluster,),
            )
            self._drop_buckets(cluster)
        self._note_change(cluster)

    def _end(self, cluster: int) -> int:
        """Remove a cluster and all its articles; return their number."""
        write = self._connection
        self._note_change(cluster)  # whether or not this store has published it: another one may have
        count = write.execute("DELETE FROM article WHERE cluster = ? AND written_ms IS NOT NULL", (cluster,)).rowcount
        write.execute("DELETE FROM article WHERE cluster = ?", (cluster,))
        write.execute("DELETE FROM cluster WHERE number = ?", (cluster,))
        self._drop_buckets(cluster)
        return count

    def _drop_buckets(self, cluster: int) -> None:
        sql = "DELETE FROM bucket WHERE width = ? AND cluster = ?"
        self._connection.executemany(sql, [(int(width), cluster) for width in BucketWidth])

    def _note_change(self, cluster: int) -> None:
        if self._publishes:
            self._connection.execute(f"{NOTE_CHANGED} WHERE g.number = ?", (cluster,))
