"""The routes for programs: their requests, and the JSON of their answers. Times are ms since 1970.

This file and ``checking`` own the form of the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from stream_dedup.clusters.model import ArticleCluster, ClusteredArticle, VerdictCounts, Window
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.model import Config
from stream_dedup.core.headers import StampedMatch
from stream_dedup.core.model import Coordinates
from stream_dedup.errors import UserError
from stream_dedup.explain.explain import as_json as explanation_json
from stream_dedup.ports import Clock
from stream_dedup.serve.checking import Checker, CheckRequest, Json, as_json, rules_values, source_values
from stream_dedup.serve.clusters import ServiceClusters
from stream_dedup.serve.explaining import Explainer, ExplainRequest
from stream_dedup.serve.follower import LogFollower, Position
from stream_dedup.serve.problems import in_parameter, invalid, not_found
from stream_dedup.serve.reading import MOST_TEXTS, GroupStatus, SourcedText, SourceTexts
from stream_dedup.serve.routing import JSON, OPENAPI, Route, described
from stream_dedup.serve.schemes import SchemeFingerprinter
from stream_dedup.serve.serve_metrics import ServeMetrics


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a running service."""

    config: Config
    clock: Clock
    follower: LogFollower
    fingerprinter: SchemeFingerprinter
    checker: Checker
    explainer: Explainer
    clusters: ServiceClusters
    texts: SourceTexts
    group_status: GroupStatus
    metrics: ServeMetrics


PLAIN_TEXT = "text/plain"


def _json_answer(values: Any) -> Response:  # noqa: ANN401 - JSON values
    return Response(as_json(values), media_type=JSON)


def _position_values(position: Position) -> Json:
    return {
        "ready": position.ready,
        "up_to_date": position.up_to_date,
        "detail": position.detail,
        "log_id": position.log_id,
        "offset": position.offset,
        "lag": position.lag,
        "rules": None if position.rules is None else rules_values(position.rules),
    }


def _article_values(article: ClusteredArticle, text: SourcedText | None = None) -> Json:
    """Return an article whose output was read, with its text where it was asked for."""
    values = {
        "id": article.id,
        "source": source_values(article.topic, article.coordinates),
        "verdict": str(article.verdict),
        "update": article.update,
        "cluster": article.cluster_id,
        "copies": article.copies or 0,
        "reason_code": article.reason_code,
        "match": None if article.match is None else _stamped_values(article.match),
        "source_time_ms": article.source_ms,
        "written_ms": article.written_ms,
        "output": {
            "topic": article.output.topic,
            "partition": article.output.number,
            "offset": article.output_offset,
        },
    }
    return values if text is None else values | {"text": text.text, "text_missing": text.reason}


def _cluster_values(cluster: ArticleCluster) -> Json:
    return {
        "id": cluster.id,
        "first": {"id": cluster.first_article_id, "source": source_values(cluster.first_topic, cluster.first)},
        "size": cluster.size,
        "first_ms": cluster.first_ms,
        "last_ms": cluster.last_ms,
        "counts": {str(window): count for window, count in cluster.counts.items()},
    }


def _counts_values(counts: VerdictCounts) -> Json:
    return {
        "articles": counts.articles,
        "unique": counts.unique,
        "updates": counts.updates,
        "duplicates": counts.duplicates,
        "rejected": dict(counts.rejected or {}),
    }


def _stamped_values(match: StampedMatch) -> Json:
    return {
        "id": match.id,
        "source": source_values(match.topic, match.coordinates),
        "time_ms": match.time,
        "distance": match.distance,
        "similarity": float(match.similarity),
    }


MOST_LISTED = 200
"""Articles or clusters of one answer."""

_Limit = Annotated[int, Field(ge=1, le=MOST_LISTED, description="Most articles or clusters of the answer.")]
_WindowOf = Annotated[Window, Field(description="The time in which articles are counted, by their output's time.")]
_WithTexts = Annotated[bool, Field(description=f"With texts, of {MOST_TEXTS} articles at most.")]


class Listing(BaseModel):
    """Parameters of what is counted in a window."""

    window: _WindowOf = Window.DAY
    limit: _Limit = 20


class VerdictListing(Listing):
    """Parameters of the last verdicts."""

    window: _WindowOf = Window.HOUR


class ArticleListing(BaseModel):
    """Parameters of the articles with an id."""

    article_id: Annotated[str, Field(min_length=1, max_length=512)]
    limit: _Limit = 10
    texts: _WithTexts = True


class ClusterListing(BaseModel):
    """Parameters of a cluster."""

    cluster_id: Annotated[str, Field(max_length=100)]
    window: _WindowOf = Window.DAY
    limit: _Limit = 20
    after: str | None = Field(None, max_length=100, description="Where the page begins, as the one before says.")
    texts: _WithTexts = False


def api_routes(service: Service) -> list[Route]:
    """Return the routes for programs."""
    to = _Routes(service)
    programs = [
        Route(
            "/v1/check",
            to.check,
            "What would these articles be if they were logged next?",
            CheckRequest,
            (409, 503, 504),
            method="POST",
        ),
        Route(
            "/v1/explain",
            to.explain,
            "Why do two articles match, or not?",
            ExplainRequest,
            (404, 409, 503, 504),
            method="POST",
        ),
        Route(
            "/v1/articles/{article_id:any_text}",
            to.articles,
            "The articles with an id, newest first",
            ArticleListing,
            (404, 503, 504),
        ),
        Route("/v1/clusters", to.clusters, "The clusters that grow most in a window", Listing, (503,)),
        Route(
            "/v1/clusters/{cluster_id}",
            to.cluster,
            "A cluster, its growth and its articles",
            ClusterListing,
            (404, 503, 504),
        ),
        Route(
            "/v1/verdicts", to.verdicts, "The verdicts written last, and how many of each kind", VerdictListing, (503,)
        ),
        Route("/v1/status", to.status, "Workers, lag, log, rules, and what is wrong", problems=(503, 504)),
        Route("/metrics", to.metrics, "Metrics, for Prometheus", media=PLAIN_TEXT),
        Route("/healthz", to.healthz, "Does the service run?", media=PLAIN_TEXT),
        Route("/readyz", to.readyz, "Are answers up to date?", media=PLAIN_TEXT),
    ]
    description = described(programs)

    async def openapi(_: Request) -> Response:
        return _json_answer(description)

    return [*programs, Route(OPENAPI, openapi)]


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def check(self, request: CheckRequest) -> Response:
        """Return, for each article, the verdict, the nearest articles, the kind and the fingerprint.

        Nothing is logged. The answer holds for the log offset that it names: a worker that logs the article there
        gives the same verdict. Articles of one request are not compared with each other.
        """
        return _json_answer(await self._service.checker.check(request.given, request.top))

    async def explain(self, request: ExplainRequest) -> Response:
        """Return whether B, coming after A, is a duplicate of A, and every value that decides it.

        The answer is for these two alone, under the rules in force; it ignores the window and the limits on candidates.
        """
        explanation = await self._service.explainer.explain(request)
        return _json_answer(await asyncio.to_thread(explanation_json, explanation))

    async def articles(self, wanted: ArticleListing) -> Response:
        """Return the articles with this id, newest first, with their texts as the source topic has them."""
        store = self._service.clusters.needed()
        found = await asyncio.to_thread(store.articles_by_id, wanted.article_id, wanted.limit)
        if not found:
            raise not_found("no output has an article with this id")
        return _json_answer({"articles": await self._shown(found, texts=wanted.texts)})

    async def clusters(self, wanted: Listing) -> Response:
        """Return the clusters of more than one article with most articles in the window, largest first."""
        store, now, window = self._service.clusters.needed(), self._service.clock.time_ms(), wanted.window
        found, totals = await asyncio.to_thread(
            lambda: (store.largest(window, wanted.limit, now), store.totals(window, now))
        )
        values = {"window": str(window), "time_ms": now, "totals": _counts_values(totals)}
        return _json_answer(values | self._following(store) | {"clusters": [_cluster_values(one) for one in found]})

    async def cluster(self, wanted: ClusterListing) -> Response:
        """Return a cluster, its growth in the window, and a page of its articles, oldest first."""
        store, now, window = self._service.clusters.needed(), self._service.clock.time_ms(), wanted.window
        found = await asyncio.to_thread(store.cluster, wanted.cluster_id, now)
        if found is None:
            raise not_found("there is no such cluster")
        try:
            growth, page = await asyncio.to_thread(
                lambda: (store.growth(found.id, window, now), store.members(found.id, wanted.limit, wanted.after))
            )
        except UserError as error:
            detail = "after: no answer named this place"
            raise invalid(detail, in_parameter("after", detail)) from error
        values = {
            "window": str(window),
            "time_ms": now,
            "cluster": _cluster_values(found),
            "growth": [{"begin_ms": begin, "articles": articles} for begin, articles in growth],
        }
        shown = await self._shown(page.members, texts=wanted.texts)
        return _json_answer(values | {"members": shown, "after": page.after})

    async def verdicts(self, wanted: VerdictListing) -> Response:
        """Return the verdicts written last, newest first, and the articles of each bucket of the window, by verdict."""
        store, now, window = self._service.clusters.needed(), self._service.clock.time_ms(), wanted.window
        latest, history = await asyncio.to_thread(lambda: (store.latest(wanted.limit), store.history(window, now)))
        buckets = [{"begin_ms": begin, **_counts_values(counts)} for begin, counts in history]
        values = {"window": str(window), "time_ms": now, "history": buckets} | self._following(store)
        return _json_answer(values | {"latest": [_article_values(one) for one in latest]})

    async def status(self, _: Request) -> Response:
        """Return what `stream-dedup status --json` writes, and how far this service is."""
        position = _position_values(self._service.follower.position)
        return _json_answer({**await self._service.group_status.read(), "service": position})

    async def metrics(self, _: Request) -> Response:
        """Return the metrics of this service; those of the workers are at the workers."""
        return Response(generate_latest(self._service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def healthz(self, _: Request) -> Response:
        """Return 200 while the service runs."""
        return PlainTextResponse("running\n")

    async def readyz(self, _: Request) -> Response:
        """Return 200 while the log is read to its end and a broker answers, else 503 with the reason."""
        position = self._service.follower.position
        status = HTTPStatus.OK if position.up_to_date else HTTPStatus.SERVICE_UNAVAILABLE
        return PlainTextResponse(f"{position.detail}\n", status)

    async def _shown(self, articles: Iterable[ClusteredArticle], *, texts: bool) -> list[Json]:
        """Return articles, the first of them with their texts."""
        listed = list(articles)
        found: dict[Coordinates, SourcedText] = {}
        if texts:
            found = await self._service.texts.read((one.topic, one.coordinates) for one in listed[:MOST_TEXTS])
        return [_article_values(one, found.get(one.coordinates)) for one in listed]

    def _following(self, store: ClusterStore) -> Json:
        """Return how far the outputs are read, and what is missing."""
        clusters = self._service.clusters
        state = clusters.state
        missing = [
            {"topic": one.partition.topic, "partition": one.partition.number, "first": one.first, "end": one.end}
            for one in store.missing()
        ]
        lag = None if state is None else state.lag
        problem = None if clusters.error is None else str(clusters.error)
        return {"outputs": {"lag": lag, "problem": problem, "missing": missing}}
