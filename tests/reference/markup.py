"""HTML to text as selectolax has it, in plain Python.

The text of a page is its body without scripts, styles, hidden elements, readings and marks of notes. Block elements,
line breaks and table cells are separated from their surroundings; inline elements are not (``<b>w</b>ord`` is one
word). The parser (lexbor, of selectolax) reads any input as browsers do: broken markup, entities, fragments without a
body, comments.

A page that exceeds a limit of the parser loses its tags by a plain loop instead (``stripped``). The limits count what
the parser makes and holds on its way, which lexbor does not tell: ``tests/core/test_page_limits.py`` calculates them by
hand, and ``ways`` says what the finished tree tells of them.

This is what ``native/src/decode/html.rs`` is held against. Its parser differs in three kinds of broken markup
(``tests/fuzz/pages.py``).
"""

from __future__ import annotations

import re
from html import unescape

from selectolax.lexbor import LexborHTMLParser, LexborNode

from tests.reference.unicode14 import join_halves

_BLOCKS = """
    address article aside blockquote br caption center dd details dialog dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol optgroup option p pre section
    summary table tbody td tfoot th thead tr ul
"""
BLOCKS = _BLOCKS.split()
"""Names of the elements that are separated from their surroundings."""
_JUMP = "a[href^='#']:not([href='#'])"
_UNSEEN = (
    "script,style,noscript,template,iframe,object,svg,math,head,textarea,select,"
    f"rp,rt,rtc,datalist,noembed,noframes,title,sup > {_JUMP},{_JUMP} > sup"
)
_PERHAPS_UNSEEN = "[hidden],[style],[role],[epub\\:type],sup[class]"
_NOTE_CLASSES = {"reference", "footnote", "footnote-ref", "noteref"}
_NOTE_ROLES = {"doc-noteref", "doc-backlink", "noteref"}
_WHITE = " \t\n\f\r"
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_RAW = re.compile(
    r"<!--.*?-->|<script\b.*?</script\s*>|<style\b.*?</style\s*>",
    re.IGNORECASE | re.DOTALL,
)
_ANY_TAG = re.compile(r"<[/!?a-z][^>]*>?", re.IGNORECASE)
_LONG_REFERENCE = re.compile("&#[0-9]{1000,};?")
"""A number beyond every code point, and too long for Python to read."""


MAX_HELD = 1_000
"""Most elements that a parser may have to know at a time, and their attributes."""
MAX_UNWRITTEN, VALUE_BYTES = 250_000, 16
"""Most elements and attributes that it may make beside those that a page of this length can write; and the bytes of the
values of attributes that are as much as one of them."""
_UNTOLD = re.compile(f"<(?:template|frameset|[^>]{{{2 * MAX_HELD}}})", re.IGNORECASE)
"""What the finished tree does not tell of: what templates hold and framesets remove, and the attributes of end tags."""


def ways(html: str) -> set[str]:
    """Return the texts that a page may have, as far as its finished tree tells: parsed, without tags, or either."""
    html = join_halves(html)
    sizes, values, deepest = 0, 0, 0
    pending = [(LexborHTMLParser(html).root, 1)]
    while pending:
        node, depth = pending.pop()
        if node is not None:
            sizes, deepest = sizes + 1 + len(node.attributes), max(deepest, depth)
            values += sum(len((value or "").encode()) for value in node.attributes.values()) // VALUE_BYTES
            pending += [(child, depth + 1) for child in node.iter()]
    may_be_stripped = sizes > MAX_HELD or sizes + values > MAX_UNWRITTEN or _UNTOLD.search(html) is not None
    return {*([text_of(html)] if deepest <= MAX_HELD else []), *([stripped(html)] if may_be_stripped else [])}


def text_of(html: str, *, marks_quotes: bool = False) -> str:
    """Return the text of a page or of a fragment that exceeds no limit; each block is on its own line.

    ``marks_quotes``: block quotations keep their tags.
    """
    if "<" not in html and "&" not in html:
        return html
    html = join_halves(html)
    tree = LexborHTMLParser(html)
    body = tree.body
    if body is None:
        return ""
    # Inner elements first: removing an outer one removes those inside.
    unseen = {one.mem_id: one for one in body.css(_UNSEEN)}
    unseen |= {one.mem_id: one for one in body.css(_PERHAPS_UNSEEN) if _is_unseen(one)}
    for one in reversed([one for one in body.css(f"{_UNSEEN},{_PERHAPS_UNSEEN}") if one.mem_id in unseen]):
        one.decompose()
    for block in body.css(",".join(BLOCKS)):
        is_marked = marks_quotes and block.tag == "blockquote"
        block.insert_before("\n<blockquote>\n" if is_marked else "\n")
        block.insert_after("\n</blockquote>\n" if is_marked else "\n")
    return str(body.text())


def _is_unseen(one: LexborNode) -> bool:
    """Whether an element says itself that it is not shown, or that it is the mark of a note."""
    said = {name: value or "" for name, value in one.attributes.items()}
    if "hidden" in said and said["hidden"].lower() != "until-found":
        return True
    style = _COMMENT.sub(" ", said.get("style", ""))
    declarations = [declaration.partition(":") for declaration in style.split(";")]
    # What is important counts last.
    declarations.sort(key=lambda declaration: "!" in declaration[2])
    shown = {
        name.strip(_WHITE).lower(): value.partition("!")[0].strip(_WHITE).lower() for name, _, value in declarations
    }
    is_note = one.tag == "sup" and not _NOTE_CLASSES.isdisjoint(_tokens(said.get("class", "")))
    is_note |= not _NOTE_ROLES.isdisjoint(_tokens(said.get("role", "")) + _tokens(said.get("epub:type", "")))
    # Many pages show their body by a script.
    return one.tag != "body" and (is_note or shown.get("display") == "none")


def _tokens(value: str) -> list[str]:
    return re.split(f"[{_WHITE}]", value)


def stripped(html: str) -> str:
    """Remove tags, and comments, scripts and styles that have an end, without parsing the structure."""
    return unescape(_LONG_REFERENCE.sub("\ufffd", _ANY_TAG.sub("\n", _RAW.sub("\n", html))))
