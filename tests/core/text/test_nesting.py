"""The bound on a parser's work: never too low, and far from what pages have."""

import random
import re
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from stream_dedup.core.text import nesting
from stream_dedup.core.text.markup import _ANY_TAG, _without_raw, text_of
from stream_dedup.core.text.nesting import MAX_ATTRIBUTES, MAX_DEPTH, too_deep
from tests.amount import FULL

PAGES = 150 if FULL else 40
"""Of each seed."""
ROWS = 3000
"""Of a long page."""
IMPLIED = 3
"""Elements for one start tag: a cell brings the body and the row of its table with it."""


def reading(html: str) -> tuple[int, int, bool]:
    """Most elements open at once and elements made again, as far as the bound knows; whether it is in doubt."""
    page, peak = nesting._OpenElements(html), 0
    at: int | None = 0
    while at is not None and (token := nesting._TOKEN.search(html, at)):
        at = page.read(token)
        peak = max(peak, len(page._open))
    return peak, page._rebuilt, page._beyond


def parsed(html: str) -> tuple[int, int]:
    """Depth and number of the nodes that the parser makes."""
    node, depth, count = LexborHTMLParser(html).root, 1, 0
    deepest = 0
    waiting: list[tuple[Any, int]] = []
    while node is not None or waiting:
        if node is None:
            node, depth = waiting.pop()
        count, deepest = count + 1, max(deepest, depth)
        if node.child is not None:
            waiting.append((node.child, depth + 1))
        node = node.next
    return deepest, count


NAMES = """
    div p b i a font nobr span x li ul dd h1 h2 table tr td tbody caption th select option optgroup svg math g path
    source br foreignObject desc mi button form template object marquee script style title textarea plaintext
    frameset head body html noscript pre ruby rt hr img input col colgroup iframe center main annotation-xml image
""".split()  # noqa: SIM905 - a list of this length is read as prose
ATTRIBUTES = (
    " a=1",
    " a='>'",
    ' a="</div>"',
    "/",
    " a=b=\"'",
    " hidden",
    ' a="<b>"',
    '=" ',
    "\f",
    " color=1",
    " x y",
    ' a="1"b="2"',
)
OTHER = (
    "<!--",
    "-->",
    "<!-->",
    "--!>",
    "<!>",
    "</>",
    "<?",
    "<![CDATA[",
    "]]>",
    "</3",
    ">",
    "<",
    '"',
    "'",
    "<!--<script>",
    "x",
)


def piece(rng: random.Random) -> str:
    """A tag or what looks like one."""
    kind, name = rng.random(), rng.choice(NAMES)
    if kind < 0.45:
        return f"<{name}{rng.choice(ATTRIBUTES) if rng.random() < 0.2 else ''}>"
    return f"</{name}>" if kind < 0.85 else rng.choice(OTHER)


@pytest.mark.parametrize("seed", range(0, 10_000, 500))
def test_the_bound_is_never_too_low(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser's tree of any page that repeats itself is no deeper and no larger than the bound."""
    for name in ("SMALL_TAGS", "SMALL_CHARACTERS"):
        monkeypatch.setattr(nesting, name, -1)
    for one in range(seed, seed + PAGES):
        rng = random.Random(one)
        alphabet = [piece(rng) for _ in range(rng.randint(2, 6))]
        html = "".join(rng.choices(alphabet, k=3)) + "".join(rng.choices(alphabet, k=rng.randint(2, 8))) * 40
        peak, rebuilt, doubt = reading(html)
        depth, count = parsed(html)
        assert doubt or depth <= IMPLIED * peak + 10, (one, html[:200])
        assert doubt or count <= 2 * IMPLIED * html.count("<") + 2 * rebuilt + html.count(">") + 10, (one, html[:200])


@pytest.mark.parametrize(
    "html",
    [
        "<div></x>" * 2 * MAX_DEPTH,
        "<p><div></p>" * 2 * MAX_DEPTH,
        "<span><div></span></div>" * 2 * MAX_DEPTH,
        "<div><table></div></table>" * 2 * MAX_DEPTH,
        "<x><select></x></select>" * 2 * MAX_DEPTH,
        '<div a="</div>">' * 2 * MAX_DEPTH,
        "<div><!--</div>-->" * 2 * MAX_DEPTH,
        "<div><script><!--<script></script></div></script>" * 2 * MAX_DEPTH,
        "<div><style></div></style>" * 2 * MAX_DEPTH,
        "<svg>" + "<source>" * 2 * MAX_DEPTH,
        "<b><div>" * 2 * MAX_DEPTH,
        "<annotation-xml><li></annotation-xml>" * 2 * MAX_DEPTH,
        "".join(f"<b x={n}>{'<div>' * 9}</b>{'</div>' * 9}" for n in range(MAX_DEPTH)),
        "<p>" + "".join(f"<b x={n}>" for n in range(1000)) + "</p><p>x" * 1000,
        "<a " + " ".join(f"a{n}" for n in range(16 * MAX_ATTRIBUTES)) + ">",
        "".join(f"<body a{n}>" for n in range(2 * MAX_ATTRIBUTES)),
    ],
)
def test_pages_that_would_take_long_are_known(html: str) -> None:
    """Pages with unclosed elements, elements to make again, or many attributes are too deep."""
    assert too_deep(html)


@pytest.mark.parametrize(
    "html",
    [
        "<div><p>a</p><br><img src=x></div>" * ROWS,
        "<ul>" + "<li><a href='/x?a=1&b=2' title=\"a > b\">a</a> <b>b</b></li>" * ROWS + "</ul>",
        "<table>" + "<tr><td>a</td><td><i>b</i></td></tr>" * ROWS + "</table>",
        "<div><b><i>a</b></i></div>" * ROWS,
        "<div><p><span>a</div>" * (MAX_DEPTH // 2 - 10),
        "<p>a" * (MAX_DEPTH - 10),
        "<script>if (a<b && c<d) document.write('<div><p>')</script><!-- <div> -->" * ROWS,
        "<svg width=1><title>a</title><g><path d='M0'></path></g></svg><br>" * ROWS,
        "<select><option value=1>a</option></select><input type=text>" * ROWS,
        "<p>" + "word " * 100_000,
        f"<p title=\"{'word ' * 10_000}\" style='{'a: b; ' * 1000}'>",
    ],
)
def test_long_pages_are_parsed(html: str) -> None:
    """Pages with many tags are parsed if few elements are open at once."""
    assert not too_deep(html)


RAW = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)


def test_comments_and_scripts_are_cut_as_the_definition_does() -> None:
    """Comments and scripts are cut as by one regular expression, whose time would be quadratic."""
    pieces = [
        "<!--",
        "-->",
        "<script",
        "</script>",
        "<STYLE>",
        "</style >",
        "</script x>",
        "a",
        "-",
        ">",
        "<b>",
        "<scripts>",
    ]
    for seed in range(200):
        rng = random.Random(seed)
        html = "".join(rng.choices(pieces, k=rng.randrange(40)))
        assert _ANY_TAG.sub("\n", RAW.sub("\n", html)) == _ANY_TAG.sub("\n", _without_raw(html)), seed


def test_a_number_of_a_character_may_have_any_length() -> None:
    """A character reference longer than Python reads as a number is replaced on a page that is not parsed."""
    digits = "9" * 5000
    assert text_of("<div>" * 2 * MAX_DEPTH + f"a&#{digits};b&#x{digits};c&#65;").split() == ["a\ufffdb\ufffdcA"]
