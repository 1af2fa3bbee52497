"""The pages over a backend whose every answer a test chooses, called without a server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from stream_dedup.core.decode import InputFormat
from stream_dedup.core.model import Coordinates, LogOffset
from stream_dedup.explain.explain import Explanation
from stream_dedup.serve.checking import GivenArticle, Json
from stream_dedup.serve.follower import Phase, Position
from stream_dedup.serve.pages import routes
from stream_dedup.serve.pages.backend import ArticleText, ClustersState, PageBackend, StatusView
from stream_dedup.serve.pages.rendering import Renderer, read_assets
from stream_dedup.serve.pages.routes import page_routes
from stream_dedup.serve.pages.shown_text import ShownArticle, shown_fields
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.reading import Place
from stream_dedup.serve.routing import Router
from tests.serve.clients import Answer

READY = Position(Phase.FOLLOWING, "following the log", offset=LogOffset(7), end=LogOffset(7))
TOPIC_ID = uuid.UUID(int=7)
ONE_TEXT = InputFormat()
NO_CLUSTERS, NO_STATUS = ClustersState(None), StatusView(None)


def nearest_value(offset: int = 3, name: str = "earlier", topic: str = "articles") -> dict[str, Any]:
    """One of the nearest entries of an answer."""
    source = {"topic": topic, "topic_id": str(TOPIC_ID), "partition": 0, "offset": offset}
    return {"id": name, "source": source, "time_ms": 0, "distance": 5, "similarity": 0.99, "cluster": None}


def check_answer(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - members of a result
    """An answer of /v1/check for one unique article."""
    result = {
        "verdict": "unique",
        "update": False,
        "kind": "long",
        "fingerprint": "0" * 16,
        "signature": "0" * 64,
        "copies": 0,
        "reason": None,
        "reason_code": None,
        "match": None,
        "nearest": [],
    }
    return {"log": {"id": "x", "offset": 7, "time_ms": 0}, "rules": {}, "results": [result | changes]}


@dataclass
class ChosenBackend(PageBackend):
    """Everything is as a test chooses it."""

    at: Position = READY
    format: InputFormat = ONE_TEXT
    state: ClustersState = NO_CLUSTERS
    view: StatusView = NO_STATUS
    answer: dict[str, Any] | ProblemError = field(default_factory=check_answer)
    known: Mapping[Coordinates, ArticleText] = field(default_factory=dict)
    checked: list[GivenArticle] = field(default_factory=list)

    def position(self) -> Position:
        return self.at

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def clusters(self) -> ClustersState:
        return self.state

    async def status(self) -> StatusView:
        return self.view

    async def texts(self, places: Sequence[Place], within_s: float) -> Mapping[Coordinates, ArticleText]:
        assert within_s > 0
        return {at: self.known[at] for _, at in places if at in self.known}

    async def shown(self, fields: Sequence[str]) -> ShownArticle:
        return ShownArticle.of(shown_fields(fields), None)

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        assert top > 0
        self.checked.append(article)
        if isinstance(self.answer, ProblemError):
            raise self.answer
        return self.answer

    async def compare(self, article: GivenArticle, source: Json) -> Explanation | None:
        assert (article.text, source["topic"]) != (None, "")
        return None


@cache
def _renderer() -> Renderer:
    """One for all apps: it keeps no state but its templates, which take more time to compile than a page to make."""
    return Renderer(read_assets())


class PageApp:
    """The routes of the pages, called as a server calls them."""

    def __init__(self, backend: ChosenBackend) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(routes, "Renderer", lambda _: _renderer())
            self._router = Router(page_routes(backend))

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        return self.call("POST", path, body, headers)

    def call(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer; names of headers have ``_`` for ``-``."""
        given = {"host": "localhost:8787"} | {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        bare, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "server": ("localhost", 8787),
            "client": ("127.0.0.1", 1),
        }
        try:
            response = asyncio.run(self._router.answer(scope, body))
        except ProblemError as problem:
            response = problem.response()
        named = {name.decode().lower(): value.decode() for name, value in response.raw_headers}
        return Answer(response.status_code, named, bytes(response.body))


def text_of(answer: Answer) -> str:
    """Return the HTML of a page."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.body.decode()
