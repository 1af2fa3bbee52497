"""What the pages read of the running service, as they show it.

Errors of the program have a kind in the reader's language, and beneath it the message itself. Messages of errors are
made in English, for logs and terminals; a page knows an error by its type.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple

from stream_dedup.clusters import ClusterQueries
from stream_dedup.clusters.follow import FollowerState
from stream_dedup.config.effective import input_format_of
from stream_dedup.core.model import Coordinates
from stream_dedup.core.reader import readable_texts
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.serve.api import Service
from stream_dedup.serve.checking import GivenArticle
from stream_dedup.serve.explaining import MAX_EXPLAINED, ExplainedArticle, ExplainRequest, SourcePlace
from stream_dedup.serve.follower import Position
from stream_dedup.serve.pages.shown_text import MAX_READ, shown_fields
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.reading import SourcedText, TextAbsence


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


@dataclass(frozen=True, slots=True)
class ArticleText:
    """The text of an article as its source record has it, or why there is none."""

    text: str | None
    absence: TextAbsence | None = None
    fields: tuple[str, ...] = ()
    """The text of each text field, in the order of ``InputFormat.text_fields``."""
    scope: str | None = None
    readable: str | None = None
    """The text without its markup; None: it has none."""


@dataclass(frozen=True, slots=True)
class ShownSource:
    """Where an article comes from."""

    topic: str
    coordinates: Coordinates


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
        self._status: asyncio.Task[StatusView] | None = None
        self._last, self._last_at_s = StatusView(None), 0.0
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
        """Return the state of the group, some seconds old at most; one request to the brokers at a time, whoever asks.

        If they do not answer, it is the last one that was read, with the error once it is older than ``RECENT_S``.
        """
        if self._status is None or self._status.done():
            self._status = asyncio.create_task(self._read_status())
        done, _ = await asyncio.wait({self._status}, timeout=STATUS_WITHIN_S)
        return self._status.result() if done else self._last_status(ShownError(ErrorKind.LATE))

    async def _read_status(self) -> StatusView:
        try:
            values = await self._service.group_status.read()
        except ProblemError as problem:
            return self._last_status(shown_error(problem.__cause__ or problem))
        self._last, self._last_at_s = StatusView(values, read_ms=self.now_ms()), self._service.clock.monotonic()
        return self._last

    def _last_status(self, error: ShownError) -> StatusView:
        is_recent = self._service.clock.monotonic() - self._last_at_s <= RECENT_S
        return self._last if self._last.values is not None and is_recent else replace(self._last, error=error)

    async def texts(self, sources: Sequence[ShownSource], within_s: float) -> Mapping[Coordinates, ArticleText]:
        """Return the texts of articles, read from their topics; empty if that takes longer."""
        try:
            reading = self._service.texts.read((one.topic, one.coordinates) for one in sources)
            found = await asyncio.wait_for(reading, within_s)
        except (TimeoutError, ProblemError):
            return {}
        settings = self._service.fingerprinter.settings
        return await asyncio.to_thread(lambda: {at: _text_of(one, settings) for at, one in found.items()})

    async def readable(self, fields: Sequence[str]) -> str | None:
        """Return a text without the markup that the scheme drops; None: it has none, or the scheme is not known.

        Of a text of more than ``shown_text.MAX_READ`` characters the beginning.
        """
        return await asyncio.to_thread(_readable, fields, self._service.fingerprinter.settings)

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        """Return the answer of ``POST /v1/check`` for one article; ``ProblemError`` as there."""
        return await self._service.checker.check({(): article}, top)

    async def compare(self, article: GivenArticle, other: ShownSource) -> dict[str, Any] | None:
        """Return the answer of ``POST /v1/explain`` for a logged article and a later one.

        None: the log does not hold the other article any more, or the text is too long to be explained.

        Raises:
            ProblemError: as there.
        """
        if characters_of(article) > MAX_EXPLAINED:
            return None
        topic_id, partition, offset = other.coordinates
        coordinates = SourcePlace(
            topic_id=uuid.UUID(bytes=topic_id), partition=partition, offset=int(offset), topic=other.topic
        )
        # The article id is none of the pair: an explained article has a text, or an id.
        given = article.model_dump(include=article.model_fields_set - {"id"})
        request = ExplainRequest(
            a=ExplainedArticle.model_validate({"source": coordinates}), b=ExplainedArticle.model_validate(given)
        )
        try:
            return await self._service.explainer.explain(request)
        except ProblemError as problem:
            if problem.status in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
                return None
            raise


def _text_of(found: SourcedText, settings: FingerprintSettings | None) -> ArticleText:
    article = found.article
    if article is None:
        return ArticleText(None, found.absence)
    return ArticleText(found.text, None, article.texts, article.scope, _readable(article.texts, settings))


def _readable(fields: Sequence[str], settings: FingerprintSettings | None) -> str | None:
    if settings is None:
        return None
    beginnings, left = [], MAX_READ
    for text in fields:
        beginnings.append(text[:left])
        left -= len(beginnings[-1])
    found = readable_texts(beginnings, settings)
    return None if found == beginnings else shown_fields(found)


def characters_of(article: GivenArticle) -> int:
    """Return the characters of all texts of an article, whatever they are in."""
    length, left = 0, [article.text, article.fields]
    while left:
        value = left.pop()
        if isinstance(value, str):
            length += len(value)
        elif isinstance(value, dict | list):
            left += value.values() if isinstance(value, dict) else value
    return length
