"""Addresses, names, numbers, pictures, invisible characters: each step by itself."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import Normalisation
from tests.core.texts import some_texts
from tests.reference import clean
from tests.reference.clean import (
    TOKENS,
    after_nfkc,
    before_nfkc,
    changes_after_nfkc,
    drop_invisible,
    drop_tags,
    has_symbol,
    narrow,
    rejoin,
    replace_emails,
    replace_number_words,
    replace_numbers,
    replace_pictures,
    replace_urls,
    replace_users,
    traits,
    undo_entities,
)
from tests.reference.normalise import normalise, split_normalised
from tests.reference.unicode14 import join_halves


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("看http://t.cn/abc点击", "看U点击"),
        ("HTTPS://A.com/x?y=1#z。好", "U。好"),
        ("www.foo.info/x 和 abc.com.cn/d", "U 和 U"),
        ("http：//a.com/b", "U"),
        ("[a](https://x.org/p)[b]", "[a](U)[b]"),
        ("ftp://h/x, mailto:x", "U mailto:x"),
        ("asp.net bob@h.com", "U bob@h.com"),
        (
            "README.md e.g. 3.14 a//b // http:// x.community .com",
            "README.md e.g. 3.14 a//b // http:// x.community .com",
        ),
    ],
)
def test_urls(text: str, expected: str) -> None:
    """With a scheme, beginning www., or under a common top domain; ASCII only, so Chinese text after one stays."""
    assert replace_urls(text, "U") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("写信bob.x+y@ex-a.com.cn谢谢", "写信E谢谢"),
        ("a@b 5@ @c x@.com", "a@b 5@ @c x@.com"),
        ("a@b.com c@d.org", "E E"),
    ],
)
def test_emails(text: str, expected: str) -> None:
    """An e-mail address has a local part, @, and a host with a dot."""
    assert replace_emails(text, "E") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("回复@张三：你好 @a_b-c!", "回复U：你好 U!"), ("x@y 3 @ 5", "x@y 3 @ 5"), ("@" + "a" * 31, "Ua")],
)
def test_users(text: str, expected: str) -> None:
    """A user name is @ and up to 30 letters, digits, _ and -, not after an ASCII letter."""
    assert replace_users(text, "U") == expected


@pytest.mark.parametrize(
    ("treat", "expected"),
    [("keep", "共 123 元 ab12 v2 3.14"), ("drop", "共   元 ab12 v2  . "), ("token", "共  #  元 ab12 v2  # . # ")],
)
def test_numbers(treat: str, expected: str) -> None:
    """Words of digits are replaced; a digit within a word stays."""
    found = replace_numbers("共 123 元 ab12 v2 3.14", treat)  # type: ignore[arg-type]
    assert found.replace(TOKENS["number"], "#") == expected


def test_numbers_among_words() -> None:
    """Words of digits are replaced in lists of words too."""
    words = ["12", "ab12", "٣", "v"]
    assert replace_number_words(words, "keep") == words
    assert replace_number_words(words, "drop") == ["ab12", "v"]
    assert replace_number_words(words, "token") == [TOKENS["number"], "ab12", TOKENS["number"], "v"]


@pytest.mark.parametrize(("treat", "expected"), [("keep", "好😀☀1"), ("drop", "好1"), ("token", "好##1")])
def test_pictures(treat: str, expected: str) -> None:
    """Emoji and older pictorial symbols are pictures."""
    assert replace_pictures("好😀☀1", treat).replace(TOKENS["emoji"], "#") == expected  # type: ignore[arg-type]


def test_symbols_are_no_punctuation() -> None:
    """A drawing has symbols; a row of exclamation marks has none."""
    assert [has_symbol(text) for text in ("。！？!?~…—*", "(≧▽≦)", "👍", "→")] == [False, True, True, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("微\u200b信\ufeff", "微信"),
        ("soft\u00adhyphen", "softhyphen"),
        ("a\x00b\x1bc\x7f", "abc"),
        ("❤\ufe0f👍🏽", "❤👍"),
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("a\tb\nc\x85d\u2028e\u00a0f\u3000g", "a\tb\nc\x85d\u2028e\u00a0f\u3000g"),
        ("नमस्ते กิน", "नमस्ते กิน"),
    ],
)
def test_invisible_characters_go(text: str, expected: str) -> None:
    """And leave nothing behind, not even a space; white space and combining marks stay."""
    assert drop_invisible(text, traits(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a <a href="x">b</a> c', "a  b  c"),
        ("1 < 2 & 3 > 2", "1 < 2 & 3 > 2"),
        ("x&nbsp;y&#39;z", "x y z"),
        ('[名](http://a/b "t") [x](y)', "[名]  [x] "),
        ("<!-- gone -->stays", " stays"),
        ("a <" + "b" * 1000, "a <" + "b" * 1000),
    ],
)
def test_tags(text: str, expected: str) -> None:
    """Tags, comments, entities and link targets are dropped; a lone < is none of these."""
    assert drop_tags(text) == expected


def test_narrow() -> None:
    """Letters, digits and signs of addresses become ASCII; punctuation of sentences stays."""
    assert narrow("ｈｔｔｐ：／／ａ．ｃｏｍ，好！＠ｂ😀\ud800") == "http：//a.com，好！@b😀\ud800"


def test_full_width_addresses_are_addresses() -> None:
    """Addresses written in full width are replaced like others."""
    steps = Normalisation(urls="drop", emails="drop")
    assert before_nfkc("看ｈｔｔｐ：／／ａ．ｃｏｍ／ｂ 和ａ＠ｂ．ｃｏｍ", steps).split() == ["看", "和"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&lt;p&gt;a &amp;amp; b&lt;/p&gt;", "<p>a & b</p>"),
        ("5&nbsp;&#20803; caf&eacute; &frac12;", "5\xa0元 café ½"),
        ("AT&T &unknown; &amp;#x4e2d;", "AT&T &unknown; 中"),
        ("&amp;amp;lt;", "&lt;"),
    ],
)
def test_entities(text: str, expected: str) -> None:
    """Entities become their characters, also those escaped twice; what is no entity stays."""
    assert undo_entities(text) == expected


def test_escaped_tags_are_tags() -> None:
    """Escaped HTML in plain text has the words of the text itself."""
    steps = Normalisation(invisible=True, tags=True, entities=True)
    escaped = "&lt;p class=&quot;a&quot;&gt;今天&amp;nbsp;&lt;b&gt;很好&lt;/b&gt;&lt;/p&gt;&amp;#8203;"
    assert normalise(before_nfkc(escaped, steps)) == "今天 很好"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今 天 天\u3000气\n很 好", "今天天气很好"),
        ("第一行\n\n 第二行", "第一行第二行"),
        ("ひら がな カタ カナ", "ひらがなカタカナ"),
        ("今天 very 好 3 个， 大家\n。", "今天 very 好 3 个， 大家\n。"),
        ("自 2 0 2 4 年 K a f k a   a P I", "自 2024 年 Kafka   aPI"),
        ("한국어 문장 ภาษา ไทย", "한국어 문장 ภาษา ไทย"),
        ("this is 1 or 22 3", "this is 1 or 22 3"),
        ("😀 中 文 é a", "😀 中文 é a"),
    ],
)
def test_rejoin(text: str, expected: str) -> None:
    """White space goes between ideographs or kana and between lone letters; words and other languages keep theirs."""
    assert rejoin(text) == expected


def test_rejoining_leaves_text_without_ideographs_alone() -> None:
    """The step is for languages without spaces: a list of letters in English stays a list."""
    assert before_nfkc("a b c 1 2\n3", Normalisation(rejoin=True)) == "a b c 1 2\n3"


@given(st.text(st.sampled_from("天地黄aK12。"), max_size=40))
def test_spaces_between_all_characters_change_no_word(text: str) -> None:
    """Text with a space after each character has the words of the text itself."""
    steps = Normalisation(rejoin=True)
    apart, whole = (normalise(before_nfkc(one, steps)) for one in (" ".join(f"天{text}"), f"天{text}"))
    assert split_normalised(apart) == split_normalised(whole)


def test_inline_tags_cut_no_word() -> None:
    """A tag between two ideographs leaves nothing behind; a break between sentences that end stays one."""
    steps = Normalisation(tags=True, rejoin=True)
    assert normalise(before_nfkc("今<b>天</b>很好。\n大家好", steps)) == "今天很好。 大家好"


def test_tokens_stay_what_they_are() -> None:
    """NFKC and case folding do not change tokens, and each token is a letter."""
    assert all(normalise(token) == token and token.isalpha() for token in TOKENS.values())
    assert len(set(TOKENS.values())) == len(TOKENS)


@given(st.text(max_size=30))
def test_nothing_switched_on_changes_nothing(text: str) -> None:
    """Without settings no step changes a text."""
    assert before_nfkc(text, Normalisation()) == text
    assert not changes_after_nfkc(Normalisation())


NASTY = 'a1。，@.:/-_ \u200b\ufe0f👍🏽繁體乾&<>[]()"wwwhtp中ｗ．＠／\ud83d\ude00'


@given(st.text(st.sampled_from(NASTY), max_size=40) | st.text(max_size=30))
def test_a_trait_that_is_missing_is_not_there(text: str) -> None:
    """The cheap tests never make a step be left out that would have changed the text."""
    text = join_halves(text)
    every = replace(PROFILES["comment"].settings.short.normalisation, emoji="drop", rejoin=True, entities=True)
    expected = normalise(before_nfkc(text, every))
    traits = clean.traits
    with pytest.MonkeyPatch.context() as patch:
        # Texts without ideographs are not rejoined: this trait is the condition of its step.
        patch.setattr(clean, "traits", lambda given: (31 ^ clean.Trait.IDEOGRAPH) | traits(given))
        assert normalise(before_nfkc(text, every)) == expected


@given(st.text(st.sampled_from(NASTY), max_size=40) | st.text(max_size=30))
def test_any_text_has_an_answer(text: str) -> None:
    """Any input, however broken, has a text."""
    for profile in PROFILES.values():
        for treatment in (profile.settings.long, profile.settings.short):
            done = after_nfkc(normalise(before_nfkc(text, treatment.normalisation)), treatment.normalisation)
            assert done == done.strip()


def test_real_texts_keep_their_words() -> None:
    """The steps of the article profile drop only a small part of real texts."""
    steps = PROFILES["article"].settings.long.normalisation
    before = [len(text) for text in some_texts(300)]
    after = [len(before_nfkc(text, steps)) for text in some_texts(300)]
    assert sum(after) > 0.9 * sum(before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.14 2024-05-01 10:30", "314 20240501 1030"), ("a-1 1-b 5. 6", "a-1 1-b 5. 6"), ("第3.期", "第3.期")],
)
def test_signs_inside_of_numbers_go(text: str, expected: str) -> None:
    """A date or a price becomes one word, and different ones stay different."""
    assert before_nfkc(text, Normalisation(join_numbers=True)) == expected


# The steps as they are defined, plainly: each finds all that may belong to an address before it asks whether it is one.
# They take time with the square of the text's length.


def plain_url(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin, body = clean._before(text, start, clean._URL_SCHEME), clean.URL_BODY.match(text, end)
    return None if begin == start or body is None else (begin, body.end())


def plain_host(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin, tail = clean._before(text, start, clean._URL_HOST), clean._URL_TAIL.match(text, end)
    return None if begin == start or tail is None or text[begin - 1 : begin] == "@" else (begin, tail.end())


def plain_email(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin, host = clean._before(text, start, clean._MAIL_LOCAL), clean._MAIL_HOST.match(text, end)
    return None if begin == start or host is None else (begin, host.end())


PLAIN_TAG = re.compile(r"</?[a-z][^<>]{0,500}>|<!--.{0,2000}?-->", re.IGNORECASE | re.DOTALL)


def plain_drop_tags(text: str) -> str:
    return clean._ENTITY.sub(" ", PLAIN_TAG.sub(" ", clean._LINK_TARGET.sub("] ", text)))


def made_of(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=25).map("".join)


ADDRESSES = made_of(
    "/", "//", "http:", "：", "x", "a", "1", ".", ".cn", ".com", "www.", "@", "_", "-", "?", ":80", " ", "中", "K"
)


@pytest.mark.parametrize(
    ("name", "plain", "step"),
    [
        ("_url_at", plain_url, replace_urls),
        ("_host_at", plain_host, replace_urls),
        ("_email_at", plain_email, replace_emails),
    ],
)
@given(text=ADDRESSES)
def test_addresses_are_those_of_the_definition(
    name: str, plain: Callable[[str, int, int], object], step: Callable[[str, str], str], text: str
) -> None:
    """What is not matched any more, because nothing before the landmark makes it an address, changes nothing."""
    found = step(text, "U")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean, name, plain)
        assert found == step(text, "U")


@given(
    made_of(
        "<", "<!--", "-->", "--", ">", "<a ", "</b>", "a", "-", "!", "](", ")", "&lt;", "b" * 495, "中" * 1990, "12345"
    )
)
def test_tags_are_those_of_the_definition(text: str) -> None:
    """A comment ends where the first end within its limit is, and what is inside of it begins nothing."""
    assert drop_tags(text) == plain_drop_tags(text)


@pytest.mark.parametrize(("length", "expected"), [(2000, " "), (2001, "<!--{}-->")])
def test_a_comment_has_a_longest_length(length: int, expected: str) -> None:
    """The beginning of a comment without an end does not reach through the text."""
    inside = "中" * length
    assert drop_tags(f"<!--{inside}-->") == expected.format(inside)
