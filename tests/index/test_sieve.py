"""Several keys compared at once: the same as key by key."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace

import numpy as np
import pytest
from numba import int64, uint64

from stream_dedup.core.kernel import compiled
from stream_dedup.core.model import BLOCK_BITS, BLOCK_WIDTHS, BLOCKS_PER_WORD
from stream_dedup.core.probes import block_of, exact_plan
from stream_dedup.index.scan import NOTED_GROUPS, scan
from stream_dedup.index.sieve_kernel import LANES, few_below, last_of, passing
from tests.index.scan_cases import World, ask, make_lists, make_world, numbered

KEY_BYTES = 8
NOBODY = 0
"""Protection of a page that nobody may read."""


@compiled(uint64, int64, int64, uint64, uint64, uint64, int64)
def passing_keys(address: int, count: int, mine: np.uint64, once: np.uint64, twice: np.uint64, most: int) -> np.uint64:
    return passing(address, count, mine, once, twice, most)


@compiled(int64, int64, int64, int64, int64, int64)
def keys_below(keys: int, entries: int, block: int, rotation: int, block_bits: int) -> int:
    return few_below(keys, entries, block, rotation, block_bits)


@compiled(int64, uint64)
def last_lane(lanes: np.uint64) -> int:
    return last_of(lanes)


def by_key(keys: list[int], mine: int, once: int, twice: int, most: int) -> int:
    """The definition, key by key."""
    sums = [((key ^ mine) & once).bit_count() + ((key ^ mine) & twice).bit_count() for key in keys]
    return sum(1 << lane for lane, differing in enumerate(sums) if differing <= most)


@pytest.mark.parametrize("count", range(LANES + 3))
def test_passes_what_the_definition_passes(count: int) -> None:
    """Of up to ``LANES`` keys; those behind the count are left out even if they would pass."""
    seed = np.random.default_rng(count)
    some = 0
    for _ in range(200):
        mine, once, twice = (int(word) for word in seed.integers(0, 1 << 64, 3, np.uint64))
        apart = seed.integers(0, 1 << 64, (4, LANES + 3), np.uint64)
        keys = np.uint64(mine) ^ (apart[0] & apart[1] & apart[2])
        most = int(seed.integers(-1, 14))
        lanes = int(passing_keys(keys.ctypes.data, count, np.uint64(mine), np.uint64(once), np.uint64(twice), most))
        assert lanes == by_key(keys.tolist()[: min(count, LANES)], mine, once, twice, most), (mine, once, twice, most)
        some += lanes != 0
    assert bool(some) == bool(count)


def test_a_key_at_the_limit_passes() -> None:
    """Bits of both masks are added up, and as many as the limit still pass."""
    keys = np.array([0b0111, 0b1111, 0b0011, 0], np.uint64)
    lanes = passing_keys(keys.ctypes.data, 4, np.uint64(0), np.uint64(0b1111), np.uint64(0b0011), 5)
    assert int(lanes) == 0b1101


def test_reads_no_key_behind_the_last() -> None:
    """Keys end where a page ends, and the next page cannot be read."""
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as pages:
        begin = ctypes.c_char.from_buffer(pages)
        end = ctypes.addressof(begin) + mmap.PAGESIZE
        libc = ctypes.CDLL(None)
        assert not libc.mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, NOBODY)
        for count in range(1, LANES):
            at = end - count * KEY_BYTES
            assert passing_keys(at, count, np.uint64(0), np.uint64(1), np.uint64(0), 0) == (1 << count) - 1
        assert not libc.mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
        del begin


@pytest.mark.parametrize("block_bits", BLOCK_WIDTHS)
@pytest.mark.parametrize("table", range(BLOCKS_PER_WORD))
def test_counts_lower_blocks(table: int, block_bits: int) -> None:
    """Of keys sorted by their blocks, which may go round at the end of a key, for each block and its neighbours."""
    seed = np.random.default_rng(table)
    for entries in range(LANES + 1):
        keys = seed.integers(0, 1 << 64, LANES, np.uint64)
        numbers = block_of(keys, table, block_bits).astype(np.int64)
        order = np.argsort(numbers[:entries])
        keys[:entries] = keys[order]
        for block in {*range(3), *(numbers + 1), *numbers, *(numbers - 1)}:
            found = keys_below(keys.ctypes.data, entries, block, table * BLOCK_BITS, block_bits)
            assert found == (numbers[:entries] < block).sum(), (entries, block)


@pytest.mark.parametrize("lane", range(64))
def test_last_lane_is_the_highest_bit(lane: int) -> None:
    """Whatever bits are below it."""
    for below in (0, (1 << lane) - 1, 0x5555_5555_5555_5555 & ((1 << lane) - 1)):
        assert last_lane(np.uint64(1 << lane | below)) == lane


def test_a_list_with_more_groups_than_are_noted_at_once_is_compared_to_its_end() -> None:
    """One entry of ``LANES`` passes: the groups that are noted are full before the candidates that wait are."""
    size = 4 * NOTED_GROUPS * LANES
    one = make_world(np.random.default_rng(2), 1, 4, 0)
    world = World(*(np.repeat(column, size, 0) for column in (one.signatures, one.margins, one.rows, one.keys)))
    apart = np.where(np.arange(size) % LANES == 0, np.uint64(0), np.uint64(0xFFFF))
    world.rows["signature"][:, 0] ^= apart
    world.keys[:, 0] ^= apart
    query = ask(world, np.array([size - LANES]), exact_plan(3)[:, :1], directed=False, bucket_limit=size)
    near = scan(replace(query, reach=np.array([3])), make_lists(world, 4, size // 2, size - 100), world.rows)
    assert numbered(near, 1) == [[(0, LANES * at) for at in range(8)]]
