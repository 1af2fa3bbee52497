"""Normalise and split: the definition."""

import random
import sys
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.reference.normalise import MAX_HAN_RUN, MAX_MARKS, Runs, normalise, split_normalised
from tests.reference.unicode14 import unassigned

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
        ("我用Python3写代码，很快。", ["我用", "写代码", "很快"], ["python3"]),
        ("The cat's 3.14", [], ["the", "cat", "s", "3", "14"]),
        ("ＡＢ１２中文", ["中文"], ["ab12"]),
        ("Café ok 好", ["好"], ["café", "ok"]),
        ("金⾦更", ["金金更"], []),
        ("😀好😀好", ["好", "好"], []),
        ("。！？…", [], []),
        ("", [], []),
    ],
)
def test_split(text: str, han: list[str], words: list[str]) -> None:
    """Han runs apart from other words, which are taken whole; nothing else is a word."""
    assert split_normalised(normalise(text)) == Runs(han, words)


@examples(1000)
@given(st.text(st.sampled_from(NASTY), max_size=12) | st.text(max_size=20))
def test_normalise_changes_nothing_twice(text: str) -> None:
    """Normalising a normalised text does not change it."""
    assert normalise(normalise(text)) == normalise(text)


def test_a_letter_that_folding_takes_apart_is_composed_again() -> None:
    """Case folding makes iota and two marks of this letter."""
    assert normalise("\u0390") == "\u0390"


def test_assigned_characters_are_those_of_unicode_14() -> None:
    """Python 3.11 has that version; a later one has more characters, never fewer."""
    theirs = np.array([unicodedata.category(chr(c)) in {"Cn", "Cs"} for c in range(sys.maxunicode + 1)])
    if unicodedata.unidata_version == "14.0.0":
        assert np.array_equal(unassigned(), theirs)
    assert unassigned()[theirs].all()


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
    """A segmenter never gets a longer run than its limit."""
    run = "".join(random.Random(3).choices("天地玄黄宇宙洪荒", k=2 * MAX_HAN_RUN + 5))
    expected = [run[:MAX_HAN_RUN], run[MAX_HAN_RUN : 2 * MAX_HAN_RUN], run[2 * MAX_HAN_RUN :]]
    assert split_normalised(run).han == expected
