"""The sentences of the pages: every language has all of them, the pages use all of them, and no others.

The words of the page System in Chinese are Chinese; names of settings and terms of Kafka may stay.
"""

from __future__ import annotations

import re
import string
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.clusters.model import BucketWidth
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.core.reasons import CODES
from stream_dedup.core.rules import Rules
from stream_dedup.serve.follower import Phase
from stream_dedup.serve.pages import rendering
from stream_dedup.serve.pages.backend import ErrorKind, StatusView
from stream_dedup.serve.pages.rendering import GROUP_STATES, LANGUAGES, VALUE_KEYS, language_of, said
from stream_dedup.serve.reading import TextAbsence
from stream_dedup.status.findings import FindingCode
from tests.serve.page_app import READY, ChosenBackend, PageApp, text_of
from tests.serve.screenshots import status_values

ENGLISH, CHINESE = LANGUAGES["en"], LANGUAGES["zh"]
PAGES = Path(rendering.__file__).parent
SOURCES = [*PAGES.rglob("*.html"), PAGES / "rendering.py", PAGES / "routes.py"]
DYNAMIC = (
    *(f"reason.{code}" for code in CODES),
    *(f"absent.{one}" for one in TextAbsence),
    *(f"nav.{name}" for name in ("check", "clusters", "live", "system")),
    *(f"verdict.{name}" for name in ("unique", "update", "duplicate", "rejected")),
    *(f"kind.{name}" for name in ("long", "short", "exact", "featureless", "rejected")),
    *(f"cluster.growth.said.{name.lower()}" for name in BucketWidth.__members__),
    *(f"window.{name}" for name in ("hour", "day", "week", "all")),
    *(f"theme.{name}" for name in rendering.THEMES),
    *(f"language.{name}" for name in LANGUAGES),
    *(f"check.said.{name}" for name in ("unique", "update", "duplicate")),
    *(f"problem.{name}" for name in ("busy", "not-ready", "timeout", "other-scheme")),
    *(f"step.{name}" for name in ("equal", "distance", "lookup", "form", "sketch", "copies")),
    *(f"phase.{one}" for one in Phase),
    *(f"error.{one}" for one in ErrorKind),
    *VALUE_KEYS.values(),
    *(f"group.state.{name}" for name in GROUP_STATES),
    *(f"{part}.{code}" for code in FindingCode for part in ("finding", "remedy")),
    *(f"step.{name}.said" for name in ("equal", "distance", "lookup", "form", "sketch", "copies")),
)
"""Keys whose end is a value of the program: every value has a sentence."""


def placeholders(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_sentence(language: str) -> None:
    """The same keys, the same placeholders, and no empty sentence."""
    table = LANGUAGES[language]
    assert {key: placeholders(text) for key, text in table.items()} == {
        key: placeholders(text) for key, text in ENGLISH.items()
    }
    assert [key for key, text in table.items() if not text.strip()] == []


def test_chinese_is_chinese() -> None:
    """No sentence was left in English; a few words are the same in both languages."""
    same = {key for key, text in LANGUAGES["zh"].items() if text == ENGLISH[key]}
    assert same <= {"language.en", "language.zh", "notice.reading.percent", "system.workers", "system.worker"} | {
        "system.scheme"
    }


def test_every_sentence_is_used_and_exists() -> None:
    """The keys of the tables are those of the templates and of the code."""
    found = set(re.findall(r"""["']([a-z]+(?:\.[a-z_-]+)*)["']""", "\n".join(one.read_text() for one in SOURCES)))
    used = {key for key in ENGLISH if key in found} | set(DYNAMIC)
    asked = set(re.findall(r"""\bt\("([a-z_.-]+[a-z])"[,)]""", "\n".join(one.read_text() for one in SOURCES)))
    assert set(ENGLISH) - used == set()
    assert (asked | set(DYNAMIC)) - set(ENGLISH) == set()


@pytest.mark.parametrize(
    ("chosen", "accepted", "expected"),
    [
        (None, "", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "fr-FR, zh;q=0.7, en;q=0.5", "zh"),
        (None, "de, fr", "en"),
        (None, "zh;q=x", "zh"),
        (None, ",;,zhx", "en"),
        ("en", "zh-CN", "en"),
        ("xx", "zh-TW", "zh"),
    ],
)
def test_the_language_of_a_reader(chosen: str | None, accepted: str, expected: str) -> None:
    """What they chose; else the first language of their browser that the pages have; else English."""
    assert language_of(chosen, accepted) == expected


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
        position = replace(READY, phase=phase, detail="", rules=one)
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
