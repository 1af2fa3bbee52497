"""Keys, the cut into blocks, and the plans of both kinds of search."""

from collections.abc import Callable
from itertools import combinations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core import kernel
from stream_dedup.core.costs import COSTS
from stream_dedup.core.fingerprint.simhash import MAX_MARGIN, pack_margins
from stream_dedup.core.probes import KEY_FACTORS, blocks, directed, exact, exact_plan, keys, sure_masks, words
from stream_dedup.core.rules import MASK_BITS, MAX_DISTANCE
from tests.amount import examples

FINGERPRINTS = st.integers(0, 2**64 - 1)
MASKS = [sum(1 << bit for bit in bits) for count in range(MASK_BITS + 1) for bits in combinations(range(16), count)]

Directed = Callable[[NDArray[np.uint8], int], NDArray[np.uint32]]


def test_block_0_is_the_highest_16_bits() -> None:
    """Block 0 is the highest 16 bits of a word, block 3 the lowest."""
    assert blocks(np.array([0x0123456789ABCDEF], np.uint64)).tolist() == [[0x0123, 0x4567, 0x89AB, 0xCDEF]]


@pytest.mark.parametrize(("k", "look_ups"), [(0, 4), (3, 4), (4, 68), (7, 68), (8, 548), (11, 548)])
def test_number_of_look_ups(k: int, look_ups: int) -> None:
    """A plan has 4 look-ups up to k = 3, 68 up to k = 7, 548 up to k = 11."""
    assert 4 * len(exact(k)) == look_ups


@pytest.mark.parametrize("k", range(MAX_DISTANCE + 1))
def test_masks_are_all_of_the_radius_each_once_in_order(k: int) -> None:
    """The masks are all masks of at most k // 4 bits, each once, in order."""
    expected = {sum(1 << bit for bit in bits) for count in range(k // 4 + 1) for bits in combinations(range(16), count)}
    masks = exact(k).tolist()
    assert masks == sorted(expected, key=lambda mask: (mask.bit_count(), mask))


@given(FINGERPRINTS, st.sets(st.integers(0, 63), max_size=MAX_DISTANCE))
def test_whatever_is_within_k_bits_is_looked_up(fingerprint: int, flipped: set[int]) -> None:
    """For every fingerprint within k bits, a look-up reads one of its blocks."""
    other = fingerprint ^ sum(1 << bit for bit in flipped)
    mine, theirs = blocks(np.array([fingerprint, other], np.uint64))
    assert any((block ^ exact(len(flipped)) == wanted).any() for block, wanted in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("k", [-1, MAX_DISTANCE + 1])
def test_other_distances_are_refused(k: int) -> None:
    """A distance below 0 or above 11 bits is refused."""
    with pytest.raises(ValueError, match="0 to 11"):
        exact(k)


@pytest.mark.parametrize("k", [0, 3, 4, 11])
def test_the_plan_of_exact_search_is_every_mask_in_every_table(k: int) -> None:
    """The plan has, table by table, the masks in their order; one row serves all articles."""
    expected = [table << 16 | mask for table in range(4) for mask in exact(k).tolist()]
    assert exact_plan(k).tolist() == [expected]


def test_words_are_big_endian_and_key_0_of_no_group_is_the_fingerprint() -> None:
    """Bit 0 of the signature is the highest bit of word 0, and key 0 in group 0 is the fingerprint."""
    signatures = np.arange(32, dtype=np.uint8).reshape(1, 32)
    expected = [[0x0001020304050607, 0x08090A0B0C0D0E0F, 0x1011121314151617, 0x18191A1B1C1D1E1F]]
    assert words(signatures).tolist() == expected
    assert keys(signatures, np.zeros(1, np.uint64)).tolist() == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32))
def test_a_group_keeps_the_distances_within_it(group: int, seed: int) -> None:
    """Keys of one group have the distances of the signatures, in every word."""
    signatures = np.random.default_rng(seed).integers(0, 256, (2, 32), dtype=np.uint8)
    one, other = keys(signatures, np.full(2, group, np.uint64))
    assert (one ^ other).tolist() == (words(signatures)[0] ^ words(signatures)[1]).tolist()


def test_groups_lead_to_other_keys() -> None:
    """Another group changes every word of the keys, each by another difference."""
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
    assert sure_masks(pack_margins(margins)).tolist() == expected


def test_no_articles_have_no_sure_bits() -> None:
    """A batch without a signed article is asked for no masks, of as many words as its tables have."""
    assert sure_masks(np.empty((0, 64), np.uint8)).shape == (0, 2, 2)


def surest_of(margins: list[int], count: int) -> int:
    """One bit after the other, each the first of the largest margin that is left; bit 0 is the highest of the word."""
    left, mask = list(margins), 0
    for _ in range(count):
        bit = left.index(max(left))
        left[bit], mask = -1, mask | 1 << (63 - bit)
    return mask


def test_costs_are_small_whole_numbers_that_rise_with_the_margin() -> None:
    """One of each margin; three of them and the look-up fit the 32 bits of a rank."""
    costs = COSTS.tolist()
    assert len(costs) == MAX_MARGIN + 1
    assert costs == sorted(costs)
    assert costs[0] > 0
    assert costs[-1] <= 255


def sorted_plan(margins: list[int], probes: int) -> list[int]:
    """Every look-up there is, by cost, then table, then mask."""
    every = []
    for table in range(len(margins) // 16):
        costs = [int(COSTS[margin]) for margin in margins[16 * table : 16 * table + 16]]
        every += [(sum(costs[bit] for bit in range(16) if mask >> (15 - bit) & 1), table, mask) for mask in MASKS]
    return [table << 16 | mask for _, table, mask in sorted(every)[:probes]]


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    tables=st.sampled_from([4, 8, 16]),
    kinds=st.integers(1, 16),
    probes=st.one_of(st.integers(1, 200), st.sampled_from([4 * 697, 2000])),
)
def test_the_plan_is_the_least_of_all_look_ups(seed: int, tables: int, kinds: int, probes: int) -> None:
    """Few kinds of margin make many equal costs: then the lower table, then the lower mask."""
    rng = np.random.default_rng(seed)
    margins = rng.choice(16, kinds, replace=False)[rng.integers(0, kinds, (3, 16 * tables))].astype(np.uint8)
    plans = directed(pack_margins(margins), probes)
    assert plans.dtype == np.uint32
    assert [sorted_plan(row, probes) for row in margins.tolist()] == plans.tolist()


def test_a_batch_is_planned_like_its_articles() -> None:
    """The plans of a batch are those of its articles alone; an empty batch has none."""
    margins = np.random.default_rng(9).integers(0, 256, (3000, 32), dtype=np.uint8)
    plans = directed(margins, 64)
    assert (plans[2995:] == directed(margins[2995:], 64)).all()
    assert directed(margins[:0], 64).shape == (0, 64)


@pytest.mark.parametrize("probes", [0, 4 * 697 + 1])
def test_other_numbers_of_probes_are_refused(probes: int) -> None:
    """A number of probes below 1 or above the number of all masks is refused."""
    with pytest.raises(ValueError, match="1 to 2788"):
        directed(np.zeros((1, 32), np.uint8), probes)


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), EOFError(), OSError(28, "no space")])
def test_where_machine_code_cannot_be_kept_it_is_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """No folder can be written, the disk is full, or what was kept is cut short: numba raises each of these."""
    asked: list[bool] = []

    def njit(_: list[object], *, cache: bool = False, **_options: object) -> Callable[[object], object]:
        asked.append(cache)
        if cache:
            raise error
        return lambda function: function

    def one() -> int:
        return 1

    monkeypatch.setattr(kernel, "njit", njit)
    monkeypatch.setattr(kernel, "not_kept", [])  # the first search in this process would warn of it
    assert kernel.compiled(numba.int64)(one) is one
    assert asked == [True, False]


def test_machine_code_is_not_kept_beyond_a_number_of_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept code is found by name, and numba looks at the function's own file alone: a new number is a new name."""

    def name() -> str:
        def one() -> int:
            return 1

        kernel.compiled(numba.int64)(one)
        return one.__qualname__

    monkeypatch.setattr(kernel, "njit", lambda *_signature, **_options: lambda function: function)
    before = name()
    assert name() == before
    monkeypatch.setitem(globals(), "MASK_BITS", MASK_BITS + 1)
    assert name() != before
