"""The page System in Chinese: the words of the page are Chinese; names of settings and terms of Kafka may stay."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.core.rules import Rules
from stream_dedup.serve.follower import Activity, Phase
from stream_dedup.serve.pages.backend import StatusView
from stream_dedup.serve.pages.rendering import said
from stream_dedup.serve.pages.strings_en import ENGLISH
from stream_dedup.serve.pages.strings_zh import CHINESE
from stream_dedup.serve.pages.system_page import GROUP_STATES
from tests.serve.page_app import READY, ChosenBackend, PageApp, text_of
from tests.serve.screenshots import status_values

WORDS = (
    "following follows the log stable empty dead for ever forever yes no none exact directed unique rejected duplicate "
    "update revision rules index workers lag state waits starts reads opens offset offsets size last record"
)
"""English words that the page has, or had, in English: no text of the Chinese page has one."""
NAMES = frozenset(["Worker", "Scheme", "English", "scheme", "broker"])


def rules(profile: str, **changes: Any) -> Rules:  # noqa: ANN401 - fields of rules
    given = {"kafka": {"group": "g"}, "topics": {"input": ["t"]}, "match": {"profile": profile}}
    return replace(rules_of(load_config(None, given, {})), **changes)


def texts_of(html: str) -> list[str]:
    """The texts of a page between its tags: what is in an attribute, or names a setting, is left out."""
    html = re.sub(r"<dt class=\"mono\">.*?</dt>|<title>.*?</title>", "", html, flags=re.DOTALL)
    found = (unescape(one).strip() for one in re.findall(r">([^<]+)<", html))
    return [one for one in found if one]


@pytest.mark.parametrize("state", GROUP_STATES)
@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.NO_LOG])
def test_no_english_word_stays(phase: Phase, state: str) -> None:
    """In any state of the group and of the service, under the rules of either search, whatever their values."""
    in_force = [
        rules("simhash", observe=True, featureless="rejected", recrawl="update"),
        rules("article", window_ms=None),
        rules("comment", window_ms=86_400_000, recrawl="duplicate"),
    ]
    for one in in_force:
        position = replace(READY, activity=Activity(phase, ""), rules=one)
        backend = ChosenBackend(at=position, view=StatusView(status_values(5) | {"state": state}))
        texts = texts_of(text_of(PageApp(backend).get("/system", accept_language="zh")))
        english = {key for key, text in ENGLISH.items() if text in texts and CHINESE[key] != text}
        assert english == set()
        words = {word for text in texts for word in re.findall("[A-Za-z]+", text)} - NAMES
        assert words & set(WORDS.split()) == set()
        assert said("zh", f"group.state.{state}") in texts


def test_the_value_as_it_is_configured_is_named() -> None:
    """A translated value, and a translated state of Kafka, has the word of the configuration beside it."""
    backend = ChosenBackend(at=replace(READY, rules=rules("article")), view=StatusView(status_values(5)))
    html = text_of(PageApp(backend).get("/system", accept_language="zh"))
    assert f'<span title="Stable">{said("zh", "group.state.Stable")}</span>' in html
    assert f'<span title="no">{said("zh", "no")}</span>' in html
    assert f'<span title="directed">{said("zh", "search.directed")}</span>' in html
