"""Values of the brokers that were read before they went away: kept, and called old after some seconds."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.groups import VerdictCounts
from stream_dedup.serve.pages.backend import RECENT_S, ErrorKind, GroupsState, ServicePages, ShownError, StatusView
from stream_dedup.serve.pages.live_page import RateMeter, VerdictRates, live_page
from stream_dedup.serve.pages.rendering import LANGUAGES, said
from stream_dedup.serve.problems import not_ready
from tests.serve.page_app import READY, ChosenBackend, PageApp, text_of
from tests.serve.screenshots import status_values
from tests.serve.test_page_states import STATES, EmptyStore

READ_MS = 1_700_000_000_000
SILENT_POSITION = STATES["notice.broker.title"]
READ_AT = "2023-11-14 22:13:20"


class ChosenService:
    """A service whose brokers answer, or do not, at a time that the test sets."""

    def __init__(self) -> None:
        self.config = load_config(None, {"kafka": {"group": "g"}, "topics": {"input": ["t"]}}, {})
        self.at_s = 1000.0
        self.answer: dict[str, Any] | None = None
        self.clock = SimpleNamespace(monotonic=lambda: self.at_s, time_ms=lambda: int(self.at_s * 1000))
        self.group_status = SimpleNamespace(read=self._read)

    async def _read(self) -> dict[str, Any]:
        if self.answer is None:
            detail = "no broker answers"
            raise not_ready(detail)
        return self.answer

    def pages(self) -> ServicePages:
        return ServicePages(self)  # type: ignore[arg-type] # the parts that a state of the group needs


def test_the_state_of_the_group_is_kept() -> None:
    """Without an answer it is the last one: as it was for some seconds, then with the error; an answer replaces it."""
    service = ChosenService()
    pages = service.pages()

    def status() -> StatusView:
        return asyncio.run(pages.status())

    assert (status().values, status().is_old) == (None, False)
    assert status().error is not None
    service.answer = {"lag": 1}
    assert status() == StatusView({"lag": 1}, None, 1_000_000)
    service.answer = None
    service.at_s += RECENT_S
    assert status() == StatusView({"lag": 1}, None, 1_000_000)
    service.at_s += 0.1
    old = status()
    assert (old.values, old.read_ms, old.is_old) == ({"lag": 1}, 1_000_000, True)
    service.answer = {"lag": 2}
    assert status() == StatusView({"lag": 2}, None, 1_010_100)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", ["/live", "/system"])
def test_old_values_are_shown_as_old(path: str, language: str) -> None:
    """With the time at which they were read; values of now have no such mark."""
    late = ShownError(ErrorKind.LATE)
    for error, is_old in ((late, True), (None, False)):
        backend = ChosenBackend(view=StatusView(status_values(5) | {"lag": 4321}, error, READ_MS))
        html = text_of(PageApp(backend).get(path, accept_language=language))
        assert "4,321" in html
        assert (said(language, "old", time=READ_AT) in html) is is_old
        assert (' class="old"' in html or ' class="figures old"' in html) is is_old


def test_rates_when_an_output_was_last_read() -> None:
    """They stay those of the stream while nothing can be read, where the rates themselves fall to nothing."""
    meter = RateMeter()

    def counts(articles: int) -> VerdictCounts:
        return VerdictCounts(unique=articles)

    for second in range(5):
        meter.rates(counts(10 * second), float(second))
    for second in range(5, 12):
        falling = meter.rates(counts(40), float(second))
    assert falling is not None
    assert falling.articles < 5
    assert meter.last_moving == VerdictRates(10, 0, 0)
    for position, rates in ((SILENT_POSITION, VerdictRates(10, 0, 0)), (READY, None)):  # None: it measures again
        backend = ChosenBackend(at=position, state=GroupsState(EmptyStore()))
        assert asyncio.run(live_page(backend, meter, READ_MS, 30.0)).rates == rates
