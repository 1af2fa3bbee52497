"""Pages of broken markup, a few of those that `make fuzz ARGS=--pages` takes."""

from __future__ import annotations

import pytest

from stream_dedup import _native
from tests.amount import FULL
from tests.fuzz.pages import NOT_DRAWN, PageFuzzer, fuzz_pages
from tests.reference.markup import stripped

SEED = 20261126
PAGES = 20_000 if FULL else 2_000
LARGE = 1_000 if FULL else 100


def test_pages_have_the_text_that_the_definition_gives() -> None:
    """Small ones, of all elements and signs."""
    assert fuzz_pages(PAGES, SEED, large_one_in=PAGES) == []


@pytest.mark.slow
def test_large_pages_are_parsed_or_stripped_as_the_definition_does() -> None:
    """Some are nested too deeply for a parser, and some are not."""
    pages = list(PageFuzzer(SEED).pages(LARGE, large_one_in=1))
    assert len({_native.text_of_html(page) == stripped(page) for page in pages}) == 2
    assert fuzz_pages(LARGE, SEED, large_one_in=1) == []


def test_a_difference_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the page and what became of it by either way."""
    monkeypatch.setattr(_native, "text_of_html", lambda _: "another text")
    assert "'another text', not " in fuzz_pages(20, SEED)[0]


def test_elements_that_the_parsers_read_differently_are_not_drawn() -> None:
    """Their names are in no page."""
    drawn = "".join(PageFuzzer(SEED).pages(PAGES)).lower()
    assert [name for name in NOT_DRAWN.split() if f"<{name}" in drawn] == []
