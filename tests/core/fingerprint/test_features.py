"""Words and their counts; the compiled segmenter and jieba give the same."""

import marshal
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.fingerprint.dictionary import jieba_dictionary
from stream_dedup.core.fingerprint.features import grams_of, loaded_dictionary, segmenter, words_of
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.normalise import normalise, split
from stream_dedup.errors import UserError
from tests.amount import FULL
from tests.core.texts import SAMPLE, all_texts, some_texts

SEGMENTERS = ("compiled", "jieba")
CUTTING = SEGMENTERS if FULL else SEGMENTERS[:1]
"""jieba takes seconds to load; that both cut alike has a test of its own."""

load, load_dictionary = segmenter.__wrapped__, loaded_dictionary.__wrapped__
"""Both without their caches: the other tests keep the segmenters that are loaded."""


def test_a_number_is_one_feature_of_short_text() -> None:
    """Another digit makes another number, with nothing in common; another letter leaves most of a word."""
    assert grams_of(["20261122"]) == Counter(["_20261122_"])
    assert not grams_of(["20261122"]) & grams_of(["20261123"])
    assert grams_of(["library"]) & grams_of(["librery"]) == Counter(["_li", "lib", "ibr", "ry_"])


@pytest.mark.parametrize("name", CUTTING)
def test_words_are_counted(name: str) -> None:
    """Han runs are cut, other words are whole, punctuation is no word, case does not count."""
    assert words_of("我喜欢Python，喜欢 python！3.14", segmenter(name)) == Counter(
        {"我": 1, "喜欢": 2, "python": 2, "3": 1, "14": 1}
    )


@pytest.mark.parametrize("name", CUTTING)
def test_no_words(name: str) -> None:
    """Punctuation, white space and empty text have no words."""
    assert [words_of(text, segmenter(name)) for text in ("", " \n", "。！—…", "+-*/_")] == [Counter()] * 4


@pytest.mark.parametrize("name", CUTTING)
def test_cutting_all_runs_at_once_gives_the_words_of_each_run(name: str) -> None:
    """Runs joined by spaces have the words of each run, by both segmenters."""
    cut = segmenter(name)
    for text in some_texts(200) + list(SAMPLE):
        runs = re.findall("[\u4e00-\u9fd5]+", normalise(text))
        expected = [word for run in runs for word in cut(run)]
        assert [word for word in cut(split(text).han) if word != " "] == expected


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_both_segmenters_give_the_same_signature_and_margins_for_every_text() -> None:
    """All real texts (the sample where there are none), both ways; some of every file unless the run is full."""
    texts = all_texts() if FULL else some_texts(300)
    fast = Fingerprinter(FingerprintSettings(segmenter="compiled")).fingerprint(texts)
    reference = Fingerprinter(FingerprintSettings(segmenter="jieba")).fingerprint(texts)
    assert np.flatnonzero((fast.signatures != reference.signatures).any(axis=1)).tolist() == []
    assert np.flatnonzero((fast.margins != reference.margins).any(axis=1)).tolist() == []
    assert np.array_equal(fast.featured, reference.featured)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEGMENTERS)
def test_a_segmenter_is_loaded_in_silence_and_without_a_cache(name: str, tmp_path: Path) -> None:
    """Nothing on standard output or error, no warning even where warnings are errors.

    What lies under the name of jieba's cache in the shared folder for temporary files cannot change a word.
    """
    (tmp_path / "jieba.cache").write_bytes(marshal.dumps(({"长江": 1}, 1)))
    code = f"from stream_dedup.core.fingerprint.features import segmenter; segmenter({name!r})"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [file.name for file in tmp_path.iterdir()] == ["jieba.cache"]


def test_a_segmenter_that_cuts_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another dictionary than the scheme names would give other entries under its name."""
    other = jieba_dictionary().with_words([("网易杭研", 9_000_000)])
    monkeypatch.setattr("stream_dedup.core.fingerprint.dictionary.jieba_dictionary", lambda: other)
    with pytest.raises(UserError, match="segmenter compiled cuts"):
        load_dictionary(None)


def test_a_users_word_whose_simplified_form_is_never_cut_is_left_out(tmp_path: Path) -> None:
    """Some 700 characters have a simplified form beyond the ideographs of the segmenter: no word of it ever has one."""
    own = tmp_path / "words"
    own.write_text("俓\n倲中國 5\n去中心化金融協議 9\n", "utf-8")
    words = [load_dictionary(own, simplified=simplified).cut("去中心化金融协议") for simplified in (True, False)]
    assert words == [["去中心化金融协议"], jieba_dictionary().cut("去中心化金融协议")]


def test_a_segmenter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing segmenter names it and the remedy."""
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(UserError, match="install the package jieba"):
        load("jieba")
