"""The sentences of the pages: every language has all of them, the pages use all of them, and no others."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from stream_dedup.core.reasons import CODES
from stream_dedup.groups.model import BucketWidth
from stream_dedup.serve.follower import Phase
from stream_dedup.serve.pages import rendering
from stream_dedup.serve.pages.backend import ErrorKind
from stream_dedup.serve.pages.rendering import LANGUAGES, language_of
from stream_dedup.serve.pages.strings_en import ENGLISH
from stream_dedup.serve.pages.system_page import GROUP_STATES, VALUE_KEYS
from stream_dedup.serve.reading import TextAbsence
from stream_dedup.status.findings import FindingCode

PAGES = Path(rendering.__file__).parent
SOURCES = [*PAGES.rglob("*.html"), PAGES / "rendering.py", PAGES / "routes.py"]
DYNAMIC = (
    *(f"reason.{code}" for code in CODES),
    *(f"absent.{one}" for one in TextAbsence),
    *(f"nav.{name}" for name in ("check", "groups", "live", "system")),
    *(f"verdict.{name}" for name in ("unique", "update", "duplicate", "rejected")),
    *(f"kind.{name}" for name in ("long", "short", "exact", "featureless", "rejected")),
    *(f"group.growth.said.{name.lower()}" for name in BucketWidth.__members__),
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
        (None, "fr-FR, en;q=0.5, zh;q=0.7", "zh"),
        (None, "de, fr", "en"),
        (None, "zh;q=0, en;q=0.1", "en"),
        (None, "zh;q=x", "en"),
        ("en", "zh-CN", "en"),
        ("xx", "zh-TW", "zh"),
    ],
)
def test_the_language_of_a_reader(chosen: str | None, accepted: str, expected: str) -> None:
    """What they chose; else what their browser prefers, by its weights; else English."""
    assert language_of(chosen, accepted) == expected
