"""The store: the clusters of a log, whatever the order and the batches in which its outputs arrive."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from math import log2
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.clusters.model import COUNTED_WINDOWS, DAY_MS, HOUR_MS, Window, cluster_id_of, parse_cluster_id
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.core.model import SourceOffset, Verdict
from stream_dedup.ports import CommittedOffset, Partition
from tests.amount import FULL
from tests.clusters.checking import (
    NOW_MS,
    refuse_other_answers,
    refuse_other_clusters,
    refuse_wrong_tables,
    stored_first,
    stored_members,
)
from tests.clusters.outputs import LOG_ID, TIME_MS, LoggedArticle, at, clusters_in_one_pass, outputs_of, random_log

SPAN = {Window.HOUR: HOUR_MS, Window.DAY: DAY_MS, Window.WEEK: 7 * DAY_MS}


def batches(rng: random.Random, articles: Sequence[LoggedArticle]) -> Iterator[Sequence[LoggedArticle]]:
    begin = 0
    while begin < len(articles):
        end = begin + rng.choice([1, 2, 5, 40])
        yield articles[begin:end]
        begin = end


@pytest.mark.parametrize("seed", range(12))
def test_the_clusters_are_those_of_the_log_in_any_order(store: ClusterStore, seed: int) -> None:
    """Shuffled, in batches of any size, some outputs twice: clusters, windows, growth and answers are the same."""
    rng = random.Random(seed)
    log = random_log(rng, 150, unique=rng.choice([0.02, 0.1, 0.3, 0.8]))
    read = [*log, *rng.sample(log, 30)]
    rng.shuffle(read)
    for batch in batches(rng, read):
        store.apply(outputs_of(batch), {})
        refuse_wrong_tables(store)
    refuse_other_clusters(store, log)
    refuse_other_answers(store, log)


@given(st.data())
def test_small_forests(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Every shape of a cluster, every order, every cut into batches; also where some outputs never arrive."""
    parents = data.draw(st.lists(st.integers(-3, 7), min_size=1, max_size=8))
    log = [
        LoggedArticle(at(number), at(parent), Verdict.DUPLICATE)
        if 0 <= parent < number
        else LoggedArticle(at(number), None)
        for number, parent in enumerate(parents)
    ]
    read = data.draw(st.permutations(log))[: data.draw(st.integers(1, len(log)))]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(read), max_size=len(read)))
    folder = tmp_path_factory.mktemp("forest")
    with closing(ClusterStore.open(folder, LOG_ID, publishes=True)) as store:
        batch: list[LoggedArticle] = []
        for article, cut in zip(read, cuts, strict=True):
            batch.append(article)
            if cut:
                store.apply(outputs_of(batch), {})
                batch = []
        store.apply(outputs_of(batch), {})
        arrived = set(read)
        refuse_other_clusters(store, [article for article in log if article in arrived])


@pytest.mark.slow
@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled"])
def test_a_long_chain_is_one_cluster(store: ClusterStore, order: str) -> None:
    """Each duplicate matches the one before it; the cluster's id is that of the first, and few rows are written."""
    length = 100_000 if FULL else 10_000
    log = [LoggedArticle(at(0)), *(LoggedArticle(at(n), at(n - 1), Verdict.DUPLICATE) for n in range(1, length))]
    read = {"forwards": log, "backwards": log[::-1], "shuffled": random.Random(1).sample(log, length)}[order]
    for begin in range(0, length, 1_000):
        store.apply(outputs_of(read[begin : begin + 1_000]), {})
    # A row for each article and some for its batch; each article changes its cluster at most log2(n) times.
    assert store.writer.total_changes < length * (4 + (log2(length) if order == "shuffled" else 0))
    cluster = store.cluster(cluster_id_of(at(length - 1)), NOW_MS)
    assert cluster is not None
    assert (cluster.id, cluster.size) == (cluster_id_of(at(0)), length)
    refuse_other_clusters(store, log)


def test_a_cluster_keeps_its_ids(store: ClusterStore) -> None:
    """An article that looked like the first one names the cluster still when its own match has arrived."""
    one, two, three = LoggedArticle(at(0)), *(LoggedArticle(at(n), at(n - 1), Verdict.DUPLICATE) for n in (1, 2))
    store.apply(outputs_of([three]), {})
    early = store.cluster(cluster_id_of(at(1)), NOW_MS)
    assert early is not None
    assert (early.id, early.size, early.first_article_id) == (cluster_id_of(at(1)), 1, two.id)
    store.apply(outputs_of([two]), {})
    store.apply(outputs_of([one]), {})
    found = store.cluster(early.id, NOW_MS)
    assert found is not None
    assert (found.id, found.first, found.first_topic, found.size) == (cluster_id_of(at(0)), at(0), "articles", 3)
    assert store.largest(Window.HOUR, 5, NOW_MS) == [found]


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


@pytest.mark.parametrize("window", COUNTED_WINDOWS)
@pytest.mark.parametrize("seed", range(6))
def test_the_largest_clusters_while_time_goes_on(store: ClusterStore, seed: int, window: Window) -> None:
    """Those that counting every article would find, also after the clock was set back."""
    rng = random.Random(seed)
    log = spread(rng, random_log(rng, 120, unique=rng.choice([0.1, 0.4])), 3 * SPAN[window])
    read = rng.sample(log, len(log))
    now_ms = TIME_MS - SPAN[window]
    for end in range(20, len(log) + 1, 20):
        store.apply(outputs_of(read[end - 20 : end]), {})
        now_ms += rng.choice([0, 1, 1, 2, 5, -2]) * SPAN[window] // 8
        found = store.largest(window, 7, now_ms)
        arrived = [one for one in log if one in set(read[:end])]
        assert [cluster.counts[window] for cluster in found] == counted_all(arrived, window, now_ms)[:7]


def test_articles_of_one_moment_are_paged(store: ClusterStore) -> None:
    """Each comes once, whatever the size of the page."""
    log = [LoggedArticle(at(0)), *(LoggedArticle(at(n), at(0), Verdict.DUPLICATE) for n in range(1, 20))]
    store.apply(outputs_of(log), {})
    assert stored_members(store, cluster_id_of(at(0))) == [article.coordinates for article in log]


@pytest.mark.expect_log("follows from itself", "has an impossible match")
def test_outputs_that_contradict_the_log_end_nothing(store: ClusterStore, caplog: pytest.LogCaptureFixture) -> None:
    """A match that is the article itself, a rejected record, or a later article: a warning, and another cluster."""
    rejected = LoggedArticle(at(9), None, Verdict.REJECTED)
    loop = [LoggedArticle(at(1), at(2), Verdict.DUPLICATE), LoggedArticle(at(2), at(1), Verdict.DUPLICATE)]
    itself = LoggedArticle(at(3), at(3), Verdict.DUPLICATE)
    of_rejected = LoggedArticle(at(4), at(9), Verdict.DUPLICATE)
    for article in (rejected, *loop, itself, of_rejected):
        store.apply(outputs_of([article]), {})
        refuse_wrong_tables(store)
    assert [record.getMessage().split(",")[0].split(":")[0] for record in caplog.records] == [
        f"article {at(2)} follows from itself",
        f"article {at(3)} has an impossible match",
        f"article {at(4)} has an impossible match",
    ]
    assert len({*stored_first(store).values()}) == 3


def test_a_match_without_an_output_begins_the_cluster(store: ClusterStore) -> None:
    """One that was seeded, or whose output is gone: it names the cluster, and is not counted."""
    store.apply(outputs_of([LoggedArticle(at(n), at(0), Verdict.DUPLICATE) for n in (1, 2)]), {})
    cluster = store.cluster(cluster_id_of(at(0)), NOW_MS)
    assert cluster is not None
    assert (cluster.first, cluster.first_article_id, cluster.size) == (at(0), "id of 0-0", 2)
    assert store.article(at(0)) is None


def test_articles_of_one_id_are_found_newest_first(store: ClusterStore) -> None:
    """Versions of one article; at most as many as asked for."""
    log = [LoggedArticle(at(7, partition), None, Verdict.UNIQUE, TIME_MS + partition) for partition in range(2)]
    store.apply(outputs_of(log), {})
    assert [one.coordinates for one in store.articles_by_id("id of 1-7", 5)] == [at(7, 1)]
    store.apply(outputs_of([LoggedArticle(at(8), at(7), Verdict.UNIQUE)]), {})
    found = store.article(at(8))
    assert found is not None
    assert found.update
    assert store.articles_by_id("nobody's", 5) == []
    assert store.articles_by_id("\ud800", 5) == []


def test_positions_are_those_of_the_last_batch(store: ClusterStore) -> None:
    """Of each partition, with the id of its topic."""
    one, other = Partition("unique", 0), Partition("unique", 1)
    first = {one: CommittedOffset(SourceOffset(4), b"a" * 16), other: CommittedOffset(SourceOffset(9), b"a" * 16)}
    store.apply([], first)
    second = {one: CommittedOffset(SourceOffset(2), b"b" * 16)}
    store.apply([], second)
    assert store.positions() == first | second


@pytest.mark.parametrize(
    "text",
    ["", "x", "0-0", f"{at(1)}-", f"{at(1)}0 ", str(at(1)).upper(), str(at(1)).replace("-1", "-01"), f"{at(0)}\n",
     f"{str(at(1))[:-1]}99999999999999999999", str(at(1)).replace("-0-", "--1-")],
)  # fmt: skip
def test_what_is_no_cluster_id(store: ClusterStore, text: str) -> None:
    """It names no cluster; each cluster has one id only."""
    assert parse_cluster_id(text) is None
    assert store.cluster(text, NOW_MS) is None
    assert store.members(text, 5).members == ()
    assert store.growth(text, Window.DAY, NOW_MS) == []


@given(st.binary(min_size=16, max_size=16), st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1))
def test_a_cluster_id_is_its_first_article(topic_id: bytes, partition: int, offset: int) -> None:
    """There and back; it needs no escapes in a URL."""
    first = at(offset, partition, topic_id)
    assert parse_cluster_id(cluster_id_of(first)) == first
    assert quote(cluster_id_of(first), safe="") == cluster_id_of(first)
