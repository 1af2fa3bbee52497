"""Whole-number weights: tf, TF-IDF, levels, noise, the K heaviest; of the definition, which the native core has too."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import Features, FingerprintSettings, Treatment
from tests.reference.normalise import normalise, split_normalised
from tests.reference.weights import (
    DAMP_UNIT,
    IDF_UNIT,
    LEVEL_EDGES,
    MAX_COUNT,
    STOP_WORDS,
    common_words,
    idf_of,
    idf_table,
    one_and_log,
    weigh,
)

UNKNOWN = 12 * IDF_UNIT


def native(word: str, count: int, features: Features) -> int:
    """The weight that the native core gives a word."""
    settings = FingerprintSettings(long=Treatment(features=features), short=Treatment(features=features))
    (feature,) = Fingerprinter(settings).features_of({word: count}).features
    return feature.weight


def test_tf_is_the_count() -> None:
    """The weight ``tf`` is the count alone."""
    assert [weigh(count, UNKNOWN, Features(weights="tf")) for count in (1, 2, 10)] == [1, 2, 10]


def test_tfidf_damped_is_idf_times_one_plus_log_count() -> None:
    """The damped weight is IDF times 1 + ln tf in units of 1/64, rounded down; with damping 2, 1 + 2 ln tf."""
    for damping in (1, 2):
        for tf, idf in ((1, 12), (2, 12), (10, 12), (10, 1)):
            expected = math.floor(64 * idf * (1 + damping * math.log(tf)))
            assert weigh(tf, idf * IDF_UNIT, Features(damping=damping)) == pytest.approx(expected, abs=2)


def test_tfidf_linear_is_idf_times_count() -> None:
    """The linear weight is IDF times tf in units of 1/64."""
    found = [weigh(count, 12 * IDF_UNIT, Features(damped=False)) for count in (1, 2, 10)]
    assert found == [64 * 12, 64 * 24, 64 * 120]


def test_levels_are_1_to_5_by_idf_alone() -> None:
    """Each edge belongs to the higher level, and the count does not matter."""
    idf = [0, *(edge * IDF_UNIT - 1 for edge in LEVEL_EDGES), *(edge * IDF_UNIT for edge in LEVEL_EDGES)]
    found = [weigh(count, each, Features(weights="level")) for count, each in enumerate(idf, 1)]
    assert found == [1, 1, 2, 3, 4, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["tf", "tfidf", "level"])
def test_every_word_weighs_something(kind: str) -> None:
    """The least IDF and the least count still count, so that a text with words has a signature."""
    settings = Features(weights=kind)  # type: ignore[arg-type]
    assert weigh(1, 0, settings) == 1


def test_counts_are_told_apart_up_to_a_limit() -> None:
    """Counts above the limit weigh the same."""
    for settings in (Features(), Features(damped=False), Features(weights="tf")):
        counts = (MAX_COUNT - 1, MAX_COUNT, MAX_COUNT + 1, 10**9)
        for weights in (
            [weigh(count, UNKNOWN, settings) for count in counts],
            [native("cat", count, settings) for count in counts],
        ):
            assert len(set(weights[1:])) == 1
            assert settings.damped or weights[0] < weights[1]


WORDS = (*("的", "中国", "无此词也", "龘", "2024", "5", "the", "about", "und", "cat", "library", "ひら", "мир", "x"),)


@pytest.mark.parametrize("idf", ["jieba", "languages"])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("weights", ["tf", "tfidf", "level"])
def test_the_native_core_weighs_as_the_definition_says(idf: str, root: bool, weights: str) -> None:
    """Function words, numbers, names and others, listed ones too, so often or so, damped or not."""
    plain = Features(idf=idf, root=root, weights=weights)  # type: ignore[arg-type]
    for features in (plain, replace(plain, damped=False), replace(plain, damping=2)):
        for word in (*WORDS, *sorted(common_words())[::37], *STOP_WORDS):
            for count in (1, 2, 255, 256, 257, 65_535):
                assert native(word, count, features) == weigh(count, idf_of(features)(word), features)


def test_the_native_core_weighs_grams_as_the_definition_says() -> None:
    """An ideograph, a pair of them, another character, another pair, a trigram and a number."""
    features = Features(kind="chars", gram_weights=(100, 50, 25, 75, 200))
    settings = FingerprintSettings(short=Treatment(features=features))
    for gram in ("好", "好 的", "ก", "ก า", "好 か", "_wo", "wor", "_2024_", "_5_"):
        made = Fingerprinter(settings).features_of({gram: 3}, Status.SHORT).features
        assert [one.weight for one in made] == [weigh(3, idf_of(features)(gram), features)]


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
        "import jieba.analyse as a; from tests.reference.weights import *\n"
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
    assert [one_and_log(count) for count in (1, 2, MAX_COUNT)] == [1024, 1734, 12381]


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
    assert [word for word in words if split_normalised(normalise(word), marked=True).words != [word]] == []


@pytest.mark.parametrize("treated", ["long", "short"])
def test_weights_of_grams_are_bounded(treated: str) -> None:
    """A setting of up to 1,000 hundredths is taken; the error for a greater one names it, the limit and the reason."""
    for weight in (1_000, 1_001, 1 << 32):
        grams = Treatment(features=Features(kind="chars", gram_weights=(1, 2, 3, 4, weight)))
        usual = FingerprintSettings(article_size=200)
        settings = replace(usual, long=grams) if treated == "long" else replace(usual, short=grams)
        if weight == 1_000:
            assert Fingerprinter(settings).fingerprint(["ferry and bridge"]).statuses.tolist() == [Status.SHORT]
            continue
        with pytest.raises(ValueError, match=f"gram_weights: {weight} is greater than 1000; sums .* could overflow"):
            Fingerprinter(settings).fingerprint(["ferry and bridge"])


def test_weights_of_fields_are_bounded() -> None:
    """A weight of up to 100 is taken; the error for a greater one names it, the limit and the reason."""
    texts = [("ferry", "and bridge")]
    taken = FingerprintSettings(fields=(("title", 100), ("text", 1)))
    assert Fingerprinter(taken).fingerprint(texts).statuses.tolist() == [Status.LONG]
    for weight in (101, 1 << 60):
        refused = replace(taken, fields=(("title", 1), ("text", weight)))
        with pytest.raises(ValueError, match=f"field_weights: {weight} is greater than 100; sums .* could overflow"):
            Fingerprinter(refused).fingerprint(texts)
