"""Which posting lists are looked up for an article.

This file owns how a signature is divided into keys and blocks, and the plans of look-ups. A **key** is one word (64
bits) of the signature, XORed with the article's scope hash times a factor. Entries of different scopes are therefore in
different posting lists, and a flood in one scope does not fill the lists of another. Within a scope the factor
cancels out. Each word has four **blocks** of w bits (16, 20 or 24; the scheme says which), one for each of four tables.
Block t of a word begins at its bit 16 t and goes round at its end: with w = 20 block 3 is bits 48 to 63, then 0 to 3.
Blocks of 16 bits divide the word; wider blocks overlap, each with the next. Wider blocks have shorter posting lists.

A **plan** is a list of look-ups, each ``table << w | mask``: it reads, in that table, the posting list of value
``block ^ mask``. Bit i of a block, counted from its highest, is mask bit ``1 << (w - 1 - i)``.

Exact search finds every fingerprint within k bits, by the pigeonhole principle. Of blocks that share no bit, with a
radius each, one has at most as many differing bits as its radius if the radii and the number of these blocks add up to
more than k. So the masks of at most that many bits in these tables miss no fingerprint (multi-index hashing, Norouzi
2012). Blocks of 16 bits: all four, with radius floor(k / 4): 4 look-ups up to k = 3, 68 up to k = 7, 548 up to k = 11.
Wider blocks: 0 and 2 share no bit, with the radii floor(k / 2) and floor((k - 1) / 2). Blocks 1 and 3 would add
nothing: bits that 0 and 1 share, and 2 and 3, count twice. The plan is the same for every article.

Directed search looks where edited copies of an article most likely are: bits with a small margin are the likeliest to
flip. A look-up costs the sum of ``COSTS`` of the margins of the bits that its mask flips, at most
``rules.mask_bits`` bits of one block. The plan is the cheapest look-ups over all tables; of equal cost, the lower table
comes first, then the lower mask. Costs are whole numbers, so the plan is the same on every machine.

A plan is a function of rules, keys and margins, and never of what is stored.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from stream_dedup import _native
from stream_dedup.core.arrays import I64, U8, U32, U64
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, FINGERPRINT_BITS, TABLE_MARGIN_BYTES
from stream_dedup.core.rules import Rules, exact_radii, mask_bits

MARGIN_SCALE = 8
"""Steps of a margin in one standard deviation of a sum."""
MAX_MARGIN = 15
"""Largest margin: 4 bits."""
COSTS = np.array([6, 17, 29, 41, 54, 67, 81, 96, 111, 128, 146, 165, 185, 206, 229, 253], np.int64)
"""Cost of flipping a bit, by its margin: 36 ln((1 - p) / p), where p is the probability that an edit flips the bit.
The sum of an edited copy is modelled as normal with a correlation of 0.85 to the article's own. Then p = F(-1.61 z),
where F is the normal distribution function and z = (margin + 0.5) / 8 is the sum in standard deviations."""

KEY_FACTORS = np.array(_native.KEY_FACTORS, np.uint64)
"""Factor of the scope hash for each word. The factors are odd, so no two hashes give the same product, and differ (the
primes of XXH64), so hashes that collide in a block of one word do not collide in the others."""


SURE_BITS, SUREST_BITS = _native.SURE_BITS
SURE_SIEVE_BITS, WORD_SIEVE_BITS = _native.SURE_SIEVE_BITS, _native.WORD_SIEVE_BITS
"""The two sieves of directed search: ``_native`` says what they pass."""
FIRM_MARGIN = _native.FIRM_MARGIN


def pack_margins(values: U8) -> U8:
    """Pack two margins into a byte, the first in the high half."""
    packed: U8 = np.left_shift(values[..., 0::2], 4) | values[..., 1::2]
    return packed


def unpack_margins(packed: U8) -> U8:
    """Unpack margins to one byte each."""
    return np.stack((packed >> 4, packed & MAX_MARGIN), axis=-1).reshape(*packed.shape[:-1], 2 * packed.shape[-1])


def keys(signatures: U8, scope_hashes: U64) -> U64:
    """Return the keys of each article, shape (n, 4); key 0 with the scope hash 0 is the fingerprint.

    Args:
        signatures: packed bits, shape (n, 32).
        scope_hashes: shape (n,).
    """
    factored: U64 = scope_hashes[:, np.newaxis] * KEY_FACTORS
    return words(signatures) ^ factored


def words(signatures: U8) -> U64:
    """Return the words of each signature, shape (n, 4); word 0 is the fingerprint, its bit 0 the highest."""
    return np.ascontiguousarray(signatures).view(">u8").astype(np.uint64)


def sketch_words(sketches: U8) -> U64:
    """Return the words of each sketch, 16 values in each; shape (n, bytes // 8)."""
    return np.ascontiguousarray(sketches).view("<u8").astype(np.uint64, copy=False)


def blocks(key_words: U64, block_bits: int = BLOCK_BITS) -> U32:
    """Return the four blocks of each word, shape (n, 4); block 0 begins at the highest bit."""
    return np.stack([block_of(key_words, table, block_bits) for table in range(BLOCKS_PER_WORD)], axis=1)


def block_of(word: U64, table: int, block_bits: int) -> U32:
    """Return the block of one table of each word."""
    start = np.uint64(table % BLOCKS_PER_WORD * BLOCK_BITS)
    turned = word << start | word >> (np.uint64(FINGERPRINT_BITS) - start) % np.uint64(FINGERPRINT_BITS)
    return (turned >> np.uint64(FINGERPRINT_BITS - block_bits)).astype(np.uint32)


def bits_of_blocks(tables: int, block_bits: int) -> I64:
    """Return the numbers of the signature's bits in the block of each table, shape (tables, block_bits)."""
    starts = np.arange(tables)[:, np.newaxis] * BLOCK_BITS
    return starts // FINGERPRINT_BITS * FINGERPRINT_BITS + (starts + np.arange(block_bits)) % FINGERPRINT_BITS


@cache
def exact_plan(k: int, block_bits: int = BLOCK_BITS) -> U32:
    """Return the plan of exact search, which is the same for every article, shape (1, look-ups).

    The masks of each table in the order of the tables: fewest bits first, then by value.
    """
    radii = exact_radii(k, block_bits)
    plan = [table << block_bits | mask for table, most in enumerate(radii) for mask in _masks_within(most, block_bits)]
    frozen: U32 = np.array([plan], np.uint32)
    frozen.setflags(write=False)
    return frozen


def directed(margins: U8, probes: int, block_bits: int = BLOCK_BITS) -> U32:
    """Return the plans of directed search, shape (n, probes), cheapest look-up first.

    Args:
        margins: packed as in a log entry, shape (n, 8 * tables).
        probes: look-ups for each article, 1 to ``rules.most_probes``.
        block_bits: bits of a block.
    """
    tables = margins.shape[1] // TABLE_MARGIN_BYTES
    flat = np.ascontiguousarray(margins).reshape(-1)
    made = _native.plans(
        flat, probes, tables=tables, block_bits=block_bits, mask_bits=mask_bits(block_bits), costs=COSTS.tolist()
    )
    return np.frombuffer(made, np.uint32).reshape(len(margins), probes)


def plan_of(rules: Rules, margins: U8) -> U32:
    """Return the plans of articles with these margins under these rules: a row for each, or one for all of them."""
    block_bits = rules.scheme.block_bits
    if rules.directed:
        return directed(margins, rules.probes or 1, block_bits)
    return exact_plan(rules.distance or 0, block_bits)


def _masks_within(most: int, block_bits: int) -> list[int]:
    """Return the masks of at most this many bits; none of fewer than 0."""
    of_bits = (combinations(range(block_bits), bits) for bits in range(most + 1))
    return [mask for chosen in of_bits for mask in sorted(sum(1 << bit for bit in flipped) for flipped in chosen)]
