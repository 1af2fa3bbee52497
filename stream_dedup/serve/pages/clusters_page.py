"""The pages of clusters: the largest ones, and one of them with its articles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stream_dedup.clusters import ArticleCluster, ClusteredArticle, ClusterQueries, Window
from stream_dedup.core.model import Coordinates
from stream_dedup.errors import StreamDedupError, UserError
from stream_dedup.serve.pages.backend import (
    ArticleText,
    ClustersState,
    PageBackend,
    ShownError,
    ShownSource,
    shown_error,
)
from stream_dedup.serve.pages.charts import BarChart, bar_chart
from stream_dedup.serve.pages.shown_text import (
    Passage,
    Piece,
    ShownArticle,
    compared,
    differing_excerpt,
    excerpt,
    pieces,
)
from stream_dedup.serve.reading import TextAbsence

_T = TypeVar("_T")
_D = TypeVar("_D")

SHOWN_CLUSTERS = 20
SHOWN_MEMBERS = 20
EXCERPTS_WITHIN_S = 1.5
"""Longest wait for the texts of a page; what comes later is left out."""
SPARK_HEIGHT = 18
GROWTH_HEIGHT = 96
_LATE_TEXT = ArticleText(None, TextAbsence.NO_BROKER)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster in the list."""

    cluster: ArticleCluster
    in_window: int
    excerpt: Sequence[Piece]
    """The beginning of its first article's text; empty without a text, or where that is empty."""
    absence: TextAbsence | None
    """Why there is no text."""
    growth: BarChart


@dataclass(frozen=True, slots=True)
class ClusterListView:
    """The list of clusters."""

    window: Window
    state: ClustersState
    rows: Sequence[ClusterRow]
    articles: int
    """All articles of the window, of any cluster."""
    missing: int = 0
    """Outputs that were deleted before they were read."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """An article of a cluster."""

    article: ClusteredArticle
    is_first: bool
    absence: TextAbsence | None
    excerpt: Sequence[Passage]
    passages: Sequence[Passage]
    common: float | None
    """Share of its words that are in the first article, too; None: one of the texts is not known."""
    source: Sequence[Piece] = ()
    """The text with its markup; none where it has no markup."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster and a page of its articles."""

    state: ClustersState
    window: Window
    cluster: ArticleCluster | None
    growth: Sequence[tuple[int, int]] = ()
    chart: BarChart | None = None
    first_text: ArticleText | None = None
    members: Sequence[MemberRow] = ()
    after: str | None = None
    is_first_page: bool = True
    failure: ShownError | None = None
    """Why the store could not answer."""


def stored_clusters(store: ClusterQueries | None, ask: Callable[[ClusterQueries], _T], default: _D) -> _T | _D:
    """Return what the store answers, or the default where there is none, or it fails."""
    if store is None:
        return default
    try:
        return ask(store)
    except StreamDedupError:
        return default


def growth_columns(growth: Sequence[tuple[int, int]], window: Window) -> dict[str, int | list[int]]:
    """Return the growth as the chart takes it: beginnings and width of the buckets in seconds, and articles."""
    return {
        "times": [start // 1000 for start, _ in growth],
        "step": window.width // 1000,
        "counts": [count for _, count in growth],
    }


async def cluster_list(backend: PageBackend, window: Window, now_ms: int) -> ClusterListView:
    """Return the largest clusters of a window."""
    state = backend.clusters()
    store = state.store
    if store is None:
        return ClusterListView(window, state, (), 0)
    try:
        clusters, curves, articles, missing = await asyncio.to_thread(_largest, store, window, now_ms)
    except StreamDedupError as error:
        return ClusterListView(window, ClustersState(None, state.follower, shown_error(error)), (), 0)
    firsts = [ShownSource(cluster.first_topic, cluster.first) for cluster in clusters]
    texts = await backend.texts(firsts, EXCERPTS_WITHIN_S) if firsts else {}
    rows = [
        _cluster_row(cluster, window, curve, texts.get(cluster.first, _LATE_TEXT))
        for cluster, curve in zip(clusters, curves, strict=True)
    ]
    return ClusterListView(window, state, rows, articles, missing)


async def cluster_page(
    backend: PageBackend, cluster_id: str, window: Window, after: str | None, now_ms: int
) -> ClusterView:
    """Return a cluster; without one where the id names none.

    Raises:
        UserError: ``after`` is not what a page said.
    """
    state = backend.clusters()
    store = state.store
    if store is None:
        return ClusterView(state, window, None)
    try:
        cluster = await asyncio.to_thread(store.cluster, cluster_id, now_ms)
        if cluster is None:
            return ClusterView(state, window, None)
        growth = await asyncio.to_thread(store.growth, cluster.id, window, now_ms)
        page = await asyncio.to_thread(store.members, cluster.id, SHOWN_MEMBERS, after)
    except UserError:
        raise
    except StreamDedupError as error:
        return ClusterView(state, window, None, failure=shown_error(error))
    sources = {cluster.first: ShownSource(cluster.first_topic, cluster.first)}
    sources |= {one.coordinates: ShownSource(one.topic, one.coordinates) for one in page.members}
    texts = await backend.texts(list(sources.values()), EXCERPTS_WITHIN_S)
    first = texts.get(cluster.first)
    members = [_member(one, cluster.first, first, texts) for one in page.members]
    chart = bar_chart(growth, GROWTH_HEIGHT)
    return ClusterView(state, window, cluster, growth, chart, first, members, page.after, after is None)


def _largest(
    store: ClusterQueries, window: Window, now_ms: int
) -> tuple[list[ArticleCluster], list[list[tuple[int, int]]], int, int]:
    """Return the largest clusters, their curves, and how many articles the window has and outputs are lost. Blocks."""
    clusters = store.largest(window, SHOWN_CLUSTERS, now_ms)
    curves = [store.growth(cluster.id, window, now_ms) for cluster in clusters]
    missing = sum(one.end - one.first for one in store.missing())
    return clusters, curves, store.totals(window, now_ms).articles, missing


def _member(
    article: ClusteredArticle,
    first: Coordinates,
    first_text: ArticleText | None,
    texts: Mapping[Coordinates, ArticleText],
) -> MemberRow:
    found = texts.get(article.coordinates, _LATE_TEXT)
    is_first = article.coordinates == first
    if found.text is None:
        return MemberRow(article, is_first, found.absence, (), (), None)
    shown = ShownArticle.of(found.text, found.readable)
    if is_first or first_text is None or first_text.text is None:
        whole = [Passage(shown.text, is_common=True)]
        return MemberRow(article, is_first, None, differing_excerpt(whole), whole, None, shown.source)
    both = compared(ShownArticle.of(first_text.text, first_text.readable).text, shown.text)
    return MemberRow(article, is_first, None, differing_excerpt(both.b), both.b, both.common, shown.source)


def _cluster_row(
    cluster: ArticleCluster, window: Window, growth: Sequence[tuple[int, int]], first: ArticleText
) -> ClusterRow:
    text = first.text if first.readable is None else first.readable
    beginning = () if text is None else pieces(excerpt(text), keeps_lines=False)
    return ClusterRow(cluster, cluster.counts[window], beginning, first.absence, bar_chart(growth, SPARK_HEIGHT))
