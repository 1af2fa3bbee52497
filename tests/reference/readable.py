"""The text of an article as a reader sees it, in plain Python: ``native/src/decode/readable.rs`` is held against it."""

from __future__ import annotations

import re

from stream_dedup.core.scheme import Normalisation
from tests.reference import clean, markup


def readable(text: str, steps: Normalisation, *, is_html: bool = False) -> str:
    """Return a text without the markup that these steps drop, its paragraphs on lines; without markup as it is."""
    bare = markup.text_of(text) if is_html else text
    if steps.entities:
        bare = clean.undo_entities(bare)
    if steps.tags:
        bare = clean.drop_tags(bare, keeps_lines=True)
    return text if bare == text else _tidied(bare)


def _tidied(text: str) -> str:
    """Return a text without the white space that markup leaves: one space between words, one empty line at most."""
    lines = re.sub(r" ?\n ?", "\n", re.sub(r"[^\S\n]+", " ", text.replace("\r\n", "\n")))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()
