r"""How much work a page is for a parser of HTML, bounded from above by one pass over its tags.

The rules of HTML make a parser slow on purpose-built pages, and not only where tags are nested:

* Most tags look through all open elements. An end tag closes nothing unless its element is open and within reach, so
  the nesting is no difference of start and end tags: ``<div></x>`` leaves one more element open each time.
* Formatting elements (``<b>``, ``<font>``) that a block leaves open are made again in every block that follows: a
  thousand of them before a thousand paragraphs are a million elements, of 20 kB.
* Each attribute of a tag is compared with all others of it.

``too_deep`` bounds all three. Tags are read exactly as a parser reads them: attributes, comments, scripts. Then every
start tag leaves its element open, and an end tag closes the last element of its name only where the rules say that it
must, nothing between them being in its way; all others stay counted. So the bound may be too high (an
optional end tag that is left out counts), never too low but for the two elements that a cell of a table brings with it.

Where the reading itself is in doubt (a style sheet inside a picture is tags to some parsers) the rest of the page must
be small.

Must never depend on anything but the text.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

MAX_DEPTH = 2_000
"""Open elements up to which a page is parsed: browsers stop at some 500; 3 s for the worst megabyte at this depth."""
MAX_REBUILT = 250_000
"""Formatting elements that a parser may have to make again: some 0.4 s and 90 MB, by what 5 million take."""
MAX_ATTRIBUTES = 1_000
"""Attributes of one tag: 2 ms. A long value with many words is one."""
SMALL_TAGS, SMALL_CHARACTERS = 256, 16_384
"""What needs no look: up to these a page takes a few hundredths of a second whatever it holds."""
REACH = 64
"""Open elements among which an end tag looks for its own."""
_MOST_ALIKE = 3
"""Formatting elements of one name and the same attributes that a parser makes again."""
_MOST_BLOCKS = 8
"""Blocks that the end tag of a formatting element moves out of it."""

_SPACE = r"\t\n\f\r "
_VALUE = rf"""(?:"[^"]*+"|'[^']*+'|[^{_SPACE}>"'][^{_SPACE}>]*+|(?=>))"""
_IS = rf"[{_SPACE}]*+="
_ATTRIBUTE = rf"[^{_SPACE}/>][^{_SPACE}/>=]*+(?:{_IS}[{_SPACE}]*+{_VALUE}|(?!{_IS}))"
_TAG = rf"(/?)([a-z][^{_SPACE}/>]*+)((?:[{_SPACE}/]++|{_ATTRIBUTE})*+)"
_TOKEN = re.compile(rf"<(?:{_TAG}(>)?|(!--)|(?:[?!]|/(?!>))[^>]*+(>)?)", re.IGNORECASE | re.ASCII)
# <!--> is a whole comment.
_COMMENT = re.compile("-?>|.*?--!?>", re.DOTALL)
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_SCRIPT = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_RAW = _names("script style textarea title xmp iframe noembed noframes")
"""Elements whose content is no tags."""
_ONCE = _names("html head body")
_VOID = _names("area base br col embed frame hr img input link meta param source track wbr")
_CLOSED = _VOID | _ONCE
"""What a start tag does not open: void elements, and those that are open from the beginning."""
_CLOSED_EVERYWHERE = _names("body br embed head hr img meta")
"""What is not open inside of a picture or a formula either: it ends them."""
_FOREIGN = _names("svg math")
_STRANGE = _FOREIGN | _names("select template frameset")
"""Elements inside of which other rules hold."""
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_NOTABLE = _CLOSED | _RAW | _STRANGE | _FORMATTING | {"plaintext"}
"""Elements whose start tag is more than one element more."""
_TABLE = _names("table tbody thead tfoot tr td th caption")
_WALLS = _STRANGE | _names("applet button marquee object caption table td th")
"""What an end tag does not reach through."""
_TABLE_WALLS = _STRANGE | _names("applet marquee object table")
_LIST_WALLS = _WALLS | _names("ol ul")
_BLOCKS = _names(
    "address applet area article aside base basefont bgsound blockquote body br button caption center col colgroup dd "
    "details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header "
    "hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed noframes noscript "
    "object ol p param plaintext pre script search section select source style summary table tbody td template "
    "textarea tfoot th thead title tr track ul wbr xmp"
)
"""The elements that the standard calls special."""
_MAYBE_BLOCKS = _BLOCKS | _names("mi mo mn ms mtext annotation-xml foreignobject desc")
"""With those that are special inside of a formula or a picture."""


def too_deep(html: str) -> bool:
    """Whether a parser may have more open elements, elements to make again or attributes than the limits."""
    if _small(html, 0):
        return False
    elements = _OpenElements(html)
    at: int | None = 0
    while at is not None and not elements.beyond:
        token = _TOKEN.search(html, at)
        at = None if token is None else elements.read(token)
    return elements.beyond


def _small(html: str, start: int) -> bool:
    """Whether what follows from ``start`` on needs no look."""
    return len(html) - start <= SMALL_CHARACTERS and html.count("<", start) <= SMALL_TAGS


class _OpenElements:
    """What a parser may have open, while the tags of a page are read."""

    def __init__(self, html: str) -> None:
        self._beyond = False
        self._html = html
        self._open: list[str] = []
        self._tags: list[str] = []
        """Of each open formatting element the tag as it is written."""
        self._strange = self._foreign = 0
        self._alike: Counter[str] = Counter()
        """Formatting elements that are open, by how they are written."""
        self._formatting = self._rebuilt = self._merged = 0

    def read(self, token: re.Match[str]) -> int | None:
        """Take one token; the place to go on from, None where no more is to be read."""
        slash, name, attributes, closed, comment, ended = token.groups()
        self._rebuilt += self._formatting
        if not closed:
            return self._after_no_tag(token, comment=comment, ended=ended)
        name = name.lower()
        if slash:
            self._end(name)
        elif name in _NOTABLE or len(attributes) > MAX_ATTRIBUTES:
            return self._start_notable(name, attributes, token)
        else:
            self._open.append(name)
            self._tags.append("")
        return token.end()

    @property
    def beyond(self) -> bool:
        """Whether a limit is passed."""
        return self._beyond or len(self._open) > MAX_DEPTH or self._rebuilt > MAX_REBUILT

    def _after_no_tag(self, token: re.Match[str], *, comment: str | None, ended: str | None) -> int | None:
        """Where a comment or a declaration ends; None where the page ends within it, or within a tag."""
        if comment:
            rest = _COMMENT.match(self._html, token.end())
            return None if rest is None else rest.end()
        return self._after_declaration(token) if ended else None

    def _after_declaration(self, token: re.Match[str]) -> int | None:
        """What begins as CDATA goes on to ]]> inside of a picture, elsewhere to the first >."""
        written = token[0].lower()
        if self._strange and written.startswith("<![cdata[") and not written.endswith("]]>"):
            self._doubt(token.end())
            return None
        return token.end()

    def _start_notable(self, name: str, attributes: str, token: re.Match[str]) -> int | None:
        self._count_attributes(name, attributes)
        if name in _CLOSED_EVERYWHERE or (not self._foreign and name in _CLOSED):
            return token.end()
        self._push(name, token[0])
        if name in _RAW or name == "plaintext":
            return self._after_raw(name, token.end())
        return token.end()

    def _count_attributes(self, name: str, attributes: str) -> None:
        if name not in _ONCE and len(attributes) <= MAX_ATTRIBUTES:
            return
        count = sum(1 for _ in _ATTRIBUTES.finditer(attributes))
        # There is one html and one body, which takes the attributes of every tag.
        self._merged += count if name in _ONCE else 0
        self._beyond |= max(count, self._merged) > MAX_ATTRIBUTES

    def _after_raw(self, name: str, start: int) -> int | None:
        """Where the content of a script or its like ends."""
        end = _raw_end(self._html, start, name)
        if self._strange and (end is None or "<" in self._html[start:end]):
            self._doubt(start)
            return None
        return end

    def _doubt(self, start: int) -> None:
        """What follows may be tags or not: only a little of it is parsed."""
        self._beyond = not _small(self._html, start)

    def _push(self, name: str, tag: str) -> None:
        self._open.append(name)
        self._tags.append(tag)
        self._count(name, tag, 1)

    def _end(self, name: str) -> None:
        at = self._reached(name)
        if at is None:
            return
        del self._open[at]
        tag = self._tags.pop(at)
        if name in _NOTABLE:
            self._count(name, tag, -1)

    def _count(self, name: str, tag: str, step: int) -> None:
        self._strange += step if name in _STRANGE else 0
        self._foreign += step if name in _FOREIGN else 0
        if name in _FORMATTING:
            # Before one more is open, or after one less is.
            self._alike[tag] += min(step, 0)
            self._formatting += step if self._alike[tag] < _MOST_ALIKE else 0
            self._alike[tag] += max(step, 0)

    def _reached(self, name: str) -> int | None:
        """The place of the element that an end tag of this name closes for certain."""
        if self._open[-1:] == [name]:
            return len(self._open) - 1
        inner = self._open[: -REACH - 1 : -1]
        if name not in inner:
            return None
        between = inner[: inner.index(name)]
        return None if _in_the_way(name, between) else len(self._open) - 1 - len(between)


def _in_the_way(name: str, between: list[str]) -> bool:
    """Whether open elements may keep an end tag from the last one of its name."""
    if not between:
        return False
    if name in _FORMATTING:
        return not _WALLS.isdisjoint(between) or sum(one in _MAYBE_BLOCKS for one in between) >= _MOST_BLOCKS
    if name in _TABLE:
        return not _TABLE_WALLS.isdisjoint(between)
    if name == "li":
        return not _LIST_WALLS.isdisjoint(between)
    return not (_WALLS if name in _BLOCKS else _WALLS | _MAYBE_BLOCKS).isdisjoint(between)


def _raw_end(html: str, start: int, name: str) -> int | None:
    """Where the end tag is that ends this element's content, None where there is none."""
    if name == "plaintext":
        return None
    if name == "script":
        return _script_end(html, start)
    found = _raw_end_tag(name).search(html, start)
    return None if found is None else found.start()


def _script_end(html: str, start: int) -> int | None:
    """The same of a script: one within a comment within it ends by itself."""
    comment = inner = False
    while (found := _SCRIPT.search(html, start)) is not None:
        start = found.end()
        if found[0] == "<!--":
            comment, start = True, start - len("--")
        elif found[0] == "-->":
            comment = inner = False
        elif not found[1]:
            inner = comment
        elif not inner:
            return found.start()
        else:
            inner = False
    return None


@cache
def _raw_end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)
