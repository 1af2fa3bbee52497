"""Keys, the cut into blocks, and the plans of both kinds of search."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core.near import PairCheck
from stream_dedup.core.probes import (
    COSTS,
    KEY_FACTORS,
    MAX_MARGIN,
    bits_of_blocks,
    block_of,
    blocks,
    directed,
    exact_plan,
    keys,
    pack_margins,
    words,
)
from stream_dedup.core.rules import MAX_EXACT_LOOKUPS, exact_radii, greatest_distance
from tests.amount import examples
from tests.logs import directed_rules, scheme_of

FINGERPRINTS = st.integers(0, 2**64 - 1)
WIDTHS = [16, 20, 24]
FLIPS = {16: 3, 20: 4, 24: 4}
"""Most bits that a mask of directed search flips."""
Directed = Callable[[NDArray[np.uint8], int], NDArray[np.uint32]]


def masks_of(most: int, block_bits: int) -> list[int]:
    """The masks of at most so many bits, fewest bits first, then by value."""
    flips = [bits for count in range(most + 1) for bits in combinations(range(block_bits), count)]
    return sorted((sum(1 << bit for bit in bits) for bits in flips), key=lambda mask: (mask.bit_count(), mask))


def places_of(table: int, block_bits: int) -> list[int]:
    """The bits of a word, 0 for the highest, in a block: from 16 t on, and round at the end."""
    return [(16 * (table % 4) + bit) % 64 for bit in range(block_bits)]


@pytest.mark.parametrize(
    ("block_bits", "expected"),
    [
        (16, [0x0123, 0x4567, 0x89AB, 0xCDEF]),
        (20, [0x01234, 0x45678, 0x89ABC, 0xCDEF0]),
        (24, [0x012345, 0x456789, 0x89ABCD, 0xCDEF01]),
    ],
)
def test_a_block_begins_at_each_16th_bit_and_goes_round_at_the_end(block_bits: int, expected: list[int]) -> None:
    """Block 0 is the highest bits of a word; block 3 of a wide block ends with the highest bits again."""
    word = np.array([0x0123456789ABCDEF], np.uint64)
    made = blocks(word, block_bits)
    assert made.dtype == np.uint32
    assert made.tolist() == [expected]
    assert [block_of(word, table, block_bits).tolist() for table in range(4, 8)] == [[value] for value in expected]


@examples(60)
@given(FINGERPRINTS, st.sampled_from(WIDTHS))
def test_a_block_has_the_bits_of_the_word(word: int, block_bits: int) -> None:
    """Bit i of block t is bit 16 t + i of the word, and the numbers of the bits say so."""
    bits = f"{word:064b}"
    expected = [int("".join(bits[place] for place in places_of(table, block_bits)), 2) for table in range(4)]
    assert blocks(np.array([word], np.uint64), block_bits).tolist() == [expected]
    numbers = bits_of_blocks(8, block_bits)
    assert numbers.tolist() == [[t // 4 * 64 + place for place in places_of(t, block_bits)] for t in range(8)]


LOOK_UPS = {
    16: [4] * 4 + [68] * 4 + [548] * 4,
    20: [1, 2, 22, 42, 232, 422, 1562],
    24: [1, 2, 26, 50, 326, 602],
}
"""Look-ups of exact search for k = 0, 1, 2, ..."""


@pytest.mark.parametrize("block_bits", WIDTHS)
def test_number_of_look_ups(block_bits: int) -> None:
    """Each k has this many look-ups, and the next k after the greatest would have more than are made."""
    greatest = greatest_distance(block_bits)
    assert [exact_plan(k, block_bits).shape[1] for k in range(greatest + 1)] == LOOK_UPS[block_bits]
    beyond = sum(len(masks_of(most, block_bits)) for most in exact_radii(greatest + 1, block_bits))
    assert max(LOOK_UPS[block_bits]) <= MAX_EXACT_LOOKUPS < beyond


@pytest.mark.parametrize("block_bits", WIDTHS)
def test_the_plan_of_exact_search_is_every_mask_of_the_radius_of_each_table(block_bits: int) -> None:
    """The plan has, table by table, the masks in their order; one row serves all articles."""
    for k in range(greatest_distance(block_bits) + 1):
        radii = exact_radii(k, block_bits)
        expected = [table << block_bits | mask for table in range(4) for mask in masks_of(radii[table], block_bits)]
        assert exact_plan(k, block_bits).tolist() == [expected]


@pytest.mark.parametrize("block_bits", WIDTHS)
def test_exact_search_misses_no_fingerprint_and_no_smaller_radius_would_do(block_bits: int) -> None:
    """Bits of the same blocks are alike, so every way to spread k bits over the kinds of bits is tried.

    A fingerprint is found if some block differs in at most the radius. With one bit less in any table some is missed:
    the radii are the least there are.
    """
    for k in range(greatest_distance(block_bits) + 1):
        radii = exact_radii(k, block_bits)
        spread = counts_of_blocks(k, block_bits)
        assert all(found(counts, radii) for counts in spread)
        for table, radius in enumerate(radii):
            fewer = (*radii[:table], radius - 1, *radii[table + 1 :])
            is_least = block_bits != 16 or k % 4 == 3
            if is_least and radius >= 0:
                assert not all(found(counts, fewer) for counts in spread), (k, table)


def found(counts: tuple[int, ...], radii: tuple[int, ...]) -> bool:
    return any(count <= radius for count, radius in zip(counts, radii, strict=True))


def counts_of_blocks(k: int, block_bits: int) -> set[tuple[int, ...]]:
    """The numbers of differing bits in the four blocks, for all words that differ in at most k bits."""
    kinds = Counter(tuple(place in places_of(table, block_bits) for table in range(4)) for place in range(64))
    every: set[tuple[tuple[int, ...], int]] = {((0, 0, 0, 0), 0)}
    for kind, bits in kinds.items():
        every = {
            (tuple(count + more * inside for count, inside in zip(counts, kind, strict=True)), done + more)
            for counts, done in every
            for more in range(min(bits, k - done) + 1)
        }
    return {counts for counts, _ in every}


@pytest.mark.parametrize("block_bits", WIDTHS)
@given(fingerprint=FINGERPRINTS, flips=st.lists(st.integers(0, 63), unique=True, max_size=11))
def test_whatever_is_within_k_bits_is_looked_up(block_bits: int, fingerprint: int, flips: list[int]) -> None:
    """For every fingerprint within k bits, a look-up reads one of its blocks."""
    flipped = flips[: greatest_distance(block_bits)]
    other = fingerprint ^ sum(1 << bit for bit in flipped)
    mine, theirs = blocks(np.array([fingerprint, other], np.uint64), block_bits)
    plan = exact_plan(len(flipped), block_bits)[0]
    tables = plan >> block_bits
    assert (mine[tables] ^ plan & (1 << block_bits) - 1 == theirs[tables]).any()


def test_words_are_big_endian_and_key_0_without_a_scope_is_the_fingerprint() -> None:
    """Bit 0 of the signature is the highest bit of word 0, and key 0 with the scope hash 0 is the fingerprint."""
    signatures = np.arange(32, dtype=np.uint8).reshape(1, 32)
    expected = [[0x0001020304050607, 0x08090A0B0C0D0E0F, 0x1011121314151617, 0x18191A1B1C1D1E1F]]
    assert words(signatures).tolist() == expected
    assert keys(signatures, np.zeros(1, np.uint64)).tolist() == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32))
def test_a_scope_keeps_the_distances_within_it(scope_hash: int, seed: int) -> None:
    """Keys of one scope have the distances of the signatures, in every word."""
    signatures = np.random.default_rng(seed).integers(0, 256, (2, 32), dtype=np.uint8)
    one, other = keys(signatures, np.full(2, scope_hash, np.uint64))
    assert (one ^ other).tolist() == (words(signatures)[0] ^ words(signatures)[1]).tolist()


def test_scopes_lead_to_other_keys() -> None:
    """Another scope hash changes every word of the keys, each by another difference."""
    signatures = np.zeros((2, 32), np.uint8)
    one, other = keys(signatures, np.array([1, 0xFFFF_0000_1234_5678], np.uint64)).tolist()
    assert len({a ^ b for a, b in zip(one, other, strict=True)}) == 4
    assert all(a != b for a, b in zip(one, other, strict=True))
    assert all(factor % 2 for factor in KEY_FACTORS.tolist())


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([4, 8, 16]), st.integers(1, 16))
def test_sure_bits_are_those_of_the_largest_margins(seed: int, tables: int, kinds: int) -> None:
    """The 42 and the 22 surest bits of each word; few kinds of margin make many equal ones: then the lower bit."""
    margins = np.random.default_rng(seed).integers(0, kinds, (3, 16 * tables)).astype(np.uint8)
    expected = [
        [[surest_of(of_word, count) for count in (42, 22)] for of_word in of_article]
        for of_article in margins.reshape(3, -1, 64).tolist()
    ]
    check = PairCheck(directed_rules(scheme=scheme_of(tables, 8)))
    assert check.masks(pack_margins(margins)).tolist() == expected
    assert check.masks(np.empty((0, 8 * tables), np.uint8)).shape == (0, tables // 4, 2)


def surest_of(margins: list[int], count: int) -> int:
    """One bit after the other, each the first of the largest margin that is left; bit 0 is the highest of the word."""
    left, mask = list(margins), 0
    for _ in range(count):
        bit = left.index(max(left))
        left[bit], mask = -1, mask | 1 << (63 - bit)
    return mask


def test_costs_are_small_whole_numbers_that_rise_with_the_margin() -> None:
    """One of each margin; four of them fit the bits of a rank above the look-up."""
    costs = COSTS.tolist()
    assert len(costs) == MAX_MARGIN + 1
    assert costs == sorted(costs)
    assert costs[0] > 0
    assert costs[-1] <= 255


def sorted_plan(margins: list[int], probes: int, block_bits: int) -> list[int]:
    """Every look-up there is, by cost, then table, then mask."""
    flips = [bits for count in range(FLIPS[block_bits] + 1) for bits in combinations(range(block_bits), count)]
    every = []
    for table in range(len(margins) // 16):
        costs = [int(COSTS[margins[table // 4 * 64 + place]]) for place in reversed(places_of(table, block_bits))]
        every += [(sum(costs[bit] for bit in bits), table, sum(1 << bit for bit in bits)) for bits in flips]
    return [table << block_bits | mask for _, table, mask in sorted(every)[:probes]]


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    tables=st.sampled_from([4, 8, 16]),
    kinds=st.integers(1, 16),
    probes=st.one_of(st.integers(1, 200), st.sampled_from([4 * 697, 2000])),
    bits=st.sampled_from(WIDTHS),
)
def test_the_plan_is_the_least_of_all_look_ups(seed: int, tables: int, kinds: int, probes: int, bits: int) -> None:
    """Few kinds of margin make many equal costs: then the lower table, then the lower mask."""
    rng = np.random.default_rng(seed)
    margins = rng.choice(16, kinds, replace=False)[rng.integers(0, kinds, 16 * tables)].astype(np.uint8)
    plan = directed(pack_margins(margins[np.newaxis]), probes, bits)
    assert plan.dtype == np.uint32
    assert plan.tolist() == [sorted_plan(margins.tolist(), probes, bits)]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("sure", [0, 1, 5, 11])
def test_a_plan_of_few_unsure_bits_is_the_least_of_all_look_ups(sure: int, bits: int) -> None:
    """Some bits have margin 0 and the others 15: up to the likely bound of the cost there are too few look-ups."""
    margins = np.full(64, 15, np.uint8)
    margins[np.arange(64) % 16 >= sure] = 0
    for probes in (1, 2, 300, 2_788):
        plan = directed(pack_margins(margins[np.newaxis]), probes, bits)
        assert plan.tolist() == [sorted_plan(margins.tolist(), probes, bits)]


@pytest.mark.parametrize(("block_bits", "most"), [(16, 2_788), (20, 24_784), (24, 51_804)])
def test_the_longest_plan_is_every_look_up_once(block_bits: int, most: int) -> None:
    """The masks of at most three bits (of wide blocks four) in each of four tables."""
    margins = np.random.default_rng(1).integers(0, 256, (1, 32), dtype=np.uint8)
    plan = directed(margins, most, block_bits)[0].tolist()
    masks = masks_of(FLIPS[block_bits], block_bits)
    assert sorted(plan) == sorted(table << block_bits | mask for table in range(4) for mask in masks)


def test_a_batch_is_planned_like_its_articles() -> None:
    """The plans of a batch are those of its articles alone; an empty batch has none."""
    margins = np.random.default_rng(9).integers(0, 256, (3000, 32), dtype=np.uint8)
    plans = directed(margins, 64)
    assert (plans[2995:] == directed(margins[2995:], 64)).all()
    assert directed(margins[:0], 64).shape == (0, 64)
