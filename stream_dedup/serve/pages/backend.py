"""What the pages read. ``connecting`` implements it on a running service, tests implement it in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stream_dedup.core.model import Coordinates

if TYPE_CHECKING:
    from stream_dedup.groups import ArticleGroup, GroupedArticle, MemberPage, MissingOutputs, VerdictCounts, Window
    from stream_dedup.groups.follow import FollowerState
    from stream_dedup.serve.given import GivenArticle
    from stream_dedup.serve.pages.shown_error import ShownError
    from stream_dedup.serve.position import Position
    from stream_dedup.serve.texts import TextAbsence


@dataclass(frozen=True, slots=True)
class ArticleText:
    """The text of an article as its source record has it, or why there is none."""

    text: str | None
    absence: TextAbsence | None = None
    fields: tuple[str, ...] = ()
    """The text of each text field, in the order of ``FormFields.texts``."""
    scope: str | None = None
    readable: str | None = None
    """The text without its markup; None: it has none."""


@dataclass(frozen=True, slots=True)
class ShownSource:
    """Where an article comes from."""

    topic: str
    coordinates: Coordinates


@dataclass(frozen=True, slots=True)
class GroupsState:
    """How the store of groups stands."""

    store: GroupReading | None
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


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields in which an article is given on the page."""

    texts: tuple[str, ...]
    """Names of the fields that make the text."""
    several: bool
    """Whether these are ``input.fields``; otherwise there is one, the text."""
    has_scope: bool


class GroupReading(Protocol):
    """What the pages ask the store of groups. ``groups.GroupStore`` has it. Blocks for a read from disk."""

    def article(self, coordinates: Coordinates) -> GroupedArticle | None:
        """Return an article whose output has been read."""

    def latest(self, limit: int) -> list[GroupedArticle]:
        """Return the articles that were written last, newest first."""

    def group(self, group_id: str, now_ms: int) -> ArticleGroup | None:
        """Return the group that an article belongs to."""

    def members(self, group_id: str, limit: int, after: str | None = None) -> MemberPage:
        """Return a page of the articles of a group, oldest first; UserError for a strange ``after``."""

    def largest(self, window: Window, limit: int, now_ms: int) -> list[ArticleGroup]:
        """Return the groups with most articles in a window, largest first."""

    def growth(self, group_id: str, window: Window, now_ms: int) -> list[tuple[int, int]]:
        """Return the beginning and the articles of each bucket of a window."""

    def totals(self, window: Window, now_ms: int) -> VerdictCounts:
        """Return the articles of a window, by verdict."""

    def history(self, window: Window, now_ms: int) -> list[tuple[int, VerdictCounts]]:
        """Return the beginning and the articles of each bucket of a window, by verdict."""

    def missing(self) -> list[MissingOutputs]:
        """Return the outputs that were deleted before they were read."""


class PageBackend(Protocol):
    """What the pages read of a running service."""

    @property
    def fields(self) -> FormFields:
        """The fields of an article."""

    def position(self) -> Position:
        """Return how far the log is read."""

    def now_ms(self) -> int:
        """Return the time, ms since 1970."""

    def groups(self) -> GroupsState:
        """Return the store of groups."""

    async def status(self) -> StatusView:
        """Return the state of the group, some seconds old at most."""

    async def texts(self, sources: Sequence[ShownSource], within_s: float) -> Mapping[Coordinates, ArticleText]:
        """Return the texts of articles, read from their topics; empty if that takes longer."""

    async def readable(self, fields: Sequence[str]) -> str | None:
        """Return the text of these fields without the markup that the scheme drops; None: it has none.

        Of a text of more than ``shown_text.MAX_READ`` characters the beginning.
        """

    async def check(self, article: GivenArticle, top: int) -> dict[str, Any]:
        """Return the answer of ``POST /v1/check`` for one article; ``ProblemError`` as there."""

    async def compare(self, article: GivenArticle, other: ShownSource) -> dict[str, Any] | None:
        """Return the answer of ``POST /v1/explain`` for a logged article and a later one.

        None: the log does not hold the other article any more, or the text is too long to be explained.

        Raises:
            ProblemError: as there.
        """
