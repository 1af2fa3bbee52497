"""The text of an article as a reader sees it: its words are those that the fingerprint is made of.

The steps (``native/src/decode/readable.rs``) are those of the scheme that drop markup (``markup``, ``entities`` and
``tags``), and no others: case, addresses, pictures and invisible characters stay. Tags of blocks leave line breaks,
where the fingerprint needs a space.

The result may depend only on the texts and the settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_dedup import _native
from stream_dedup.core.scheme import FingerprintSettings, Normalisation


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
    return _native.readable(text, is_html=is_html, entities=steps.entities, tags=steps.tags)
