"""Explains why two articles match or do not: two texts, or a text and a logged article.

A logged article is named by its source coordinates, or by its article id, which the clusters know. Its text is read
from the source topic; if it is not there any more, only what the log holds of it is explained: signature, blocks,
distances. Whether it was withdrawn, the log says in either case.

The explanations are made in a thread of their own, one after the other; ``MAX_EXPLAINED`` bounds what one takes.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from stream_dedup.config.effective import input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.decode import Article, Rejection, decode
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import Coordinates, LogPosition, SourceOffset
from stream_dedup.explain.explain import Explanation, explain
from stream_dedup.explain.side import Side, side_at, side_of_texts
from stream_dedup.index import LogIndex
from stream_dedup.serve.checking import NOT_LOGGED, GivenArticle, GivenObject, raw_of, refuse_unused
from stream_dedup.serve.clusters import ServiceClusters
from stream_dedup.serve.follower import LogFollower
from stream_dedup.serve.problems import ProblemError, in_body, invalid, not_found, not_ready
from stream_dedup.serve.reading import Lane, SourceTexts
from stream_dedup.serve.schemes import SchemeFingerprinter

EXPLAIN_S = 30.0
"""Longest wait for an explanation."""
MAX_EXPLAINED = 100_000
"""Characters of a text that is explained: its explanation has every feature, and is some times as long."""


class SourcePlace(GivenObject):
    """Where a logged article is in its source topic, as answers name it."""

    topic_id: uuid.UUID
    partition: int = Field(ge=0, le=(1 << 31) - 1)
    offset: int = Field(ge=0, le=(1 << 63) - 1)
    topic: str | None = Field(None, description="Taken as answers have it; the id decides.")


class ExplainedArticle(GivenArticle):
    """An article: a text or fields, or a logged one by its ``id`` alone or by its ``source``."""

    source: SourcePlace | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ExplainedArticle:
        named = self.source is not None or (self.id is not None and not self.is_given)
        if named == self.is_given or (self.source is not None and self.id is not None):
            raise ValueError("give a text or fields, or an id or a source of a logged article")
        return self


class ExplainRequest(GivenObject):
    """Two articles: is B, coming after A, a duplicate of A?"""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"a": {"text": "今天天气很好，我们去公园"}, "b": {"text": "今天天气真好，我们去公园"}}]
        },
    )

    a: ExplainedArticle
    b: ExplainedArticle


class Explainer:
    """Explains. ``explain`` belongs to the event loop."""

    def __init__(
        self,
        config: Config,
        follower: LogFollower,
        fingerprinter: SchemeFingerprinter,
        clusters: ServiceClusters,
        texts: SourceTexts,
    ) -> None:
        """Take the parts of the service."""
        self._format = input_format_of(config)
        self._follower = follower
        self._fingerprinter = fingerprinter
        self._clusters = clusters
        self._texts = texts
        self._lane = Lane("explain", EXPLAIN_S)

    async def explain(self, request: ExplainRequest) -> Explanation:
        """Return the explanation of the two.

        Raises:
            ProblemError: an article is not known or cannot be read, or the log is not read yet.
        """
        position = self._follower.position
        if not position.ready or position.rules is None:
            raise not_ready(position.detail)
        rules = position.rules
        a, b = [await self._found(name, one) for name, one in (("a", request.a), ("b", request.b))]
        for name, (article, _) in (("a", a), ("b", b)):
            _check_length(name, article)
        maker = self._fingerprinter.get().texts
        return await self._lane.run(lambda: explain(_side(maker, "A", a), _side(maker, "B", b), rules))

    def close(self) -> None:
        """End the thread."""
        self._lane.close()

    async def _found(self, name: str, given: ExplainedArticle) -> tuple[Article | None, Side | None]:
        """Return an article with its text, where that is known, and the entry of a logged one."""
        if given.is_given:
            return self._given(name, given), None
        topic, at = await asyncio.to_thread(self._named, name, given)
        entry = await asyncio.wrap_future(self._follower.ask(lambda index: _entry(index, at)))
        if entry is None:
            raise not_found(f"{name}: the log has no such article, or has forgotten it")
        found = (await self._texts.read([(topic, at)]))[at] if topic is not None else None
        return (None if found is None else found.article), entry

    def _given(self, name: str, given: ExplainedArticle) -> Article:
        refuse_unused(given, (name,), self._format)
        article = decode(raw_of(given, self._format), self._format)
        if isinstance(article, Rejection):
            raise _invalid_article(name, article.reason)
        return article

    def _named(self, name: str, given: ExplainedArticle) -> tuple[str | None, Coordinates]:
        """Return the topic name, if it is known, and the coordinates of a logged article."""
        if given.source is not None:
            source = given.source
            at = Coordinates(source.topic_id.bytes, source.partition, SourceOffset(source.offset))
            known = self._clusters.store.article(at) if self._clusters.store is not None else None
            return (source.topic if known is None else known.topic), at
        found = self._clusters.needed().articles_by_id(str(given.id), 1)
        if not found:
            raise not_found(f"{name}: no output has an article with this id")
        return found[0].topic, found[0].coordinates


def _entry(index: LogIndex, at: Coordinates) -> Side | None:
    """Return the entry of a logged article, None where the log has none."""
    position = index.logged_positions(at.topic_id, at.partition, np.array([at.offset], np.int64))[0]
    return None if position < 0 else side_at(index, LogPosition(int(position)))


def _side(maker: Fingerprinter, name: str, found: tuple[Article | None, Side | None]) -> Side:
    article, entry = found
    if article is None:
        assert entry is not None  # noqa: S101 - an article that is not logged has its text
        return entry
    side = side_of_texts(maker, name, article.texts, article.scope)
    if entry is None:
        return replace(side, id=None if article.id == NOT_LOGGED else article.id)
    return replace(side, id=entry.id, withdrawn_at=entry.withdrawn_at)


def _check_length(name: str, article: Article | None) -> None:
    characters = 0 if article is None else sum(map(len, article.texts))
    if characters > MAX_EXPLAINED:
        raise _invalid_article(name, f"{characters} characters; at most {MAX_EXPLAINED} are explained")


def _invalid_article(name: str, reason: str) -> ProblemError:
    return invalid(f"{name}: {reason}", in_body((name,), reason))
