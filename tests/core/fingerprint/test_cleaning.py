"""Steps before NFKC on several texts at once, against their definition in ``text.clean``."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import cleaning
from stream_dedup.core.fingerprint.cleaning import Cleaner
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.fingerprint.points import SIZE
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import Normalisation
from stream_dedup.core.text import clean
from stream_dedup.core.text.simplify import simplify
from tests.amount import FULL, code_points
from tests.core.texts import MORE, SAMPLE, some_texts

LONG, SHORT = PROFILES["article"].settings.long.normalisation, PROFILES["comment"].settings.short.normalisation
ALL = replace(LONG, emails="drop", users="token", emoji="drop")
TREATS = st.sampled_from(["keep", "drop", "token"])
STEPS = st.sampled_from([LONG, SHORT, ALL]) | st.builds(
    Normalisation,
    **{name: st.booleans() for name in ("invisible", "tags", "entities", "join_numbers", "rejoin", "simplify")},
    **dict.fromkeys(("urls", "emails", "users", "emoji"), TREATS),
)
# Of everything that a step looks for, whole, begun and nearly.
PIECES = (
    *'abzZ019 .,:;/-_@&<>#?=!%()[]"~\n\t\r',
    *"中字国のー々é߄ґя｜Ｗ１．／＠：！＜＆\u3000\xa0\x0b\x1c\x85\u2003\u200b\xad\x00\ufe0f☀✂…Ⅲ漢語著乾\u0130\u0131\u017f\u212a",
    *"\U0001f600\U0001f3fb\ud83d\ude00\U00020000\U000e0041\U0010ffff",
    *("](", "](http://a.cn/x)", '[a](b "t")', '](a\n"q)")', "](" + "x" * 1999, "](" + "x" * 2000 + ")"),
    *("<b>", "</p>", "<a href='x'>", "<\u0130>", "<\u212ax>", "<!--", "-->", "<!-- x -->", "<b" + "y" * 499 + ">"),
    *("&amp;", "&nbsp;", "&#32;", "&#x41;", "&a;", "&ab;", "&abcdefghi;", "&#1234567;", "&\u017fs;", "&#xabcdef;"),
    *("http://", "https://ex.com/a?b=1", "ftp:", "ab：//x", "//", "///", "a1b-c+d://", "abcdefghijk://", "1a://b"),
    *(
        "www.",
        "WWW.",
        "wwww.",
        "a.com",
        "a.CN/x",
        "x.net:80/",
        "b.org?q",
        ".co",
        ".cn",
        "..",
        "．ｃｏｍ",
        "ｈｔｔｐ：／／ａ",
    ),
    *("@user", "a@b.com", "@a.cn", "2.5", "1,000", "12:30", "3/4", "2024-05-01", "字 \n字", "a" * 63 + ".b.cn"),
)


def assert_clean(steps: Normalisation, texts: list[str]) -> int:
    """Each text after the steps is that of the definition; return how many were left to it."""
    cleaner = Cleaner(steps)
    most, every = cleaner.most(texts), cleaner(texts)
    left = set(most.left)
    for row, text in enumerate(texts):
        expected = clean.before_nfkc(text, steps)
        assert every.text(row) == expected, text
        assert most.texts.text(row) == ("" if row in left else expected)
        if row not in left and steps.urls != "keep":
            kept = clean.before_nfkc(text, replace(steps, urls="keep", emails="keep", users="keep"))
            assert row in most.addressed or clean.narrow(kept) == clean.narrow(expected) or steps.rejoin
    return len(left)


@given(STEPS, st.lists(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=9), max_size=5))
def test_texts_are_those_of_the_definition(steps: Normalisation, texts: list[str]) -> None:
    """Whatever the steps are; half surrogates and characters beyond the table, too."""
    assert_clean(steps, texts)


@pytest.mark.parametrize(
    ("alphabet", "size"),
    [
        (("<!--", "-->", "<a>", "<b ", "x", "<"), 6),
        (("http://", "a.cn", "www.", ".com", "/", "@", " ", "好", "b"), 5),
        (("](", "x", ")", " ", '"', "<a>", "&ab;"), 6),
        ("<a/>!-", 6),
        ("&a#x1;", 6),
        ('](a) "', 6),
        (":/a.1", 6),
        (".cnwo@", 6),
        ("1a. 字", 6),
        ("字 \n\x0ba", 6),
    ],
)
def test_every_short_text_of_few_pieces(alphabet: Sequence[str], size: int) -> None:
    """All texts up to a size: each way in which these follow each other, and each within another."""
    sizes = range(size + 1 if FULL else size)
    texts = ["".join(one) for each in sizes for one in product(alphabet, repeat=each)]
    assert assert_clean(LONG, texts) == 0 or "&" in "".join(alphabet)
    assert_clean(SHORT, texts)


def test_what_is_looked_for_ends_where_its_definition_says() -> None:
    """Each limit, one below it and one above it."""
    limits = {
        "<b{}>": clean.ATTRIBUTE_CHARACTERS,
        "<!--{}-->": clean.COMMENT_CHARACTERS,
        "]({})": clean.TARGET_CHARACTERS,
        '](b "{}")': clean.TITLE_CHARACTERS,
        "a{}://b": 9,
        "{}.a.cn": clean.LOOK_BACK,
        "@{}.cn": clean.LOOK_BACK,
        "&{};": 8,
        "&#1{};": 6,
        "&#xa{};": 5,
        "&a{};": 31,
    }
    for form, limit in limits.items():
        assert_clean(LONG, [f"字{form}字".format("a" * size) for size in range(max(limit - 3, 0), limit + 3)])
        assert_clean(SHORT, [f"字{form}字".format("1" * size) for size in range(max(limit - 3, 0), limit + 3)])
    assert_clean(LONG, ["awww.a", "1www.a", "-www.a", "字www.a", "www.a", "wwww.a"])


@pytest.mark.parametrize("steps", [LONG, SHORT, ALL, Normalisation(emoji="token", rejoin=True)])
def test_every_character_alone_and_among_others(steps: Normalisation) -> None:
    """Each has the traits that the definition gives it."""
    ranges = (*clean.INVISIBLE_RANGES, *clean.PICTURE_RANGES, clean.SKIN_RANGE, *clean.IDEOGRAPH_RANGES)
    edges = {point for ends in ranges for end in ends for point in (end - 1, end, end + 1) if point >= 0}
    some = islice(code_points(), 0, None, 1 if FULL else 19)
    points = [*some, *edges, *range(256), *range(0xFF00, 0xFF60), *range(SIZE - 2, SIZE + 2), sys.maxunicode]
    texts = [form.format(chr(point)) for point in points for form in ("{0}", "字{0} 字1{0}2 a {0}", "<{0}>.cn{0}&{0};")]
    for start in range(0, len(texts), 5000):
        assert_clean(steps, texts[start : start + 5000])


def test_real_texts_are_those_of_the_definition() -> None:
    """Few of them are left to it."""
    texts = [*SAMPLE, *MORE, *some_texts(500)]
    for steps in (LONG, SHORT, ALL):
        assert assert_clean(steps, texts) < len(texts) // 4


def test_texts_with_traditional_characters_are_not_left() -> None:
    """The other steps are taken as for any text; those that a step drops cost a conversion, and change nothing."""
    texts = ["今天的新聞", "今天的新闻", "看著<b>著作</b> 1 。見 www.書.com/x", "<書 a.cn", "&amp;書", "\U00020000書"]
    for steps in (LONG, SHORT, ALL):
        most = Cleaner(steps).most(texts)
        assert_clean(steps, texts)
        assert (most.simplified, most.left) == ([0, 2, 3], [4, 5])
    assert Cleaner(replace(LONG, simplify=False)).most(texts).simplified == []


def test_a_text_that_two_cleaners_leave_the_same_is_simplified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an article that is read as both kinds of text; where other steps change it, each has its own."""
    watched = Mock(side_effect=simplify)
    monkeypatch.setattr(cleaning, "simplify", watched)
    same, other = "漢語，" * 80 + "12", "漢語\n漢語，1,000" * 20
    Fingerprinter(PROFILES["article"].settings).fingerprint([same, other, same])
    converted = [call.args[0] for call in watched.call_args_list]
    assert (converted.count(same), len(converted), len(set(converted))) == (1, 3, 3)
