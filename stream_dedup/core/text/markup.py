"""Converts HTML to text (``native/src/decode/html.rs``, which says what is text)."""

from __future__ import annotations

from stream_dedup import _native

BLOCKS = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "legend",
    "li",
    "main",
    "menu",
    "nav",
    "ol",
    "optgroup",
    "option",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
]
"""Names of the elements that are separated from their surroundings."""


def text_of(html: str) -> str:
    """Return the text of a page or of a fragment; each block is on its own line."""
    return _native.text_of_html(html)
