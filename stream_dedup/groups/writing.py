"""Writes what a batch of outputs changes: articles, groups, buckets and totals, in the transaction of the caller."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping

from stream_dedup.groups.counting import counted_begins
from stream_dedup.groups.model import BucketWidth
from stream_dedup.groups.union import Grouping, NewRow, UnionBatch


def write_batch(connection: sqlite3.Connection, batch: UnionBatch, topic_ids: Mapping[int, bytes] | None) -> None:
    """Write a batch whose outputs were all added.

    ``topic_ids``: the ids of the source topics by their numbers in the store, to note which groups have changed; None:
    nothing is published.
    """
    changed = batch.groups()
    _merge_stored(connection, batch)
    buckets = _write_groups(connection, changed)
    if topic_ids is not None:
        firsts = [*batch.lost_ids, *(group.first for group in changed)]
        connection.executemany(
            "INSERT OR REPLACE INTO changed (topic_id, partition, offset) VALUES (?, ?, ?)",
            [(topic_ids[topic], partition, offset) for topic, partition, offset in firsts],
        )
    connection.executemany(_INSERT_ARTICLE, [_inserted(batch, row) for row in batch.new_rows])
    connection.executemany(_FILL_ARTICLE, [(*_columns(row), row.number) for row in batch.filled])
    connection.executemany(
        "INSERT INTO bucket VALUES (?, ?, ?, ?) "
        "ON CONFLICT (width, grp, start) DO UPDATE SET count = count + excluded.count",
        [(int(width), number, start, count) for (width, number, start), count in buckets.items()],
    )
    connection.executemany(
        "INSERT INTO total VALUES (?, ?, ?, ?) "
        "ON CONFLICT (width, start, kind) DO UPDATE SET count = count + excluded.count",
        [(int(width), start, kind, count) for (width, start, kind), count in batch.totals.items()],
    )


def _merge_stored(connection: sqlite3.Connection, batch: UnionBatch) -> None:
    """Give the articles and buckets of stored groups that became part of others to these."""
    for lost, number in batch.merged():
        if lost.is_stored:
            connection.execute("UPDATE article SET grp = ? WHERE grp = ?", (number, lost.number))
            for width in BucketWidth if lost.has_buckets else ():
                connection.execute(_MOVE_BUCKETS, (number, int(width), lost.number))
                connection.execute("DELETE FROM bucket WHERE width = ? AND grp = ?", (int(width), lost.number))
            connection.execute("DELETE FROM grp WHERE number = ?", (lost.number,))


def _write_groups(connection: sqlite3.Connection, changed: list[Grouping]) -> Counter[tuple[BucketWidth, int, int]]:
    """Write the groups that have changed; return what is to be added to buckets."""
    buckets: Counter[tuple[BucketWidth, int, int]] = Counter()
    begins = counted_begins(connection)
    for group in changed:
        if group.size > 1:
            for time_ms in group.times:
                for width in BucketWidth:
                    buckets[width, group.number, width.start(time_ms)] += 1
                for at, (window, begin) in enumerate(begins.items()):
                    group.counted[at] += window.width.start(time_ms) >= begin
    connection.executemany(
        "INSERT OR REPLACE INTO grp VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_group_columns, changed)
    )
    return buckets


_INSERT_ARTICLE = """
INSERT INTO article (
    id, verdict, written_ms, source_ms, output, output_partition, output_offset, match_topic, match_partition,
    match_offset, match_id, match_distance, match_similarity, match_ms, copies, reason_code,
    number, topic, partition, offset, grp
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
INSERT INTO bucket SELECT width, ?1, start, count FROM bucket WHERE width = ?2 AND grp = ?3
ON CONFLICT (width, grp, start) DO UPDATE SET count = count + excluded.count
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
    group = None if row.group is None else batch.group_number(row.group)
    return (*_columns(row), row.number, *row.at, group)


def _group_columns(group: Grouping) -> tuple[object, ...]:
    lone_ms = group.times[0] if group.size == 1 else None
    return (group.number, *group.first, group.size, group.weight, lone_ms, group.published, *group.counted)
