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

from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.sums_kernel import MOST, sums_of_weights

Bits = NDArray[np.uint8]

WEIGHTS_AND_BITS = st.integers(1, 40).flatmap(
    lambda width: (
        st.lists(st.tuples(st.integers(0, 2**20), st.lists(st.integers(0, 1), min_size=width, max_size=width)))
        .filter(bool)
        .map(lambda rows: (np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.uint8)))
    )
)


def bits(text: str) -> list[int]:
    return [int(bit) for bit in text]


def packed(*texts: str) -> Bits:
    return np.packbits(np.array([bits(text) for text in texts], np.uint8), axis=1)


def test_two_words_of_weights_4_and_5_add_up_as_worked() -> None:
    """美国 (4) hashes to 100101, 51区 (5) to 101011: sums 9 -9 1 -1 1 9, reduced 101011."""
    sums = simhash.add(np.array([4, 5]), packed("100101", "101011"))[:6]
    assert sums.tolist() == [9, -9, 1, -1, 1, 9]
    assert np.unpackbits(simhash.reduce(sums))[:6].tolist() == bits("101011")


def test_the_same_document_projected_on_six_hyperplanes() -> None:
    """D = (4, 5) and the normals (1,1) (-1,-1) (-1,1) (1,-1) (-1,1) (1,1) give the sums again."""
    normals = np.array([(1, 1), (-1, -1), (-1, 1), (1, -1), (-1, 1), (1, 1)])
    sums = simhash.add(np.array([4, 5]), packed("100101", "101011"))[:6]
    assert sums.tolist() == (normals @ [4, 5]).tolist()


@given(WEIGHTS_AND_BITS)
def test_simhash_is_signs_of_projections(case: tuple[NDArray[np.int64], Bits]) -> None:
    """Bit i of any width is 1 where the weight vector's projection on column i of the hashes' signs is positive."""
    weights, hashes = case
    width = hashes.shape[1]
    normals = 2 * hashes.astype(np.int64) - 1
    sums = simhash.add(weights, np.packbits(hashes, axis=1))[:width]
    assert sums.tolist() == (weights @ normals).tolist()
    assert np.unpackbits(simhash.reduce(sums))[:width].tolist() == (weights @ normals > 0).astype(int).tolist()


def test_a_sum_of_zero_gives_a_zero_bit() -> None:
    """Equal weights for and against give a sum of 0, and a sum of 0 gives a 0 bit."""
    assert simhash.reduce(simhash.add(np.array([3, 3]), packed("10000000", "01000000"))).tolist() == [0]


@pytest.mark.parametrize("total", [2**24 - 1, 2**24, 2**24 + 1, 2**40 + 1])
def test_sums_are_exact_on_both_sides_of_the_float32_limit(total: int) -> None:
    """One heavy feature and many light ones: no unit is lost in float32 below 2**24, nor in float64 above."""
    light = 3 * simhash.CHUNK_FEATURES
    weights = np.array([total - light] + [1] * light)
    hashes = np.random.default_rng(7).integers(0, 256, (light + 1, 4), np.uint8)
    exact = weights @ (2 * np.unpackbits(hashes, axis=1).astype(np.int64) - 1)
    assert simhash.add(weights, hashes).tolist() == exact.tolist()


@given(st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=8), st.integers(1, 2**60))
def test_margins_are_what_exact_arithmetic_gives(sums: list[int], squares: int) -> None:
    """min(15, floor(8 * |sum| / norm)), but for the rounding of one float64 operation at an edge."""
    found = simhash.margins(np.array([sums], np.float64), np.array([squares])).tolist()[0]
    for value, margin in zip(sums, found, strict=True):
        ratio = Fraction(simhash.MARGIN_SCALE * abs(value)) ** 2 / squares
        assert margin == simhash.MAX_MARGIN or ratio < Fraction(margin + 1) ** 2 * Fraction(1 + 2**-50)
        assert ratio * Fraction(1 + 2**-50) >= margin**2


def test_margins_of_no_features_are_zero() -> None:
    """Margins without features are 0, without a division by zero."""
    assert simhash.margins(np.zeros((1, 4)), np.array([0])).tolist() == [[0, 0, 0, 0]]


@given(st.lists(st.integers(0, 15), min_size=64, max_size=64))
def test_margins_pack_two_a_byte(values: list[int]) -> None:
    """The first of two margins is in the high half of the byte; unpacking returns them."""
    margins = np.array([values], np.uint8)
    assert simhash.pack_margins(margins)[0, 0] == values[0] * 16 + values[1]
    assert simhash.unpack_margins(simhash.pack_margins(margins)).tolist() == [values]


def wide_hash(word: str, width: int) -> bytes:
    return b"".join(xxhash.xxh3_128_digest(word.encode(), seed) for seed in range(width // 128))


def estimated_cosine(a: Counter[str], b: Counter[str], width: int) -> float:
    signatures = [
        simhash.reduce(
            simhash.add(
                np.array(list(one.values())),
                np.frombuffer(b"".join(wide_hash(word, width) for word in one), np.uint8).reshape(len(one), -1),
            )
        )
        for one in (a, b)
    ]
    return simhash.similarity(int(np.bitwise_count(signatures[0] ^ signatures[1]).sum()), width)


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
    assert simhash.similarity(0) == 1
    assert simhash.similarity(128) == pytest.approx(0, abs=1e-12)
    assert simhash.similarity(256) == -1
    assert simhash.similarity(52) == pytest.approx(0.8, abs=0.005)


def test_several_texts_at_once_are_each_alone() -> None:
    """The sums of several texts are those of each alone, also without features and above the float32 limit."""
    rng = np.random.default_rng(11)
    sizes = [0, 1, 7, 0, simhash.CHUNK_FEATURES, 3 * simhash.CHUNK_FEATURES + 5, 2, 0]
    hashes = rng.integers(0, 256, (sum(sizes), 4), np.uint8)
    ends = np.cumsum(sizes)
    for most in (100, 1 << 30):
        weights = rng.integers(1, most, sum(sizes))
        alone = [
            simhash.add(weights[end - size : end], hashes[end - size : end])
            for end, size in zip(ends, sizes, strict=True)
        ]
        assert simhash.add_each(weights, hashes, ends).tolist() == np.array(alone).tolist()


@pytest.mark.parametrize("most", [100, MOST, 2 * MOST, 1 << 30])
def test_compiled_sums_are_those_of_the_definition(most: int) -> None:
    """Sums of 256 bits and of fewer, also where weights are added up beyond 16 bits, or have more themselves."""
    rng = np.random.default_rng(most)
    sizes = [0, 1, 7, 0, 3000, 2, 0]
    ends = np.cumsum(sizes)
    for size in (8, 32):
        hashes = rng.integers(0, 256, (sum(sizes), size), np.uint8)
        weights = rng.integers(max(1, most // 2), most + 1, sum(sizes))
        weights[::5] = most
        made = sums_of_weights(weights, hashes, ends)
        assert made.sums.tolist() == simhash.add_each(weights, hashes, ends).tolist()
        assert made.squares.tolist() == simhash.per_text(weights * weights, ends).tolist()
