"""The steps of normalising in the native core, against their definitions in ``tests.reference``."""

import html.entities
import re
import runpy
import shutil
import subprocess
import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise, product
from pathlib import Path

import opencc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup import _native
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import readable
from stream_dedup.core.scheme import Features, FingerprintSettings, Normalisation, Treatment, content_hash
from tests.amount import FULL, code_points
from tests.core.texts import MORE, SAMPLE, some_texts
from tests.native_steps import (
    as_exact,
    as_long,
    as_units,
    assert_addresses,
    assert_cleaned,
    assert_undone,
    assert_units,
    named,
)
from tests.reference import clean as reference
from tests.reference.normalise import normalise
from tests.reference.readable import readable as readable_by_definition
from tests.reference.unicode14 import unassigned
from tests.reference.weights import idf_of, weigh

ROOT = Path(__file__).parents[2]
LONG, SHORT = PROFILES["article"].settings.long.normalisation, PROFILES["comment"].settings.short.normalisation
ALL = replace(LONG, emails="drop", users="token", emoji="drop")
SIMPLE = Normalisation(simplify=True)
LANGUAGES = Features(idf="languages")
BY_LANGUAGES = Fingerprinter(FingerprintSettings(long=Treatment(features=LANGUAGES)))
TREATS = st.sampled_from(["keep", "drop", "token"])
STEPS = st.sampled_from([LONG, SHORT, ALL]) | st.builds(
    Normalisation,
    **{name: st.booleans() for name in ("invisible", "tags", "entities", "fold", "join_numbers", "rejoin", "simplify")},
    **{name: st.booleans() for name in ("unspace", "lookalikes", "repeats")},
    quotes=st.sampled_from(["keep", "drop"]),
    **dict.fromkeys(("urls", "emails", "users", "emoji", "numbers"), TREATS),
)
# Of everything that a step looks for, whole, begun and nearly.
PIECES = (
    *'abzZ019 .,:;/-_@&<>#?=!%()[]"~\n\t\r',
    *"中字国のー々é߄ґя｜Ｗ１．／＠：！＜＆\u3000\xa0\x0b\x1c\x85\u2003\u200b\xad\x00\ufe0f☀✂…Ⅲ漢語著乾\u0130\u0131\u017f\u212a",
    *"\U0001f600\U0001f3fb\ud83d\ude00\U00020000\U000e0041\U0010ffff",
    *("](", "](http://a.cn/x)", '[a](b "t")', '](a\n"q)")', "](" + "x" * 1999, "](" + "x" * 2000 + ")"),
    *(
        "<rt>",
        "</rt>",
        "<ruby a>",
        "<rp>x",
        "<RTC/>",
        "<rb>",
        "00:01.5 --> 00:02.5",
        "[00:01.5]",
        "\n1\n",
        "\u0301",
        "é\u030d",
    ),
    *("⻓", "⼤", "أ", "ى", "\u064e", "\u05b8", "ş", "\u0336", "\u20e3"),
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


TRICKS = (
    *"abcilotxyz0123456789 .,-_!@$&+*中微信号のé߀ق٣яжα①ⓐ한ก\u0301\U00020000",
    *("l00k", "fr33", "c@sh", "b1d", "13800138000", "138ool3800o", "channe1", "t0", "mp3", "w.e.i.x", "微 信 号"),
    *("a . b . c", "v  x  1", "哈哈哈", "!!!!", "aaaa", "....", "x" * 70, "o1l0o1l0o1l0", "p\u0430y", "❶⓿🅐🇦"),
)
SCHEMES = ("http://", "https:", "//", "www.", "WWW.", "x", ".", "1", ":", "a.cn", " ", "中", "\u0131", "-")


def made_of(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=25).map("".join)


ANY = made_of(*PIECES) | st.text(max_size=9)
NORMALISED = (made_of(*TRICKS) | ANY).map(normalise)


def assert_weights(words: Sequence[str]) -> None:
    """Each word weighs what the definition says: a number, another word of its length, or a listed one."""
    expected = {word: weigh(1, idf_of(LANGUAGES)(word), LANGUAGES) for word in words}
    made = BY_LANGUAGES.features_of(dict.fromkeys(words, 1))
    assert {one.name: one.weight for one in made.features} == {named(word): expected[word] for word in words}


@given(STEPS, st.lists(ANY, max_size=5))
def test_texts_are_those_of_the_definition(steps: Normalisation, texts: list[str]) -> None:
    """Whatever the steps are; half surrogates and characters beyond the first planes, too."""
    assert_cleaned(steps, texts)


@given(STEPS, st.lists(NORMALISED, max_size=5))
def test_texts_without_tricks_are_those_of_the_definition(steps: Normalisation, texts: list[str]) -> None:
    """Whatever the steps after NFKC are."""
    assert_undone(steps, texts)


@given(ANY, st.booleans(), st.booleans(), st.booleans())
@example("<l\u0131>a</\u212a><P\n>b<pre-c><hr_><section中>", False, True, False)
@example("a \u3000b\r\n\x0c\n\n c<br>\ud83d \x1c", True, True, True)
def test_a_readable_text_is_that_of_the_definition(text: str, entities: bool, tags: bool, is_html: bool) -> None:
    """As a reader sees it: blocks leave line feeds."""
    steps = Normalisation(entities=entities, tags=tags)
    assert readable(text, steps, is_html=is_html) == readable_by_definition(text, steps, is_html=is_html)


@given(made_of(*SCHEMES).map(normalise))
def test_addresses_without_schemes_are_those_of_the_definition(text: str) -> None:
    assert_addresses([text])


@given(NORMALISED)
def test_symbols_and_numbers_are_those_of_the_definition(text: str) -> None:
    assert_units([text, *text])
    assert_weights(text.split())


@given(
    made_of(
        *"乾坤燥隆著名看作者繁體學習⿰⿱⿲⿾氵每\ufe00\U000e0100 a\ud83d\ude00\uf900", "⿰" * 15, "𪚥", "沈沈", "什麼"
    )
)
def test_simplified_texts_are_those_of_the_package(text: str) -> None:
    """Phrases, compatibility ideographs, descriptions of ideographs, and the particle."""
    assert_cleaned(SIMPLE, [text])


def test_every_character_is_simplified_as_by_the_package() -> None:
    """Alone, and between two that phrases begin or end with."""
    points = code_points()
    for form in ("{}", "沈{}藉"):
        text = "\n".join(form.format(chr(point)) for point in points)
        assert_cleaned(SIMPLE, [text])


@pytest.mark.parametrize("size", range(1, 40))
def test_descriptions_of_ideographs_are_kept_as_by_the_package(size: int) -> None:
    """Up to so many operators in one another, and so many characters; whole, cut, and with more behind."""
    deep = (
        "⿰" * size + "語" * (size + 1),
        "⿰語" * size + "語",
        "⿾" * size + "語",
        "⿲" * size + "語" * (2 * size + 1),
    )
    whole = _described(size)
    wide = (whole, f"⿾{whole}", f"⿰語{whole}", f"⿾⿰語{whole}", f"⿰⿾語{whole}")
    texts = [made for text in (*deep, *wide) for made in (text, text[:-1], f"{text}語", f"語{text}{text}")]
    assert_cleaned(SIMPLE, texts)


def _described(parts: int) -> str:
    """Return the description of an ideograph of so many parts, with as few operators in one another as can be."""
    return "語" if parts == 1 else f"⿰{_described(parts // 2)}{_described(parts - parts // 2)}"


def test_the_particle_is_that_of_the_definition() -> None:
    """Behind and before every character of its words, and others."""
    sides = ("", *"名专原编合论显卓昭土巨译遗拙撰作者称述录书著他a ")
    assert_cleaned(SIMPLE, [f"{before}著{behind}" for before, behind in product(sides, sides)])


def test_phrases_are_simplified_as_by_the_package(tmp_path: Path) -> None:
    """Each that its dictionary has: whole, without its last character and its first, twice, and before the next one."""
    made = tmp_path / "phrases.txt"
    folder = Path(opencc.__path__[0], "clib")
    source = folder / "share" / "opencc" / "TSPhrases.ocd2"
    subprocess.run(
        [folder / "bin" / "opencc_dict", "-i", source, "-o", made, "-f", "ocd2", "-t", "text"],
        check=True,
        capture_output=True,
    )
    phrases = [line.split("\t")[0] for line in made.read_text("utf-8").splitlines()]
    assert len(phrases) > 400
    forms = [form for one in phrases for form in (one, one[:-1], one[1:], one * 2)]
    forms += [first[:-1] + second for first, second in pairwise(phrases)]
    assert_cleaned(SIMPLE, ["\n".join(forms)])


def test_the_dictionaries_that_were_built_in_are_those_of_the_package() -> None:
    """In the order of its configuration, by their hashes: the scheme names these."""
    folder = Path(opencc.__path__[0], "clib", "share", "opencc")
    names = re.findall(r'"file": "([^"]+)"', (folder / "t2s.json").read_text("utf-8"))
    assert len(names) == 4
    assert [content_hash(folder / name) for name in names] == _native.OPENCC_HASHES


def test_entities_are_those_of_html() -> None:
    """Each name with and without its semicolon, cut and continued; numbers at their edges."""
    names = [f"&{made}" for name in html.entities.html5 for made in (name, name[:-1] + ";", name.rstrip(";") + "x;")]
    edges = (0, 1, 9, 10, 11, 13, 14, 31, 32, 126, 127, 128, 159, 160, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFDCF, 0xFDD0)
    above = (0xFDEF, 0xFDF0, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x10FFFF, 0x110000, 9_999_999, 10_000_000)
    numbers = [f"&#{made};" for point in (*edges, *above) for made in (f"{point}", f"x{point:x}", f"X{point:07X}")]
    twice = ["&amp;lt;", "&amp;amp;lt;", "&ampamp;lt;"]
    assert_cleaned(Normalisation(entities=True), [*names, *numbers, *twice])


def test_the_properties_of_characters_are_those_of_unicode_14() -> None:
    """Letters and digits of user names, digits, and white space, of every character that Unicode 14 has."""
    names = [f"@{chr(point)}" for point in code_points()]
    assert_cleaned(Normalisation(users="drop"), names)
    assigned = [chr(point) for point in code_points() if not unassigned()[point]]
    assert_weights(assigned)
    assert_cleaned(Normalisation(rejoin=True), [f"字{space}{one}字" for one in assigned for space in ("", " ")])


@pytest.mark.parametrize("steps", [LONG, SHORT, ALL, replace(ALL, emoji="token", simplify=False)])
def test_halves_are_joined_by_the_steps_that_join_them(steps: Normalisation) -> None:
    """Full-width signs make the step of addresses join them: then they are a picture, which they are not otherwise."""
    halves = ("\ud83d\ude00", "\ud83d\u200b\ude00", "\ud83c\udffb", "\ud83d", "\ud840\udc0b", "\ud840\u200b\udc0b")
    assert_cleaned(
        steps, [form.format(one) for one in halves for form in ("{}", "Ｗ{}", "{}書", "<{}>", "@{}", "沈{}藉口")]
    )


@pytest.mark.slow
@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="another version of Unicode")
def test_the_table_of_properties_is_that_of_this_python() -> None:
    """The file that the native core is built with, written anew."""
    script = ROOT / "native" / "build" / "unicode14.py"
    found = runpy.run_path(str(script))
    made = [f"{name} {found['runs'](has)}" for name, has in found["PROPERTIES"].items()]
    assert script.with_suffix(".txt").read_text("ascii").splitlines()[:-1] == made


@pytest.mark.skipif(shutil.which("perl") is None, reason="no Perl")
def test_the_table_of_radicals_is_that_of_perl() -> None:
    """The last line of that file."""
    version = subprocess.check_output(["perl", "-MUnicode::UCD", "-e", "print Unicode::UCD::UnicodeVersion"])
    if version != b"14.0.0":
        pytest.skip("another version of Unicode")
    script = ROOT / "native" / "build" / "unicode14.py"
    made = runpy.run_path(str(script))["unified"]()
    assert script.with_suffix(".txt").read_text("ascii").splitlines()[-1] == f"unified {made}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alphabet", "size"),
    [
        (("<!--", "-->", "<a>", "<b ", "x", "<"), 6),
        (("http://", "a.cn", "www.", ".com", "/", "@", " ", "好", "b"), 5),
        (("](", "x", ")", " ", '"', "<a>", "&ab;"), 6),
        (("<ruby>", "<rt>", "</rt>", "<rp", ">", "x", "<!--"), 6),
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
    sizes = range(size + 1 if FULL else size - 1)
    texts = ["".join(one) for each in sizes for one in product(alphabet, repeat=each)]
    assert_cleaned(LONG, texts)
    assert_cleaned(SHORT, texts)


def test_what_is_looked_for_ends_where_its_definition_says() -> None:
    """Each limit, one below it and one above it."""
    limits = {
        "<b{}>": reference.ATTRIBUTE_CHARACTERS,
        "<!--{}-->": reference.COMMENT_CHARACTERS,
        "]({})": reference.TARGET_CHARACTERS,
        '](b "{}")': reference.TITLE_CHARACTERS,
        "a{}://b": 9,
        "{}.a.cn": reference.LOOK_BACK,
        "@{}.cn": reference.LOOK_BACK,
        "a<rt>{}</rt>b": reference.READING_CHARACTERS,
        "&{};": 8,
        "&#1{};": 6,
        "&#xa{};": 5,
        "&a{};": 31,
    }
    for form, limit in limits.items():
        assert_cleaned(LONG, [f"字{form}字".format("a" * size) for size in range(max(limit - 3, 0), limit + 3)])
        assert_cleaned(SHORT, [f"字{form}字".format("1" * size) for size in range(max(limit - 3, 0), limit + 3)])
    assert_cleaned(LONG, ["awww.a", "1www.a", "-www.a", "字www.a", "www.a", "wwww.a"])


def test_what_begins_within_the_title_of_a_link_goes_with_it() -> None:
    """As the definition has it, which looks on behind the link."""
    assert_cleaned(Normalisation(tags=True), ['](a "](b)")c', '](a "](b "c")d', '](a "](b)"](c)d'])


@pytest.mark.parametrize("form", ["a{}b@c.cn", "a@b{}c.cn", "a{}b://c", "http://a{}b", "www.a{}b", "a.cn{}b", "@a{}b"])
def test_every_sign_within_an_address(form: str) -> None:
    """Each character of ASCII, and its full-width form: it belongs to the address, or ends it."""
    points = (*range(128), *range(0xFF00, 0xFF5F))
    assert_cleaned(ALL, [f"字{form}字".format(chr(point)) for point in points])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [LONG, SHORT, ALL, Normalisation(emoji="token", rejoin=True)])
def test_every_character_alone_and_among_others(steps: Normalisation) -> None:
    """Each has the traits that the definition gives it."""
    ranges = (*reference.INVISIBLE_RANGES, *reference.PICTURE_RANGES, reference.SKIN_RANGE, *reference.IDEOGRAPH_RANGES)
    edges = {point for ends in ranges for end in ends for point in (end - 1, end, end + 1) if point >= 0}
    some = islice(code_points(), 0, None, 1 if FULL else 19)
    letters = (0x130, 0x131, 0x17F, 0x212A)  # what (?i:[a-z]) finds besides
    points = [*some, *edges, *letters, *range(256), *range(0xFF00, 0xFF60), *range(0xD7FE, 0xE002), sys.maxunicode]
    texts = [form.format(chr(point)) for point in points for form in ("{0}", "字{0} 字1{0}2 a {0}", "<{0}>.cn{0}&{0};")]
    for start in range(0, len(texts), 5000):
        assert_cleaned(steps, texts[start : start + 5000])


@pytest.mark.parametrize(
    ("alphabet", "size"), [("ab01$ ", 6), ("ol01中", 8), ("a中. é", 7), ("yb1 ", 7), ("a1_!", 7), ("aaa10é", 6)]
)
def test_every_short_text_of_few_characters(alphabet: str, size: int) -> None:
    """All texts up to a size: each way in which these follow each other."""
    sizes = range(size + 1 if FULL else size - 1)
    texts = [normalise("".join(one)) for each in sizes for one in product(dict.fromkeys(alphabet), repeat=each)]
    for steps in (
        SHORT,
        replace(SHORT, unspace=False),
        replace(SHORT, lookalikes=False),
        replace(SHORT, repeats=False, numbers="token"),
    ):
        assert_undone(steps, texts)


@pytest.mark.parametrize("size", range(1, 5))
def test_single_characters_are_joined_as_far_as_separators_reach(size: int) -> None:
    """At the end of a text and in its middle, with as many signs between them as the step allows, and one more."""
    apart = ".-!+"[:size].join("abc")
    texts = [apart, f"好 {apart}", f"{apart} 好吧"]
    assert_undone(SHORT, texts)
    assert [("abc" in text) for text in as_long(texts, SHORT)] == [size <= 3] * 3


def test_real_texts_are_those_of_the_definition() -> None:
    """Articles and comments, before and after NFKC."""
    texts = [*SAMPLE, *MORE, *some_texts(500)]
    for steps in (LONG, SHORT, ALL):
        assert_cleaned(steps, texts)
    assert_undone(SHORT, list(map(normalise, texts)))


def test_every_character_that_looks_like_another_is_that() -> None:
    """In circles and squares, of other scripts, and digits of others; alone, and in words and numbers."""
    points = [
        *range(0x24EA, 0x2500),
        *range(0x2775, 0x2795),
        *range(0x1F14F, 0x1F200),
        *range(0x36F, 0x531),
        *range(256),
    ]
    points += [point for point in code_points() if chr(point).isdecimal() and not unassigned()[point]]
    forms = ("{0}", "a{0}b", "1{0}2 {0}0o1l2", "x{0}{0}{0}", "{0}.{0}.{0} a", "a{0}")
    texts = [normalise(form.format(chr(point))) for point in points for form in forms]
    assert_undone(SHORT, texts)
    assert_undone(Normalisation(numbers="token"), texts)


def test_every_symbol_is_one() -> None:
    """Each at the ends of the ranges, too."""
    every = [chr(point) for point in code_points() if not 0xD800 <= point < 0xE000]
    for start in range(0, len(every), 5000):
        assert_units(every[start : start + 5000])
    edges = "\u218f\u2190\u2bff\U0001efff\U0001f000\U0001faf6\U0001fb00"
    assert "".join(as_units(edges)) == "\u2190\u2bff\U0001f000\U0001faf6"


@pytest.mark.parametrize(
    "text", [".www.a", "1www.a", "ıwww.a", "中www.a", "http://www.a", "x//www.", "a" * 11 + "://b", "a://b"]
)
def test_schemes_are_dropped_where_hosts_begin(text: str) -> None:
    """Not behind a dot, a letter or a digit."""
    assert_addresses([text])


HOSTILE = (
    "a ",
    "哈",
    "a.",
    "a-",
    "o1",
    "1",
    "е",
    "a3",
    "\u0e01 ",
    "a1",
    "微 ",
    "⿰",
    "著",
    "沈",
    "<!--",
    "<!-- ",
    "<a",
    "](",
)
QUOTES = (
    "[quote]a[/quote]\n",
    "//@a:[quote]a[/quote]",
    "a wrote:\n> b\n",
    "10:12\na@b:\n",
    ">",
    "> ",
    "From: a\n",
    "引用：\n",
    "<blockquote>",
    "<blockquote></blockquote>",
)
MORE_HOSTILE = (
    "](a ",
    "&",
    "&a",
    "&#1",
    "@",
    "a@",
    "@a.cn",
    "//",
    "a://",
    ".cn",
    "w.cn",
    "字 ",
    "\u3000",
    "1.",
    "\ud83d",
    "Ｗ",
)


@pytest.mark.parametrize("piece", [*HOSTILE, *QUOTES, *MORE_HOSTILE])
def test_no_text_takes_quadratic_time(piece: str) -> None:
    """A megabyte of anything that a step begins with takes a second at most."""
    every = replace(SHORT, entities=True, tags=True, rejoin=True, numbers="token")
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    as_long([text], every)
    as_exact([text], replace(every, urls="drop"))
    assert time.process_time() - start < 1
