"""Pages that nobody would write, drawn from a seed: broken markup, small and large, and large beyond every limit.

The native core's parser (html5ever) and the one that it is held against (lexbor) read some broken markup differently,
and lexbor as the standard says:

* ``<search>`` is no boundary for the end tags and the items of lists around it, and ``<isindex>``, which the standard
  no longer has, is one;
* nor are the elements of pictures and formulas that hold text (``<mi>``, ``<desc>``, ``<title>``).

Lexbor lets ``<sup>`` stand in pictures and formulas, which it ends by the standard. So the names of ``NOT_DRAWN`` stand
in no drawn page, and ``<title>`` and ``<sup>`` in none that has a picture or formula.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from stream_dedup import _native
from tests.reference import markup as reference

NOT_DRAWN = "search isindex mi mo mn ms mtext annotation-xml foreignobject desc"
_NAMES = """
    div p b i a font nobr span x li ul ol dd dt dl h1 h2 h3 table thead tbody tfoot tr td th caption col colgroup select
    option optgroup button form input textarea label legend fieldset svg math g path mglyph malignmark template object
    applet marquee embed param script style title head body html frameset frame noframes noscript noembed iframe
    plaintext xmp listing pre ruby rb rt rtc rp sup hr br wbr img image source track video audio canvas picture center
    main nav aside section article address blockquote dialog details summary menu dir header footer figure figcaption
    hgroup big code em s small strike strong tt u base basefont bgsound link meta keygen slot shadow area datalist
    selectedcontent custom-element ünknown
""".split()  # noqa: SIM905 - a list of this length is read as prose
_ATTRIBUTES = (
    *(
        " hidden",
        " HIDDEN=''",
        " hidden=until-found",
        " a=1",
        " a='>'",
        ' a="</div>"',
        ' a="<b>"',
        " a=b=\"'",
        "/",
        '=" ',
    ),
    *(
        " style='display:none'",
        " style='color:red'",
        " role=doc-noteref",
        " class='a reference'",
        " href=#a",
        " epub:type=noteref",
    ),
    *("\f", " color=1", " x y", ' a="1"b="2"', " a a", " type=hidden", " shadowrootmode=open", " encoding='text/html'"),
)
_TEXTS = (
    *(
        "中文",
        "word",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\f",
        "\x00",
        "\x0b",
        "\ufeff",
        "\u00a0",
        "\u2028",
        "\ud83d",
        "😀",
        "é",
        "a",
    ),
    *("&amp;", "&amp", "&lt", "&#20013;", "&copy", "&notit;", "&ampx=", "&NotEqualTilde;", "&#65x", "&#x", "&;", "&#;"),
    *("&#x80;", "&#0;", "&#1;", "&#xD800;", "&#1114112;", "&#X41;", "&ampamp;", "&bne;", "&unknown;", "&#0065"),
    *("&CounterClockwiseContourIntegral;", f"&#{'9' * 1001};", f"&#{'0' * 1001}65;", f"&#x{'f' * 1001}"),
)
_SIGNS = (
    *(
        "<!--",
        "-->",
        "<!-->",
        "<!--->",
        "--!>",
        "<!>",
        "</>",
        "<?",
        "<![CDATA[",
        "]]>",
        "</3",
        ">",
        "<",
        "</",
        '"',
        "'",
    ),
    *("<!--<script>", "<script><!--<script></script>", "</script\x1f>", "</style\u3000>", "<ſcript>", "</ſtyle >"),
    *(
        "<scrİpt>",
        "<STYLE>",
        "<script中>",
        "<script_>",
        "<style—>",
        "<ı>",
        "<K>",
        "</style/>",
        "<a b=c d='e' f>",
        "<a '",
    ),
)
_BEGINNINGS = ("", "", "", "<!DOCTYPE html>", "<!doctype html><html><body>", "<table>", "<svg>", "<math>", "<select>")
_TIMES = (30, 60, 300, 1500)
_PLAIN_LIMITS = (
    *("<div>" * depth for depth in (990, 999, 1000, 1001, 1500)),
    *("<a " + " ".join(f"a{at}" for at in range(count)) + ">" for count in (999, 1000, 1001)),
    *("<p>" + "".join(f"<b x={at}>" for at in range(count)) for count in (100, 500)),
    *("中" * 16_000, "<svg>" + "x" * 16_000, "<b>" * 4, "<body a b c>" * 300),
)


class PageFuzzer:
    """Draws pages from a seed."""

    def __init__(self, seed: int | str) -> None:
        """The same seed draws the same pages."""
        self._random = random.Random(f"pages {seed}")
        self._ways: tuple[Callable[[], str], ...] = (self._mixed, self._mixed, self._repeated)

    def pages(self, count: int, *, large_one_in: int = 20) -> Iterator[str]:
        """Yield so many pages; one in so many is larger than those that are parsed without a look at their tags."""
        for _ in range(count):
            is_large = self._random.randrange(large_one_in) == 0
            page = self._large() if is_large else self._random.choice(self._ways)()
            has = {name for name in ("title", "sup", "svg", "math") if f"<{name}" in page.lower()}
            if has.isdisjoint(("svg", "math")) or has.isdisjoint(("title", "sup")):
                yield page

    def _piece(self) -> str:
        kind, name = self._random.random(), self._random.choice(_NAMES)
        name = name.upper() if self._random.random() < 0.1 else name
        attribute = self._random.choice(_ATTRIBUTES) if self._random.random() < 0.2 else ""
        if kind < 0.42:
            return f"<{name}{attribute}>"
        if kind < 0.7:
            return f"</{name}{attribute if self._random.random() < 0.1 else ''}>"
        return self._random.choice(_TEXTS if kind < 0.93 else _SIGNS)

    def _pieces(self, most: int) -> list[str]:
        return [self._piece() for _ in range(self._random.randrange(2, most))]

    def _mixed(self) -> str:
        return self._random.choice(_BEGINNINGS) + "".join(self._pieces(30))

    def _repeated(self) -> str:
        pieces = self._pieces(7)
        return self._random.choice(_BEGINNINGS) + "".join(self._random.choices(pieces, k=self._random.randrange(60)))

    def _large(self) -> str:
        page = "".join(self._random.choices(self._pieces(8), k=self._random.randrange(3, 9)))
        before = self._random.choice(_PLAIN_LIMITS) if self._random.randrange(2) else ""
        return before + page * self._random.choice(_TIMES) + self._mixed()


def fuzz_pages(count: int, seed: int | str, *, large_one_in: int = 20) -> list[str]:
    """Take the text of drawn pages by the product and by the definition; return the differences."""
    faults = []
    for page in PageFuzzer(seed).pages(count, large_one_in=large_one_in):
        text, expected = _native.text_of_html(page), reference.ways(page)
        if text not in expected:
            texts = " or ".join(repr(each[:500]) for each in expected)
            faults.append(f"{page[:500]!r}, {len(page)} characters: {text[:500]!r}, not {texts}")
    return faults
