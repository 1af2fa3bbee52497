"""The text of an article as a reader sees it: its words are those that the fingerprint is made of.

The steps are those of the scheme that drop markup (``markup``, and ``entities`` and ``tags`` of ``clean``), and no
others: case, addresses, pictures and invisible characters stay. Tags of blocks leave line breaks, where the fingerprint
needs a space.

The result may depend only on the texts and the settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stream_dedup import _native
from stream_dedup.core.scheme import FingerprintSettings, Normalisation
from stream_dedup.core.text import markup

_SPACES = re.compile(r"[^\S\n]+")
_AROUND_LINES = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")


def readable_texts(texts: Sequence[str], settings: FingerprintSettings) -> list[str]:
    """Return each field without its markup; a field that has none as it is.

    Args:
        texts: the fields, in the order of the settings.
        settings: those of the scheme.
    """
    steps = (settings.long if settings.has_long else settings.short).normalisation
    return [readable(text, steps, is_html=html) for text, html in zip(texts, settings.html, strict=True)]


def readable(text: str, steps: Normalisation, *, is_html: bool = False) -> str:
    """Return a text without the markup that these steps drop, its paragraphs on lines; without markup as it is."""
    bare = markup.text_of(text) if is_html else text
    bare = _native.without_markup(bare, entities=steps.entities, tags=steps.tags)
    return text if bare == text else _tidied(bare)


def _tidied(text: str) -> str:
    """Return a text without the white space that markup leaves: one space between words, one empty line at most."""
    lines = _AROUND_LINES.sub("\n", _SPACES.sub(" ", text.replace("\r\n", "\n")))
    return _EMPTY_LINES.sub("\n\n", lines).strip()
