"""Compares a store with the clusters that the definition gives."""

from __future__ import annotations

from collections.abc import Sequence

from stream_dedup.clusters.model import BucketWidth, VerdictCounts, Window, cluster_id_of
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.core.model import Coordinates, Verdict
from stream_dedup.core.reasons import EMPTY_TEXT, code_of
from tests.clusters.outputs import TIME_MS, LoggedArticle, clusters_in_one_pass, members_of

NOW_MS = TIME_MS + 30 * 60_000
"""Within an hour of every article of a test that does not say otherwise."""
PAGE = 7


def stored_members(store: ClusterStore, cluster_id: str) -> list[Coordinates]:
    """All articles of a cluster, page by page."""
    found: list[Coordinates] = []
    after: str | None = None
    while True:
        page = store.members(cluster_id, PAGE, after)
        found += [article.coordinates for article in page.members]
        if page.after is None:
            return found
        after = page.after


def stored_first(store: ClusterStore) -> dict[Coordinates, Coordinates]:
    """The first article of the cluster of each readable article, as the tables have it."""
    rows = store.writer.execute(
        "SELECT s.topic_id, a.partition, a.offset, f.topic_id, g.partition, g.offset FROM article a "
        "JOIN cluster g ON g.number = a.cluster JOIN source_topic s ON s.number = a.topic "
        "JOIN source_topic f ON f.number = g.topic WHERE a.written_ms IS NOT NULL"
    )
    return {Coordinates(*row[:3]): Coordinates(*row[3:]) for row in rows}


def refuse_wrong_tables(store: ClusterStore) -> None:
    """What holds in every state: sizes, buckets and totals are those of the articles."""
    read = store.writer.execute
    sizes = "SELECT cluster, COUNT(written_ms) FROM article WHERE cluster IS NOT NULL GROUP BY cluster ORDER BY cluster"
    assert read("SELECT number, size FROM cluster ORDER BY number").fetchall() == read(sizes).fetchall()
    assert read("SELECT number FROM cluster WHERE (size = 1) IS NOT (lone_ms IS NOT NULL)").fetchall() == []
    assert (
        read(
            "SELECT number FROM cluster g WHERE lone_ms IS NOT NULL "
            "AND lone_ms IS NOT (SELECT MAX(written_ms) FROM article WHERE cluster = g.number)"
        ).fetchall()
        == []
    )
    for width in BucketWidth:
        counted = (
            "SELECT a.cluster, written_ms - written_ms % ? AS start, COUNT(*) FROM article a "
            "JOIN cluster g ON g.number = a.cluster "
            "WHERE written_ms IS NOT NULL AND g.size > 1 GROUP BY 1, 2 ORDER BY 1, 2"
        )
        found = "SELECT cluster, start, count FROM bucket WHERE width = ? ORDER BY 1, 2"
        assert read(found, (int(width),)).fetchall() == read(counted, (int(width),)).fetchall()
    assert (
        read("SELECT COUNT(DISTINCT topic || '-' || partition || '-' || offset) FROM cluster").fetchall()
        == read("SELECT COUNT(*) FROM cluster").fetchall()
    )


def refuse_other_clusters(store: ClusterStore, log: Sequence[LoggedArticle]) -> None:
    """The store has the clusters of the log, and nothing else."""
    refuse_wrong_tables(store)
    assert stored_first(store) == clusters_in_one_pass(log)


def refuse_other_answers(store: ClusterStore, log: Sequence[LoggedArticle]) -> None:
    """Every question is answered as the definition says, of a log whose articles are in the last hour."""
    first = clusters_in_one_pass(log)
    clusters = members_of(first)
    written = {article.coordinates: article.written_ms for article in log}
    for begins, members in clusters.items():
        cluster = store.cluster(cluster_id_of(begins), NOW_MS)
        assert cluster is not None
        times = sorted(written[member] for member in members)
        assert (cluster.id, cluster.size, cluster.first_ms, cluster.last_ms) == (
            cluster_id_of(begins),
            len(members),
            times[0],
            times[-1],
        )
        assert set(cluster.counts.values()) == {len(members)}
        assert [written[member] for member in stored_members(store, cluster.id)] == times
        growth = store.growth(cluster.id, Window.HOUR, NOW_MS)
        assert len(growth) == Window.HOUR.buckets
        assert {start: count for start, count in growth if count} == {
            start: sum(BucketWidth.MINUTE.start(time) == start for time in times)
            for start in map(BucketWidth.MINUTE.start, times)
        }
    sizes = sorted((len(members) for members in clusters.values() if len(members) > 1), reverse=True)
    for window in Window:
        assert [cluster.size for cluster in store.largest(window, 10, NOW_MS)] == sizes[:10]
        assert store.totals(window, NOW_MS) == totals_of(log)
    latest = store.latest(5)
    assert [one.written_ms for one in latest] == sorted(written.values(), reverse=True)[:5]
    for article in log:
        found = store.article(article.coordinates)
        assert found is not None
        assert (found.id, found.verdict, found.written_ms) == (article.id, article.verdict, article.written_ms)
        assert (None if found.match is None else found.match.coordinates) == article.match
        own = first.get(article.coordinates)
        assert found.cluster_id == (None if own is None else cluster_id_of(own))


def totals_of(log: Sequence[LoggedArticle]) -> VerdictCounts:
    kinds = [(article.verdict, article.match is not None) for article in log]
    rejected = kinds.count((Verdict.REJECTED, False))
    return VerdictCounts(
        kinds.count((Verdict.UNIQUE, False)),
        kinds.count((Verdict.UNIQUE, True)),
        kinds.count((Verdict.DUPLICATE, True)),
        {code_of(EMPTY_TEXT): rejected} if rejected else None,
    )
