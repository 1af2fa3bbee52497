"""The pages of clusters: the largest ones, and one of them with its articles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stream_dedup.clusters.model import ArticleCluster, ClusteredArticle, Window
from stream_dedup.clusters.queries import ClusterQueries
from stream_dedup.errors import StreamDedupError, UserError
from stream_dedup.serve.pages.backend import (
    LATE_TEXT,
    ArticleText,
    ClustersState,
    PageBackend,
    ShownError,
    shown_error,
)
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


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster in the list."""

    cluster: ArticleCluster
    growth: Sequence[tuple[int, int]]
    excerpt: Sequence[Piece]
    """The beginning of its first article's text; empty without a text, or where that is empty."""
    absence: TextAbsence | None
    """Why there is no text."""


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
    text: ArticleText
    passages: Sequence[Passage] = ()
    common: float | None = None
    """Share of its words that are in the first article, too; None: one of the texts is not known."""

    @property
    def excerpt(self) -> Sequence[Passage]:
        """One line of the text, from shortly before what differs."""
        return differing_excerpt(self.passages)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster and a page of its articles."""

    state: ClustersState
    window: Window
    cluster: ArticleCluster | None
    growth: Sequence[tuple[int, int]] = ()
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


def most_of(growth: Sequence[tuple[int, int]]) -> int:
    """Return the articles of the largest bucket."""
    return max((count for _, count in growth), default=0)


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
    texts = await backend.texts([(one.first_topic, one.first) for one in clusters], EXCERPTS_WITHIN_S)
    rows = [
        _cluster_row(cluster, curve, texts.get(cluster.first, LATE_TEXT))
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
    places = [(one.topic, one.coordinates) for one in page.members]
    texts = await backend.texts([(cluster.first_topic, cluster.first), *places], EXCERPTS_WITHIN_S)
    first = texts.get(cluster.first, LATE_TEXT).shown
    members = [
        _member(one, texts.get(one.coordinates, LATE_TEXT), None if one.coordinates == cluster.first else first)
        for one in page.members
    ]
    return ClusterView(state, window, cluster, growth, members, page.after, after is None)


def _largest(
    store: ClusterQueries, window: Window, now_ms: int
) -> tuple[list[ArticleCluster], list[list[tuple[int, int]]], int, int]:
    """Return the largest clusters, their curves, and how many articles the window has and outputs are lost. Blocks."""
    clusters = store.largest(window, SHOWN_CLUSTERS, now_ms)
    curves = [store.growth(cluster.id, window, now_ms) for cluster in clusters]
    missing = sum(one.end - one.first for one in store.missing())
    return clusters, curves, store.totals(window, now_ms).articles, missing


def _member(article: ClusteredArticle, text: ArticleText, first: ShownArticle | None) -> MemberRow:
    """Return an article beside the first one, or by itself."""
    if text.shown is None:
        return MemberRow(article, text)
    if first is None:
        return MemberRow(article, text, [Passage(text.shown.text, is_common=True)])
    both = compared(first.text, text.shown.text)
    return MemberRow(article, text, both.b, both.common)


def _cluster_row(cluster: ArticleCluster, growth: Sequence[tuple[int, int]], first: ArticleText) -> ClusterRow:
    beginning = () if first.shown is None else pieces(excerpt(first.shown.text), keeps_lines=False)
    return ClusterRow(cluster, growth, beginning, first.absence)
