"""HTML to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.text.markup import text_of
from stream_dedup.core.text.nesting import MAX_DEPTH, too_deep


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
def test_any_text_has_an_answer(html: str) -> None:
    """Any input, however broken, has a text."""
    assert isinstance(text_of(html), str)


def test_what_is_nested_too_deeply_loses_its_tags_all_the_same() -> None:
    """A page nested too deeply loses its tags without the parser."""
    depth = MAX_DEPTH + 1
    html = "<div>" * depth + "x &amp; y<script>z</script>" + "</div>" * depth
    assert too_deep(html)
    assert text_of(html).split() == ["x", "&", "y"]
    assert not too_deep("<p>a</p><br>" * depth)
