"""The text of an article as a reader sees it: the words of the fingerprint, without markup, in paragraphs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup._native import text_of_html as text_of
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import readable, readable_texts
from stream_dedup.core.scheme import FingerprintSettings, Normalisation
from tests.native_steps import as_long
from tests.reference.normalise import normalise

STEPS = Normalisation(tags=True, entities=True)
BROKEN = st.sampled_from(["<p>", "</p>", "<br/>", "<!--", "-->", "<b", ">", "&lt;", "&amp;lt;p&gt;", "](", ")"])
TEXTS = st.lists(BROKEN | st.text(st.sampled_from('ab c<>&;\n\r\t\u3000文字/!-"'), max_size=8), max_size=8).map("".join)
SIZE = 80_000
"""Characters: what a page reads of a text."""
HOSTILE = (
    "<",
    "<b>",
    "<div></x>",
    "<!--",
    "<!-- <!-- --> ",
    "&amp;",
    "<script>",
    "<table><tr><td>",
    "](",
    "<p>\n\n ",
    '<a "',
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<p>One.</p><p>Two <b>bold</b>.</p>", "One.\n\nTwo bold ."),
        ("a<br>b<BR/>c", "a\nb\nc"),
        ("<picture>a</picture> b", "a b"),  # begins with p, and is no paragraph
        ("<!-- a <p> b -->kept", "kept"),
        ("&lt;p&gt;escaped&lt;/p&gt; &amp;amp; more", "escaped\n& more"),
        ("[link](http://a.example/b) here", "[link] here"),
        ("x <script>run()</script> y", "x run() y"),  # as the fingerprint has it: tags go, plain text stays
        ("<p>never closed", "never closed"),
        ("<!-- only -->", ""),
    ],
)
def test_markup_in_plain_text(text: str, shown: str) -> None:
    """Tags and entities go as the scheme drops them; blocks are on lines."""
    assert readable(text, STEPS) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "<head><title>t</title></head><h1>A</h1>\n  <p>b <i>c</i>d</p>\n\n\n<ul><li>e<li>f</ul>",
            "A\n\nb cd\n\ne\n\nf",
        ),
        ("<p>x<script>run()</script><style>p{}</style>y", "xy"),
        ("<div hidden>no</div>yes", "yes"),
        ("1 &lt; 2", "1 < 2"),
    ],
)
def test_html(text: str, shown: str) -> None:
    """What is not seen is not shown, and no entity is left."""
    assert readable(text, Normalisation(), is_html=True) == shown


@pytest.mark.parametrize("text", ["", "  two  spaces\n\n\n\nand lines \r\n", "1 < 2 & 3 > 2", "a\u202eb <", "[x] (y)"])
@pytest.mark.parametrize("html", [False, True])
def test_text_without_markup_stays(text: str, html: bool) -> None:
    """To the last space."""
    assert readable(text, STEPS, is_html=html) == text


def test_without_the_steps_markup_stays() -> None:
    """A scheme that counts tags as words has them in its text."""
    assert readable("<p>a &amp; b</p>", Normalisation()) == "<p>a &amp; b</p>"


@given(TEXTS)
def test_the_words_are_those_of_the_fingerprint(text: str) -> None:
    """Of any text, however broken, as plain text and as HTML."""
    shown = [readable(text, STEPS), readable(text, STEPS, is_html=True)]
    assert list(map(normalise, shown)) == as_long([text, text_of(text)], STEPS)


def test_each_field_in_its_way() -> None:
    """Fields that are HTML are read as HTML; of short texts alone the steps of short text are taken."""
    fields = FingerprintSettings(fields=(("title", 1), ("body", 1)), html_fields=("body",))
    assert readable_texts(["<i>a</i>", "<i>a</i>"], fields) == ["<i>a</i>", "a"]
    comment = replace(PROFILES["article"].settings, article_size=None)
    short = replace(comment.short, normalisation=Normalisation())
    assert readable_texts(["<i>a</i>"], replace(comment, short=short)) == ["<i>a</i>"]
    assert readable_texts(["<i>a</i>"], replace(comment, long=short)) == ["a"]


def test_hostile_markup_takes_bounded_time() -> None:
    """As much as a page reads of a text, of any kind, in both ways: 0.1 s at most where the machine is quiet."""
    for part in HOSTILE:
        text = (part * SIZE)[:SIZE]
        for html in (False, True):
            begun = time.process_time()
            readable(text, STEPS, is_html=html)
            assert time.process_time() - begun < 2, (part, html)
