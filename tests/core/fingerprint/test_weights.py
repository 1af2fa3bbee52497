"""Whole-number weights: tf, TF-IDF, levels, noise, the K heaviest."""

import math
import subprocess
import sys

import numpy as np
import pytest

from stream_dedup.core.fingerprint.weights import (
    DAMP_UNIT,
    IDF_UNIT,
    LEVEL_EDGES,
    MAX_COUNT,
    STOP_WORDS,
    common_words,
    damping,
    heaviest,
    idf_of,
    idf_table,
    parse_idf,
    weigh,
)
from stream_dedup.core.scheme import Features
from stream_dedup.core.text.normalise import split

COUNTS = np.array([1, 2, 10, 10])
IDF = np.array([12 * IDF_UNIT, 12 * IDF_UNIT, 12 * IDF_UNIT, IDF_UNIT])


def test_tf_is_the_count() -> None:
    """The weight ``tf`` is the count alone."""
    assert weigh(COUNTS, IDF, Features(weights="tf")).tolist() == [1, 2, 10, 10]


def test_tfidf_damped_is_idf_times_one_plus_log_count() -> None:
    """The damped weight is IDF times 1 + ln tf in units of 1/64, rounded down."""
    expected = [math.floor(64 * idf * (1 + math.log(tf))) for tf, idf in ((1, 12), (2, 12), (10, 12), (10, 1))]
    assert weigh(COUNTS, IDF, Features()).tolist() == pytest.approx(expected, abs=1)


def test_tfidf_linear_is_idf_times_count() -> None:
    """The linear weight is IDF times tf in units of 1/64."""
    found = weigh(COUNTS, IDF, Features(damped=False)).tolist()
    assert found == [64 * 12, 64 * 24, 64 * 120, 64 * 10]


def test_levels_are_1_to_5_by_idf_alone() -> None:
    """Each edge belongs to the higher level, and the count does not matter."""
    idf = np.array([0, *(edge * IDF_UNIT - 1 for edge in LEVEL_EDGES), *(edge * IDF_UNIT for edge in LEVEL_EDGES)])
    found = weigh(np.arange(1, 10), idf, Features(weights="level")).tolist()
    assert found == [1, 1, 2, 3, 4, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["tf", "tfidf", "level"])
def test_every_word_weighs_something(kind: str) -> None:
    """The least IDF and the least count still count, so that a text with words has a signature."""
    settings = Features(weights=kind)  # type: ignore[arg-type]
    assert weigh(np.array([1]), np.array([0]), settings).tolist() == [1]


def test_counts_are_told_apart_up_to_a_limit() -> None:
    """Counts above the limit weigh the same."""
    huge = np.array([MAX_COUNT, MAX_COUNT + 1, 10**9])
    for settings in (Features(), Features(damped=False), Features(weights="tf")):
        assert len(set(weigh(huge, IDF[:3], settings).tolist())) == 1


def test_idf_is_read_in_fixed_point_with_its_upper_median() -> None:
    """The median is element n // 2 of the sorted values, as in jieba."""
    table = parse_idf("一 1.5\n二 2.0\n三 3.0\n四 4.0\n")
    assert table == ({"一": 1536, "二": 2048, "三": 3072, "四": 4096}, 3072, 1536)


@pytest.mark.parametrize(
    ("word", "idf"),
    [
        ("的", 0.88474202619),
        ("中国", 3.02732068666),
        ("unheardof", 11.9547675029),
        ("the", 0.88474202619),
        ("x", 0.88474202619),
    ],
)
def test_idf_of_words(word: str, idf: float) -> None:
    """From jieba's table; unknown words have its median, noise its minimum."""
    assert idf_table().of(word) == math.floor(idf * IDF_UNIT + 0.5)


@pytest.mark.slow
def test_stop_words_and_median_are_jiebas() -> None:
    """Held against jieba.analyse, in a process of its own; without parts of speech, which load the dictionary."""
    code = (
        "import sys, types, jieba; jieba.posseg = sys.modules['jieba.posseg'] = types.SimpleNamespace(dt=None)\n"
        "import jieba.analyse as a; from stream_dedup.core.fingerprint.weights import *\n"
        "t = a.TFIDF(); assert STOP_WORDS == a.TFIDF.STOP_WORDS\n"
        "assert idf_table().values.keys() == t.idf_freq.keys()\n"
        "assert idf_table().median == int(t.median_idf * IDF_UNIT + 0.5)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    assert len(STOP_WORDS) == 31


def test_damping_stands_clear_of_rounding_edges() -> None:
    """No 1 + ln tf lies within 1e-7 of an edge, so a logarithm's last digit changes no weight on any machine."""
    exact = [DAMP_UNIT * (1 + math.log(tf)) + 0.5 for tf in range(1, MAX_COUNT + 1)]
    assert min(abs(value - round(value)) for value in exact) > 1e-7
    assert damping()[[0, 1, 2, MAX_COUNT]].tolist() == [0, 1024, 1734, 12381]


def test_heaviest_are_kept_and_ties_go_to_the_smaller_hash() -> None:
    """The K heaviest words are returned in one order; of equal weight, the smaller hash comes first."""
    weights = np.array([5, 7, 7, 7, 1])
    hashes = np.array([[0], [3], [1], [2], [0]], np.uint8).repeat(32, axis=1)
    assert heaviest(weights, hashes, 3).tolist() == [2, 3, 1]
    assert heaviest(weights[::-1].copy(), hashes[::-1].copy(), 3).tolist() == [2, 1, 3]
    assert heaviest(weights, hashes, 9).tolist() == [2, 3, 1, 0, 4]


@pytest.mark.parametrize(
    ("word", "idf"),
    [
        ("的", 0.88474202619),
        ("中国", 3.02732068666),
        ("无此词也", 5),
        ("龘", 0.88474202619),
        ("2024", 32),
        ("5", 12),
        ("the", 0.1),
        ("about", 2),
        ("und", 2),
        ("cat", 5),
        ("library", 9),
        ("incomprehensibility", 12),
        ("ひら", 4),
        ("мир", 5),
    ],
)
def test_idf_of_words_of_all_languages(word: str, idf: float) -> None:
    """Jieba's for ideographs; function words next to nothing, other words by their length, numbers all alike."""
    assert word not in idf_table().values or word in {"的", "中国", "the"}
    assert idf_of(Features(idf="languages"))(word) == math.floor(idf * IDF_UNIT + (0.5 if word > "z" else 0))


def test_the_root_of_an_idf() -> None:
    """The root of an IDF is in the same units, rounded down."""
    assert idf_of(Features(idf="languages", root=True))("library") == 3 * IDF_UNIT
    assert idf_of(Features(root=True))("library") == math.isqrt(idf_table().median * IDF_UNIT)


def test_grams_weigh_by_what_they_are() -> None:
    """An ideograph, a pair of them, another character, another pair and a trigram have different weights."""
    weight = idf_of(Features(kind="chars", gram_weights=(100, 50, 25, 75, 200)))
    found = [weight(gram) for gram in ("好", "好 的", "ก", "ก า", "好 か", "_wo", "wor")]
    assert found == [1024, 512, 256, 768, 768, 2048, 2048]


def test_common_words_are_lower_case_and_few() -> None:
    """Common words are normalised, and each is one word."""
    words = common_words()
    assert 1000 < len(words) < 2500
    assert [word for word in words if split(word, marked=True).words != [word]] == []


def test_damping_may_be_stronger() -> None:
    """With damping 2 the factor is 1 + 2 ln tf."""
    expected = [math.floor(64 * 12 * (1 + 2 * math.log(tf))) for tf in (1, 2, 10)]
    assert weigh(COUNTS[:3], IDF[:3], Features(damping=2)).tolist() == pytest.approx(expected, abs=2)
