"""Checks articles: from a request to the verdicts that they would have if they were logged next.

    1  make each article a source record, and fingerprint it in a thread, as a worker does (steps 2 and 3)
    2  judge all of them on the follower's thread, between two log records (step 6)
    3  make the answer

At most ``serve.queue_articles`` articles are under way; a request beyond it is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from stream_dedup.config.effective import input_format_of
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import Coordinates
from stream_dedup.errors import StreamDedupError
from stream_dedup.serve.follower import Checked, LogFollower, NotReadyError
from stream_dedup.serve.given import GivenArticle, record_of, refuse_unused
from stream_dedup.serve.problems import ProblemError, busy, not_ready
from stream_dedup.serve.schemes import SchemeFingerprinter
from stream_dedup.serve.values import Json, check_values, group_ids, matches_of

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.core.logged_scheme import Scheme
    from stream_dedup.serve.kept_groups import KeptGroups
    from stream_dedup.serve.problems import JsonPath
    from stream_dedup.serve.serve_metrics import ServeMetrics

log = logging.getLogger(__name__)

CHECKED_S = 30.0
"""Longest time of a check."""


class Checker:
    """Checks the articles of requests. One event loop."""

    def __init__(
        self,
        config: Config,
        follower: LogFollower,
        fingerprinter: SchemeFingerprinter,
        groups: KeptGroups,
        metrics: ServeMetrics,
    ) -> None:
        """Take the parts of the service."""
        self._follower = follower
        self._fingerprinter = fingerprinter
        self._groups = groups
        self._metrics = metrics
        self._format = input_format_of(config)
        self._limit = config.serve.queue_articles
        self._waiting = 0

    async def check(self, articles: Mapping[JsonPath, GivenArticle], top: int) -> Json:
        """Return the answer for these articles of a request, with ``top`` of the nearest entries of each.

        Raises:
            ProblemError: there is no room, the log is not read yet, or the articles took too long.
        """
        if not self._follower.position.ready:
            raise not_ready(self._follower.position.detail)
        if self._waiting + len(articles) > self._limit:
            msg = f"{self._waiting} articles are under way (serve.queue_articles {self._limit})"
            raise busy(msg)
        self._count(len(articles))
        try:
            async with asyncio.timeout(CHECKED_S):
                columns, scheme = await self._fingerprint(articles)
                checked = await self._judged(columns, scheme, top)
        except TimeoutError:
            detail = f"the articles were not checked within {CHECKED_S:g} s"
            raise ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", detail) from None
        finally:
            self._count(-len(articles))
        for one in checked.articles:
            self._metrics.serve_checked.labels(str(one.judgement.verdict)).inc()
        groups = await self._groups_of(checked)
        return check_values(columns, checked, groups)

    async def _groups_of(self, checked: Checked) -> dict[Coordinates, str | None]:
        """Return the groups of all entries of the answer, as far as their outputs were read and can be looked up."""
        store = self._groups.store
        found = {match.coordinates for one in checked.articles for match in matches_of(one)}
        if store is None or not found:
            return {}
        try:
            return await asyncio.to_thread(group_ids, store, found)
        except StreamDedupError as error:  # the verdicts need no groups
            log.warning("an answer is without groups: %s", error)
            return {}

    async def _fingerprint(self, articles: Mapping[JsonPath, GivenArticle]) -> tuple[Columns, Scheme]:
        """Return the entries that these articles would have, and their scheme.

        Raises:
            ProblemError: the configuration has no settings for the log's scheme, or has not what an article gives; or
                the scheme changes.
        """
        for at, article in articles.items():
            refuse_unused(article, at, self._format)
        records = [record_of(article, self._format) for article in articles.values()]
        started = self._fingerprinter.get()
        try:
            # A lane of its own: no request waits for another one's large articles.
            columns = await asyncio.wrap_future(started.records.submit(records, lane=object()))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the client is gone, or has waited too long
                raise
            msg = "the fingerprinting threads were closed: the log has another scheme now, or the service ends"
            raise not_ready(msg) from None
        return columns, started.scheme

    async def _judged(self, columns: Columns, scheme: Scheme, top: int) -> Checked:
        """Return the verdicts of entries of a scheme.

        Raises:
            ProblemError: the log is not read yet, or is another one since the articles were fingerprinted.
        """
        try:
            return await asyncio.wrap_future(self._follower.check(columns, scheme, top))
        except NotReadyError as error:
            raise not_ready(str(error)) from error

    def _count(self, articles: int) -> None:
        self._waiting += articles
        self._metrics.serve_articles_waiting.set(self._waiting)
