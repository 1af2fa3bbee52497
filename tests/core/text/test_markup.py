"""HTML to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup._native import text_of_html as text_of
from tests.reference import markup as reference
from tests.reference.nesting import MAX_DEPTH, too_deep


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<p>one<p>two", "one two"),
        ("<b>w</b>or<i>d</i>", "word"),
        ("a<br>b<br/>c", "a b c"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2 3"),
        ("<ul><li>x<li>y</ul>", "x y"),
        ("a<script>var x = '<p>';</script><style>p{}</style>b", "ab"),
        ("<html><head><title>t</title></head><body>b</body></html>", "b"),
        ("<!-- c --><p>x<!-- d -->y", "xy"),
        ("&lt;b&gt; &amp; &#20013;&nbsp;&eacute;", "<b> & 中 é"),
        ("<div hidden>no</div>yes", "yes"),
        ("<p>broken <b>bold<p>next</div></p>", "broken bold next"),
        ("1 < 2", "1 < 2"),
        ("no markup", "no markup"),
        ("<frameset><frame src=x></frameset>", ""),
        ("", ""),
        ("<!-- only", ""),
    ],
)
def test_what_is_text(html: str, words: str) -> None:
    """Blocks stand apart, inline elements do not; scripts, styles, comments and the head are no text."""
    assert " ".join(text_of(html).split()) == words


@given(st.text(st.sampled_from("<>/!-&;abpdiv \"='\ud83d中"), max_size=60))
def test_any_text_has_the_text_that_the_definition_gives(html: str) -> None:
    """Any input, however broken."""
    assert text_of(html) == reference.text_of(html)


def test_a_text_without_markup_is_itself() -> None:
    """Half surrogates included, which are joined or become spaces in a page."""
    assert text_of("a\ud83d b") == "a\ud83d b"
    assert text_of("<p>a\ud83d b\ud840\udc0b") == "\na  b\U0002000b\n"


def test_what_is_nested_too_deeply_loses_its_tags_all_the_same() -> None:
    """A page nested too deeply loses its tags without the parser."""
    depth = MAX_DEPTH + 1
    html = "<div>" * depth + "x &amp; y<script>z</script>" + "</div>" * depth
    assert too_deep(html)
    assert text_of(html).split() == ["x", "&", "y"]
    assert not too_deep("<p>a</p><br>" * depth)


def test_a_number_of_a_character_may_have_any_length() -> None:
    """A character reference longer than Python reads as a number is replaced on a page that is not parsed."""
    digits = "9" * 5000
    assert text_of("<div>" * 2 * MAX_DEPTH + f"a&#{digits};b&#x{digits};c&#65;").split() == ["a\ufffdb\ufffdcA"]


@pytest.mark.parametrize(
    ("html", "text", "lexbor"),
    [
        ("<li>a<search><li>b", "\na\n\nb\n", "\na\nb\n\n"),
        ("<li>a<isindex><li>b", "\na\nb\n\n", "\na\n\nb\n"),
        ("<span>a<svg><desc></span>b", "ab", "a"),
    ],
)
def test_where_the_parsers_differ(html: str, text: str, lexbor: str) -> None:
    """Elements of broken markup that html5ever takes for boundaries, or not, unlike the standard."""
    assert (text_of(html), reference.text_of(html)) == (text, lexbor)
