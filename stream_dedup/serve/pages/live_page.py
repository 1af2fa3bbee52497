"""The page Live: what happens now."""

from __future__ import annotations

import asyncio
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_dedup.clusters.model import ClusteredArticle, VerdictCounts, Window
from stream_dedup.clusters.queries import ClusterQueries
from stream_dedup.core.model import Verdict
from stream_dedup.errors import StreamDedupError
from stream_dedup.serve.follower import Phase
from stream_dedup.serve.pages.backend import (
    ClustersState,
    PageBackend,
    ShownError,
    StatusView,
    shown_error,
)

SHOWN_VERDICTS = 25
LATENCY_OF = 200
"""Last verdicts whose latency is shown."""
RATE_S = 10.0
"""The rate shown is that of about so many seconds."""
SAMPLE_S = 0.9
VERDICT_NAMES = ("unique", "update", "duplicate", "rejected")
"""As ``verdict_name`` says them, in the order in which a chart stacks them."""
MAX_SAMPLES = 16
"""Enough for ``RATE_S``: rates are computed over what is left."""


class VerdictRates(NamedTuple):
    """Articles a second, by verdict."""

    articles: float
    duplicates: float
    rejected: float


class Latency(NamedTuple):
    """From the timestamp of the source record to that of the output, ms."""

    median: float
    p95: float
    of: int


@dataclass(frozen=True, slots=True)
class LiveView:
    """What the page shows; None: not known."""

    status: StatusView
    state: ClustersState
    rates: VerdictRates | None = None
    latency: Latency | None = None
    hour: VerdictCounts | None = None
    history: Sequence[tuple[int, VerdictCounts]] = ()
    verdicts: Sequence[ClusteredArticle] = ()
    failure: ShownError | None = None


class RateMeter:
    """Rates of the verdicts, from what the totals were when pages asked before. One event loop."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, VerdictCounts]] = deque(maxlen=MAX_SAMPLES)

    def rates(self, counts: VerdictCounts, at_s: float) -> VerdictRates | None:
        """Return the rates up to now (monotonic seconds); None: there is nothing recent to compare with."""
        samples = self._samples
        while samples and at_s - samples[0][0] > RATE_S + 5:
            samples.popleft()
        if not samples or at_s - samples[-1][0] >= SAMPLE_S:
            samples.append((at_s, counts))
        old_s, old = samples[0]
        seconds = at_s - old_s
        if seconds < SAMPLE_S:
            return None
        moved = (
            counts.articles - old.articles,
            counts.duplicates - old.duplicates,
            _rejected(counts) - _rejected(old),
        )
        return VerdictRates(*(max(0, count) / seconds for count in moved))


async def live_page(backend: PageBackend, meter: RateMeter, now_ms: int, at_s: float) -> LiveView:
    """Return what happens now."""
    status, state = await backend.status(), backend.clusters()
    store = state.store
    if store is None:
        return LiveView(status, state)
    try:
        totals, latest, hour, history = await asyncio.to_thread(_read, store, now_ms)
    except StreamDedupError as error:
        return LiveView(status, state, failure=shown_error(error))
    rates = meter.rates(totals, at_s) if backend.position().phase is Phase.FOLLOWING else None
    return LiveView(status, state, rates, latency_of(latest), hour, history, latest[:SHOWN_VERDICTS])


def _read(
    store: ClusterQueries, now_ms: int
) -> tuple[VerdictCounts, list[ClusteredArticle], VerdictCounts, list[tuple[int, VerdictCounts]]]:
    """Return all totals, the last verdicts, and the totals and the history of the last hour. Blocks."""
    return (
        store.totals(Window.ALL, now_ms),
        store.latest(LATENCY_OF),
        store.totals(Window.HOUR, now_ms),
        store.history(Window.HOUR, now_ms),
    )


def latency_of(articles: Sequence[ClusteredArticle]) -> Latency | None:
    """Return the latency of articles; None without any. Clocks that are apart give no negative one."""
    delays = sorted(max(0, one.written_ms - one.source_ms) for one in articles)
    if not delays:
        return None
    return Latency(statistics.median(delays), delays[min(len(delays) - 1, len(delays) * 95 // 100)], len(delays))


def verdict_name(article: ClusteredArticle) -> str:
    """Return the verdict as the pages name it: an update is a unique article, and has a name of its own."""
    return "update" if article.update else str(article.verdict)


def rejected_reasons(counts: VerdictCounts) -> list[tuple[str, int]]:
    """Return the reason codes of rejected records with their numbers, most frequent first."""
    return sorted((counts.rejected or {}).items(), key=lambda one: (-one[1], one[0]))


def history_columns(history: Sequence[tuple[int, VerdictCounts]]) -> dict[str, int | list[int]]:
    """Return the history of an hour as the chart takes it: seconds since 1970, and a column for each verdict."""
    return {
        "times": [start // 1000 for start, _ in history],
        "step": Window.HOUR.width // 1000,
        str(Verdict.UNIQUE): [one.unique for _, one in history],
        "update": [one.updates for _, one in history],
        str(Verdict.DUPLICATE): [one.duplicates for _, one in history],
        str(Verdict.REJECTED): [_rejected(one) for _, one in history],
    }


def _rejected(counts: VerdictCounts) -> int:
    return sum((counts.rejected or {}).values())
