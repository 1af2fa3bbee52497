"""Converts HTML to text (``native/src/decode/html.rs``, which says what is text)."""

from __future__ import annotations

from stream_dedup import _native


def text_of(html: str) -> str:
    """Return the text of a page or of a fragment; each block is on its own line."""
    return _native.text_of_html(html)
