"""Words and their counts; jieba and rjieba give the same."""

import marshal
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stream_dedup.core.fingerprint import features
from stream_dedup.core.fingerprint.features import segmenter, words_of
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.normalise import normalise, split
from stream_dedup.errors import UserError
from tests.amount import FULL
from tests.core.texts import SAMPLE, all_texts, some_texts

SEGMENTERS = ("rjieba", "jieba")


@pytest.mark.parametrize("name", SEGMENTERS)
def test_words_are_counted(name: str) -> None:
    """Han runs are cut, other words are whole, punctuation is no word, case does not count."""
    assert words_of("我喜欢Python，喜欢 python！3.14", segmenter(name)) == Counter(
        {"我": 1, "喜欢": 2, "python": 2, "3": 1, "14": 1}
    )


@pytest.mark.parametrize("name", SEGMENTERS)
def test_no_words(name: str) -> None:
    """Punctuation, white space and empty text have no words."""
    assert [words_of(text, segmenter(name)) for text in ("", " \n", "。！—…", "+-*/_")] == [Counter()] * 4


@pytest.mark.parametrize("name", SEGMENTERS)
def test_cutting_all_runs_at_once_gives_the_words_of_each_run(name: str) -> None:
    """Runs joined by spaces have the words of each run, in jieba and in rjieba."""
    cut = segmenter(name)
    for text in some_texts(200) + list(SAMPLE):
        runs = re.findall("[\u4e00-\u9fd5]+", normalise(text))
        expected = [word for run in runs for word in cut(run)]
        assert [word for word in cut(split(text).han) if word != " "] == expected


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_jieba_and_rjieba_give_the_same_signature_and_margins_for_every_text() -> None:
    """All real texts (the sample where there are none), both ways; some of every file unless the run is full."""
    texts = all_texts() if FULL else some_texts(1000)
    fast = Fingerprinter(FingerprintSettings(segmenter="rjieba")).fingerprint(texts)
    reference = Fingerprinter(FingerprintSettings(segmenter="jieba")).fingerprint(texts)
    assert np.flatnonzero((fast.signatures != reference.signatures).any(axis=1)).tolist() == []
    assert np.flatnonzero((fast.margins != reference.margins).any(axis=1)).tolist() == []
    assert np.array_equal(fast.featured, reference.featured)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_a_segmenter_is_loaded_in_silence(name: str) -> None:
    """Nothing on standard output or error, no warning even where warnings are errors."""
    code = f"from stream_dedup.core.fingerprint.features import segmenter; segmenter({name!r})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_jieba_neither_reads_nor_writes_a_cache(tmp_path: Path) -> None:
    """What lies under the cache's name in the shared folder for temporary files cannot change a word."""
    (tmp_path / "jieba.cache").write_bytes(marshal.dumps(({"长江": 1}, 1)))
    code = "from stream_dedup.core.fingerprint.features import segmenter; segmenter('jieba')"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=True)
    assert [file.name for file in tmp_path.iterdir()] == ["jieba.cache"]


def test_a_segmenter_that_cuts_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another dictionary than the scheme names would give other entries under its name."""
    segmenter.cache_clear()
    monkeypatch.setattr(features, "_load_rjieba", lambda *, own: SimpleNamespace(cut=list, own=own))
    with pytest.raises(UserError, match="segmenter rjieba cuts"):
        segmenter("rjieba")
    segmenter.cache_clear()


def test_a_segmenter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing segmenter names it and the remedy."""
    segmenter.cache_clear()
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(UserError, match="install the package rjieba"):
        segmenter("rjieba")
    segmenter.cache_clear()
