"""Which lists are looked up for an article.

Owns the cut of a signature into keys and blocks, and the plans of look-ups. A **key** is one word (64
bits) of the signature, XORed with the article's group times a factor: an entry of another group then stands in
other lists, and its flood does not fill one's own; within a group nothing changes, for what both have
cancels out. **Block** t is bits 16t to 16t + 15 of the keys: the four tables of word 0 cover the fingerprint.

A **plan** is a list of look-ups, each ``table << 16 | mask``: in that table the list of value
``block ^ mask`` is looked up. Bit i of a block, counted from its highest, is mask bit ``1 << (15 - i)``.

Exact search finds every fingerprint within k bits (pigeonhole): k differing bits are spread over four blocks,
so some block has at most floor(k / 4) of them, for if each had floor(k / 4) + 1 there would be more than k.
That block's value is reached from the fingerprint's own by a mask of at most floor(k / 4) bits, so looking up
all masks of that radius in all four tables misses none (multi-index hashing, Norouzi 2012): 4
look-ups up to k = 3, 68 up to k = 7, 548 up to k = 11. The plan is the same for every article.

Directed search looks where an article's edited copies most likely are: the bits whose margin is small are those
that flip. A look-up costs the sum of ``costs.COSTS`` of the margins of the bits that its mask flips, at most
``MASK_BITS`` of one block; the plan is the look-ups of least cost over all tables, among equals
the lower table, then the lower mask. Costs are whole numbers, so that the plan is the same on every machine.

Nothing here may depend on what is stored: a plan is a function of rules, keys and margins.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U16, U32, U64
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, TABLE_MARGIN_BYTES
from stream_dedup.core.rules import MAX_DISTANCE, MAX_MASKS

KEY_FACTORS = np.array([1, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""What the group is multiplied by for each word. Odd, so that no two groups give the same; different (the primes
of XXH64), so that groups that meet in a block of one word do not meet in those of the others."""

SIEVE_BITS = 16
"""Directed search: greatest distance, in bits, of the key word of the table in which an entry was found; a
cheap sieve before the signature is fetched. Of unrelated entries in a list at most 1.5 % pass (two random
words that share one block); of 568 real pairs it lost none."""


_SHIFTS = np.arange(BLOCK_BITS * (BLOCKS_PER_WORD - 1), -1, -BLOCK_BITS, dtype=np.uint64)


def keys(signatures: U8, groups: U64) -> U64:
    """Keys of each article, shape (n, 4); key 0 without a group is the fingerprint.

    Args:
        signatures: packed bits, shape (n, 32).
        groups: shape (n,).
    """
    factored: U64 = groups[:, np.newaxis] * KEY_FACTORS
    return words(signatures) ^ factored


def words(signatures: U8) -> U64:
    """The words of each signature, shape (n, 4); word 0 is the fingerprint, its bit 0 the highest."""
    return np.ascontiguousarray(signatures).view(">u8").astype(np.uint64)


def blocks(fingerprints: U64) -> U16:
    """The four blocks of each word, shape (n, 4); block 0 is the highest 16 bits."""
    return (fingerprints[:, np.newaxis] >> _SHIFTS).astype(np.uint16)


@cache
def exact(k: int) -> U16:
    """Masks of exact search, the same for each table: fewest bits first, then by value.

    Raises:
        ValueError: k is not 0 to ``MAX_DISTANCE``.
    """
    if not 0 <= k <= MAX_DISTANCE:
        msg = f"distance of {k} bits: exact search takes 0 to {MAX_DISTANCE}"
        raise ValueError(msg)
    masks = [mask for bits in range(k // BLOCKS_PER_WORD + 1) for mask in _masks_of(bits)]
    return _frozen(np.array(masks, np.uint16))


@cache
def exact_plan(k: int) -> U32:
    """Plan of exact search, shape (1, 4 * masks): the same for every article.

    Raises:
        ValueError: k is not 0 to ``MAX_DISTANCE``.
    """
    tables = np.arange(BLOCKS_PER_WORD, dtype=np.uint32)[:, np.newaxis] << BLOCK_BITS
    return _frozen((tables | exact(k)).reshape(1, -1))


def directed(margins: U8, probes: int) -> U32:
    """Plans of directed search, shape (n, probes), least cost first.

    Args:
        margins: packed as in a log entry, shape (n, 8 * tables).
        probes: look-ups an article.

    Raises:
        ValueError: there are no such many look-ups.
    """
    _check_probes(margins, probes)
    plans: U32 = load_plan_kernel().directed(margins, probes)
    return plans


def load_plan_kernel() -> ModuleType:
    """Compile the plans now, or load what was compiled, so that no article waits for it."""
    from stream_dedup.core import plan_kernel  # noqa: PLC0415 - loads the compiler

    return plan_kernel


def _check_probes(margins: U8, probes: int) -> None:
    """Refuse a number of look-ups that no plan has.

    Raises:
        ValueError: ``probes`` is not 1 to the number of masks over all tables.
    """
    most = margins.shape[1] // TABLE_MARGIN_BYTES * MAX_MASKS
    if not 1 <= probes <= most:
        msg = f"{probes} probes: directed search takes 1 to {most}"
        raise ValueError(msg)


def _frozen(plan: NDArray[Any]) -> NDArray[Any]:
    plan.setflags(write=False)
    return plan


def _masks_of(bits: int) -> list[int]:
    return sorted(sum(1 << place for place in places) for places in combinations(range(BLOCK_BITS), bits))
