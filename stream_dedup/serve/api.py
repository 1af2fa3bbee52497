"""The routes for programs."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from stream_dedup.serve.bodies import json_answer
from stream_dedup.serve.given import CheckRequest
from stream_dedup.serve.problems import PROBLEM_JSON

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stream_dedup.serve.service import Service


def add_api(app: FastAPI, service: Service) -> None:
    """Add the routes for programs."""
    routes = _Routes(service)
    app.add_api_route(
        "/v1/check",
        routes.check,
        methods=["POST"],
        summary="What would these articles be if they were logged next?",
        responses=_responses(409, 413, 422, 503, 504),
    )
    app.add_api_route("/metrics", routes.metrics, summary="Metrics, for Prometheus", response_class=PlainTextResponse)
    app.add_api_route("/healthz", routes.healthz, summary="Does the service work?", response_class=PlainTextResponse)
    app.add_api_route("/readyz", routes.readyz, summary="Are answers up to date?", response_class=PlainTextResponse)


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def check(self, request: CheckRequest) -> Response:
        """Return, for each article, the verdict, the nearest articles, the kind and the fingerprint.

        Nothing is logged. The answer holds for the log offset that it names: a worker that logs the article there
        gives the same verdict.
        """
        return json_answer(await self._service.checker.check(request.given, request.top))

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


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how the description names the problems that a route answers with."""
    schema = {"type": "object", "required": ["type", "title", "status", "detail"]}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": schema}}}
        for status in statuses
    }
