"""Long texts read as a batch have the entries that the definition gives each text alone."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import words as module
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.fingerprint.reader import Reader, size_of, words_in
from stream_dedup.core.fingerprint.sketcher import Sketcher
from stream_dedup.core.fingerprint.words import LongFingerprinter
from stream_dedup.core.fingerprint.words_kernel import LONGEST_STRETCH
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.normalise import MAX_HAN_RUN, normalise, split_normalised, words_apart
from tests.core.fingerprint.test_dictionary import traps
from tests.core.fingerprint.test_short import PIECES
from tests.core.texts import MORE, SAMPLE, STORY, some_texts

LONG = replace(PROFILES["article"].settings, article_size=0, exact_size=0, form=False)
CLASSIC = PROFILES["simhash"].settings
FIELDS = replace(LONG, fields=(("title", 3), ("body", 1)), key_sentences=2)
OTHERS = (
    CLASSIC,
    CLASSIC.with_features(top_k=3),
    CLASSIC.with_features(kind="chars"),
    replace(CLASSIC, long=LONG.long),
    LONG.with_normalisation(numbers="token", emails="drop", unspace=True, lookalikes=True, repeats=True),
    LONG.with_normalisation(numbers="drop"),
    replace(LONG, sketch_text="characters", key_sentences=1),
    replace(LONG, sketch=(), markup="html"),
)
SCRIPTS = (
    *("南京市长江大桥", "研究生命起源", "龘靐齉", "哈哈哈哈", "进研研研权", "一二三四", "的", "了一", "图书馆", "a1"),
    *("ひらがなです", "カタカナ", "กินข้าว", "ភាសាខ្មែរ", "हिन्दी", "한국어", "привет", "عربي", "々〇", "\u3400"),
    *("\u9fd5\u9fd6", "\u4dbf\u4e00", "\ufa0e", "\u8c48", "豈", "㈱", "Ⅷ", "ſ", "0.5", "3-4", "\ud840\udc00", "\ud840"),
    *("\u0301", "\u0e31", " ", "\n", "。", "_", "٣", "a_b", "\u200d", "word", "🎉"),
)
MIXED = st.lists(st.sampled_from((*PIECES, *SCRIPTS)) | st.text(max_size=3), max_size=40).map("".join)


@cache
def fingerprinter(settings: FingerprintSettings) -> Fingerprinter:
    return Fingerprinter(settings)


def assert_same(settings: FingerprintSettings, texts: list[str]) -> None:
    """Every text has the entry of the definition; of several fields, each text is a title of the next."""
    given = list(zip([*texts[1:], ""], texts, strict=True)) if settings.fields else [(text,) for text in texts]
    made, reader = fingerprinter(settings).fingerprint(given), Reader(settings)
    for row, fields in enumerate(given):
        counted = reader.read(fields)
        expected = fingerprinter(settings).features_of(counted.long)
        assert (fields, made.statuses[row], made.signatures[row].tobytes()) == (
            fields,
            counted.status,
            expected.signature,
        )
        sketch = Sketcher(settings.sketch).of_texts([counted.sketched])[0].tolist() if counted.long else []
        assert (fields, made.sketches[row].tolist()) == (fields, sketch or [0] * made.sketches.shape[1])


def assert_same_sizes(settings: FingerprintSettings, texts: list[str]) -> None:
    """Every text has the letters of the definition."""
    found = LongFingerprinter(settings)([(text,) for text in texts])
    expected = [size_of([words_in(text, settings.long)]) for text in texts]
    assert list(zip(texts, found.sizes.tolist(), strict=True)) == list(zip(texts, expected, strict=True))


@given(st.lists(MIXED, min_size=1, max_size=4))
def test_a_batch_of_articles_gives_the_entries_of_the_definition(texts: list[str]) -> None:
    """Signature, sketch, kind and size of an article, whatever other texts are in the batch."""
    assert_same(LONG, texts)
    assert_same_sizes(LONG, texts)


@pytest.mark.parametrize("settings", [*OTHERS, FIELDS])
@given(texts=st.lists(MIXED, min_size=1, max_size=3))
def test_a_batch_gives_the_entries_of_the_definition_under_other_settings(
    settings: FingerprintSettings, texts: list[str]
) -> None:
    """With other words and weights, with fields and key sentences, and with steps behind NFKC."""
    assert_same(settings, texts)


def test_real_texts_at_once_are_the_definition() -> None:
    """Real texts in many languages under the profiles' ways of splitting words."""
    texts = [*SAMPLE, *MORE, *some_texts(100)]
    for settings in (LONG, CLASSIC, FIELDS):
        assert_same(settings, texts)
    assert_same_sizes(LONG, texts)


def test_stop_words_do_not_count_in_a_batch(tmp_path: Path) -> None:
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
    runs = [run for run in traps(4_000) if run]
    assert_same(LONG, ["，".join(runs[start : start + 40]) for start in range(0, len(runs), 40)])


def test_runs_far_apart_are_cut_as_alone() -> None:
    """However many other characters are between two runs, and wherever these begin."""
    assert_same(
        LONG,
        [
            "大" * before + "，" * gap + "南京市长江大桥" + "x" * gap + "研究生命起源，" + "，" * gap
            for before, gap in product(range(18), range(40))
        ],
    )


@pytest.mark.parametrize("run", ["南京市长江大桥", "研究生命起源", "international", "ภาษาไทย", "é", "大"])
def test_what_is_cut_at_once_ends_with_a_run(run: str) -> None:
    """A word is whole wherever it begins, and so are the next ones, in long runs and in short ones, at the end too."""
    stretch = LONGEST_STRETCH - MAX_HAN_RUN
    for start in range(stretch - len(run) - 1, stretch + 2):
        assert_same(
            LONG, ["，" * start + run, "，" * start + f"{run} {run}，" * 3, "大桥" * (start // 2) + f"，{run}" * 3]
        )
    assert_same(LONG, [run * (size // len(run)) + f" {run}" for size in (MAX_HAN_RUN, LONGEST_STRETCH)])


def test_letters_are_given_of_texts_of_enough_letters() -> None:
    """Nothing of shorter texts, whose sketches are made of what is read as short text."""
    texts = [(STORY * 2,), ("图书馆 reopens",), ("图书馆开放",), ("",)]
    for settings in (LONG, replace(LONG, sketch_text="characters")):
        every, some = LongFingerprinter(settings)(texts), LongFingerprinter(settings, 10)(texts)
        kept = every.sizes >= 10
        assert every.sizes[1] == 10
        assert kept.tolist() == [True, True, False, False]
        assert np.array_equal(some.letters.points, every.letters.where(kept).points)
        assert some.letters.lengths.tolist() == (every.letters.lengths * kept).tolist()
    unsketched = LongFingerprinter(replace(LONG, sketch=()))(texts).letters
    assert (len(unsketched.points), unsketched.lengths.tolist()) == (0, [0] * 4)


@given(MIXED)
def test_words_apart_are_those_of_the_definition(text: str) -> None:
    """Of any text, with marks and without."""
    for marked in (False, True):
        for one in (text, f"国\uf900人é{text}"):
            expected = split_normalised(normalise(one), marked=marked)
            assert split_normalised(words_apart(one, marked=marked), marked=marked) == expected


def test_texts_between_short_and_long_are_the_definition() -> None:
    """A text of which words and characters count has the entry of the definition, in a batch of all sizes."""
    article = PROFILES["article"].settings
    sizes = (60, 125, 126, 384, 385, 999, 1000)
    texts = [text[:size] for size in sizes for text in (STORY * 4, *MORE[:6])]
    for settings in (article, replace(article, article_size=40), replace(article, form=False, sketch=())):
        made = Fingerprinter(settings).fingerprint(texts)
        for row, text in enumerate(texts):
            expected = fingerprinter(settings).features(text)
            signature = bytes(32) if expected.status is Status.FEATURELESS else expected.signature
            assert (text, made.statuses[row], made.signatures[row].tobytes(), made.sketches[row].tobytes()) == (
                text,
                expected.status,
                signature,
                expected.sketch,
            )


def test_a_batch_of_articles_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more than ``BATCH_CHARACTERS``, but for a longer text alone; entries do not depend on it."""
    texts = [*SAMPLE, *MORE]
    expected = Fingerprinter(LONG).fingerprint(texts)
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 60)
    batches = [texts[batch] for batch in LongFingerprinter.batches([(text,) for text in texts])]
    assert [text for batch in batches for text in batch] == texts
    assert max(sum(map(len, batch)) for batch in batches if len(batch) > 1) <= 60
    assert Counter(map(len, batches))[1] < len(batches)
    for ours, theirs in zip(Fingerprinter(LONG).fingerprint(texts), expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_text_that_the_definition_empties_hides_no_other_one() -> None:
    """Its span ends where that of the last text does, which needs a closer look."""
    texts = ["&#8203;" * 30, "图书馆重新开放" * 60 + "é", "&#8203;" * 30, "A" + "é" * 400]
    made = Fingerprinter(PROFILES["article"].settings).fingerprint(texts)
    for row, text in enumerate(texts):
        alone = Fingerprinter(PROFILES["article"].settings).features(text)
        assert (made.signatures[row].tobytes(), Status(int(made.statuses[row]))) == (alone.signature, alone.status)
