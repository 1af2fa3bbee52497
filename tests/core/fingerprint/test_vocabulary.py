"""The table of known features tells all names apart and forgets nothing of them."""

import os
import subprocess
import sys
from collections import Counter
from functools import partial, reduce
from itertools import product
from operator import and_, or_
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import keys_kernel, weigher
from stream_dedup.core.fingerprint import vocabulary as module
from stream_dedup.core.fingerprint.hash_kernel import MOST_HASHED_BYTES
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.vocabulary import Vocabulary
from stream_dedup.core.fingerprint.weights import STOP_WORDS, WordIdf, common_words, idf_of, idf_table, word_idf
from stream_dedup.core.fingerprint.word_numbers import WordNumbers, packed_words
from stream_dedup.core.scheme import Features

ODD = ("", "\0", "\0\0", "\0\0\0", "\0\0\0\0", "a", "a\0", "\ud800", "\U0010ffff" * 3, "\U0010ffff" * 4, "你 好")
# Under seed 0.
ONE_HASH = ("\u7693\u4ff5\u4e00\u4e02", "\u9c05\u8411\U0005f778\u4e02")
HAN = st.text("一丁七", min_size=1, max_size=5)
NAMES = st.lists(st.sampled_from(ODD) | st.text("ab\0", max_size=6) | st.text(max_size=8), max_size=40)


def table() -> Vocabulary:
    return Vocabulary(len, 7, lambda: {"ab", "你好"})


def keys_of_one_hash(seed: int) -> list[int]:
    return [keys_kernel.key_of(np.frombuffer(name.encode("utf-32-le"), np.uint32), seed) for name in ONE_HASH]


def assert_known(known: Vocabulary, names: list[str]) -> None:
    """Equal names have equal numbers, other names others, and each number has what belongs to its name."""
    numbers = known.numbers_of(names).tolist()
    assert len(set(zip(names, numbers, strict=True))) == len(set(names)) == len(set(numbers))
    assert [known.hashes[number].tobytes() for number in numbers] == [feature_hash(name, 7) for name in names]
    assert known.idf[numbers].tolist() == [len(name) for name in names]
    assert known.counts[numbers].tolist() == [name not in {"ab", "你好"} for name in names]


@given(NAMES, NAMES)
def test_every_name_has_its_own_number(first: list[str], second: list[str]) -> None:
    """In one call and in several, with names that are prefixes of others, empty, or of odd code points."""
    known = table()
    for names in (first, second, first + second):
        assert_known(known, names)


@pytest.mark.parametrize(
    ("features", "seed", "each"),
    [(Features(), 0, 9), (Features(root=True), 2**31, 9), (Features(idf="languages", root=True), 7, 1)],
)
def test_what_is_known_of_words_is_as_defined(features: Features, seed: int, each: int) -> None:
    """Hash and IDF of words of jieba's table, of all in the last run, and of others that are not in it, or odd."""
    words = list(idf_table().values)[::each]
    names = [*words, *(word[::-1] for word in words[::7]), *(word + word for word in words[::50]), *ODD]
    names += [
        *map(chr, range(0x4DFE, 0x4E20)),
        *map(chr, range(0x9FF8, 0xA002)),
        "一" * 5,
        "一" * 6,
        "一\U0001f600",
        "x一",
    ]
    names = list(dict.fromkeys([*names, *STOP_WORDS, "0", "2026", "一" * 40, "一a" * 5]))
    idf = idf_of(features)
    known = Vocabulary(idf, seed, words=partial(word_idf, features))
    numbers = known.numbers_of(names).tolist()
    assert [known.idf[number] for number in numbers] == [idf(name) for name in names]
    assert known.hashes[numbers].tobytes() == b"".join(feature_hash(name, seed) for name in names)
    assert known.counts[numbers].all()


@given(st.lists(st.text("一丁的中国我们aof12\ud800\U0001f600", max_size=9), max_size=30))
def test_what_is_known_of_any_words_is_as_defined(names: list[str]) -> None:
    """Words that begin with an ideograph and go on with anything, and stop words among them."""
    features = Features(idf="languages", root=True)
    idf, stop_words = idf_of(features), frozenset(names[::5])
    known = Vocabulary(idf, 3, lambda: stop_words, partial(word_idf, features))
    numbers = known.numbers_of(names).tolist()
    assert [known.idf[number] for number in numbers] == [idf(name) for name in names]
    assert [known.hashes[number].tobytes() for number in numbers] == [feature_hash(name, 3) for name in names]
    assert known.counts[numbers].tolist() == [name not in stop_words for name in names]


@pytest.mark.parametrize("features", [Features(), Features(idf="languages"), Features(idf="languages", root=True)])
def test_the_definition_is_not_asked_for_short_words_of_ascii(features: Features) -> None:
    """Words, stop words and common ones, digits, both together, and signs: of every size up to 16 bytes."""
    words = [word for word in (*STOP_WORDS, *common_words(), *idf_table().values) if word.isascii()]
    made = ["z" * size + digits for size in range(15) for digits in ("", "0", "9" * (16 - size))]
    names = list(dict.fromkeys([*words, *made, *"azAZ059/:@ \0\x7f", "12", "2026", "0x9", "9/", "//", "3:0"]))
    names = [name for name in names if 0 < len(name) <= MOST_HASHED_BYTES]
    known = Vocabulary(Mock(side_effect=AssertionError), 5, words=partial(word_idf, features))
    assert known.idf[known.numbers_of(names)].tolist() == list(map(idf_of(features), names))


@given(st.dictionaries(HAN, st.integers(0, 2**40), max_size=20), st.lists(HAN, max_size=20))
def test_words_are_found_in_any_table(numbers: dict[str, int], others: list[str]) -> None:
    """In small ones many words share a slot, and words begin with others."""
    names = [*numbers, *others]
    words = WordIdf(WordNumbers(packed_words(numbers)).arrays, 1, 2, root=False)
    known = Vocabulary(len, 0, words=lambda: words)
    found = known.idf[known.numbers_of(names)].tolist()
    assert found == [numbers.get(name, 1 if len(name) == 1 else 2) for name in names]


def test_a_word_is_not_one_that_begins_with_it() -> None:
    """Also where both have one slot, as many of these do."""
    for word in map("".join, product("一丁七万", repeat=3)):
        words = WordIdf(WordNumbers(packed_words({word: 9})).arrays, 1, 2, root=False)
        known = Vocabulary(len, 0, words=partial(WordIdf, *words))
        assert known.idf[known.numbers_of([word[:1], word[:2], word])].tolist() == [1, 2, 9]


def test_names_with_one_hash_have_two_numbers() -> None:
    """The code points decide, not the hash."""
    one, other = keys_of_one_hash(0)
    assert one == other < 0
    for names in (ONE_HASH, ONE_HASH[::-1]):
        known = table()
        known._spread = 0
        assert_known(known, [*names, *names])


def test_names_of_one_hash_have_others_under_another_seed() -> None:
    """Else whoever finds such names once could send them to every process: all of them share a slot."""
    assert [seed for seed in range(-50, 50) if len(set(keys_of_one_hash(seed))) == 1] == [0]


@pytest.mark.parametrize("step", ["_learn", "_grow"])
def test_after_an_error_nothing_is_known_in_part(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that were numbered before the error are learned by the next call."""
    names = [f"name {at}" for at in range(3_000)]
    known = table()
    assert_known(known, names[:10])
    with monkeypatch.context() as patched:
        patched.setattr(known, step, Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            known.numbers_of(names)
    assert_known(known, names)


def test_memory_that_runs_out_while_a_table_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call grows all of its arrays. The names are short: nothing else has to grow before."""
    names = [chr(0x4E00 + at) for at in range(9_000)]
    known = table()
    with monkeypatch.context() as patched:
        patched.setattr(module, "_longer", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            known.numbers_of(names)
    assert_known(known, names)


def test_a_table_that_grows_keeps_its_names() -> None:
    """More names than there were slots and room for, short ones and long ones, in many calls and in one."""
    names = [f"{'long name ' * (at % 3)}{at}" for at in range(20_000)]
    known, at_once = table(), table()
    for start in range(0, len(names), 1_000):
        known.numbers_of(names[start : start + 1_000])
    for one in (known, at_once):
        assert_known(one, names)
        assert len(one) == len(names)
        assert not one.times.any()


def test_a_table_that_is_full_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the middle of a batch; afterwards the names are learned anew."""
    monkeypatch.setattr(module, "MAX_KNOWN_WORDS", 10)
    known = table()
    names = [f"name {at}" for at in range(11)]
    assert_known(known, names)
    known.make_room()
    assert len(known) == 0
    assert_known(known, names[::-1])


def test_slots_are_spread_by_a_seed_that_nobody_knows() -> None:
    """Each table has its own, also where ``PYTHONHASHSEED`` fixes Python's, and each bit of it is random."""
    kernels = [f"stream_dedup.core.fingerprint.{name}_kernel" for name in ("learn", "words")]
    code = (
        "import sys; from unittest.mock import MagicMock\n"
        f"sys.modules |= {{name: MagicMock() for name in {kernels}}}  # compiling them takes ten seconds\n"
        f"from {module.__name__} import Vocabulary; print(*(Vocabulary(len, 7)._spread for _ in range(40)))"
    )
    seeds = [
        int(seed)
        for _ in range(2)
        for seed in subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.split()
    ]
    assert len(set(seeds)) == len(seeds) == 80
    assert reduce(or_, seeds) == -1
    assert reduce(and_, seeds) == 0


def test_no_names() -> None:
    """No names have no numbers."""
    assert table().numbers_of([]).shape == (0,)
    assert table().numbers(np.empty(0, np.uint32), np.empty(0, np.int32), np.empty(0, np.int32)).shape == (0,)


def test_features_that_are_counted_by_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition keeps no more than the limit and the features of one call, and forgets without a change."""
    monkeypatch.setattr(weigher, "MAX_KNOWN_WORDS", 10)
    counts = [Counter({f"name {at}": 1 + at % 3, f"other {at}": 2}) for at in range(20)]
    known = weigher.Weigher(Features(), 7)
    at_once = known.sums(counts)
    for row, one in enumerate(counts):
        assert known.sums([one]).sums.tolist() == at_once.sums[row : row + 1].tolist()
        assert len(known._known) <= 10 + 2
