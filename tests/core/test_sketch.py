"""Sketches: the definition, the estimate of the Jaccard similarity, and the same bytes everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.arrays import U8
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings
from tests.reference.sketch import mixed, sketch_of

Values = tuple[tuple[int, int], ...]
VALUES: Values = ((3, 16), (5, 16))
GOLDEN = ["5c1e2fa30401821915027b5c04f3614d", "e882e6fbdfe8cde0712bdc194e1f6953", "056df389eb356e5b48f147dde76e44c8"]
LETTERS = st.text(st.sampled_from("天地玄黄宇宙洪荒abc1é한𠀀"), min_size=1, max_size=60)


def unmixed(number: int) -> int:
    """The number that is mixed to this one."""
    number ^= number >> 16
    number = number * pow(0xC2B2AE35, -1, 2**32) % 2**32
    number ^= number >> 13 ^ number >> 26
    number = number * pow(0x85EBCA6B, -1, 2**32) % 2**32
    return number ^ number >> 16


def native(text: str, values: Values = VALUES, seed: int = 0) -> bytes:
    """The sketch that the native core makes of a text of letters."""
    made: bytes = Fingerprinter(FingerprintSettings(sketch=values, seed=seed)).fingerprint([text]).sketches[0].tobytes()
    return made


def unpacked(sketches: U8) -> U8:
    return np.stack((sketches >> 4, sketches & 15), axis=-1).reshape(len(sketches), 2 * sketches.shape[1])


@given(LETTERS, st.integers(0, 2**32 - 1))
def test_a_sketch_is_that_of_the_definition(text: str, seed: int) -> None:
    """Sketches are those of a plain loop over shingles and bins, also of very short texts, whatever the seed is."""
    for values in (VALUES, ((5, 16), (2, 8), (3, 24)), ((1, 8),)):
        assert native(text, values, seed) == sketch_of(sorted_letters(text), values, seed)


def sorted_letters(text: str) -> str:
    """The letters in the order of a sketch: ideographs that jieba knows first."""
    is_other = [not "\u4e00" <= letter <= "\u9fd5" for letter in text]
    return "".join(letter for _, letter in sorted(zip(is_other, text, strict=True), key=lambda one: one[0]))


def test_long_texts_have_the_sketches_of_the_definition() -> None:
    """Of sizes about those of the blocks in which shingles are hashed."""
    rng = np.random.default_rng(3)
    for size in (255, 256, 257, 259, 260, 261, 511, 512, 513, 5000):
        text = random_letters(rng, size)
        assert native(text) == sketch_of(text, VALUES)


def test_a_hash_that_stands_for_an_empty_bin_is_no_shingle() -> None:
    """A text of that shingle alone has the values of empty bins, and another keeps those of its other shingles."""
    # The mixing function gives each number once: the one that it makes all ones of.
    number = unmixed(2**32 - 1)
    seed = unmixed((number - ord("a")) % 2**32)
    ones = (mixed(np.array([2**32 - 1 + at * 0x9E3779B1 for at in range(8)], np.uint64)) >> np.uint64(28)).tolist()
    assert unpacked(np.frombuffer(native("a", ((1, 8),), seed), np.uint8)[np.newaxis]).tolist() == [ones]
    assert native("ab", ((1, 8),), seed) == native("b", ((1, 8),), seed)


def test_sketches_are_the_same_on_every_machine() -> None:
    """The bytes of fixed texts are those that were written down."""
    assert [native(text).hex() for text in ("渡口的船今天早上开了", "theferryleftthismorning", "ab")] == GOLDEN


def random_letters(rng: np.random.Generator, count: int) -> str:
    return "".join(map(chr, rng.integers(0x4E00, 0x9FD5, count).tolist()))


@pytest.mark.parametrize("length", [20, 60, 1000])
@pytest.mark.parametrize("common", [0.0, 0.5, 0.9])
def test_equal_values_estimate_the_jaccard_similarity(length: int, common: float) -> None:
    """Of two texts with Jaccard similarity J a share of J + (1 - J) / 16 of the values is equal, long or short."""
    rng = np.random.default_rng(7)
    pairs = []
    for _ in range(300):
        kept = random_letters(rng, round(length * common))
        pairs += [kept + random_letters(rng, length - len(kept)) for _ in range(2)]
    settings = FingerprintSettings(sketch=((3, 32),))
    values = unpacked(Fingerprinter(settings).fingerprint(pairs).sketches)
    shingles = length - 2
    shared = max(round(length * common) - 2, 0)
    similarity = shared / (2 * shingles - shared)
    # 9,600 values; those of one pair depend on each other where few shingles fill many bins.
    assert np.mean(values[0::2] == values[1::2]) == pytest.approx(similarity + (1 - similarity) / 16, abs=0.02)


LONG = FingerprintSettings(sketch=VALUES)
SHORT = replace(PROFILES["comment"].settings, sketch=VALUES, sketch_text="letters")
COMMENT = replace(SHORT, sketch_text="characters")
LETTERS_OF = (
    ("渡口的船，今天 早上 8 点开了！", "渡口的船今天早上点开了8"),
    ("On Monday the Ferry left at 8:15.", "onmondaytheferryleftat815"),
    ("今天 Kafka 4.3 发布了，大家 upgrade 吗？", "今天发布了大家吗kafka43upgrade"),
)


@pytest.mark.parametrize(("text", "letters"), LETTERS_OF)
@pytest.mark.parametrize("settings", [LONG, SHORT], ids=["long", "short"])
def test_a_sketch_is_made_of_letters_and_digits(settings: FingerprintSettings, text: str, letters: str) -> None:
    """Ideographs come first; case, white space and punctuation do not count, in long and in short text."""
    made = Fingerprinter(settings).fingerprint([text])
    assert made.sketches[0].tobytes() == sketch_of(letters, VALUES)


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("渡口的船，今天 早上 8 点开了！", "渡口的船,今天早上8点开了!"),
        ("Look here http://a.example/b, @you", "lookherehttp://a.example/b,@you"),
        ("加.微.信.领.红.包", "加微信领红包"),
    ],
    ids=["punctuation", "addresses", "tricks of spam"],
)
def test_a_sketch_may_be_made_of_all_characters(text: str, characters: str) -> None:
    """Punctuation and addresses count, white space does not, and tricks of spam are undone."""
    made = Fingerprinter(COMMENT).fingerprint([text])
    assert made.sketches[0].tobytes() == sketch_of(characters, VALUES)


def test_texts_without_features_have_blank_sketches() -> None:
    """A sketch is zero where there is no signature, and of no bytes where the scheme has none."""
    assert not Fingerprinter(SHORT).fingerprint(["...", ""]).sketches.any()
    assert Fingerprinter().fingerprint(["渡口的船"]).sketches.shape == (1, 0)


def test_fields_are_sketched_as_one_text() -> None:
    """The letters of all fields follow each other; their weights do not count."""
    settings = replace(LONG, fields=(("title", 3), ("body", 1)))
    made = Fingerprinter(settings).fingerprint([["渡口", "今天 ferry"]])
    assert made.sketches[0].tobytes() == sketch_of("渡口今天ferry", VALUES)


def test_another_seed_gives_another_sketch() -> None:
    """Under two seeds of the scheme a text has equal values by chance only."""
    texts = [random_letters(np.random.default_rng(seed), 60) for seed in range(300)]
    one, other = (unpacked(Fingerprinter(replace(SHORT, seed=seed)).fingerprint(texts).sketches) for seed in (0, 1))
    assert np.mean(one == other) == pytest.approx(1 / 16, abs=0.01)
