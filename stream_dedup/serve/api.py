"""The routes for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import PlainTextResponse, Response

from stream_dedup.errors import UserError
from stream_dedup.groups import GroupedArticle, GroupStore, Window
from stream_dedup.serve.bodies import json_answer
from stream_dedup.serve.explaining import ExplainRequest
from stream_dedup.serve.given import CheckRequest
from stream_dedup.serve.problems import PROBLEM_JSON, in_parameter, invalid, not_found
from stream_dedup.serve.texts import MOST_TEXTS
from stream_dedup.serve.values import (
    Json,
    article_values,
    buckets_values,
    counts_values,
    group_values,
    position_values,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stream_dedup.core.model import Coordinates
    from stream_dedup.serve.service import Service
    from stream_dedup.serve.texts import SourcedText

MOST_LISTED = 200
"""Articles or groups of one answer."""

_Limit = Annotated[int, Query(ge=1, le=MOST_LISTED, description="Most articles or groups of the answer.")]
_WindowOf = Annotated[Window, Query(description="The time in which articles are counted, by their output's time.")]
_WithTexts = Annotated[bool, Query(description=f"With texts, of {MOST_TEXTS} articles at most.")]
_After = Annotated[str | None, Query(max_length=100, description="Where the page begins, as the one before says.")]


_TEXT = {"type": "string"}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": {
            "type": "array",
            "description": "Each has its place: a JSON pointer into the body, or the name of a parameter.",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {"pointer": _TEXT, "parameter": _TEXT, "detail": _TEXT},
            },
        },
    },
}
"""A problem, for the description of each route."""


class _AnyText(PathConvertor):
    """The rest of a path, line feeds included: an article id may have them, at its end too."""

    regex = r"[\s\S]*"


def add_api(app: FastAPI, service: Service) -> None:
    """Add the routes for programs."""
    register_url_convertor("any_text", _AnyText())
    routes = _Routes(service)

    def add(path: str, endpoint: Any, summary: str, *statuses: int, method: str = "GET") -> None:  # noqa: ANN401
        app.add_api_route(path, endpoint, methods=[method], summary=summary, responses=_responses(*statuses))

    add(
        "/v1/check",
        routes.check,
        "What would these articles be if they were logged next?",
        *(409, 413, 415, 422, 503, 504),
        method="POST",
    )
    add(
        "/v1/explain",
        routes.explain,
        "Why do two articles match, or not?",
        *(404, 409, 413, 415, 422, 503, 504),
        method="POST",
    )
    add(
        "/v1/articles/{article_id:any_text}",
        routes.articles,
        "The articles with an id, newest first",
        404,
        422,
        503,
        504,
    )
    add("/v1/groups", routes.groups, "The groups that grow most in a window", 422, 503)
    add("/v1/groups/{group_id}", routes.group, "A group, its growth and its articles", 404, 422, 503, 504)
    add("/v1/verdicts", routes.verdicts, "The verdicts written last, and how many of each kind", 422, 503)
    add("/v1/status", routes.status, "Workers, lag, log, rules, and what is wrong", 503, 504)
    for path, endpoint, summary in (
        ("/metrics", routes.metrics, "Metrics, for Prometheus"),
        ("/healthz", routes.healthz, "Does the service run?"),
        ("/readyz", routes.readyz, "Are answers up to date?"),
    ):
        app.add_api_route(path, endpoint, summary=summary, response_class=PlainTextResponse)


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def check(self, request: CheckRequest) -> Response:
        """Return, for each article, the verdict, the nearest articles, the kind and the fingerprint.

        Nothing is logged. The answer holds for the log offset that it names: a worker that logs the article there
        gives the same verdict. Articles of one request are not compared with each other.
        """
        return json_answer(await self._service.checker.check(request.given, request.top))

    async def explain(self, request: ExplainRequest) -> Response:
        """Return whether B, coming after A, is a duplicate of A, and every value that decides it.

        The answer is for these two alone, under the rules in force; it ignores the window and the limits on candidates.
        """
        return json_answer(await self._service.explainer.explain(request))

    async def articles(
        self,
        article_id: Annotated[str, Path(min_length=1, max_length=512)],
        limit: _Limit = 10,
        texts: _WithTexts = True,  # noqa: FBT002 - the framework passes it by name
    ) -> Response:
        """Return the articles with this id, newest first, with their texts as the source topic has them."""
        store = self._service.groups.needed()
        found = await asyncio.to_thread(store.articles_by_id, article_id, limit)
        if not found:
            msg = "no output has an article with this id"
            raise not_found(msg)
        return json_answer({"articles": await self._shown(found, texts=texts)})

    async def groups(self, window: _WindowOf = Window.DAY, limit: _Limit = 20) -> Response:
        """Return the groups of more than one article with most articles in the window, largest first."""
        store, now = self._service.groups.needed(), self._service.clock.time_ms()
        found, totals = await asyncio.to_thread(lambda: (store.largest(window, limit, now), store.totals(window, now)))
        values = {"window": str(window), "time_ms": now, "totals": counts_values(totals)}
        return json_answer(values | self._following(store) | {"groups": [group_values(one) for one in found]})

    async def group(
        self,
        group_id: Annotated[str, Path(max_length=100)],
        window: _WindowOf = Window.DAY,
        limit: _Limit = 20,
        after: _After = None,
        texts: _WithTexts = False,  # noqa: FBT002 - as above
    ) -> Response:
        """Return a group, its growth in the window, and a page of its articles, oldest first."""
        store, now = self._service.groups.needed(), self._service.clock.time_ms()
        found = await asyncio.to_thread(store.group, group_id, now)
        if found is None:
            msg = "there is no such group"
            raise not_found(msg)
        try:
            growth, page = await asyncio.to_thread(
                lambda: (store.growth(found.id, window, now), store.members(found.id, limit, after))
            )
        except UserError as error:
            detail = "after: no answer named this place"
            raise invalid(detail, in_parameter("after", detail)) from error
        values = {"window": str(window), "time_ms": now, "group": group_values(found), "growth": buckets_values(growth)}
        shown = await self._shown(page.members, texts=texts)
        return json_answer(values | {"members": shown, "after": page.after})

    async def verdicts(self, window: _WindowOf = Window.HOUR, limit: _Limit = 20) -> Response:
        """Return the verdicts written last, newest first, and the articles of each bucket of the window, by verdict."""
        store, now = self._service.groups.needed(), self._service.clock.time_ms()
        latest, history = await asyncio.to_thread(lambda: (store.latest(limit), store.history(window, now)))
        buckets = [{"begin_ms": begin, **counts_values(counts)} for begin, counts in history]
        values = {"window": str(window), "time_ms": now, "history": buckets} | self._following(store)
        return json_answer(values | {"latest": [article_values(one) for one in latest]})

    async def status(self) -> Response:
        """Return what `stream-dedup status --json` writes, and how far this service is."""
        position = position_values(self._service.follower.position)
        return json_answer({**await self._service.group_status.read(), "service": position})

    async def metrics(self) -> Response:
        """Return the metrics of this service; those of the workers are at the workers."""
        return Response(generate_latest(self._service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def healthz(self) -> Response:
        """Return 200 while the service runs."""
        return PlainTextResponse("running\n")

    async def readyz(self) -> Response:
        """Return 200 while the log is read to its end and a broker answers, else 503 with the reason."""
        position = self._service.follower.position
        status = HTTPStatus.OK if position.up_to_date else HTTPStatus.SERVICE_UNAVAILABLE
        return PlainTextResponse(f"{position.detail}\n", status)

    async def _shown(self, articles: Iterable[GroupedArticle], *, texts: bool) -> list[Json]:
        """Return articles, the first of them with their texts."""
        listed = list(articles)
        found: dict[Coordinates, SourcedText] = {}
        if texts:
            found = await self._service.texts.read((one.topic, one.coordinates) for one in listed[:MOST_TEXTS])
        return [article_values(one, found.get(one.coordinates)) for one in listed]

    def _following(self, store: GroupStore) -> Json:
        """Return how far the outputs are read, and what is missing."""
        groups = self._service.groups
        state = groups.state
        missing = [
            {"topic": one.partition.topic, "partition": one.partition.number, "first": one.first, "end": one.end}
            for one in store.missing()
        ]
        lag = None if state is None else state.lag
        problem = None if groups.error is None else str(groups.error)
        return {"outputs": {"lag": lag, "problem": problem, "missing": missing}}


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how the description names the problems that a route answers with."""
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": PROBLEM_SCHEMA}}}
        for status in statuses
    }
