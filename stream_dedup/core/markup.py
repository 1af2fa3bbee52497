"""HTML to text.

Owns what of a page is its text: all of the body but scripts, styles and what is hidden. Block elements, line
breaks and cells of tables stand apart from what is around them, inline elements do not (``<b>w</b>ord`` is
one word). The parser (selectolax's lexbor) reads any bytes as browsers do: broken markup, entities, fragments without a
body, comments.

Its time grows with the square of the nesting depth, so a text that is nested more deeply than any
page is stripped of its tags by a plain loop over them instead: which way is a function of the text alone.

Must never fetch anything.
"""

from __future__ import annotations

import re
from html import unescape
from itertools import accumulate

from stream_dedup.core.assigned import join_halves

MAX_DEPTH = 2_000
"""Nesting up to which a page is parsed: browsers stop at some 500; a tenth of a second at this depth."""

_BLOCKS = (
    "address,article,aside,blockquote,br,caption,center,dd,details,dialog,dir,div,dl,dt,fieldset,figcaption,figure,"
    "footer,form,h1,h2,h3,h4,h5,h6,header,hgroup,hr,legend,li,main,menu,nav,ol,optgroup,option,p,pre,section,summary,"
    "table,tbody,td,tfoot,th,thead,tr,ul"
)
_UNSEEN = "script,style,noscript,template,iframe,object,svg,math,head,textarea,select,[hidden]"
_VOID = "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
_TAG = re.compile(rf"<(?:(/)[a-z]|(?!(?:{_VOID})\b)[a-z])", re.IGNORECASE)
_RAW = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(r"<[/!?a-z][^>]*>?", re.IGNORECASE)


def text_of(html: str) -> str:
    """The text of a page or of a part of one; blocks are on lines of their own."""
    if "<" not in html and "&" not in html:
        return html
    if too_deep(html):
        return unescape(_ANY_TAG.sub("\n", _RAW.sub("\n", html)))
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only where fields are HTML

    tree = LexborHTMLParser(join_halves(html))
    body = tree.body
    if body is None:
        return ""
    # Inner ones first: what is inside of a removed element is gone.
    for unseen in reversed(body.css(_UNSEEN)):
        unseen.decompose()
    for block in body.css(_BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    return str(body.text())


def too_deep(html: str) -> bool:
    """Whether more tags are open at once somewhere than ``MAX_DEPTH``, as far as counting tells."""
    if html.count("<") <= MAX_DEPTH:
        return False
    return max(accumulate(-1 if tag.group(1) else 1 for tag in _TAG.finditer(html)), default=0) > MAX_DEPTH
