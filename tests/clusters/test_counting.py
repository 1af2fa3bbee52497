"""The counts of windows that a store keeps: the largest clusters are those that counting everything would find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from stream_dedup.clusters import ClusterStore, Window, cluster_id_of, queries
from stream_dedup.clusters.model import COUNTED_WINDOWS, DAY_MS, HOUR_MS, MINUTE_MS
from stream_dedup.core.model import Verdict
from stream_dedup.errors import CorruptError
from tests.clusters.checking import refuse_wrong_counts
from tests.clusters.outputs import TIME_MS, LoggedArticle, at, clusters_in_one_pass, outputs_of, random_log

SPAN = {Window.HOUR: HOUR_MS, Window.DAY: DAY_MS, Window.WEEK: 7 * DAY_MS}


def spread(rng: random.Random, log: Sequence[LoggedArticle], span_ms: int) -> list[LoggedArticle]:
    """The articles, written at any time of a span that ends at ``TIME_MS``, and a few after it."""
    late = [rng.choice([0, 0, 0, HOUR_MS]) for _ in log]
    return [replace(one, written_ms=TIME_MS - int(rng.random() * span_ms) + late[n]) for n, one in enumerate(log)]


def counted_all(log: Sequence[LoggedArticle], window: Window, now_ms: int) -> list[int]:
    """The sizes in a window of all clusters of more than one article, largest first."""
    first = clusters_in_one_pass(log)
    size = Counter(first.values())
    counts = Counter(
        first[one.coordinates]
        for one in log
        if one.coordinates in first and window.begin(now_ms) <= window.width.start(one.written_ms) <= now_ms
    )
    return sorted((count for cluster, count in counts.items() if size[cluster] > 1), reverse=True)


def largest_of_all(store: ClusterStore, window: Window, now_ms: int) -> list[int]:
    """All clusters of a window, largest first, of equal ones the lower number first."""
    sql = (
        "SELECT cluster FROM bucket WHERE width = ? AND start >= ? AND start <= ? "
        "GROUP BY cluster ORDER BY SUM(count) DESC, cluster"
    )
    found = store.writer.execute(sql, (int(window.width), window.begin(now_ms), now_ms))
    return [int(row[0]) for row in found]


@pytest.mark.parametrize("window", COUNTED_WINDOWS)
@pytest.mark.parametrize("seed", range(6))
def test_the_largest_clusters_while_time_goes_on(store: ClusterStore, seed: int, window: Window) -> None:
    """Whenever the windows were counted last, also after the clock was set back: as if all were counted."""
    rng = random.Random(seed)
    log = spread(rng, random_log(rng, 120, unique=rng.choice([0.1, 0.4])), 3 * SPAN[window])
    read = rng.sample(log, len(log))
    now_ms = TIME_MS - SPAN[window]
    for end in range(20, len(log) + 1, 20):
        store.apply(outputs_of(read[end - 20 : end]), {})
        now_ms += rng.choice([0, 1, 1, 2, 5, -2]) * SPAN[window] // 8
        counted_ms = now_ms - rng.choice([0, 0, SPAN[window] // 5])
        store.count_windows(counted_ms)
        refuse_wrong_counts(store)
        found = store.largest(window, 7, now_ms)
        arrived = [one for one in log if one in set(read[:end])]
        assert queries.largest(store.writer, window, 7, now_ms) == largest_of_all(store, window, now_ms)[:7]
        assert [cluster.counts[window] for cluster in found] == counted_all(arrived, window, now_ms)[:7]


def test_a_clock_that_was_far_ahead_for_a_moment(store: ClusterStore) -> None:
    """Clusters are found again as soon as the windows are counted by the right time."""
    pair = [LoggedArticle(at(0)), LoggedArticle(at(1), at(0), Verdict.DUPLICATE)]
    store.apply(outputs_of(pair), {})
    store.count_windows(TIME_MS + 365 * DAY_MS)
    refuse_wrong_counts(store)
    store.count_windows(TIME_MS)
    later = [LoggedArticle(at(2), at(1), Verdict.DUPLICATE)]
    store.apply(outputs_of(later), {})
    refuse_wrong_counts(store)
    for window in COUNTED_WINDOWS:
        assert [cluster.counts[window] for cluster in store.largest(window, 5, TIME_MS + 1)] == [3]


@pytest.mark.parametrize("forward", [True, False])
def test_counting_that_fails_is_done_by_the_next_call(store: ClusterStore, forward: bool) -> None:
    """All windows are counted in one transaction: what fails at the last of them leaves the counts as they were."""
    times = [TIME_MS + minute * MINUTE_MS for minute in range(5) for _ in range(2)]
    log = [LoggedArticle(at(0), written_ms=times[0])]
    log += [LoggedArticle(at(n), at(0), Verdict.DUPLICATE, time) for n, time in enumerate(times) if n]
    store.apply(outputs_of(log), {})
    steps = [TIME_MS, TIME_MS + 2 * HOUR_MS]
    before, after = steps if forward else steps[::-1]
    store.count_windows(before)
    begins = queries.counted_begins(store.writer)
    store.writer.execute(
        "CREATE TEMP TRIGGER fails BEFORE UPDATE ON counted WHEN NEW.time_window = 'week' "
        "BEGIN SELECT RAISE(ABORT, 'it fails'); END"
    )
    with pytest.raises(CorruptError, match="it fails"):
        store.count_windows(after)
    assert queries.counted_begins(store.writer) == begins
    refuse_wrong_counts(store)
    store.writer.execute("DROP TRIGGER fails")
    store.count_windows(after)
    refuse_wrong_counts(store)
    sizes = [cluster.counts[Window.HOUR] for cluster in store.largest(Window.HOUR, 5, after)]
    assert sizes == ([] if forward else [2])


def test_few_clusters_are_looked_at(store: ClusterStore) -> None:
    """The work of the question is that of the clusters it names, not of all; many of one size, too."""
    asked: list[str] = []
    log: list[LoggedArticle] = []
    for cluster in range(400):
        first = at(10 * cluster)
        log += [LoggedArticle(first), *(LoggedArticle(at(10 * cluster + n), first, Verdict.DUPLICATE) for n in (1, 2))]
    store.apply(outputs_of(log), {})
    store.count_windows(TIME_MS)
    with store._snapshot() as reader:
        reader.set_trace_callback(asked.append)
    for window in Window:
        asked.clear()
        found = store.largest(window, 5, TIME_MS)
        assert [cluster.id for cluster in found] == [cluster_id_of(at(10 * cluster)) for cluster in range(5)]
        assert len(asked) < 100
        plans = [one for sql in asked if sql.startswith("SELECT number") for one in plan(store, sql)]
        assert plans
        assert not [one for one in plans if "TEMP B-TREE" in one or one == "SCAN cluster"]


def plan(store: ClusterStore, sql: str) -> list[str]:
    """How SQLite answers a question."""
    return [str(row[3]) for row in store.writer.execute(f"EXPLAIN QUERY PLAN {sql}")]
