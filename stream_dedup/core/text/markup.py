"""HTML to text.

Owns what of a page is its text: all of the body but scripts, styles and what is hidden. Block elements, line
breaks and cells of tables stand apart from what is around them, inline elements do not (``<b>w</b>ord`` is
one word). The parser (selectolax's lexbor) reads any bytes as browsers do: broken markup, entities, fragments without a
body, comments.

Some pages would take it time with the square of their length (``nesting``). These are stripped of their tags by a plain
loop over them instead: which way is a function of the text alone.

Must never fetch anything.
"""

from __future__ import annotations

import re
from html import unescape

from stream_dedup.core.text.nesting import too_deep
from stream_dedup.core.text.unicode14 import join_halves

_BLOCKS = (
    "address,article,aside,blockquote,br,caption,center,dd,details,dialog,dir,div,dl,dt,fieldset,figcaption,figure,"
    "footer,form,h1,h2,h3,h4,h5,h6,header,hgroup,hr,legend,li,main,menu,nav,ol,optgroup,option,p,pre,section,summary,"
    "table,tbody,td,tfoot,th,thead,tr,ul"
)
_UNSEEN = "script,style,noscript,template,iframe,object,svg,math,head,textarea,select,[hidden]"
_RAW = re.compile(r"<!--|<(script|style)\b", re.IGNORECASE)
_RAW_ENDS = {
    None: re.compile("-->"),
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
}
_ANY_TAG = re.compile(r"<[/!?a-z][^>]*>?", re.IGNORECASE)
_LONG_REFERENCE = re.compile("&#[0-9]{1000,};?")
"""Beyond every character, and beyond what Python reads as a number."""


def text_of(html: str) -> str:
    """The text of a page or of a part of one; blocks are on lines of their own."""
    if "<" not in html and "&" not in html:
        return html
    html = join_halves(html)
    if too_deep(html):
        return _stripped(html)
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only where fields are HTML

    tree = LexborHTMLParser(html)
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


def _stripped(html: str) -> str:
    """The text without tags, comments, scripts and styles; no structure is looked at."""
    return unescape(_LONG_REFERENCE.sub("\ufffd", _ANY_TAG.sub("\n", _without_raw(html))))


def _without_raw(html: str) -> str:
    """The text without comments, scripts and styles that end."""
    parts, done, endless = [], 0, set()
    for begin in _RAW.finditer(html):
        kind = begin[1] and begin[1].lower()
        if begin.start() < done or kind in endless:
            continue
        end = _RAW_ENDS[kind].search(html, begin.end())
        if end is None:
            # Nor has any that follows an end.
            endless.add(kind)
            continue
        parts += [html[done : begin.start()], "\n"]
        done = end.end()
    return "".join([*parts, html[done:]])
