"""Forgets old articles and buckets of a store, in several short transactions."""

from __future__ import annotations

import sqlite3
from collections import Counter

from stream_dedup.groups.counting import count_windows
from stream_dedup.groups.model import BucketWidth, Window
from stream_dedup.groups.schema import transaction

FORGOTTEN_AT_ONCE = 5_000
"""Articles that one transaction looks at: the outputs wait for it."""

_SHOWN = {
    width: max(window.buckets or 0 for window in Window if window.width is width) * width for width in BucketWidth
}
"""Time that the windows of each width show, ms; 0: everything."""


class Forgetting:
    """One run; on the thread that writes."""

    def __init__(self, connection: sqlite3.Connection, *, notes_changes: bool) -> None:
        """Use a connection that is in no transaction. ``notes_changes``: groups that change are to be published."""
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
        """Return number, time, group of the next old articles, and whether each is the first of its group."""
        return self._connection.execute(
            "SELECT a.number, a.written_ms, a.grp, "
            "g.topic IS a.topic AND g.partition IS a.partition AND g.offset IS a.offset "
            "FROM article a LEFT JOIN grp g ON g.number = a.grp "
            "WHERE a.written_ms < ? AND (a.written_ms, a.number) > (?, ?) "
            "ORDER BY a.written_ms, a.number LIMIT ?",
            (horizon, *after, FORGOTTEN_AT_ONCE),
        ).fetchall()

    def _forget(self, old: list[tuple[int, int, int | None, int]], horizon: int) -> int:
        """Forget old articles, and the groups that have no younger one."""
        write = self._connection
        ended = {group for _, _, group, _ in old if group is not None and not self._has_younger(group, horizon)}
        left = [(number, group) for number, _, group, first in old if not first and group not in ended]
        write.executemany("DELETE FROM article WHERE number = ?", [(number,) for number, _ in left])
        for group, count in Counter(group for _, group in left if group is not None).items():
            self._shrink(group, count)
        return len(left) + sum(map(self._end, ended))

    def _has_younger(self, group: int, horizon: int) -> bool:
        sql = "SELECT 1 FROM article WHERE grp = ? AND written_ms >= ? LIMIT 1"
        return self._connection.execute(sql, (group, horizon)).fetchone() is not None

    def _shrink(self, group: int, count: int) -> None:
        """Count a group's articles anew; one that has a single article left has no buckets."""
        write = self._connection
        write.execute("UPDATE grp SET size = size - ?1, weight = weight - ?1 WHERE number = ?2", (count, group))
        if write.execute("SELECT size FROM grp WHERE number = ?", (group,)).fetchone()[0] == 1:
            write.execute(
                "UPDATE grp SET lone_ms = (SELECT MAX(written_ms) FROM article WHERE grp = ?1), hour = 0, day = 0, "
                "week = 0 WHERE number = ?1",
                (group,),
            )
            write.executemany(
                "DELETE FROM bucket WHERE width = ? AND grp = ?", [(int(width), group) for width in BucketWidth]
            )
        self._note_change(group)

    def _end(self, group: int) -> int:
        """Remove a group and all its articles; return their number."""
        write = self._connection
        self._note_change(group)  # whether or not this store has published it: another one may have
        count = write.execute("DELETE FROM article WHERE grp = ? AND written_ms IS NOT NULL", (group,)).rowcount
        write.execute("DELETE FROM article WHERE grp = ?", (group,))
        write.execute("DELETE FROM grp WHERE number = ?", (group,))
        write.executemany(
            "DELETE FROM bucket WHERE width = ? AND grp = ?", [(int(width), group) for width in BucketWidth]
        )
        return count

    def _note_change(self, group: int) -> None:
        if self._notes_changes:
            self._connection.execute(
                "INSERT OR REPLACE INTO changed (topic_id, partition, offset) SELECT s.topic_id, g.partition, g.offset "
                "FROM grp g JOIN source_topic s ON s.number = g.topic WHERE g.number = ?",
                (group,),
            )
