"""Forgetting: old articles and buckets go, clusters that live keep their first article, and what stays is right."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stream_dedup.clusters.model import DAY_MS, HOUR_MS, MINUTE_MS, Window, cluster_id_of
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.core.model import Verdict
from stream_dedup.ports import PassingError
from tests.clusters.checking import refuse_wrong_tables, stored_first
from tests.clusters.following import GroupWorld, last_values
from tests.clusters.outputs import (
    TIME_MS,
    LoggedArticle,
    at,
    clusters_in_one_pass,
    members_of,
    outputs_of,
    random_log,
    size_of,
)
from tests.contract.world import World

KEEP_MS = 8 * DAY_MS


def changed_ids(store: ClusterStore) -> set[str]:
    rows = store.writer.execute("SELECT topic_id, partition, offset FROM changed")
    return {cluster_id_of(at(row[2], row[1], row[0])) for row in rows}


def kept_members(log: Sequence[LoggedArticle], horizon: int) -> dict[object, set[object]]:
    """By the definition: of each cluster that has a young article, the young ones and the first one."""
    written = {article.coordinates: article.written_ms for article in log}
    kept: dict[object, set[object]] = {}
    for first, members in members_of(clusters_in_one_pass(log)).items():
        young = {member for member in members if written[member] >= horizon}
        if young:
            kept[first] = young | ({first} & members)
    return kept


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("at_once", [3, 5_000])
def test_old_articles_are_forgotten(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int
) -> None:
    """In one run or in several: what stays is what the definition keeps, and what changed is to be published."""
    monkeypatch.setattr("stream_dedup.clusters.store.FORGOTTEN_AT_ONCE", at_once)
    rng = random.Random(seed)
    log = random_log(rng, 200, unique=rng.choice([0.05, 0.3, 0.8]), rejected=0.1)
    store.apply(outputs_of(rng.sample(log, len(log))), {})
    before = clusters_in_one_pass(log)
    store.writer.execute("DELETE FROM changed")
    horizons = sorted(rng.choice(log).written_ms for _ in range(3))
    forgotten = 0
    for horizon in horizons:
        forgotten += store.forget(horizon + KEEP_MS, KEEP_MS)
        refuse_minutes_apart(store)
    expected = kept_members(log, horizons[-1])
    found = stored_first(store)
    assert members_of(found) == expected
    rejected = [a for a in log if a.verdict is Verdict.REJECTED and a.written_ms >= horizons[-1]]
    assert size_of(store)[0] == len(found) + len(rejected) == len(log) - forgotten
    shrunk = {first for first, members in members_of(before).items() if members != expected.get(first, set())}
    assert changed_ids(store) == set(map(cluster_id_of, shrunk))


def refuse_minutes_apart(store: ClusterStore) -> None:
    """As ``refuse_wrong_tables``, but for buckets, which are counted as they were and go with their windows."""
    buckets = store.writer.execute("SELECT * FROM bucket").fetchall()
    store.writer.execute("SAVEPOINT compare")
    store.writer.execute("DELETE FROM bucket")
    store.writer.execute(
        "INSERT INTO bucket SELECT width, a.cluster, written_ms - written_ms % width, COUNT(*) FROM article a "
        "JOIN cluster g ON g.number = a.cluster, (SELECT ? AS width UNION SELECT ? UNION SELECT ?) "
        "WHERE written_ms IS NOT NULL AND g.size > 1 GROUP BY 1, 2, 3",
        (MINUTE_MS, HOUR_MS, DAY_MS),
    )
    refuse_wrong_tables(store)
    store.writer.execute("ROLLBACK TO compare")
    store.writer.execute("RELEASE compare")
    assert store.writer.execute("SELECT * FROM bucket").fetchall() == buckets
    alone = "SELECT COUNT(*) FROM bucket WHERE cluster NOT IN (SELECT number FROM cluster WHERE size > 1)"
    assert store.writer.execute(alone).fetchone()[0] == 0


def test_a_cluster_of_one_that_is_left_is_in_no_window(store: ClusterStore) -> None:
    """Its buckets go, though the article is in the windows."""
    late = TIME_MS + 20 * DAY_MS
    pair = [LoggedArticle(at(0), written_ms=late), LoggedArticle(at(1), at(0), Verdict.DUPLICATE)]
    store.apply(outputs_of(pair), {})
    assert store.forget(late, KEEP_MS) == 1
    assert [store.largest(window, 5, late) for window in Window] == [[]] * len(Window)


def test_without_a_time_everything_is_kept(store: ClusterStore) -> None:
    log = random_log(random.Random(1), 50)
    store.apply(outputs_of(log), {})
    assert store.forget(TIME_MS + 1_000 * DAY_MS, None) == 0
    assert size_of(store)[0] == 50


def test_a_living_cluster_keeps_its_first_article_and_its_id(store: ClusterStore) -> None:
    """Whatever the age of the first one; an article that matches it is in the same cluster."""
    late = TIME_MS + 20 * DAY_MS
    first = LoggedArticle(at(0))
    store.apply(outputs_of([first, LoggedArticle(at(1), at(0), Verdict.DUPLICATE)]), {})
    store.apply(outputs_of([LoggedArticle(at(2), at(0), Verdict.DUPLICATE, late)]), {})
    assert store.forget(late, KEEP_MS) == 1
    store.apply(outputs_of([LoggedArticle(at(3), at(0), Verdict.DUPLICATE, late)]), {})
    cluster = store.cluster(cluster_id_of(at(0)), late)
    assert cluster is not None
    assert (cluster.size, cluster.first_ms, cluster.last_ms) == (3, TIME_MS, late)
    assert store.article(at(1)) is None
    assert store.forget(late + 9 * DAY_MS, KEEP_MS) == 3
    assert size_of(store) == (0, 0)


def test_windows_show_what_is_in_them_and_no_more(store: ClusterStore) -> None:
    """At every age of an article; each window still shows all of it just before its buckets are forgotten."""
    store.apply(outputs_of([LoggedArticle(at(n), at(0) if n else None, Verdict.DUPLICATE if n else Verdict.UNIQUE)
                            for n in range(3)]), {})  # fmt: skip
    spans = {Window.HOUR: HOUR_MS, Window.DAY: DAY_MS, Window.WEEK: 7 * DAY_MS}
    for window, span in spans.items():
        begins = TIME_MS - TIME_MS % window.width
        for age, count in ((0, 3), (span - window.width, 3), (span - 1, 3), (span, 0), (span + 1, 0)):
            now_ms = max(begins + age, TIME_MS)
            store.forget(now_ms, KEEP_MS)
            cluster = store.cluster(cluster_id_of(at(0)), now_ms)
            assert cluster is not None
            assert cluster.counts[window] == count, (window, age)
            assert len(store.largest(window, 5, now_ms)) == (count > 0)
            assert store.totals(window, now_ms).articles == count
            growth = store.growth(cluster.id, window, now_ms)
            assert (len(growth), sum(size for _, size in growth)) == (window.buckets, count)
            history = store.history(window, now_ms)
            assert (len(history), sum(counts.articles for _, counts in history)) == (window.buckets, count)
            assert cluster.counts[Window.ALL] == 3
    store.forget(TIME_MS + 8 * DAY_MS, KEEP_MS)
    rows = dict(store.writer.execute("SELECT width, COUNT(*) FROM bucket GROUP BY width").fetchall())
    assert rows == {DAY_MS: 1}


def write_old_cluster(group: GroupWorld) -> int:
    """Write a cluster of two articles whose time is over; return the time, ms."""
    now = group.world.time_ms()
    old = [LoggedArticle(at(0), None, Verdict.UNIQUE, now - KEEP_MS - DAY_MS)]
    old.append(LoggedArticle(at(1), at(0), Verdict.DUPLICATE, now - KEEP_MS - DAY_MS))
    group.write(old)
    return now


def test_nothing_is_forgotten_before_the_outputs_are_read(
    memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that was down for long: a cluster lives on whose young article is not read yet, under its id."""
    group = GroupWorld(memory_world, tmp_path, keep="8d")
    now = write_old_cluster(group)
    with closing(group.open()) as process, monkeypatch.context() as patch:
        patch.setattr(process.store, "forget", lambda *_: 0)  # they were young then
        process.run()
    group.write([LoggedArticle(at(2), at(1), Verdict.DUPLICATE, now)])
    with closing(group.open()) as process:
        with monkeypatch.context() as patch:
            patch.setattr(process.ports.follower, "poll", lambda _: {})
            process.follower.step()
        process.run()
        found = stored_first(process.store)
        assert found[at(2)] == at(0), found


@pytest.mark.parametrize("is_looked", [True, False])
def test_nothing_is_forgotten_while_outputs_are_behind(
    memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_looked: bool
) -> None:
    """A broker that was away for long, and the look failed or the outputs come a moment later: as after a start."""
    group = GroupWorld(memory_world, tmp_path, keep="8d")
    now = write_old_cluster(group)
    with closing(group.open()) as process:
        with monkeypatch.context() as patch:
            patch.setattr(process.store, "forget", lambda *_: 0)  # they were young then
            process.run()
        group.write([LoggedArticle(at(2), at(1), Verdict.DUPLICATE, now)])
        process.follower._due.clear()
        with monkeypatch.context() as patch:
            patch.setattr(process.ports.follower, "poll", lambda _: {})
            if not is_looked:
                patch.setattr(process.ports.offsets, "topic_ids", fail)
            for _ in range(2):
                with suppress(PassingError):
                    process.follower.step()
        process.run()
        found = stored_first(process.store)
        assert found[at(2)] == at(0), found


def fail(_topics: object) -> None:
    raise PassingError("no broker")


def test_a_cluster_that_is_forgotten_before_it_is_published_leaves_the_topic(
    memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is of a store that was deleted: it becomes a tombstone, as that of any forgotten cluster."""
    group = GroupWorld(memory_world, tmp_path, keep="8d")
    now = memory_world.time_ms()
    group.write([LoggedArticle(at(number), None, Verdict.UNIQUE, now - KEEP_MS - DAY_MS) for number in range(3)])
    group.write([LoggedArticle(at(3), None, Verdict.UNIQUE, now)])
    with closing(group.open()) as process, monkeypatch.context() as patch:
        patch.setattr(process.store, "forget", lambda *_: 0)
        process.run()
    assert len(last_values(group.published())) == 4
    shutil.rmtree(group.folder)
    with closing(group.open()) as process:
        process.run()
    assert list(last_values(group.published())) == [cluster_id_of(at(3))]
