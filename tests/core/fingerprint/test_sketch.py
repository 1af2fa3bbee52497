"""Sketches: the definition, the estimate of the Jaccard similarity, and the same bytes everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.arrays import U8
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.fingerprint.sketcher import Sketcher
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings

VALUES = ((3, 16), (5, 16))
GOLDEN = ["5c1e2fa30401821915027b5c04f3614d", "e882e6fbdfe8cde0712bdc194e1f6953", "056df389eb356e5b48f147dde76e44c8"]
LETTERS = st.text(st.sampled_from("天地玄黄宇宙洪荒abc1é한𠀀"), max_size=60)


def mixed(number: int) -> int:
    """The mixing function of MurmurHash3 for 32 bits."""
    number ^= number >> 16
    number = number * 0x85EBCA6B % 2**32
    number ^= number >> 13
    number = number * 0xC2B2AE35 % 2**32
    return number ^ number >> 16


def unmixed(number: int) -> int:
    """The number that is mixed to this one."""
    number ^= number >> 16
    number = number * pow(0xC2B2AE35, -1, 2**32) % 2**32
    number ^= number >> 13 ^ number >> 26
    number = number * pow(0x85EBCA6B, -1, 2**32) % 2**32
    return number ^ number >> 16


def defined(text: str, k: int, bins: int, seed: int = 0, longest: int = 5) -> list[int]:
    """The values of one length of shingles, a shingle and a bin at a time."""
    points = [ord(letter) for letter in text.ljust(longest, "\0")]
    minima: dict[int, int] = {}
    for at in range(len(points) - k + 1):
        value = mixed(seed)
        for number, point in enumerate(points[at : at + k]):
            value = (value * (0x9E3779B1 if number else 1) + point) % 2**32
        bin_of, value = (mixed(value) >> 16) * bins >> 16, mixed(value)
        minima[bin_of] = min(value, minima.get(bin_of, value))
    values = []
    for number in range(bins):
        order = sorted(range(bins), key=lambda other: mixed(((number * bins + other) * 0x9E3779B1 + bins) % 2**32))
        donor = number if number in minima else next(other for other in order if other in minima)
        values.append(mixed((minima[donor] + number * 0x9E3779B1) % 2**32) >> 28)
    return values


def unpacked(sketches: U8) -> U8:
    return np.stack((sketches >> 4, sketches & 15), axis=-1).reshape(len(sketches), 2 * sketches.shape[1])


@given(st.lists(LETTERS, max_size=6), st.integers(0, 2**32 - 1))
def test_a_batch_has_the_values_of_the_definition(texts: list[str], seed: int) -> None:
    """Sketches of a batch are those of a plain loop over shingles and bins, also of empty and of very short texts."""
    found = unpacked(Sketcher(VALUES, seed).of_texts(texts)).tolist()
    assert found == [defined(text, 3, 16, seed) + defined(text, 5, 16, seed) for text in texts]


def test_a_sketch_depends_on_its_own_text_alone() -> None:
    """However long the other texts of a batch are, each text has the sketch that it has alone."""
    texts = ["天地玄黄宇宙洪荒" * 3, "", "a", "0123456789" * 4, "日月盈昃"]
    alone = np.concatenate([Sketcher(VALUES).of_texts([text]) for text in texts])
    assert Sketcher(VALUES).of_texts(texts).tolist() == alone.tolist()


def test_values_are_in_the_order_of_the_settings() -> None:
    """Also where that of the lengths of the shingles is another one."""
    text = "渡口的船今天早上开了"
    found = unpacked(Sketcher(((5, 16), (2, 8), (3, 24))).of_texts([text])).tolist()
    assert found == [[value for k, bins in ((5, 16), (2, 8), (3, 24)) for value in defined(text, k, bins)]]


def test_a_hash_that_stands_for_an_empty_bin_is_no_shingle() -> None:
    """A text of that shingle alone has the values of empty bins, and another keeps those of its other shingles."""
    # The mixing function gives each number once: the one that it makes all ones of.
    number = unmixed(2**32 - 1)
    seed_start = (number - ord("a")) % 2**32
    seed = unmixed(seed_start)
    ones = [mixed((2**32 - 1 + at * 0x9E3779B1) % 2**32) >> 28 for at in range(8)]
    assert unpacked(Sketcher(((1, 8),), seed).of_texts(["a"])).tolist() == [ones]
    assert Sketcher(((1, 8),), seed).of_texts(["ab"]).tolist() == Sketcher(((1, 8),), seed).of_texts(["b"]).tolist()


def test_sketches_are_the_same_on_every_machine() -> None:
    """The bytes of fixed texts are those that were written down."""
    found = Sketcher(VALUES).of_texts(["渡口的船今天早上开了", "theferryleftthismorning", "ab"])
    assert [row.tobytes().hex() for row in found] == GOLDEN


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
    values = unpacked(Sketcher(((3, 32),)).of_texts(pairs))
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
    assert made.sketches.tolist() == Sketcher(VALUES).of_texts([letters]).tolist()


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
    assert made.sketches.tolist() == Sketcher(VALUES).of_texts([characters]).tolist()


def test_texts_without_features_have_blank_sketches() -> None:
    """A sketch is zero where there is no signature, and of no bytes where the scheme has none."""
    assert not Fingerprinter(SHORT).fingerprint(["...", ""]).sketches.any()
    assert Fingerprinter().fingerprint(["渡口的船"]).sketches.shape == (1, 0)


def test_fields_are_sketched_as_one_text() -> None:
    """The letters of all fields follow each other; their weights do not count."""
    settings = replace(LONG, fields=(("title", 3), ("body", 1)))
    made = Fingerprinter(settings).fingerprint([["渡口", "今天 ferry"]])
    assert made.sketches.tolist() == Sketcher(VALUES).of_texts(["渡口今天ferry"]).tolist()


def test_another_seed_gives_another_sketch() -> None:
    """Under two seeds of the scheme a text has equal values by chance only."""
    texts = [random_letters(np.random.default_rng(seed), 60) for seed in range(300)]
    one, other = (unpacked(Fingerprinter(replace(SHORT, seed=seed)).fingerprint(texts).sketches) for seed in (0, 1))
    assert np.mean(one == other) == pytest.approx(1 / 16, abs=0.01)


def test_no_values_make_empty_sketches() -> None:
    """A scheme without a sketch has sketches of no bytes."""
    assert Sketcher(()).of_texts(["some", "texts"]).shape == (2, 0)
