"""The pages' view of the running service: implements ``backend.PageBackend`` on ``service.Service``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stream_dedup.config.effective import input_format_of
from stream_dedup.core.model import Coordinates
from stream_dedup.core.text.readable import readable_texts
from stream_dedup.serve.explaining import MAX_EXPLAINED, ExplainedArticle, ExplainRequest, SourcePlace
from stream_dedup.serve.pages.backend import (
    ArticleText,
    FormFields,
    GroupsState,
    ShownSource,
    StatusView,
)
from stream_dedup.serve.pages.shown_error import ErrorKind, ShownError, shown_error
from stream_dedup.serve.pages.shown_text import MAX_READ, shown_fields
from stream_dedup.serve.problems import ProblemError

if TYPE_CHECKING:
    from stream_dedup.core.scheme import FingerprintSettings
    from stream_dedup.serve.given import GivenArticle
    from stream_dedup.serve.position import Position
    from stream_dedup.serve.service import Service
    from stream_dedup.serve.texts import SourcedText

STATUS_WITHIN_S = 1.5
"""Longest time that a page waits for the state of the group; what comes later is shown by the next page."""
RECENT_S = 10.0
"""The state of the group is not called old before: a slow answer or two change nothing on a page."""


class ServicePages:
    """Implements ``PageBackend``. One event loop."""

    def __init__(self, service: Service) -> None:
        """Read through the parts of the service."""
        self._service = service
        self._status: asyncio.Task[StatusView] | None = None
        self._last, self._last_at_s = StatusView(None), 0.0
        fmt = input_format_of(service.config)
        self.fields = FormFields(fmt.text_fields, bool(fmt.fields), fmt.scope_field is not None)

    def position(self) -> Position:
        """Return how far the log is read."""
        return self._service.follower.position

    def now_ms(self) -> int:
        """Return the time."""
        return self._service.clock.time_ms()

    def groups(self) -> GroupsState:
        """Return the store of groups."""
        groups = self._service.groups
        return GroupsState(groups.store, groups.state, None if groups.error is None else shown_error(groups.error))

    async def status(self) -> StatusView:
        """Return the state of the group; one request to the brokers at a time, whoever asks.

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
        """Return the texts of articles."""
        try:
            reading = self._service.texts.read((one.topic, one.coordinates) for one in sources)
            found = await asyncio.wait_for(reading, within_s)
        except (TimeoutError, ProblemError):
            return {}
        settings = self._service.fingerprinter.settings
        return await asyncio.to_thread(lambda: {at: _text_of(one, settings) for at, one in found.items()})

    async def readable(self, fields: Sequence[str]) -> str | None:
        """Return a text without the markup that the scheme drops; None: it has none, or the scheme is not known."""
        return await asyncio.to_thread(_readable, fields, self._service.fingerprinter.settings)

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        """Check one article."""
        return await self._service.checker.check({(): article}, top)

    async def compare(self, article: GivenArticle, other: ShownSource) -> dict[str, Any] | None:
        """Explain a logged article and a later one."""
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
