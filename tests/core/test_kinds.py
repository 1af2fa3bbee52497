"""Kinds of text and what counts in each."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import ARTICLE_SIZE, PROFILES
from stream_dedup.core.reader import MAX_FREQUENCY, Text
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.errors import UserError
from tests.core.texts import JAPANESE_STORY, MORE, SAMPLE, STORY, TRADITIONAL_STORY, some_texts
from tests.reference.features import cut_unspaced
from tests.reference.normalise import marks
from tests.reference.reader import key_sentences, normalise_by, units_that_count
from tests.reference.sums import feature_hash

ARTICLE, COMMENT, SIMHASH = (PROFILES[name].settings for name in ("article", "comment", "simhash"))


def kind(text: str, settings: FingerprintSettings = ARTICLE) -> Status:
    return Fingerprinter(settings).features(text).status


def counts(text: Text, settings: FingerprintSettings) -> Counter[str]:
    return Counter({one.name: one.count for one in Fingerprinter(settings).features(text).features})


def apart(settings: FingerprintSettings, *texts: str) -> int:
    signatures = Fingerprinter(settings).fingerprint(texts).signatures
    return int(np.bitwise_count(signatures[0] ^ signatures[1]).sum())


def test_the_article_size_is_the_first_that_is_long() -> None:
    """The article size counts letters, digits and ideographs; spaces, punctuation and markup make no text longer."""
    text = "，".join(["今天天气很好"] * 41 + ["abc1"])
    assert kind(text) is Status.LONG
    assert kind(text[:-1]) is Status.SHORT
    for more in ("   \n\t ", "。！" * 100, "<br>" * 100, "\u200b" * 1000):
        assert kind(text[:-1] + more) is Status.SHORT
    assert kind(text[:-1] + " x") is Status.LONG


def test_letters_of_all_words_and_ideographs_count() -> None:
    """Of real texts: what is left of a normalised text without spaces and punctuation."""
    for text in (*SAMPLE, *MORE, *some_texts(300)):
        normalised = normalise_by(text, ARTICLE.long.normalisation)
        size = sum(map(str.isalnum, normalised)) + sum(len(found) for found in re.findall(f"[{marks()}]+", normalised))
        assert (kind(text) is Status.LONG) == (size >= ARTICLE_SIZE)


def test_a_link_alone_is_near_the_same_link() -> None:
    """Whatever its scheme is; with words beside, no link counts."""
    one, same, other = "https://www.a.com/x/8812", "http://a.com/x/8812", "https://a.com/x/8813"
    assert apart(COMMENT, one, same) == 0
    assert apart(COMMENT, f"看 {one}", f"看 {same}") == 0
    assert apart(COMMENT, one, other) > 80
    assert apart(COMMENT, one, f"看 {one}") > 80
    assert apart(COMMENT, f"一起来看看吧 {one}", f"一起来看看吧 {other}") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123", Status.EXACT),
        ("1234567", Status.SHORT),
        ("好的！！！！！！", Status.EXACT),
        ("好的，知道了。", Status.SHORT),
        ("thanks a lot", Status.SHORT),
        ("thanks a lot man", Status.SHORT),
        ("哈" * 50, Status.EXACT),
        ("", Status.FEATURELESS),
        ("。！？" * 200, Status.FEATURELESS),
        ("👍", Status.EXACT),
        ("👍❤😀☀👍😀❤☀", Status.SHORT),
        ("@somebody", Status.FEATURELESS),
        ("https://example.org/videos/8812", Status.EXACT),
        ("看 https://example.org/videos/8812", Status.EXACT),
        ("哈哈哈哈哈哈 https://example.org/videos/8812", Status.EXACT),
        ("看一下吧 https://a.cn", Status.SHORT),
    ],
)
def test_kinds_of_short_text(text: str, expected: Status) -> None:
    """Less than four letters: the exact form decides."""
    assert kind(text) is expected
    assert kind(text, COMMENT) is expected


def test_every_comment_is_short() -> None:
    """Under the comment profile text of any length is short."""
    assert kind(STORY, COMMENT) is Status.SHORT


def test_the_classic_profile_knows_one_kind() -> None:
    """Under the simhash profile text is long, or featureless."""
    assert [kind(text, SIMHASH) for text in ("好", STORY, "。", "")] == [
        Status.LONG,
        Status.LONG,
        Status.FEATURELESS,
        Status.FEATURELESS,
    ]


CHARACTERS = replace(COMMENT, exact="characters")


def test_an_exact_text_is_its_hash() -> None:
    """The signature of an exact text is the hash of the normalised text; its margins are 15."""
    made = Fingerprinter(CHARACTERS).fingerprint(["ＯＫ！！！！"])
    assert made.signatures[0].tobytes() == feature_hash("ok!!")
    assert made.margins[0].tobytes() == b"\xff" * 32


@pytest.mark.parametrize(
    "same",
    [
        ("沙发", "沙发！", "沙发。。", " 沙 发 ~"),
        ("Top", "top!!", "TOP...", "top 👍"),
        ("顶", "顶！！！！！！！！"),
    ],
    ids=["Chinese", "Latin", "many marks"],
)
def test_punctuation_of_the_shortest_texts_does_not_count(same: tuple[str, ...]) -> None:
    """Under ``letters`` texts of the same letters and digits are equal exact texts, however many marks follow."""
    made = Fingerprinter(COMMENT).fingerprint(same)
    assert set(made.statuses.tolist()) == {Status.EXACT}
    assert len({row.tobytes() for row in made.signatures}) == 1
    assert len({row.tobytes() for row in Fingerprinter(CHARACTERS).fingerprint(same).signatures}) == len(same)


def test_the_shortest_texts_stay_apart_by_letters_digits_and_pictures() -> None:
    """Under ``letters`` texts of other letters differ, and so do texts of nothing but symbols."""
    texts = ("沙发", "沙发2", "发沙", "👍", "❤", "(｡･ω･｡)", "(*´ω｀*)")
    signatures = Fingerprinter(COMMENT).fingerprint(texts).signatures
    assert len({row.tobytes() for row in signatures}) == len(texts)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("我用 python3, 很快!", ["我", "用", "python3", "很", "快"]),
        ("カタカナ", ["カ", "タ", "カ", "ナ"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("好 👍👍👍👍", ["好"]),
        ("👍👍❤👍", ["👍", "❤", "👍"]),
        ("。。!!", []),
        ("a_b", ["a", "b"]),
    ],
)
def test_units_of_short_text(text: str, units: list[str]) -> None:
    """Characters of languages without spaces, words of the others, symbols where nearly all is symbols."""
    assert units_that_count(text) == units


def test_short_text_counts_characters_their_pairs_and_trigrams_of_words() -> None:
    """Short text counts characters of languages without spaces, their pairs, and the trigrams of other words."""
    assert counts("今天天气 very good气", COMMENT) == Counter(
        {"今": 1, "天": 2, "气": 2, "今 天": 1, "天 天": 1, "天 气": 1}
        | dict.fromkeys(("_ve", "ver", "ery", "ry_", "_go", "goo", "ood", "od_"), 1)
    )


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("ひらがなです", ["ひらがな", "らがなで", "がなです"]),
        ("ひらがな", ["ひらがな"]),
        ("の", ["の"]),
        ("abcひら", ["abc", "ひら"]),
        ("กินข้าว", ["กินข", "ินข้", "นข้า", "ข้าว"]),
        ("english", ["english"]),
        ("привет", ["привет"]),
        ("한국어", ["한국어"]),
    ],
)
def test_languages_without_spaces_count_by_runs(word: str, parts: list[str]) -> None:
    """Text without spaces counts by runs of four characters; other words stay whole."""
    assert cut_unspaced([word]) == parts


@pytest.mark.parametrize("size", [500, 2_000, 8_000, 20_000])
def test_long_texts_of_one_language_without_spaces_are_apart(size: int) -> None:
    """Texts of any length that have their language in common alone: its pairs of characters are in all of them."""
    rng = random.Random(size)
    syllables = ["".join(map(rng.choice, ("กขคงจชดตถทนบปผพมยรลวสหอ", "ะาิีุูเแโ", "กงดนบมยว"))) for _ in range(300)]
    words = ["".join(rng.choices(syllables, k=rng.randrange(1, 4))) for _ in range(1_300)]
    # Both have the words of grammar, one of two of a text; the others are of its matter.
    texts = []
    for matter in (words[300:800], words[800:]):
        drawn = [rng.choice(rng.choices((words[:300], matter))[0]) for _ in range(size // 5)]
        texts.append(" ".join("".join(drawn[at : at + 8]) for at in range(0, len(drawn), 8)))
    assert apart(ARTICLE, *texts) > 64


def test_japanese_does_not_collapse() -> None:
    """An edited text has most of its features; as whole runs it would have lost a sentence for each changed letter."""
    edited = JAPANESE_STORY.replace("新しく", "今回").replace("予約できます", "予約が可能です")
    assert len(counts(JAPANESE_STORY, ARTICLE)) > 140
    assert max(map(len, counts(JAPANESE_STORY, ARTICLE))) <= 6
    assert apart(ARTICLE, JAPANESE_STORY, edited) < 30


def test_traditional_and_simplified_are_one_text() -> None:
    """Traditional and simplified text have one fingerprint in the profiles that simplify."""
    assert apart(ARTICLE, STORY, TRADITIONAL_STORY) == 0
    assert apart(SIMHASH, STORY, TRADITIONAL_STORY) > 60


@pytest.mark.parametrize(
    "trick",
    [
        "加 微 信 领 红 包 每 天 轻 松 赚 三 百 元",
        "加★微★信★领★红★包★每★天★轻★松★赚★三★百★元",
        "加\u200b微\u200b信领红包每天轻松赚三百元",
        "加微信領紅包每天輕鬆賺三百元！！！！！！！",
        "@小王 加微信领红包每天轻松赚三百元",
        "加微信领红包😀每天轻松赚三百元😀😀",
    ],
)
def test_tricks_change_nothing(trick: str) -> None:
    """A comment with tricks of spam has the fingerprint of the plain comment."""
    assert apart(COMMENT, "加微信领红包每天轻松赚三百元", trick) == 0


def test_fields_count_as_often_as_they_weigh() -> None:
    """A title of weight 3 counts as if it occurred three times."""
    settings = replace(SIMHASH, fields=(("title", 3), ("text", 1)))
    assert counts(("苹果", "苹果很甜"), settings) == Counter({"苹果": 4, "很甜": 1})
    assert counts(("", "苹果"), settings) == Counter({"苹果": 1})
    made = Fingerprinter(settings).fingerprint([("苹果", "苹果很甜")])
    assert (
        made.signatures.tolist()
        == Fingerprinter(SIMHASH).fingerprint(["苹果。苹果。苹果。苹果很甜"]).signatures.tolist()
    )


def test_only_html_fields_are_html() -> None:
    """Fields that are not HTML keep their tags as text."""
    settings = replace(SIMHASH, fields=(("title", 1), ("text", 1)), html_fields=("text",))
    assert counts(("<b>x</b>", "<b>y</b>z"), settings) == Counter({"b": 2, "x": 1, "yz": 1})
    assert counts(("<b>y</b>z",), replace(SIMHASH, markup="html")) == Counter({"yz": 1})


def test_key_sentences() -> None:
    """First and last of each paragraph, and the longest; a number's dot ends none."""
    text = "一。二。三。\n\n四。\n五！这一句最长 3.14。六？"
    assert key_sentences(text) == ["一", "三", "四", "五", "六", "这一句最长 3.14"]
    assert key_sentences("") == []
    settings = replace(SIMHASH, key_sentences=2)
    assert counts(("苹果。香蕉。葡萄。",), settings) == Counter({"苹果": 3, "香蕉": 1, "葡萄": 3})


def test_key_sentences_are_not_joined() -> None:
    """Where line breaks between ideographs are dropped, each key sentence still counts by itself."""
    settings = replace(ARTICLE, article_size=0, exact_size=0, key_sentences=1).with_normalisation(rejoin=True)
    found = counts("研究生\n命起源", settings)
    assert (found["研究"], found["生命"], found["研究生"]) == (1, 1, 1)


def test_stop_words_do_not_count(tmp_path: Path) -> None:
    """Stop words are normalised before they are compared with the text."""
    file = tmp_path / "stop.txt"
    file.write_text("# mine\nＡＮＤ\n蘋果\n", encoding="utf-8")
    settings = replace(ARTICLE, stop_words=file, article_size=0, exact_size=0)
    assert counts("Apples and 苹果 香蕉", settings) == Counter({"apples": 1, "香蕉": 1})


def test_a_users_words_are_kept_whole(tmp_path: Path) -> None:
    """With and without a frequency; simplified where the text is."""
    file = tmp_path / "words.txt"
    file.write_text("去中心化金融协议 9 n\n石墨烯電池\n", encoding="utf-8")
    settings = replace(ARTICLE, user_dictionary=file, article_size=0, exact_size=0)
    found = counts("去中心化金融协议与石墨烯电池", settings)
    assert found == Counter({"去中心化金融协议": 1, "与": 1, "石墨烯电池": 1})
    other = counts("去中心化金融协议与石墨烯电池", replace(settings, user_dictionary=None))
    assert "去中心化金融协议" not in other


@pytest.mark.parametrize(
    "line",
    [
        *("词 x 1", "词 1 n more", "词 0", f"词 {'9' * 5_000} n more"),
        *(f"词 {frequency} n" for frequency in (MAX_FREQUENCY + 1, "9" * 5_000, "1" + "0" * 4_299)),
    ],
)
def test_a_line_that_is_no_entry_is_named(line: str, tmp_path: Path) -> None:
    """The error for a malformed line names the line, as an editor numbers it, and the format; a long line is cut.

    Among them are frequencies that Python itself does not read as numbers, or that have no logarithm as floats.
    """
    file = tmp_path / "words.txt"
    file.write_text(f"# comment\n\n好词 1\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"words\.txt, line 4: '词 .{1,60} is no entry of a dictionary; write: word"):
        Fingerprinter(replace(SIMHASH, user_dictionary=file)).warm()


def test_the_largest_frequency_is_taken(tmp_path: Path) -> None:
    """Before a word whose frequency is suggested; zeros before a number do not count."""
    file = tmp_path / "words.txt"
    file.write_text(f"去中心化金融协议 {'0' * 5_000}{MAX_FREQUENCY}\n石墨烯电池\n", encoding="utf-8")
    settings = replace(ARTICLE, user_dictionary=file, article_size=0, exact_size=0)
    found = counts("去中心化金融协议与石墨烯电池", settings)
    assert {"去中心化金融协议", "石墨烯电池"} <= found.keys()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The error for an unreadable file of words names it and the remedy."""
    (tmp_path / "latin").write_bytes(b"\xe9")
    for name, reason in (("gone", "cannot be read"), ("latin", "not UTF-8 at byte 0")):
        with pytest.raises(UserError, match=reason):
            Fingerprinter(replace(SIMHASH, stop_words=tmp_path / name)).warm()
