"""The sentences of the pages: one table for each language, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping

from stream_dedup.serve.pages.strings_en import ENGLISH
from stream_dedup.serve.pages.strings_zh import CHINESE

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "zh": CHINESE}
DEFAULT_LANGUAGE = "en"
HTML_LANGUAGES = {"en": "en", "zh": "zh-Hans"}
"""The languages as HTML names them."""


def language_of(chosen: str | None, accepted: str) -> str:
    """Return the language of a page.

    Args:
        chosen: what the reader has chosen, if anything.
        accepted: the header Accept-Language.
    """
    if chosen in LANGUAGES:
        return str(chosen)
    wanted = sorted(map(_weighed, accepted.lower().split(",")[:16]), key=lambda one: -one[1])
    return next((tag for tag, weight in wanted if weight > 0 and tag in LANGUAGES), DEFAULT_LANGUAGE)


def _weighed(part: str) -> tuple[str, float]:
    """Return the primary tag of a part of Accept-Language, and its weight."""
    tag, _, weight = part.strip().partition(";q=")
    try:
        return tag.partition("-")[0], float(weight or 1)
    except ValueError:
        return tag, 0.0


def said(language: str, key: str, **values: object) -> str:
    """Return a sentence.

    Raises:
        KeyError: there is no such sentence, or it needs another value.
    """
    return LANGUAGES[language][key].format(**values)
