"""What the pages read of the running service, as they show it.

Errors of the program have a kind in the reader's language, and beneath it the message itself. Messages of errors are
made in English, for logs and terminals; a page knows an error by its type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple

from stream_dedup.clusters.follow import FollowerState
from stream_dedup.clusters.queries import ClusterQueries
from stream_dedup.config.effective import input_format_of
from stream_dedup.core.decode import Article
from stream_dedup.core.model import Coordinates
from stream_dedup.core.reader import readable_texts
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.explain.explain import Explanation
from stream_dedup.serve.api import Service
from stream_dedup.serve.checking import GivenArticle, Json
from stream_dedup.serve.explaining import ExplainRequest
from stream_dedup.serve.follower import Position
from stream_dedup.serve.pages.shown_text import MAX_READ, ShownArticle, shown_fields
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.reading import Place, SourcedText, TextAbsence


class ErrorKind(StrEnum):
    """What a reader sees of an error."""

    LATE = "late"
    """There was no answer in time; the next page asks again."""
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    USER = "user"
    CORRUPT = "corrupt"
    OTHER = "other"


_PROBLEMS = {"timeout": ErrorKind.LATE, "busy": ErrorKind.BUSY}
_KINDS = (
    (UnavailableError, ErrorKind.UNAVAILABLE),
    (RefusedError, ErrorKind.REFUSED),
    (UserError, ErrorKind.USER),
    (CorruptError, ErrorKind.CORRUPT),
)


class ShownError(NamedTuple):
    """An error as pages show it."""

    kind: ErrorKind
    detail: str = ""
    """Its message, in English; empty if the kind says all."""


def shown_error(error: BaseException) -> ShownError:
    """Return what pages show of an error."""
    if isinstance(error, ProblemError):
        kind = _PROBLEMS.get(error.name, ErrorKind.OTHER)
    else:
        kind = next((kind for of, kind in _KINDS if isinstance(error, of)), ErrorKind.OTHER)
    return ShownError(kind, str(error))


class ArticleText(NamedTuple):
    """The text of an article as its source record has it, or why there is none."""

    article: Article | None
    absence: TextAbsence | None = None
    shown: ShownArticle | None = None


LATE_TEXT = ArticleText(None, TextAbsence.NO_BROKER)
"""What is shown of a text that did not come in time."""


@dataclass(frozen=True, slots=True)
class ClustersState:
    """How the store of clusters stands."""

    store: ClusterQueries | None
    """None: there is none, or it is not open yet."""
    follower: FollowerState | None = None
    error: ShownError | None = None
    """Why it is not followed any more."""


@dataclass(frozen=True, slots=True)
class StatusView:
    """The group as its brokers describe it, or why they do not."""

    values: Mapping[str, Any] | None
    """As ``stream-dedup status --json`` writes them."""
    error: ShownError | None = None
    """With values: why there are no newer ones."""
    read_ms: int | None = None
    """When the brokers said so."""

    @property
    def is_old(self) -> bool:
        """Whether these are the values of an earlier time."""
        return self.values is not None and self.error is not None


STATUS_WITHIN_S = 1.5
"""Longest time that a page waits for the state of the group; what comes later is shown by the next page."""
RECENT_S = 10.0
"""The state of the group is not called old before: a slow answer or two change nothing on a page."""


class PageBackend:
    """What the pages read. One event loop."""

    def __init__(self, service: Service) -> None:
        """Read through the parts of the service."""
        self._service = service
        self.format = input_format_of(service.config)

    def position(self) -> Position:
        """Return how far the log is read."""
        return self._service.follower.position

    def now_ms(self) -> int:
        """Return the time."""
        return self._service.clock.time_ms()

    def clusters(self) -> ClustersState:
        """Return the store of clusters."""
        clusters = self._service.clusters
        return ClustersState(
            clusters.store, clusters.state, None if clusters.error is None else shown_error(clusters.error)
        )

    async def status(self) -> StatusView:
        """Return the state of the group, some seconds old at most.

        If the brokers do not answer, it is the last one that was read, with the error once it is older than
        ``RECENT_S``.
        """
        status = self._service.group_status
        error = None
        try:
            await asyncio.wait_for(status.read(), STATUS_WITHIN_S)
        except TimeoutError:
            error = ShownError(ErrorKind.LATE)
        except ProblemError as problem:
            error = shown_error(problem.__cause__ or problem)
        if (last := status.last) is None:
            return StatusView(None, error)
        is_recent = self.now_ms() - last.read_ms <= 1000 * RECENT_S
        return StatusView(last.values, None if is_recent else error, last.read_ms)

    async def texts(self, places: Sequence[Place], within_s: float) -> Mapping[Coordinates, ArticleText]:
        """Return the texts of articles, read from their topics; empty if that takes longer."""
        try:
            found = await asyncio.wait_for(self._service.texts.read(places), within_s)
        except (TimeoutError, ProblemError):
            return {}
        settings = self._service.fingerprinter.settings
        return await asyncio.to_thread(lambda: {at: _text_of(one, settings) for at, one in found.items()})

    async def shown(self, fields: Sequence[str]) -> ShownArticle:
        """Return what is shown of an article with these texts: without the markup that the log's scheme drops."""
        return await asyncio.to_thread(_shown, fields, self._service.fingerprinter.settings)

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        """Return the answer of ``POST /v1/check`` for one article; ``ProblemError`` as there."""
        return await self._service.checker.check({(): article}, top)

    async def compare(self, article: GivenArticle, source: Json) -> Explanation | None:
        """Return the explanation of ``POST /v1/explain`` for a logged article, by its source, and a later one.

        None: the log does not hold the other article any more, or the text is too long to be explained.

        Raises:
            ProblemError: as there.
        """
        # The article id is none of the pair: an explained article has a text, or an id.
        given = article.model_dump(include=article.model_fields_set - {"id"})
        request = ExplainRequest.model_validate({"a": {"source": source}, "b": given})
        try:
            return await self._service.explainer.explain(request)
        except ProblemError as problem:
            if problem.status in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
                return None
            raise


def _text_of(found: SourcedText, settings: FingerprintSettings | None) -> ArticleText:
    article = found.article
    return ArticleText(article, found.absence, None if article is None else _shown(article.texts, settings))


def _shown(fields: Sequence[str], settings: FingerprintSettings | None) -> ShownArticle:
    """Return what is shown; of a text of more than ``MAX_READ`` characters the beginning is read for its markup."""
    beginnings, left = [], MAX_READ
    for text in fields:
        beginnings.append(text[:left])
        left -= len(beginnings[-1])
    found = beginnings if settings is None else readable_texts(beginnings, settings)
    return ShownArticle.of(shown_fields(fields), None if found == beginnings else shown_fields(found))
