"""HTML to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup._native import text_of_html as text_of
from tests.reference import markup as reference
from tests.reference.markup import MAX_HELD


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
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</ruby>の本", "漢字の本"),
        ("<ruby><rb>三<rb>月<rtc><rt>さん<rt>がつ</rtc></ruby>は<ruby>春<rt>はる</ruby>", "三月は春"),
        ("a<span style='color:red; DISPLAY : none !important'>no</span>b<i style=display:inline>c</i>", "abc"),
        ("<p style='display:none'>no<p style='display:none;display:block'>yes<p style=display:nonesuch>yes", "yes yes"),
        ("<body style='display:none'>yes", "yes"),
        (
            "<p style='display:block ! important; display:none'>yes<p style='display:none!important;display:block'>no",
            "yes",
        ),
        ("<p style='/*;display:none;*/'>yes<p style='color:red;/*a*/display/**/:/*b*/none/*;display:block'>no", "yes"),
        ("<p hidden=Until-Found>yes<p hidden=hidden>no", "yes"),
        ("E=mc<a href=#><sup>2</sup></a> 1<sup><a href='#'>st</a></sup>", "E=mc2 1st"),
        ("a<sup id=r1 class='mw-ref reference'><a href='./A#n1'>[1]</a></sup>b<sup><a href=#n2>2</a></sup>c", "abc"),
        ("a<a href=#n1 class=footnote-ref><sup>1</sup></a>b<a role='doc-noteref' href=n.html>2</a>c", "abc"),
        ("a<a epub:type='x noteref'>1</a>b<a href=#n role=doc-backlink>back</a>c", "abc"),
        (
            "x<sup>2</sup> <a href=#part>part</a> <sup><a href=page>tm</a></sup> <i class=reference>y</i>",
            "x2 part tm y",
        ),
        ("a<datalist><option>no</datalist><noembed>no</noembed>b", "ab"),
    ],
)
def test_what_is_text(html: str, words: str) -> None:
    """Blocks stand apart, inline elements do not; scripts, styles, comments and the head are no text.

    Nor is how a word is read, the mark of a note, or what is not displayed.
    """
    assert " ".join(text_of(html).split()) == words
    assert text_of(html) == reference.text_of(html)


SAID = (
    *(
        " style='display:none'",
        ' style=" Display : NONE ! important; x"',
        " style=display:none;display:inline",
        " style='a:b'",
    ),
    *(
        " style='display'",
        " style='display:none x'",
        " style='display:none!important;display:block'",
        " style='display:block!;display:none;'",
        " style='/*;display:none*/'",
        " style='display:/*/none'",
        " style='/*/*/display:none/**/'",
        " hidden",
        " hidden=UNTIL-found",
        " href=#",
        " style=';;display:none;'",
        " class='a reference'",
        " class=noteref",
    ),
    *(
        " class=referenced",
        " role=doc-noteref",
        " role='x doc-backlink'",
        " epub:type=noteref",
        " href=#a",
        " href=a#a",
    ),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "sup", "p", "i", "ruby", "rt", "/a", "/sup", "/p", "/rt")), st.sampled_from(SAID)
        )
    )
)
def test_what_elements_say_is_what_the_definition_reads(tags: list[tuple[str, str]]) -> None:
    """Of their display, and of marks of notes."""
    html = "".join(f"<{name}{said}>{at}" for at, (name, said) in enumerate(tags))
    assert text_of(html) == reference.text_of(html)


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
    html = "<div>" * MAX_HELD + "x &amp; y<script>z</script>" + "</div>" * MAX_HELD
    assert text_of(html).split() == ["x", "&", "y"]


def test_a_number_of_a_character_may_have_any_length() -> None:
    """A character reference longer than Python reads as a number is replaced on a page that is not parsed."""
    digits = "9" * 5000
    assert text_of("<div>" * MAX_HELD + f"a&#{digits};b&#x{digits};c&#65;").split() == ["a\ufffdb\ufffdcA"]


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
