r"""The bound on a parser's work in plain Python: what ``native/src/decode/html/nesting.rs`` is held against.

The rules of HTML make a parser slow on pages built for it, for three reasons:

* Most tags search all open elements. An end tag closes nothing unless its element is open and within reach, so the
  depth is not the difference of start and end tags: each ``<div></x>`` leaves one more element open.
* Formatting elements (``<b>``, ``<font>``) that a block leaves open are made again in every following block: a
  thousand of them before a thousand paragraphs make a million elements out of 20 kB.
* Each attribute of a tag is compared with all other attributes of the tag, be it a start tag or an end tag.

``too_deep`` bounds all three. Tags are read exactly as a parser reads them, with attributes, comments and scripts. A
start tag opens its element. An end tag closes the last element of its name only if the rules require it, because no
element between them prevents it; all other elements stay counted. So the bound may be too high (an omitted optional
end tag counts), and is never too low, except for the two elements that a table cell adds by itself.

Where parsers differ (some read a style sheet inside of a picture as tags), the rest of the page must be small.

The result may depend only on the text.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

MAX_DEPTH = 2_000
"""Most open elements of a page that is parsed: browsers stop at some 500; the worst megabyte takes 3 s."""
MAX_REBUILT = 250_000
"""Most formatting elements that a parser may have to make again: some 0.4 s and 90 MB, scaled from 5 million."""
MAX_ATTRIBUTES = 1_000
"""Most attributes of one tag: 2 ms. A long value with many words is one attribute."""
SMALL_TAGS, SMALL_CHARACTERS = 256, 16_384
"""A page within both limits takes at most a few hundredths of a second, so it is not read."""
REACH = 64
"""Most open elements that are searched for the element of an end tag."""
_MOST_ALIKE = 3
"""Most equal formatting elements (name and attributes) that a parser makes again."""
MAX_FRAMESETS = 16
"""Most framesets behind which the rest of a page is read once more."""
_MOST_BLOCKS = 8
"""Most blocks that the end tag of a formatting element moves out of it."""

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
"""Elements whose content is text, not tags."""
_ONCE = _names("html head body")
_VOID = _names("area base br col embed frame hr img input link meta param source track wbr")
_CLOSED = _VOID | _ONCE
"""Elements that a start tag does not open: void elements, and those that are always open."""
_CLOSED_EVERYWHERE = _names("body br embed head hr img meta")
"""Elements that end a picture or a formula, so they are not open within either."""
_FOREIGN = _names("svg math")
_STRANGE = _FOREIGN | _names("select template frameset")
"""Elements with rules of their own for their content."""
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_NOTABLE = _CLOSED | _RAW | _STRANGE | _FORMATTING | {"plaintext"}
"""Elements whose start tag does more than open one element."""
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
"""The special elements, and those that are special inside of a formula or a picture."""


def too_deep(html: str) -> bool:
    """Whether a parser may exceed a limit of open elements, of elements to make again, or of attributes."""
    if _small(html, 0):
        return False
    elements = _OpenElements(html)
    at: int | None = 0
    while at is not None and not elements.beyond:
        token = _TOKEN.search(html, at)
        at = None if token is None else elements.read(token)
    return elements.beyond


def _small(html: str, start: int) -> bool:
    """Whether the text from ``start`` on is too small to be slow."""
    return len(html) - start <= SMALL_CHARACTERS and html.count("<", start) <= SMALL_TAGS


class _OpenElements:
    """The elements that a parser may have open while the tags of a page are read."""

    def __init__(self, html: str) -> None:
        self._beyond = False
        self._html = html
        self._open: list[str] = []
        self._tags: list[str] = []
        """The tag of each open formatting element, as written; empty for others."""
        self._strange = self._foreign = 0
        self._alike: Counter[str] = Counter()
        """Number of open formatting elements, by tag as written."""
        self._formatting = self._rebuilt = self._merged = 0
        self._framesets = self._reread = 0
        """Number of framesets, and of those behind which the rest was read once more."""

    def read(self, token: re.Match[str]) -> int | None:
        """Read one token; return where to continue, or None if the rest is not read."""
        slash, name, attributes, closed, comment, ended = token.groups()
        self._rebuilt += self._formatting
        if not closed:
            return self._after_no_tag(token, comment=comment, ended=ended)
        name = name.encode().lower().decode()  # ASCII letters alone, as parsers do, whatever this Python knows
        if slash:
            self._count_attributes("", attributes)
            self._end(name)
        elif name in _NOTABLE or len(attributes) > MAX_ATTRIBUTES:
            return self._start_notable(name, attributes, token)
        else:
            self._open.append(name)
            self._tags.append("")
        return token.end()

    @property
    def beyond(self) -> bool:
        """Whether a limit is exceeded."""
        return self._beyond or len(self._open) > MAX_DEPTH or self._rebuilt > MAX_REBUILT

    def _after_no_tag(self, token: re.Match[str], *, comment: str | None, ended: str | None) -> int | None:
        """Return the end of a comment or declaration; None if the page ends within it, or within a tag."""
        if comment:
            rest = _COMMENT.match(self._html, token.end())
            return None if rest is None else rest.end()
        return self._after_declaration(token) if ended else None

    def _after_declaration(self, token: re.Match[str]) -> int | None:
        """Return the end of a declaration; CDATA ends at ]]> inside of a picture, elsewhere at the first >."""
        written = token[0].lower()
        if self._strange and written.startswith("<![cdata[") and not written.endswith("]]>"):
            self._doubt(token.end())
            return None
        return token.end()

    def _start_notable(self, name: str, attributes: str, token: re.Match[str]) -> int | None:
        self._count_attributes(name, attributes)
        self._framesets += name == "frameset"
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
        # A page has one html and one body, which get the attributes of all their tags.
        self._merged += count if name in _ONCE else 0
        self._beyond |= max(count, self._merged) > MAX_ATTRIBUTES

    def _after_raw(self, name: str, start: int) -> int | None:
        """Return the end of the content of a raw element."""
        end = _raw_end(self._html, start, name)
        if self._strange and (end is None or "<" in self._html[start:end]):
            self._doubt(start)
            return None
        if self._reread < self._framesets:
            self._reread = self._framesets
            self._after_frameset(start)
        return end

    def _after_frameset(self, start: int) -> None:
        """Count the attributes of all that follows: behind a frameset a parser drops raw elements."""
        self._beyond |= self._framesets > MAX_FRAMESETS
        at: int | None = None if self._beyond else start
        while at is not None and (token := _TOKEN.search(self._html, at)):
            slash, name, attributes, closed, comment, ended = token.groups()
            if name:
                is_start = closed and not slash
                self._count_attributes(name.encode().lower().decode() if is_start else "", attributes)
            rest = _COMMENT.match(self._html, token.end()) if comment else token if closed or ended else None
            at = None if rest is None else rest.end()

    def _doubt(self, start: int) -> None:
        """Allow only a small rest, because it may or may not be tags."""
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
            # Counted before an element opens, and after one closes.
            self._alike[tag] += min(step, 0)
            self._formatting += step if self._alike[tag] < _MOST_ALIKE else 0
            self._alike[tag] += max(step, 0)

    def _reached(self, name: str) -> int | None:
        """Return the index of the element that an end tag of this name certainly closes, or None."""
        if self._open[-1:] == [name]:
            return len(self._open) - 1
        inner = self._open[: -REACH - 1 : -1]
        if name not in inner:
            return None
        between = inner[: inner.index(name)]
        return None if _in_the_way(name, between) else len(self._open) - 1 - len(between)


def _in_the_way(name: str, between: list[str]) -> bool:
    """Whether the open elements between may keep an end tag from closing the last element of its name."""
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
    """Return the start of the end tag of a raw element, or None."""
    if name == "plaintext":
        return None
    if name == "script":
        return _script_end(html, start)
    found = _raw_end_tag(name).search(html, start)
    return None if found is None else found.start()


def _script_end(html: str, start: int) -> int | None:
    """Return the same for a script; a script within a comment within it has an end tag of its own."""
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
