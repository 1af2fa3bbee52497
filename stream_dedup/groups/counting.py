"""How many articles of each group are in a window: kept, so that the largest groups are found without counting all.

``grp.hour``, ``grp.day`` and ``grp.week`` are sums of a group's buckets from ``counted.begin`` of the window on. A
batch of outputs adds to them; ``count_windows`` takes away the buckets that have left. Between two calls a column is
therefore the count of a longer window: an upper bound. ``largest`` walks down such a column and counts the buckets of
each group that it meets, until what is left cannot be larger.
"""

from __future__ import annotations

import heapq
import sqlite3

from stream_dedup.groups.model import COUNTED_WINDOWS, Window
from stream_dedup.groups.schema import transaction


def counted_begins(connection: sqlite3.Connection) -> dict[Window, int]:
    """Return from which time on each window is counted, in the order of ``COUNTED_WINDOWS``."""
    found = dict(connection.execute("SELECT time_window, begin FROM counted").fetchall())
    return {window: int(found[str(window)]) for window in COUNTED_WINDOWS}


def count_windows(connection: sqlite3.Connection, now_ms: int) -> None:
    """Count each window from one bucket before its present beginning on, a bucket in each transaction.

    One bucket more than is shown now: who asks may have an earlier time. Where the clock was set back, buckets that had
    left the window are added again.
    """
    for window, begin in counted_begins(connection).items():
        wanted = window.begin(now_ms) - window.width
        starts = _starts(connection, window, min(begin, wanted), max(begin, wanted))
        for start in starts if begin < wanted else reversed(starts):
            with transaction(connection):
                _add(connection, window, start, -1 if begin < wanted else 1)
                _note(connection, window, start + window.width if begin < wanted else start)
        with transaction(connection):
            _note(connection, window, wanted)


def largest(connection: sqlite3.Connection, window: Window, limit: int, now_ms: int) -> list[int]:
    """Return the numbers of the groups with most articles in a window, largest first; of equal ones the lower first.

    A time before that of the last ``count_windows`` finds groups by their later articles only.
    """
    sql = f"SELECT number, {window} FROM grp WHERE {window} > 0 ORDER BY {window} DESC, number"  # noqa: S608 - our own names
    count = "SELECT SUM(count) FROM bucket WHERE width = ? AND grp = ? AND start >= ? AND start <= ?"
    width, begin = int(window.width), window.begin(now_ms)
    found: list[tuple[int, int]] = []
    for number, most in connection.execute(sql):
        if len(found) == limit and (most, -number) < found[0]:
            break
        counted = connection.execute(count, (width, number, begin, now_ms)).fetchone()[0]
        if counted is not None:
            (heapq.heappush if len(found) < limit else heapq.heappushpop)(found, (counted, -number))
    return [-number for _, number in sorted(found, reverse=True)]


def _starts(connection: sqlite3.Connection, window: Window, begin: int, end: int) -> list[int]:
    """Return the buckets between two times that have articles of a group."""
    found: list[int] = []
    sql = "SELECT MIN(start) FROM bucket WHERE width = ? AND start >= ?"
    while True:
        start = connection.execute(sql, (int(window.width), begin)).fetchone()[0]
        if start is None or start >= end:
            return found
        found.append(int(start))
        begin = start + 1


def _add(connection: sqlite3.Connection, window: Window, start: int, sign: int) -> None:
    """Add a bucket of every group to its count, or take it away."""
    connection.execute(
        f"UPDATE grp SET {window} = {window} + ?1 * "  # noqa: S608 - our own names
        "(SELECT count FROM bucket WHERE width = ?2 AND grp = grp.number AND start = ?3) "
        "WHERE number IN (SELECT grp FROM bucket WHERE width = ?2 AND start = ?3)",
        (sign, int(window.width), start),
    )


def _note(connection: sqlite3.Connection, window: Window, begin: int) -> None:
    connection.execute("UPDATE counted SET begin = ? WHERE time_window = ?", (begin, str(window)))
