"""The native core gives every text the entry, and every value that it is made from, of the definition."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import Text
from stream_dedup.core.scheme import FingerprintSettings, Treatment
from tests.amount import FULL
from tests.core.test_segmenting import traps
from tests.core.texts import MORE, SAMPLE, STORY, some_texts
from tests.reference.fingerprint import Reference, differing
from tests.reference.mixing import mixing_begin, mixing_end
from tests.reference.normalise import MAX_HAN_RUN, MAX_MARKS
from tests.reference.reader import before_tricks, normalise_short
from tests.reference.unicode14 import unassigned

COMMENT, ARTICLE, CLASSIC = (PROFILES[name].settings for name in ("comment", "article", "simhash"))
LONG = replace(ARTICLE, article_size=0, exact_size=0, form=False)
FIELDS = replace(LONG, fields=(("title", 3), ("body", 1)), key_sentences=2)
SKETCH = ((2, 24), (4, 24))
TF, HEAVIEST = replace(COMMENT.short.features, weights="tf"), replace(COMMENT.short.features, top_k=5, damped=False)
LONG_WAYS = (
    LONG,
    CLASSIC,
    FIELDS,
    CLASSIC.with_features(top_k=3),
    CLASSIC.with_features(weights="level"),
    CLASSIC.with_features(kind="chars"),
    replace(CLASSIC, long=LONG.long),
    LONG.with_normalisation(numbers="token", emails="drop", unspace=True, lookalikes=True, repeats=True),
    LONG.with_normalisation(numbers="drop"),
    replace(LONG, sketch_text="characters", key_sentences=1),
    replace(LONG, sketch=(), markup="html"),
    replace(LONG, form=True),
)
SHORT_WAYS = (
    COMMENT,
    ARTICLE,
    COMMENT.with_normalisation(invisible=False, simplify=False),
    COMMENT.with_normalisation(emoji="token", numbers="drop", urls="token"),
    COMMENT.with_normalisation(emoji="drop", join_numbers=True, unspace=False, lookalikes=False, repeats=False),
    replace(COMMENT, exact_size=0, short=Treatment(features=COMMENT.short.features)),
    replace(ARTICLE, article_size=20, sketch=SKETCH).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, exact_size=4).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, sketch_text="letters", exact="characters"),
    replace(COMMENT, form=True, seed=4_294_967_295, short=replace(COMMENT.short, features=TF)),
    replace(COMMENT, short=replace(COMMENT.short, features=HEAVIEST)),
    replace(COMMENT, short=LONG.long, fields=(("title", 2), ("body", 1))),
    replace(ARTICLE, article_size=30, fields=(("title", 3), ("body", 2)), sketch_text="characters", key_sentences=1),
)
# Of everything that a step or a table knows: each piece alone, beside others, and several times.
PIECES = (
    *'a1。，@.:/-_ \n\u3000\u200b\ufe0f👍🏽繁體乾著&<>[]()"wｗ．＠／中好哈е\u0301\u0e31กิが\uff9e',
    *"한ᄒ\u1161…″ﬁ①$oσΣÅ\u0130\x00\x1c\x85é🅰\U00020000\ufdfa٣\ud83d\ude00",
    *("http://t.cn/", "www.", ".com", "](", "...", "哈哈", "123", "l0ve", "我的", " the "),
)
SCRIPTS = (
    *("南京市长江大桥", "研究生命起源", "龘靐齉", "哈哈哈哈", "进研研研权", "一二三四", "的", "了一", "图书馆", "a1"),
    *("ひらがなです", "カタカナ", "กินข้าว", "ភាសាខ្មែរ", "हिन्दी", "한국어", "привет", "عربي", "々〇", "\u3400"),
    *("\u9fd5\u9fd6", "\u4dbf\u4e00", "\ufa0e", "\u8c48", "豈", "㈱", "Ⅷ", "ſ", "0.5", "3-4", "\ud840\udc00", "\ud840"),
    *("\u0301", "\u0e31", " ", "\n", "。", "_", "٣", "a_b", "\u200d", "word", "🎉", "١٢٣", "x²", "½"),
)
ADDRESSES, TRICKS = st.text("comnetrgw./:](a@ \n好", max_size=12), st.text("abolOL0134٣@$ .-_е①çす微信", max_size=14)
NASTY = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
MIXED = st.lists(st.sampled_from((*PIECES, *SCRIPTS)) | st.text(max_size=3), max_size=40).map("".join)


@cache
def native(settings: FingerprintSettings) -> Fingerprinter:
    return Fingerprinter(settings)


@cache
def reference(settings: FingerprintSettings) -> Reference:
    return Reference(settings)


def assert_same(settings: FingerprintSettings, texts: Sequence[str]) -> None:
    """Every text of a batch has the entry of the definition; of two fields, each text is a title of the next."""
    given: Sequence[Text] = list(zip([*texts[1:], ""], texts, strict=True)) if settings.fields else texts
    made, expected = native(settings).fingerprint(given), reference(settings).fingerprint(given)
    for row, text in enumerate(given):
        for name, ours, theirs in zip(made._fields, made, expected, strict=True):
            assert (text, name, ours[row].tolist()) == (text, name, theirs[row].tolist())


def assert_same_values(settings: FingerprintSettings, text: Text) -> None:
    """A text has every value that its entry is made from as the definition has it."""
    made, expected = native(settings).features(text), reference(settings).features(text)
    assert (text, differing(made, expected)) == (text, []), (made, expected)


@pytest.mark.parametrize("settings", LONG_WAYS)
@given(texts=st.lists(MIXED, min_size=1, max_size=3))
def test_long_texts_have_the_entries_of_the_definition(settings: FingerprintSettings, texts: list[str]) -> None:
    """With other words and weights, fields and key sentences, steps behind NFKC, and whatever else is in the batch."""
    assert_same(settings, texts)


@pytest.mark.parametrize("settings", SHORT_WAYS)
@given(texts=st.lists(NASTY | ADDRESSES | TRICKS | st.text(max_size=20), min_size=1, max_size=4))
def test_short_texts_have_the_entries_of_the_definition(settings: FingerprintSettings, texts: list[str]) -> None:
    """With steps that no profile has, other grams, fields, and where text may be long."""
    assert_same(settings, texts)


@pytest.mark.parametrize("settings", [*LONG_WAYS, *SHORT_WAYS])
@given(texts=st.lists(NASTY | MIXED, min_size=2, max_size=2))
def test_what_explains_an_entry_is_what_the_definition_has(settings: FingerprintSettings, texts: list[str]) -> None:
    """Status, text, features with counts and weights, sums, signature, margins, sketch and form."""
    assert_same_values(settings, tuple(texts) if settings.fields else texts[0])


@pytest.mark.parametrize("settings", [LONG, CLASSIC, FIELDS, ARTICLE, COMMENT])
def test_real_texts_have_the_entries_of_the_definition(settings: FingerprintSettings) -> None:
    """Real texts in many languages."""
    assert_same(settings, [*SAMPLE, *MORE, *some_texts(2_000 if FULL else 100)])


@pytest.mark.parametrize("settings", [ARTICLE, COMMENT, FIELDS])
def test_what_explains_real_texts_is_what_the_definition_has(settings: FingerprintSettings) -> None:
    """Of real texts in many languages."""
    for text in (*SAMPLE, *MORE, *some_texts(40)):
        assert_same_values(settings, ("a title", text) if settings.fields else text)


@given(st.dictionaries(st.sampled_from(SCRIPTS) | st.text(max_size=4), st.integers(1, 10**6), max_size=8))
def test_features_that_a_caller_counted_weigh_as_the_definition_says(counts: dict[str, int]) -> None:
    """Of either kind of text."""
    names = (name.encode("utf-8", "replace").decode().replace(" ", "") for name in counts)
    whole = {name: count for name, count in zip(names, counts.values(), strict=True) if name}
    for settings in (ARTICLE, CLASSIC, CLASSIC.with_features(weights="tf", top_k=3)):
        for status in (Status.LONG, Status.SHORT):
            made, expected = (one(settings).features_of(whole, status) for one in (native, reference))
            assert differing(made, expected) == [], (made, expected)


@pytest.mark.slow
def test_every_character_has_the_entry_of_the_definition() -> None:
    """Each code point of Unicode 14 and some others, behind a letter that marks compose with, and beside ideographs."""
    points = np.flatnonzero(~unassigned())[:: 1 if FULL else 23].tolist()
    every = [*map(chr, points), "\u0378", "\ud83d", "\U0003fffe"]
    lines = [" ".join(f"{one} e{one}e 中{one}文" for one in every[at : at + 40]) for at in range(0, len(every), 40)]
    for settings in (LONG, COMMENT, CLASSIC):
        assert_same(settings, lines)


def test_runs_of_marks_are_cut_where_the_definition_cuts_them() -> None:
    """Of any length about the limit, of marks that compose and of those that do not, and of two kinds."""
    marks = ("\u0301", "\u0316\u0301", "\u0344", "\uff9e", "\u0e31", "\u3099")
    texts = [f"e{mark * (size // len(mark))}x" for mark in marks for size in range(MAX_MARKS - 2, MAX_MARKS + 4)]
    for settings in (LONG, COMMENT):
        assert_same(settings, [*texts, "".join(texts)])


def test_stop_words_do_not_count(tmp_path: Path) -> None:
    """Entries are those of the definition; a text of nothing but stop words has no features."""
    file = tmp_path / "stop.txt"
    file.write_text("ＡＮＤ\n蘋果\n的\n", encoding="utf-8")
    settings = replace(LONG, stop_words=file)
    assert_same(settings, ["Apples and 苹果 香蕉", "苹果 and 的", "AND, and", STORY])
    made = Fingerprinter(settings).fingerprint(["苹果 and 的", "苹果 and 梨"])
    assert made.statuses.tolist() == [Status.FEATURELESS, Status.LONG]


def test_long_runs_are_cut_where_the_definition_cuts_them() -> None:
    """A run of ideographs is cut after ``MAX_HAN_RUN`` of them, through words."""
    for before in ("", "江", "大桥"):
        assert_same(LONG, [before + "南京市长江大桥" * (2 * MAX_HAN_RUN // 7)])


def test_runs_beside_others_are_cut_as_alone() -> None:
    """Where ways are equally probable, the last bit of a sum decides: what follows a run is none of its sums."""
    runs = [run for run in traps(2_000) if run]
    assert_same(LONG, ["，".join(runs[start : start + 40]) for start in range(0, len(runs), 40)])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [COMMENT, replace(COMMENT, sketch_text="letters", exact="letters", exact_size=4)])
def test_words_go_on_with_marks(settings: FingerprintSettings) -> None:
    """Every order of letters, marks (Thai ones, too), ideographs, signs and spaces, alone and in a text."""
    orders = list(map("".join, product("q\u0301\u0e01\u0e31好; ", repeat=4)))
    assert_same(settings, orders)
    assert_same(settings, [f"我们都在讨论{order}新闻内容" for order in orders[::3]])


def test_every_beginning_of_an_address_is_seen() -> None:
    """Each alone in a text of plain characters."""
    links = ["a.com", "a.cn", "a.net", "a.org", "a．ＯＲＧ", "www.a", "ftp://a", "x](b)", "a.co\u200bm"]
    assert_same(COMMENT, [f"新闻内容{link}新闻内容" for link in links])


def test_every_trick_is_seen() -> None:
    """Each alone in a text; digits in a row are none, and stay."""
    tricks = ["t0", "banne1", "fr3e", "b33n", "a$$b", "13800138o", "o3800138", "微...信...号", "аpp", "ⓐ哈哈哈"]
    texts = [f"新闻内容 {trick} 新闻内容" for trick in tricks]
    steps = COMMENT.short.normalisation
    assert [text for text in texts if normalise_short(before_tricks(text, steps), steps) == text] == []
    assert_same(COMMENT, [*texts, "新闻内容 10000007 新闻内容", "新闻内容 mp3 4s 新闻内容"])


@pytest.mark.parametrize("text", ["0－2㎡", "ge5－1", "A１０.５", "１ ２字"])
def test_a_sketch_of_characters_keeps_what_only_the_steps_of_addresses_narrow(text: str) -> None:
    """A full-width sign in a number stays in the text with addresses."""
    for joins, rejoins in ((True, False), (False, True), (True, True)):
        assert_same(COMMENT.with_normalisation(join_numbers=joins, rejoin=rejoins), [f"{text} 今天的新闻内容", text])


@pytest.mark.slow
@pytest.mark.parametrize("article_size", [20, 40, 250])
def test_texts_of_every_size_have_the_entries_of_the_definition(article_size: int) -> None:
    """Exact, short, between short and long, and long, at the edges too; of characters that become several letters."""
    edges = (4, mixing_begin(article_size), article_size, 384, mixing_end(article_size))
    sizes = sorted({max(edge + more, 0) for edge in edges for more in (-1, 0, 1)})
    texts = [filler * size for size in sizes for filler in ("好", "ⅲ", "5 ")]
    texts += [text[:size] for size in sizes for text in (STORY * 4, *MORE[:6])]
    for settings in (ARTICLE, replace(ARTICLE, form=False, sketch=())):
        assert_same(replace(settings, article_size=article_size), texts)


def test_rare_ideographs_are_letters_of_a_form() -> None:
    """A text with too many of them has no form."""
    settings = replace(COMMENT, sketch=SKETCH, form=True)
    assert_same(settings, ["我的书和他的书 12 " + "\U00020000" * size for size in (0, 20, 400)])


def test_halves_that_a_step_joins_are_kept() -> None:
    """A character that is dropped, as halves in a text that OpenCC makes whole."""
    assert_same(COMMENT, ["繁體\ud83c\udffb字寫的\ud83c\udffb", "繁體字寫的\ud83c\udffbhttp://t.cn/a\ud83c\udffb"])


def test_a_text_that_the_steps_empty_hides_no_other_one() -> None:
    """Nothing of one text is left for the next."""
    assert_same(ARTICLE, ["&#8203;" * 30, "图书馆重新开放" * 60 + "é", "&#8203;" * 30, "A" + "é" * 400])


@pytest.mark.slow
def test_a_long_text_has_the_entry_of_the_definition() -> None:
    """A text of 200,000 characters, with tricks, tags, marks and a number of many digits far behind."""
    rng = random.Random(5)
    pieces = [text for text in (*SAMPLE, *MORE) if len(text) < 200]
    whole = " ".join(rng.choices(pieces, k=8_000)) + "9" * 300
    for settings in (COMMENT, ARTICLE):
        assert_same(settings, [whole, "短", "好" * 130_000])
