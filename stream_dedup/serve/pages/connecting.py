"""The pages' view of the running service: implements ``backend.PageBackend`` on ``service.Service``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stream_dedup.config.effective import input_format_of
from stream_dedup.core.model import Coordinates
from stream_dedup.serve.explaining import MAX_EXPLAINED, ExplainedArticle, ExplainRequest, SourcePlace
from stream_dedup.serve.pages.backend import (
    ArticleText,
    FormFields,
    GroupsState,
    ShownSource,
    StatusView,
    TextAbsence,
)
from stream_dedup.serve.problems import ProblemError

if TYPE_CHECKING:
    from stream_dedup.serve.follower import Position
    from stream_dedup.serve.given import GivenArticle
    from stream_dedup.serve.service import Service

STATUS_WITHIN_S = 1.5
"""Longest time that a page waits for the state of the group; what comes later is shown by the next page."""
SILENT = "no broker has answered yet; the next page asks again"


class ServicePages:
    """Implements ``PageBackend``. One event loop."""

    def __init__(self, service: Service) -> None:
        """Read through the parts of the service."""
        self._service = service
        self._status: asyncio.Task[StatusView] | None = None
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
        return GroupsState(groups.store, groups.state, groups.problem)

    async def status(self) -> StatusView:
        """Return the state of the group; one request to the brokers at a time, whoever asks."""
        if self._status is None or self._status.done():
            self._status = asyncio.create_task(self._read_status())
        done, _ = await asyncio.wait({self._status}, timeout=STATUS_WITHIN_S)
        return self._status.result() if done else StatusView(None, SILENT)

    async def _read_status(self) -> StatusView:
        try:
            return StatusView(await self._service.group_status.read())
        except ProblemError as problem:
            return StatusView(None, problem.detail)

    async def texts(self, sources: Sequence[ShownSource], within_s: float) -> Mapping[Coordinates, ArticleText]:
        """Return the texts of articles."""
        try:
            reading = self._service.texts.read((one.topic, one.coordinates) for one in sources)
            found = await asyncio.wait_for(reading, within_s)
        except (TimeoutError, ProblemError):
            return {}
        return {at: ArticleText(one.text, _absence(one.reason)) for at, one in found.items()}

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        """Check one article."""
        return await self._service.checker.check([article], top)

    async def compare(self, article: GivenArticle, other: ShownSource) -> dict[str, Any] | None:
        """Explain a logged article and a later one."""
        if _length(article) > MAX_EXPLAINED:
            return None
        topic_id, partition, offset = other.coordinates
        place = SourcePlace(
            topic_id=uuid.UUID(bytes=topic_id), partition=partition, offset=int(offset), topic=other.topic
        )
        # The article id is none of the pair: an explained article has a text, or an id.
        given = article.model_dump(include=article.model_fields_set - {"id"})
        request = ExplainRequest(
            a=ExplainedArticle.model_validate({"source": place}), b=ExplainedArticle.model_validate(given)
        )
        try:
            return await self._service.explainer.explain(request)
        except ProblemError as problem:
            if problem.status in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
                return None
            raise


def _length(article: GivenArticle) -> int:
    return sum(len(text) for text in (article.text, *(article.fields or {}).values()) if isinstance(text, str))


def _absence(reason: str | None) -> TextAbsence | None:
    """Return the kind of a reason for which there is no text (``texts`` has them)."""
    if reason is None:
        return None
    if reason.startswith("the source topic has no such record"):
        return TextAbsence.DELETED
    if reason.startswith("topic ") and reason.endswith("does not exist, or was made again"):
        return TextAbsence.OTHER_TOPIC
    if reason.startswith("the source topic cannot be read"):
        return TextAbsence.NO_BROKER
    return TextAbsence.UNREADABLE
