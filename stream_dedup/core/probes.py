"""Which posting lists are looked up for an article.

This file owns how a signature is divided into keys and blocks, and the plans of look-ups. A **key** is one word (64
bits) of the signature, XORed with the article's group times a factor. Entries of different groups are therefore in
different posting lists, and a flood in one group does not fill the lists of another. Within a group the factor
cancels out. **Block** t is bits 16t to 16t + 15 of the keys: the four tables of word 0 cover the fingerprint.

A **plan** is a list of look-ups, each ``table << 16 | mask``: it reads, in that table, the posting list of value
``block ^ mask``. Bit i of a block, counted from its highest, is mask bit ``1 << (15 - i)``.

Exact search finds every fingerprint within k bits, by the pigeonhole principle: k differing bits are spread over four
blocks, so at least one block has at most floor(k / 4) of them. A mask of at most floor(k / 4) bits turns that block of
one fingerprint into that of the other, so looking up all such masks in all four tables misses none (multi-index
hashing, Norouzi 2012): 4 look-ups up to k = 3, 68 up to k = 7, 548 up to k = 11. The plan is the same for every
article.

Directed search looks where edited copies of an article most likely are: bits with a small margin are the likeliest to
flip. A look-up costs the sum of ``costs.COSTS`` of the margins of the bits that its mask flips, at most
``rules.MASK_BITS`` bits of one block. The plan is the cheapest look-ups over all tables; of equal cost, the lower table
comes first, then the lower mask. Costs are whole numbers, so the plan is the same on every machine.

A plan is a function of rules, keys and margins, and never of what is stored.

The **sieve** is a cheap filter of directed search: the word of an entry is compared with the article's, the one that
has the block of the look-up, before the rest of the entry is read. An edit leaves an article's surest bits as they are,
so the sieve of sure bits takes these alone. A scheme without sketches keeps the word sieve of the releases before them.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U16, U32, U64
from stream_dedup.core.fingerprint.simhash import MAX_MARGIN, unpack_margins
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, FINGERPRINT_BITS, TABLE_MARGIN_BYTES
from stream_dedup.core.rules import MAX_DISTANCE, MAX_MASKS

KEY_FACTORS = np.array([1, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""Factor of the group for each word. The factors are odd, so no two groups give the same product, and differ (the
primes of XXH64), so groups that collide in a block of one word do not collide in the others."""

WORD_SIEVE_BITS = 16
"""The word sieve: the greatest distance, in bits, between two key words."""
SURE_BITS, SUREST_BITS = 42, 22
SURE_SIEVE_BITS = 10
"""The sieve of sure bits: how many of the ``SURE_BITS`` surest bits of the article's word (of the largest margins) may
differ at most, where the ``SUREST_BITS`` surest count twice. Among equal margins the lower bit comes first.
Of 16,581 edited texts that a look-up reaches it lost 1.3 in 1,000 (the word sieve 7.7; among those cut or edited most
2.6 and 13), and it passed 1.7 to 9.6 % of the unrelated entries that look-ups meet in real text (3.0 to 10.5 %)."""
ALL_BITS = np.array([np.iinfo(np.uint64).max, 0], np.uint64)
"""Masks with which the two counts of the sieve of sure bits are the distance of the words."""


_SHIFTS = np.arange(BLOCK_BITS * (BLOCKS_PER_WORD - 1), -1, -BLOCK_BITS, dtype=np.uint64)


def keys(signatures: U8, groups: U64) -> U64:
    """Return the keys of each article, shape (n, 4); key 0 in group 0 is the fingerprint.

    Args:
        signatures: packed bits, shape (n, 32).
        groups: shape (n,).
    """
    factored: U64 = groups[:, np.newaxis] * KEY_FACTORS
    return words(signatures) ^ factored


def words(signatures: U8) -> U64:
    """Return the words of each signature, shape (n, 4); word 0 is the fingerprint, its bit 0 the highest."""
    return np.ascontiguousarray(signatures).view(">u8").astype(np.uint64)


def sketch_words(sketches: U8) -> U64:
    """Return the words of each sketch, 16 values in each; shape (n, bytes // 8)."""
    return np.ascontiguousarray(sketches).view("<u8").astype(np.uint64, copy=False)


def blocks(fingerprints: U64) -> U16:
    """Return the four blocks of each word, shape (n, 4); block 0 is the highest 16 bits."""
    return (fingerprints[:, np.newaxis] >> _SHIFTS).astype(np.uint16)


@cache
def exact(k: int) -> U16:
    """Return the masks of exact search, which are the same for each table: fewest bits first, then by value.

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
    """Return the plan of exact search, shape (1, 4 * masks), which is the same for every article.

    Raises:
        ValueError: k is not 0 to ``MAX_DISTANCE``.
    """
    tables = np.arange(BLOCKS_PER_WORD, dtype=np.uint32)[:, np.newaxis] << BLOCK_BITS
    return _frozen((tables | exact(k)).reshape(1, -1))


def directed(margins: U8, probes: int) -> U32:
    """Return the plans of directed search, shape (n, probes), cheapest look-up first.

    Args:
        margins: packed as in a log entry, shape (n, 8 * tables).
        probes: look-ups for each article.

    Raises:
        ValueError: there are fewer look-ups than ``probes``, or ``probes`` is below 1.
    """
    _check_probes(margins, probes)
    plans: U32 = load_plan_kernel().directed(margins, probes)
    return plans


def sure_masks(margins: U8) -> U64:
    """Return what the sieve of sure bits compares of each word: the sure bits, and the surest; shape (n, words, 2).

    Args:
        margins: packed as in a log entry, shape (n, 8 * tables).
    """
    tables = margins.shape[1] // TABLE_MARGIN_BYTES
    of_words = unpack_margins(margins).reshape(len(margins), tables // BLOCKS_PER_WORD, FINGERPRINT_BITS)
    surest_first = np.argsort(MAX_MARGIN - of_words, axis=2, kind="stable")
    chosen = np.zeros((*of_words.shape[:2], 2, FINGERPRINT_BITS), np.uint8)
    for which, count in enumerate((SURE_BITS, SUREST_BITS)):
        np.put_along_axis(chosen[:, :, which], surest_first[:, :, :count], 1, axis=2)
    masks: U64 = np.packbits(chosen, axis=3).view(">u8")[..., 0].astype(np.uint64)
    return masks


def load_plan_kernel() -> ModuleType:
    """Compile the kernel of the plans, or load its kept machine code, so that no article waits for it."""
    from stream_dedup.core import plan_kernel  # noqa: PLC0415 - loads the compiler

    return plan_kernel


def _check_probes(margins: U8, probes: int) -> None:
    """Refuse a number of look-ups that a plan cannot have.

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
    return sorted(sum(1 << bit for bit in chosen) for chosen in combinations(range(BLOCK_BITS), bits))
