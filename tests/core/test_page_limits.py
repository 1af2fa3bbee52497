"""The limits of what is parsed, each from both sides.

What counts is what the standard has a parser make (elements, and their attributes) and hold: what is open, the
formatting elements that it would make again, the head and the form. Of these pages it is calculated by hand.
"""

from collections.abc import Callable

import pytest

from stream_dedup._native import text_of_html as text_of
from tests.reference import markup as reference
from tests.reference.markup import MAX_HELD

MAX_ATTRIBUTES = 1_000
END = "one<i>two</i>&amp"
"""Other text where it is parsed and where it is not."""
HELD = MAX_HELD - len(("html", "head", "body", "i"))
"""What a page may hold beside those that it holds with this end."""


def attributes(count: int, written: str = "a{} ") -> str:
    return "<br " + "".join(written.format(at) for at in range(count)) + ">"


LIMITS: dict[str, tuple[Callable[[int], str], int]] = {
    "open elements": (lambda count: "<i-i>" * count, HELD),
    "attributes of open elements": (lambda count: "<i-i a b c>" * (count // 4) + "<i-i>" * (count % 4), HELD),
    "end tags that close nothing": (lambda count: "<div></x>" * count, HELD),
    "end tags that do not reach": (lambda count: "<div><table></div></table>" * count, HELD),
    "formatting elements that are not open": (
        lambda count: "<p>" + "".join(f"<b x={at}>" for at in range(count // 2)) + "<b>" * (count % 2) + "</p>",
        HELD,
    ),
    "elements of a picture": (lambda count: "<svg>" + "<source>" * count, HELD),
    "implied elements": (lambda count: "<table><td>" * (count // 4) + "<i-i>" * (count % 4), HELD),
    # 205 elements and attributes, and 201 a paragraph; 250,000 are allowed, and half of 810 and of 8 bytes a paragraph.
    "elements made again": (
        lambda count: "<p>" + "".join(f"<b x={at}>" for at in range(100)) + "</p><p>x" * count,
        1_270,
    ),
    # 1,007 elements, attributes and 16 bytes of values, 1,003 a paragraph; half of 16,026 and of 8 bytes a paragraph.
    "values made again": (lambda count: f"<p><b x={'a' * 16_000}>" + "</p><p>x" * count, 257),
    "attributes": (attributes, MAX_ATTRIBUTES),
    "attributes with values": (lambda count: attributes(count, "a{} = 'b>' "), MAX_ATTRIBUTES),
    "attributes side by side": (lambda count: attributes(count, 'a{}="b c"'), MAX_ATTRIBUTES),
    "equal attributes": (lambda count: attributes(count, "/a=b/c\n"), MAX_ATTRIBUTES),
    "signs as attributes": (lambda count: attributes(count, '="/'), MAX_ATTRIBUTES),
    "attributes of letters": (lambda count: attributes(count, "\u4e2d<\f"), MAX_ATTRIBUTES),
    "attributes of an end tag": (lambda count: attributes(count).replace("<", "</"), MAX_ATTRIBUTES),
    "attributes behind a reference": (lambda count: "&a" + attributes(count), MAX_ATTRIBUTES),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_what_the_standard_makes_of_it(name: str) -> None:
    """A page at the limit, and those with a little less and more."""
    make, limit = LIMITS[name]
    for more in (-12, -2, -1, 0, 1, 2, 12):
        page = make(limit + more) + END
        assert text_of(page) == (reference.stripped(page) if more > 0 else reference.text_of(page)), more


@pytest.mark.parametrize(
    "page",
    [
        *("<p>a" * 20_000, "<li>a" * 20_000, "<dd>a<dt>b" * 20_000, "<table>" + "<tr><td>a<td><b>b</b>" * 5_000),
        *("<div><b><i>a</b></i></div>" * 5_000, "<span><div>a</div></span><br><img src=x>" * 5_000),
        *("<svg width=1><g><path d='M0'></path></g></svg><br>" * 2_000, "<body a b c>" * 5_000),
        f"<p title='{'word ' * 10_000}' style=\"{'a: b; ' * 10_000}\">a",
        f"<!--<a {'b ' * 10_000}-->a<script><a {'b ' * 10_000}></script><title><a {'b ' * 10_000}</title>b",
        f"a<a {'b ' * 900}",
        "word " * 100_000 + "<br>" + "< " * 10_000,
    ],
)
def test_a_long_page_is_parsed(page: str) -> None:
    """Whatever it omits, if it is not built to take long."""
    page += END
    assert text_of(page) == reference.text_of(page)


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
    page = "<x-x>" * MAX_HELD + part
    assert text_of(page) == reference.stripped(page)
