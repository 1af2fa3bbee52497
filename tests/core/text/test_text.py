"""Normalise and split: the definition, and that the short ways give the same words."""

import random
import re
import sys
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.core.text import normalise as module
from stream_dedup.core.text.normalise import MAX_HAN_RUN, MAX_MARKS, Runs, normalise, split, split_normalised
from stream_dedup.core.text.unicode14 import unassigned
from tests.amount import code_points, examples
from tests.core.texts import some_texts

# What normalisation is about: full and half width, ligatures, compatibility ideographs, radicals, marks of several
# classes, composing Indic vowels and Hangul letters, cases that fold to several letters, symbols that become letters.
NASTY = (
    "aZkKİiIſß09_ \t\n\u00a0\u3000，。！（）ＡｚＫ１ﬁﬀ№™½①㎏㏂℡ªº´¨…⼀⾦豈龜更\U0002f800中国的了龘\u9fd5\u9fd6\u3400〇"
    "éÉe\u0301\u0345\u0316\u0307\u0338\u3099\u309aｶﾞﾟがか\u1100\u1161\u11a8각\u09c7\u09be\u0b47\u0b3eΑΣςᾳᾼŉǰẞ<=>≠"
    "😀🍎\U0001f1e6\U0001f130\U0001f201𝐀𝟘\ud83d\ude00\udc00\ud800\u200b\u200d\ufe0f\ufeff\u0378\uffff\x00\x1f"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＡＢＣ１２３，中国", "abc123,中国"),
        ("  a\t\u3000b\r\n c ", "a b c"),
        ("Straße ﬁne", "strasse fine"),
        ("e\u0301", "\u00e9"),
        ("⼀", "一"),
        ("a\u0378b\ud83dc", "a b c"),
        ("\ud801\udc00", "\U00010428"),
        ("", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    """NFKC, case folding, white space; what is unassigned or half a pair separates."""
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("text", "han", "words"),
    [
        ("我用Python3写代码，很快。", "我用 写代码 很快", ["python3"]),
        ("The cat's 3.14", "", ["the", "cat", "s", "3", "14"]),
        ("ＡＢ１２中文", "中文", ["ab12"]),
        ("Café ok 好", "好", ["café", "ok"]),
        ("金⾦更", "金金更", []),
        ("😀好😀好", "好 好", []),
        ("。！？…", "", []),
        ("", "", []),
    ],
)
def test_split(text: str, han: str, words: list[str]) -> None:
    """Han runs apart from other words, which are taken whole; nothing else is a word."""
    assert split(text) == Runs(han, words)


@examples(1000)
@example("\ud800\udc00")
@given(st.text(st.sampled_from(NASTY), max_size=12) | st.text(max_size=20))
def test_the_short_way_gives_the_words_of_the_definition(text: str) -> None:
    """Splitting any text gives the words of the definition."""
    assert split(text) == split_normalised(normalise(text))


@examples(1000)
@given(st.text(st.sampled_from(NASTY), max_size=12) | st.text(max_size=20))
def test_normalise_changes_nothing_twice(text: str) -> None:
    """Normalising a normalised text does not change it."""
    assert normalise(normalise(text)) == normalise(text)


def test_a_letter_that_folding_takes_apart_is_composed_again() -> None:
    """Case folding makes iota and two marks of this letter."""
    assert normalise("\u0390") == "\u0390"


def around(c: str) -> str:
    return f"中{c}a{c}\u0301 {c}{c}文"


def differs(text: str) -> bool:
    return split(text) != split_normalised(normalise(text))


@pytest.mark.slow
def test_every_character_is_split_as_by_the_definition() -> None:
    """Every code point, alone and between Han, ASCII and marks, is split as by the definition."""
    points = [chr(point) for point in code_points()]
    for start in range(0, len(points), 4096):
        part = points[start : start + 4096]
        # All in one text, and one by one only to name the culprits.
        if differs(" ".join(map(around, part))):
            pytest.fail(f"split otherwise: {[hex(ord(c)) for c in part if differs(around(c))]}")


def test_real_texts_are_split_as_by_the_definition() -> None:
    """Real texts from every file are split as by the definition."""
    for text in some_texts(2000):
        assert split(text) == split_normalised(normalise(text))


def test_assigned_characters_are_those_of_unicode_14() -> None:
    """Python 3.11 has that version; a later one has more characters, never fewer."""
    theirs = np.array([unicodedata.category(chr(c)) in {"Cn", "Cs"} for c in range(sys.maxunicode + 1)])
    if unicodedata.unidata_version == "14.0.0":
        assert np.array_equal(unassigned(), theirs)
    assert unassigned()[theirs].all()


def test_every_character_that_begins_with_a_mark_is_seen_as_one() -> None:
    """The pattern for long runs of marks matches every mark."""
    maybe = re.compile(module._MAYBE_MARKS.pattern.rpartition("{")[0])
    points = map(chr, range(sys.maxunicode + 1))
    marks = [point for point in points if unicodedata.combining(unicodedata.normalize("NFKD", point)[0])]
    assert [hex(ord(mark)) for mark in marks if not maybe.fullmatch(mark)] == []


def test_marks_in_a_row_are_capped() -> None:
    """The first thirty marks in a row stay, in Unicode's order."""
    assert normalise("a" + "\u0301\u0316" * 500) == normalise("a" + "\u0301\u0316" * (MAX_MARKS // 2))


def test_a_text_of_nothing_but_marks_takes_no_quadratic_time() -> None:
    """A million characters of marks in the worst order: seconds at most, where sorting them would take minutes."""
    start = time.process_time()
    normalise("a" + "\u0301\u0316" * 250_000)
    normalise("a" + "\uff9e\u0301" * 250_000)
    assert time.process_time() - start < 20


def test_a_long_han_run_is_cut() -> None:
    """A segmenter never gets a longer run than its limit, on either way."""
    run = "".join(random.Random(3).choices("天地玄黄宇宙洪荒", k=2 * MAX_HAN_RUN + 5))
    expected = [run[:MAX_HAN_RUN], run[MAX_HAN_RUN : 2 * MAX_HAN_RUN], run[2 * MAX_HAN_RUN :]]
    assert split(run).han.split(" ") == expected
    assert split_normalised(run).han.split(" ") == expected
