"""Add and reduce, and what is read off the sums: the literature's worked examples, and the theory behind them."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import similarity
from stream_dedup.core.probes import MAX_MARGIN, pack_margins, unpack_margins
from stream_dedup.core.scheme import FingerprintSettings
from tests.reference import sums as definition
from tests.reference.fingerprint import Reference, differing

Bits = NDArray[np.uint8]

WEIGHTS_AND_BITS = st.integers(1, 40).flatmap(
    lambda width: (
        st.lists(st.tuples(st.integers(0, 2**20), st.lists(st.integers(0, 1), min_size=width, max_size=width)))
        .filter(bool)
        .map(lambda rows: (np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.uint8)))
    )
)


def packed(*texts: str) -> list[bytes]:
    return [bytes([int(text.ljust(8, "0"), 2)]) for text in texts]


def test_two_words_of_weights_4_and_5_add_up_as_worked() -> None:
    """美国 (4) hashes to 100101, 51区 (5) to 101011: sums 9 -9 1 -1 1 9, reduced 101011."""
    sums = definition.add([4, 5], packed("100101", "101011"), 8).sums
    assert sums[:6] == [9, -9, 1, -1, 1, 9]
    assert definition.reduce(sums)[0] >> 2 == 0b101011


def test_the_same_document_projected_on_six_hyperplanes() -> None:
    """D = (4, 5) and the normals (1,1) (-1,-1) (-1,1) (1,-1) (-1,1) (1,1) give the sums again."""
    normals = np.array([(1, 1), (-1, -1), (-1, 1), (1, -1), (-1, 1), (1, 1)])
    sums = definition.add([4, 5], packed("100101", "101011"), 6).sums
    assert sums == (normals @ [4, 5]).tolist()


@given(WEIGHTS_AND_BITS)
def test_simhash_is_signs_of_projections(case: tuple[NDArray[np.int64], Bits]) -> None:
    """Bit i of any width is 1 where the weight vector's projection on column i of the hashes' signs is positive."""
    weights, hashes = case
    width = hashes.shape[1]
    normals = 2 * hashes.astype(np.int64) - 1
    sums = definition.add(weights.tolist(), [row.tobytes() for row in np.packbits(hashes, axis=1)], width).sums
    assert sums == (weights @ normals).tolist()


def test_a_sum_of_zero_gives_a_zero_bit() -> None:
    """Equal weights for and against give a sum of 0, and a sum of 0 gives a 0 bit."""
    assert definition.reduce(definition.add([3, 3], packed("10000000", "01000000"), 8).sums) == bytes(1)


@pytest.mark.parametrize("heaviest", [1, 300, 65_535])
def test_the_native_core_adds_up_as_the_definition_does(heaviest: int) -> None:
    """Weights that add up beyond 16 bits, and beyond 24, and such as have more themselves."""
    words = {f"w{number}": 1 + number * 7919 % heaviest for number in range(3_000)} | {"x": heaviest}
    for features in ({"weights": "tf"}, {"damped": False}, {"damped": False, "top_k": 40}):
        settings = FingerprintSettings(tables=16).with_features(**features)
        made, expected = Fingerprinter(settings).features_of(words), Reference(settings).features_of(words)
        assert differing(made, expected) == []


@given(st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=8), st.integers(1, 2**60))
def test_margins_are_what_exact_arithmetic_gives(sums: list[int], squares: int) -> None:
    """min(15, floor(8 * |sum| / norm)), but for the rounding of one float64 operation at an edge."""
    found = definition.margins(sums, squares)
    for value, margin in zip(sums, found, strict=True):
        ratio = Fraction(definition.MARGIN_SCALE * abs(value)) ** 2 / squares
        assert margin == MAX_MARGIN or ratio < Fraction(margin + 1) ** 2 * Fraction(1 + 2**-50)
        assert ratio * Fraction(1 + 2**-50) >= margin**2


def test_margins_of_no_features_are_zero() -> None:
    """Margins without features are 0, without a division by zero."""
    assert definition.margins([0] * 4, 0) == [0, 0, 0, 0]


@given(st.lists(st.integers(0, 15), min_size=64, max_size=64))
def test_margins_pack_two_a_byte(values: list[int]) -> None:
    """The first of two margins is in the high half of the byte; unpacking returns them."""
    margins = np.array([values], np.uint8)
    assert pack_margins(margins)[0, 0] == values[0] * 16 + values[1]
    assert unpack_margins(pack_margins(margins)).tolist() == [values]


def wide_hash(word: str, width: int) -> bytes:
    return b"".join(xxhash.xxh3_128_digest(word.encode(), seed) for seed in range(width // 128))


def estimated_cosine(a: Counter[str], b: Counter[str], width: int) -> float:
    signatures = [
        int.from_bytes(
            definition.reduce(definition.add(list(one.values()), [wide_hash(word, width) for word in one], width).sums)
        )
        for one in (a, b)
    ]
    return similarity((signatures[0] ^ signatures[1]).bit_count(), width)


def cosine(a: Counter[str], b: Counter[str]) -> float:
    dot = sum(a[word] * b[word] for word in a)
    return dot / math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))


def test_cosine_example_and_its_estimate() -> None:
    """Counts (1 2 2 1 1 1 0) and (1 2 2 1 1 2 1): cosine 0.938, which signatures' distance estimates.

    To 0.02 and no better however many bits: seven features of +1 and -1 are few for a random direction.
    """
    words = ["我", "喜欢", "看", "电视", "电影", "不", "也"]
    a = Counter(dict(zip(words, (1, 2, 2, 1, 1, 1, 0), strict=True)))
    b = Counter(dict(zip(words, (1, 2, 2, 1, 1, 2, 1), strict=True)))
    assert round(cosine(a, b), 3) == 0.938
    assert estimated_cosine(a, b, 1 << 16) == pytest.approx(0.938, abs=0.02)


@pytest.mark.parametrize("changed", [0, 10, 30, 60, 100])
def test_distance_estimates_the_cosine_over_its_whole_range(changed: int) -> None:
    """200 words of which some are others: 8,192 bits give the cosine within 0.07 (4 standard errors)."""
    a = Counter({f"word{i}": 1 + i % 5 for i in range(200)})
    b = Counter({f"word{i + (1000 if i < changed * 2 else 0)}": 1 + i % 5 for i in range(200)})
    assert estimated_cosine(a, b, 1 << 13) == pytest.approx(cosine(a, b), abs=0.07)


def test_similarity_at_its_ends() -> None:
    """No bit apart: 1; half of them: 0; all of them: -1; and 52 of 256 stand for a cosine of 0.8."""
    assert similarity(0) == 1
    assert similarity(128) == pytest.approx(0, abs=1e-12)
    assert similarity(256) == -1
    assert similarity(52) == pytest.approx(0.8, abs=0.005)
