"""Signatures and margins: golden values, the definition as a plain loop, and independence of everything else."""

import math
from collections import Counter

import numpy as np
import pytest
import xxhash

from stream_dedup.core.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.model import signed
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings
from tests.core.texts import SAMPLE, some_texts
from tests.reference.features import words_of
from tests.reference.sums import feature_hash
from tests.reference.weights import idf_table

# Index in SAMPLE: signature, margins.
GOLDEN = {
    0: (
        "a476bb3dfee51904b842f998c5e838f5022106456fb7eb1352ffd56c410824f4",
        "a4e3563988630b8f286414151200c29e12d6b93a93c21a752138b701303068be",
    ),
    3: (
        "51245f2d5fa5f56602b963fa3c74383f6ea96234f43d013be26aee16bbef3e0c",
        "456d15940f2aff060c66115421520795a4208ea8136341c53015861f157f2272",
    ),
    8: (
        "d55231e6e8d738389b3b7072c5610fb21c3a551fab476abea4ce98505cd79c83",
        "2c73262c8211c72f27b263b216122768c671c7b6f617131212c77f631222272a",
    ),
    12: (
        "5b883ba185e87654de71d955936b13bb6ab6140f8bd1e3d5226d998599d5df2d",
        "f87f57771401b17310737f4230f8f9524fb35808e37038746cc8f343e5065fe0",
    ),
    17: (
        "e10c069152a3958631a191c753a9c256ee433c20d5d30d4acd62c17450430e06",
        "282d2282d8df222dd28282228228d22d2222882dd8dd882822828822288d2222",
    ),
    18: (
        "1a97d91e6eaf433014984f62c286ed2d7a9ea33ff704f25bd706bf8e03edbd0e",
        "8888888888888888888888888888888888888888888888888888888888888888",
    ),
    19: ("00" * 32, "00" * 32),
}
SETTINGS = {
    "51a4f5befe7a8fbe": FingerprintSettings(),
    "9e61d82c74cdc4dd": FingerprintSettings().with_features(weights="tf"),
    "cc8487531ca5115e": FingerprintSettings().with_features(weights="level"),
    "d8c21bb925d195ce": FingerprintSettings().with_features(damped=False),
    "36275f5978496668": FingerprintSettings().with_features(top_k=5),
}


def as_hex(prints: Fingerprints) -> list[tuple[str, str]]:
    rows = zip(prints.signatures, prints.margins, strict=True)
    return [(signature.tobytes().hex(), margins.tobytes().hex()) for signature, margins in rows]


@pytest.mark.parametrize(("row", "expected"), GOLDEN.items())
def test_golden_values(row: int, expected: tuple[str, str]) -> None:
    """Signature and margins of the default scheme never change."""
    assert as_hex(Fingerprinter().fingerprint([SAMPLE[row]])) == [expected]


@pytest.mark.parametrize(("expected", "settings"), SETTINGS.items())
def test_golden_values_of_every_kind_of_weight(expected: str, settings: FingerprintSettings) -> None:
    """The fingerprints of the sample under every kind of weight, hashed together, never change."""
    prints = Fingerprinter(settings).fingerprint(SAMPLE)
    assert xxhash.xxh3_64_hexdigest(prints.signatures.tobytes() + prints.margins.tobytes()) == expected


def test_a_feature_hash_is_two_xxh3_of_128_bits() -> None:
    """A feature hash is XXH3-128 with seeds 0 and 1, in canonical byte order."""
    raw = "电视".encode()
    assert feature_hash("电视") == xxhash.xxh3_128(raw, seed=0).digest() + xxhash.xxh3_128(raw, seed=1).digest()


def weight_of(word: str, tf: int) -> int:
    return max(1, (idf_table().of(word) * math.floor(1024 * (1 + math.log(tf)) + 0.5)) >> 14)


def by_definition(text: str) -> tuple[str, str]:
    """The default scheme in plain Python and whole numbers, one bit after the other."""
    counts = words_of(text)
    features = [(int.from_bytes(feature_hash(word)), weight_of(word, tf)) for word, tf in counts.items()]
    signature, margins = 0, 0
    squares = sum(weight * weight for _, weight in features)
    for bit in range(256):
        total = sum(weight if number >> (255 - bit) & 1 else -weight for number, weight in features)
        signature = signature << 1 | (total > 0)
        if bit < 64:
            margins = margins << 4 | (min(15, math.isqrt(64 * total * total // squares)) if squares else 0)
    return signature.to_bytes(32).hex(), margins.to_bytes(32).hex()


def test_the_vectorised_way_is_the_definition() -> None:
    """Fingerprints of the sample and of real texts are those of a plain implementation."""
    texts = [*SAMPLE, *some_texts(60)]
    assert as_hex(Fingerprinter().fingerprint(texts)) == [by_definition(text) for text in texts]


def test_a_signature_depends_on_its_text_alone() -> None:
    """Not on what stands beside it, or on what came before."""
    texts = [*SAMPLE, *some_texts(300)]
    expected = [as_hex(Fingerprinter().fingerprint([text]))[0] for text in texts]
    assert as_hex(Fingerprinter().fingerprint(texts)) == expected
    worker = Fingerprinter()
    assert as_hex(worker.fingerprint(texts[::-1])) == expected[::-1]
    assert as_hex(worker.fingerprint(texts)) == expected


def test_text_without_words_has_no_features() -> None:
    """Text without words has zero signature and margins; text of noise words has features."""
    prints = Fingerprinter().fingerprint(["。！", "", "the", "的", "x"])
    assert signed(prints.statuses).tolist() == [False, False, True, True, True]
    assert not prints.signatures[:2].any()
    assert not prints.margins[:2].any()


def test_no_texts() -> None:
    """No texts give fingerprints of no rows."""
    prints = Fingerprinter().fingerprint([])
    assert [column.shape for column in prints] == [(0, 32), (0, 32), (0,), (0, 0)]


@pytest.mark.parametrize("name", PROFILES)
def test_a_text_without_any_field_is_refused(name: str) -> None:
    """There is nothing that it could be compared by."""
    fingerprinter = Fingerprinter(PROFILES[name].settings)
    for read in (fingerprinter.features, lambda text: fingerprinter.fingerprint(["新闻内容", text])):
        with pytest.raises(ValueError, match="a text of 0 fields has no fingerprint"):
            read(())


def test_more_words_than_float32_can_add_up() -> None:
    """A text whose weights add up to more than 2**24 has the fingerprint of the definition."""
    text = " ".join(f"w{i}" for i in range(8_000)) + " "
    assert 8_000 * weight_of("w0", 16) > 2**24
    text *= 16
    assert as_hex(Fingerprinter().fingerprint([text])) == [by_definition(text)]


def test_top_k_keeps_the_heaviest_words() -> None:
    """With top_k 5, a text has the signature of its five heaviest words alone."""
    text = SAMPLE[0]
    counts = words_of(text)
    assert max(counts.values()) < 10
    order = sorted(counts, key=lambda word: (-weight_of(word, counts[word]), feature_hash(word)))
    kept = Counter({word: counts[word] for word in order[:5]})
    alone = " ".join(word for word, tf in kept.items() for _ in range(tf))
    assert words_of(alone) == kept
    top = Fingerprinter(FingerprintSettings().with_features(top_k=5)).fingerprint([text])
    assert as_hex(top) == as_hex(Fingerprinter().fingerprint([alone]))


def distances(*texts: str) -> list[int]:
    signatures = Fingerprinter().fingerprint(texts).signatures
    found: list[int] = np.bitwise_count(signatures[0] ^ signatures).sum(axis=1).tolist()
    return found


def test_two_sentences_that_differ_in_two_words_are_near() -> None:
    """Less than a fifth of all bits apart, where an unrelated sentence is half of them apart."""
    first, near, unrelated = distances(
        "你妈妈喊你回家吃饭哦，回家罗回家罗", "你妈妈叫你回家吃饭啦，回家罗回家罗", "今晚的月亮很圆，院子里落满桂花"
    )
    assert first == 0
    assert 0 < near < 256 * 0.2
    assert abs(unrelated - 128) < 32


def test_the_cat_sat_on_the_mat() -> None:
    """Texts that differ in one noise word have equal signatures; a text of other words is unrelated."""
    first, near, unrelated = distances("the cat sat on the mat", "the cat sat on a mat", "we all scream for ice cream")
    assert (first, near) == (0, 0)
    assert abs(unrelated - 128) < 32


def test_what_normalisation_takes_away_changes_no_signature() -> None:
    """Full width, case, white space and punctuation do not change a signature."""
    assert distances("Ｈello，世界 ok", "hello \n世界\u3000OK。") == [0, 0]
