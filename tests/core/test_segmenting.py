"""Han runs are cut into the words of jieba and rjieba."""

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import rjieba

from stream_dedup import _native
from stream_dedup.core.scheme import FingerprintSettings
from tests.amount import FULL
from tests.core.texts import MORE, SAMPLE, all_texts, some_texts
from tests.reference.weights import jieba_file

RUN = re.compile("[\u4e00-\u9fd5]+")
GENERATED = 200_000 if FULL else 10_000
Own = tuple[tuple[str, int | None], ...]
Cut = Callable[[str], list[str]]
OWN: Own = (
    ("去中心化金融协议", 9),
    ("石墨烯电池", None),
    ("图书馆", 1),
    ("中国人民", 999_999),
    ("龘靐齉", None),
    ("一", 3),
)


@cache
def reader(own: Own = (), *, simplified: bool = False) -> _native.TextReader:
    settings = FingerprintSettings().with_normalisation(simplify=simplified)
    return _native.TextReader(settings, list(own), [])


def cut(run: str, own: Own = (), *, simplified: bool = False) -> Counter[str]:
    """Return the words of a run, each with how often it occurs: all that an entry depends on."""
    (_, _, features, _), *_ = reader(own, simplified=simplified).explain([run])
    return Counter({name: count for name, count, *_ in features})


def real_runs(texts: Sequence[str]) -> set[str]:
    return {run for text in (*texts, *SAMPLE, *MORE) for run in RUN.findall(text)}


def words_in_dictionary() -> list[str]:
    words = (line.split(" ")[0] for line in jieba_file("dict.txt").read_text("utf-8").splitlines()[::7])
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


def assert_same_words(theirs: Callable[[str], list[str]], runs: Iterable[str], own: Own = ()) -> None:
    """The same words equally often; the first runs that differ are shown."""
    differ = [(run, found, expected) for run in runs if (found := cut(run, own)) != (expected := Counter(theirs(run)))]
    assert differ[:3] == []


def test_real_runs_have_the_words_of_rjieba() -> None:
    """Every run of every real text, if the run of the tests is full."""
    assert_same_words(rjieba.cut, real_runs(all_texts() if FULL else some_texts(1_000)))


def test_traps_have_the_words_of_rjieba() -> None:
    """Also where two ways are equally probable: to the last bit of a sum, and to the order of the states."""
    assert_same_words(rjieba.cut, set(traps(GENERATED)))


@pytest.mark.slow
def test_real_runs_have_the_words_of_jieba() -> None:
    """Those of real texts; in some traps jieba's further decimal places decide otherwise."""
    with warnings.catch_warnings():
        # 0.42.1 has invalid escapes in its regular expressions and asks for pkg_resources.
        warnings.simplefilter("ignore")
        import jieba  # noqa: PLC0415 - takes two seconds
    tokenizer = jieba.Tokenizer()
    # As its initialize() does, without its cache in the folder for temporary files.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    assert_same_words(tokenizer.lcut, real_runs(some_texts(300)))


@cache
def with_own_words() -> Cut:
    theirs: Any = rjieba.Jieba()
    for word, frequency in OWN:
        theirs.add_word(word, frequency, "x")
    own_cut: Cut = theirs.cut
    return own_cut


def test_words_of_a_user_are_added_as_rjieba_adds_them() -> None:
    """New words and known ones, with and without a frequency; other readers do not know them."""
    rng, words = random.Random(1), [*words_in_dictionary()[:200], *(word for word, _ in OWN)]
    runs = {"".join(rng.choices(words, k=rng.randrange(1, 6))) for _ in range(GENERATED // 10)}
    assert_same_words(with_own_words(), runs | set(traps(GENERATED // 10)), OWN)
    assert_same_words(rjieba.cut, runs)
    assert cut("去中心化金融协议", OWN) == Counter(["去中心化金融协议"]) != cut("去中心化金融协议")


@pytest.mark.slow
def test_words_without_a_frequency_get_that_of_rjieba() -> None:
    """Each word is added to the same dictionary as by rjieba, and cut out of the text of its neighbours."""
    rng, words = random.Random(2), words_in_dictionary()
    for _ in range(20 if FULL else 5):
        own = tuple((rng.choice(words) + rng.choice(("", rng.choice(words))), None) for _ in range(30))
        theirs: Any = rjieba.Jieba()
        for word, _ in own:
            theirs.add_word(word, None, "x")
        runs = {rng.choice(own)[0] + rng.choice(words) + rng.choice(own)[0] for _ in range(200)}
        assert_same_words(theirs.cut, runs, own)


def test_many_words_of_a_user() -> None:
    """All of them are cut, and other words as rjieba cuts them then."""
    rng = random.Random(3)
    names = ["".join(chr(rng.randrange(0x4E00, 0x9FD6)) for _ in range(5)) for _ in range(12_000)]
    own = tuple((name, 5_000_000) for name in names)
    theirs: Any = rjieba.Jieba()
    for name, frequency in own:
        theirs.add_word(name, frequency, "x")
    assert [cut(name, own) for name in names[:100]] == [Counter([name]) for name in names[:100]]
    assert_same_words(theirs.cut, [*words_in_dictionary()[:1_000], *traps(1_000)], own)


def test_a_users_words_are_simplified_as_texts_are() -> None:
    """Some 700 characters have a simplified form beyond the ideographs of the segmenter: no word of it ever has one."""
    own = (("俓", None), ("倲中國", 5), ("去中心化金融協議", 9))
    found = [cut("去中心化金融协议", own, simplified=simplified) for simplified in (True, False)]
    assert found == [Counter(["去中心化金融协议"]), cut("去中心化金融协议")]
