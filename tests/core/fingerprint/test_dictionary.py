"""Han runs are cut into the words of jieba and rjieba."""

import math
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rjieba

from stream_dedup.core.arrays import U64
from stream_dedup.core.fingerprint import dictionary as module
from stream_dedup.core.fingerprint.dictionary import LEAST_SLOTS, Dictionary, jieba_dictionary
from stream_dedup.core.fingerprint.dictionary_kernel import BEGINNING_BITS, CHARACTER_BITS, DEEP, GOES_ON, HAN_BEGIN
from stream_dedup.core.fingerprint.features import Segmenter, segmenter
from stream_dedup.core.fingerprint.hashing import SPREAD
from stream_dedup.core.scheme import dictionary_path
from stream_dedup.errors import UserError
from tests.amount import FULL
from tests.core.texts import MORE, SAMPLE, all_texts, some_texts

RUN = re.compile("[\u4e00-\u9fd5]+")
GENERATED = 200_000 if FULL else 10_000
OWN = (("去中心化金融协议", 9), ("石墨烯电池", None), ("图书馆", 1), ("中国人民", 999_999), ("龘靐齉", None), ("一", 3))


def real_runs(texts: list[str]) -> set[str]:
    return {run for text in (*texts, *SAMPLE, *MORE) for run in RUN.findall(text)}


def words_in_dictionary() -> list[str]:
    words = (line.split(" ")[0] for line in dictionary_path().read_text("utf-8").splitlines()[::7])
    return [word for word in words if RUN.fullmatch(word)]


def traps(count: int) -> Iterator[str]:
    """Words torn apart, repeated characters (where ways are equally probable), rare characters, and words of these."""
    rng, words = random.Random(count), words_in_dictionary()
    common = "".join(words)[:3000]
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 7)):
            word = rng.choice(words)
            parts += [
                rng.choice((word, word[1:], word[:-1], word[-1] + word[0])),
                rng.choice(common) * rng.choice((0, 1, 1, 2, 3, 5)),
                chr(rng.randrange(0x4E00, 0x9FD6)) if rng.random() < 0.2 else "",
            ]
        yield "".join(parts)


def assert_same_words(ours: Dictionary, cut: Segmenter, runs: set[str]) -> None:
    """Word by word in order; the first runs that differ are shown."""
    differ = [(run, found, expected) for run in runs if (found := ours.cut(run)) != (expected := cut(run))]
    assert differ[:3] == []


def test_real_runs_have_the_words_of_rjieba() -> None:
    """Every run of every real text, if the run of the tests is full."""
    assert_same_words(jieba_dictionary(), rjieba.cut, real_runs(all_texts() if FULL else some_texts(1_000)))


def test_traps_have_the_words_of_rjieba() -> None:
    """Also where two ways are equally probable: to the last bit of a sum, and to the order of the states."""
    assert_same_words(jieba_dictionary(), rjieba.cut, set(traps(GENERATED)))


@pytest.mark.slow
def test_with_jiebas_decimals_they_have_the_words_of_jieba(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same model with all decimal places cuts as jieba does, which counts a word of two lines twice."""
    monkeypatch.setattr(module, "DIGITS", 17)
    cut: Any = segmenter("jieba")
    ours = module._loaded(LEAST_SLOTS)._replace(log_total=math.log(cut.__self__.total))
    assert_same_words(ours, cut, real_runs(some_texts(100)) | set(traps(GENERATED // 10)))


@cache
def with_own_words() -> tuple[Dictionary, Any]:
    """Both segmenters with words of a user's."""
    theirs: Any = rjieba.Jieba()
    for word, frequency in OWN:
        theirs.add_word(word, frequency, "x")
    return jieba_dictionary().with_words(OWN), theirs


def test_words_of_a_user_are_added_as_rjieba_adds_them() -> None:
    """New words and known ones, with and without a frequency; the other dictionary stays as it is."""
    ours, theirs = with_own_words()
    rng, words = random.Random(1), [*words_in_dictionary()[:200], *(word for word, _ in OWN)]
    runs = {"".join(rng.choices(words, k=rng.randrange(1, 6))) for _ in range(GENERATED // 10)}
    assert_same_words(ours, theirs.cut, runs | set(traps(GENERATED // 10)))
    assert_same_words(jieba_dictionary(), rjieba.cut, runs)
    assert ours.cut("去中心化金融协议") == ["去中心化金融协议"] != jieba_dictionary().cut("去中心化金融协议")


def test_an_edge_says_whether_longer_words_begin_so() -> None:
    """Exactly those do from whose node an edge leads on, of a user's words too."""
    for ours in (jieba_dictionary(), with_own_words()[0]):
        slots = np.flatnonzero(ours.edges)
        nodes = ours.edges[slots] >> BEGINNING_BITS + CHARACTER_BITS
        goes_on = np.isin(slots + DEEP, nodes)
        assert np.array_equal(ours.edges[slots] & GOES_ON != 0, goes_on)


def test_filters_pass_every_beginning_and_one_in_eight_others() -> None:
    """No beginning of a word is missed, and most of the other pairs and triples of characters need no look-up."""
    ours, rng = jieba_dictionary(), random.Random(5)
    begun = {
        word[:size]
        for line in dictionary_path().read_text("utf-8").splitlines()
        for word in line.split(" ")[:1]
        for size in (2, 3)
        if len(word) >= size and RUN.fullmatch(word)
    }
    letters = sorted({letter for beginning in begun for letter in beginning})
    for size, filtered in ((2, ours.pairs), (3, ours.triples)):
        assert all(passes(filtered, one) for one in begun if len(one) == size)
        others = {"".join(rng.choices(letters, k=size)) for _ in range(20_000)} - begun
        assert sum(passes(filtered, one) for one in others) < len(others) / 8


def passes(filtered: U64, beginning: str) -> bool:
    """Whether a filter has the bits of a beginning: of a word, two of the product with ``SPREAD`` that chooses it."""
    key = ord(beginning[0]) - HAN_BEGIN + 1
    for letter in beginning[1:]:
        key = key << CHARACTER_BITS | ord(letter) - HAN_BEGIN
    spread = key * int(SPREAD) % (1 << 64)
    word = int(filtered[spread >> 50])
    return bool(word >> (spread >> 44 & 63) & word >> (spread >> 38 & 63) & 1)


def test_suggested_frequencies_are_those_of_rjieba() -> None:
    """Of words of the dictionary, of pairs of them, and of what is no word."""
    words, rng = words_in_dictionary(), random.Random(2)
    wanted = [rng.choice(words) + rng.choice(("", rng.choice(words))) for _ in range(GENERATED // 10)]
    wanted += ["龘靐齉", "龘", *traps(200)]
    for ours, theirs in ((jieba_dictionary(), rjieba), with_own_words()):
        assert [ours.suggested_frequency(word) for word in wanted] == [theirs.suggest_freq(word) for word in wanted]


def test_more_words_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's words may need a larger table: the other words are found there, too, and the new ones."""
    rng = random.Random(3)
    names = ["".join(chr(rng.randrange(0x4E00, 0x9FD6)) for _ in range(5)) for _ in range(12_000)]
    larger = jieba_dictionary().with_words([(name, 5_000_000) for name in names])
    assert len(larger.edges) > len(jieba_dictionary().edges)
    assert [larger.cut(name) for name in names[:100]] == [[name] for name in names[:100]]
    frequencies = [(larger.frequency(word), jieba_dictionary().frequency(word)) for word in words_in_dictionary()]
    assert all(one == other for one, other in frequencies)
    monkeypatch.setattr(module, "MOST_SLOTS", LEAST_SLOTS)
    with pytest.raises(UserError, match="name a smaller user dictionary"):
        jieba_dictionary().with_words([(name, 5) for name in names])


def test_a_dictionary_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of other characters count for the total alone, once each; the last line may lack its end."""
    file = tmp_path / "dict.txt"
    file.write_bytes("B超 3 n\n渡口 12 n\nB超 3 n\n口 5\n船来了 7 v\n\U00020000 2 n".encode())
    monkeypatch.setattr(module, "dictionary_path", lambda: file)
    loaded = module._loaded(LEAST_SLOTS)
    assert loaded.total == 3 + 12 + 5 + 7 + 2
    assert [loaded.frequency(word) for word in ("渡口", "口", "船来了", "渡", "船来")] == [12, 5, 7, 1, 1]
    assert np.count_nonzero(loaded.edges) == 3
    file.write_bytes("渡口 12 n\nB超 many n".encode())
    with pytest.raises(UserError, match=r"dict\.txt.*install jieba 0\.42\.1 again"):
        module._loaded(LEAST_SLOTS)


def test_a_model_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the remedy."""
    monkeypatch.setattr(module, "model_path", lambda table: tmp_path / f"prob_{table}.py")
    with pytest.raises(UserError, match=r"prob_start\.py cannot be read .*install jieba 0\.42\.1 again"):
        module._loaded(LEAST_SLOTS)
