"""The limits of what is parsed, each from both sides: the native core's are those of the definition."""

from collections.abc import Callable

import pytest

from stream_dedup._native import text_of_html as text_of
from tests.amount import FULL
from tests.reference import markup as reference
from tests.reference.nesting import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    REACH,
    SMALL_CHARACTERS,
    SMALL_TAGS,
    too_deep,
)

FRAMES = "<frameset></frameset>"
LARGE = "<br>" * SMALL_TAGS
"""More tags than a small page has, none of which stays open."""
ONCE_MORE = 30
"""So many elements are left open by a part that leaves one, on a page where ten are too many."""


def deep(part: str, repeated: int = ONCE_MORE) -> str:
    return LARGE + "<i-i>" * (MAX_DEPTH - 10) + part * repeated


def formatted(count: int, tags: int, each: int = 1) -> str:
    return "<p>" + "".join(f"<b x={at}>" * each for at in range(count)) + "<br>" * tags


def numbered(count: int) -> str:
    return "<a " + " ".join(f"a{at}" for at in range(count)) + ">x</a>"


def reaching(between: int) -> str:
    """A page that is too deep if end tags do not reach so far."""
    part = "<span>" + "<x-x>" * between + "</span>" + "</x-x>" * between
    return LARGE + "<i-i>" * (MAX_DEPTH - 100) + part * 120


END = "one<i>two</i>&amp"
"""Other text where it is parsed and where it is not."""
LIMITS: dict[str, tuple[Callable[[int], str], int]] = {
    "open elements": (lambda count: LARGE + "<i-i>" * count, MAX_DEPTH),
    "elements made again": (lambda count: formatted(250, count), 875),
    "equal elements made again": (lambda count: formatted(100, count, 4), 632),
    "attributes": (lambda count: LARGE + numbered(count), MAX_ATTRIBUTES),
    "attributes of an end tag": (lambda count: LARGE + numbered(count).replace("<", "</"), MAX_ATTRIBUTES),
    "attributes behind frames": (lambda count: LARGE + FRAMES + "<title>" + numbered(count), MAX_ATTRIBUTES),
    "attributes of all bodies": (lambda count: "<body a b>" * (count // 2) + LARGE, MAX_ATTRIBUTES),
    "characters": (lambda count: numbered(2 * MAX_ATTRIBUTES).ljust(count, "中"), SMALL_CHARACTERS - len(END)),
    "tags": (lambda count: numbered(2 * MAX_ATTRIBUTES) + "<br>" * (count - 2), SMALL_TAGS),
    "reach": (reaching, REACH - 1),
    "blocks": (lambda count: deep("<b>" + "<div>" * count + "</b>" + "</div>" * count), 8),
    "characters in doubt": (
        lambda count: "<svg><style><i>" + LARGE[: 4 * 9] + "y" * count,
        SMALL_CHARACTERS - len(END) - 39,
    ),
    "tags in doubt": (lambda count: "z" * SMALL_CHARACTERS + "<svg><![CDATA[<i>" + "<br>" * count, SMALL_TAGS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_that_of_the_definition(name: str) -> None:
    """A page at the limit, and those with one part less and more; two of them are read in two ways."""
    make, limit = LIMITS[name]
    about = range(-12, 13) if FULL else (-12, -2, -1, 0, 1, 2, 12)
    pages = [make(limit + more) + END for more in about]
    stripped = [text_of(page) == reference._stripped(page) for page in pages]
    assert len(set(stripped)) == 2
    assert [text_of(page) for page in pages] == [reference.text_of(page) for page in pages]


PARTS = """
<x-x><y-y></x-x></y-y> <x-x></y-y></x-x> <X-X></x-x> <x-x/></x-x> <x-x><table></x-x></table> <table><x-x></table></x-x>
<li><ul></li></ul> <li><p></li></p> <p><div></p></div> <div><p></div></p> <b><td></b></td> <b><p></b></p>
<tr><b></tr></b> <td><button></td></button> <td><object></td></object> <span><mi></span></mi> <select><p></select></p>
<b><b></b></b> <x-x><br></x-x> <x-x><svg><br></svg></x-x> <svg><source></svg> <svg><hr></svg> <x-x><plaintext></x-x>
<x-x_a='</x-x>'></x-x> <x-x_a="</x-x>"></x-x> <x-x_a=b="'></x-x> <x-x_a='></x-x>'></x-x> <x-x_a=></x-x> <x-x_=a></x-x>
<x-x_a_=_'</x-x>'_></x-x_> <x-x></x-x_/> <x-x_a'></x-x>'> <x-x_a/='</x-x>'> <x-x_a='</x-x>'b="</x-x>"></x-x>
<x-x><!--</x-x>--></x-x> <x-x><!--></x-x> <x-x><!---></x-x> <x-x><!----></x-x> <x-x><!--a--!></x-x>
<x-x><!--a-></x-x>--> <x-x><?</x-x> <x-x></></x-x> <x-x></3</x-x> <x-x><!</x-x> <x-x><></x-x> <x-x><![CDATA[</x-x>]]>
<x-x><3</x-x> <x-x><script></x-x></script> <x-x><style></x-x></STYLE> <x-x><title></x-x></titles></title>
<x-x><textarea></textarea/></x-x> <x-x><script><!--<script></script></x-x></script> <x-x><script><!--></script></x-x>
<x-x><script><!--<script></script>--></x-x></script> <x-x><script><!--<script>--></script></x-x>
<x-x><script><!--<scripts></script></x-x> <abcdefghijklmnop></ABCDEFGHIJKLMNOP> <abcdefghijklmnop></abcdefghijklmnoq>
<abcdefghijklmno></abcdefghijklmnop> <ünknown></ünknown> <x-x_a='>'</x-x> <script><!--><script></script><x-x>
"""
"""Parts of pages, with _ for a space."""


def parts() -> list[str]:
    return [part.replace("_", " ") for part in PARTS.split()]


@pytest.mark.parametrize("part", [*parts(), "<x-x a\f=\n></x-x>"])
def test_a_part_leaves_open_what_the_definition_says(part: str) -> None:
    """Seen where ten more open elements are too many."""
    pages = [deep(part, repeated) + END for repeated in (1, ONCE_MORE)]
    assert [text_of(page) for page in pages] == [reference.text_of(page) for page in pages]


def test_some_parts_leave_elements_open() -> None:
    """Else the test before could not fail."""
    kinds = [too_deep(deep(part)) for part in parts()]
    assert min(kinds.count(True), kinds.count(False)) > len(kinds) // 4


@pytest.mark.parametrize(
    "part",
    [
        *("<script中>a</script>b", "<script_>a</script>b", "<style—>a</style>b", "<script\u0378>a</script>b"),
        *("<script>a</script\u3000>b", "<script>a</ſcrİpt\x1f>b", "<ſtyle>a</style>b", "<style>a</style/>b</style>c"),
        *("<!--a-->b", "<!--a--!>b-->c", "<!-->a-->b", "<!--a", "<ı>a", "<K>a", "<é>a", "<a", "<", "</", "a<!b>c<?d>e"),
        *("&notit;", "&amp;lt;", "&ampx", "&AMP", "&#65", "&#x41;", "&#X41", "&#0;", "&#13;", "&#128;", "&#x9f;"),
        *("&#xd800;", "&#x110000;", "&#xfdd0;", "&#x1ffff;", "&#99999999999;", "&#;", "&#x;", "&#1;", "&a;", "&;"),
        *(
            "&CounterClockwiseContourIntegral;",
            "&CounterClockwiseContourIntegralx",
            "&NotEqualTilde;",
            "&bne",
            "&&amp;&",
        ),
        *(f"&#{'0' * zeros}65;" for zeros in (996, 997, 998, 999)),
        *(f"&#x{'0' * 5000}41;", f"&#x{'9' * 5000};", f"&#{'9' * 5000};", "&lt<b>;", "&&amp;&"),
    ],
)
def test_a_page_that_is_not_parsed_is_stripped_as_the_definition_does(part: str) -> None:
    """Scripts, styles and comments with an end, tags, and characters by name and number."""
    page = deep("<x-x>") + part
    assert text_of(page) == reference.text_of(page)
    assert text_of(page) == reference._stripped(page)
