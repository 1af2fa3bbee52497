"""Near, by the definition: one article against every entry that stands before it.

Part of the plain loop (``reference``), and like it without a table, a probe or any other code
that finds entries by looking them up: what is near is a question put to every pair.

The **key words** of an entry are the four words (64 bits each) of its signature, each XORed with its group times
the word's factor; **block** t is bits 16t to 16t + 15 of them, and word t // 4 is the block's key word. An
entry stands in list t of its block's value, with all entries of that value, of whatever group.

An earlier entry b is near the article a if

    1  both are of one group,
    2  b stands and has not expired for a (rules' window), and is not a itself,
    3  their distance is within the rules' reach for a's kind of text,
    4  and in some list of b that a looks up, fewer than N later entries stand before a
       (N being the rules' bucket limit); in directed search that list's key words must
       be within ``SIEVE_BITS`` of each other, besides.

Exact search: the distance is that of the fingerprints (word 0), and a looks up the four lists whose block
differs from its own by at most k // 4 bits. Directed search: the distance is that of the signatures, and a looks up
the P pairs of list and mask of least cost, of all masks of at most 3 bits (its block XOR the mask is the list's
value). A mask costs the sum of ``COSTS`` of the margins of the bits that it flips; among equal
costs the lower list goes first, then the lower mask. Bit i of a block, from its highest, is 1 << (15 - i) of the mask.

The match is the nearest, then the earliest; where the rules say that a re-crawl is an update, and any near entry
has a's own article id, the nearest, then earliest of those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.costs import COSTS
from stream_dedup.core.model import BLOCK_BITS, ROW_BITS, Status, log_position, signed
from stream_dedup.core.probes import KEY_FACTORS, SIEVE_BITS
from stream_dedup.core.rules import UPDATE, Rules

WORD_BLOCKS = 4
"""Blocks of a word."""
MOST_FLIPS = 3
"""Most bits that a mask flips."""

_BLOCK_SHIFTS = np.array([48, 32, 16, 0], np.uint64)
_BLOCK_VALUES = 1 << BLOCK_BITS
_FIRST_FEW = 64
"""Entries looked at in one step, then four times as many in each further one."""

Bools = NDArray[np.bool_]


def _masks() -> tuple[I64, I64]:
    """All masks in rising order, and for each which bits of the block it flips, the highest first."""
    flips = [positions for bits in range(MOST_FLIPS + 1) for positions in combinations(range(BLOCK_BITS), bits)]
    values = np.array(
        [sum(1 << (BLOCK_BITS - 1 - position) for position in positions) for positions in flips], np.int64
    )
    flipped = np.zeros((len(flips), BLOCK_BITS), np.int64)
    for row, positions in enumerate(flips):
        flipped[row, list(positions)] = 1
    order = np.argsort(values)
    return values[order], flipped[order]


_MASKS, _FLIPPED = _masks()


@dataclass(frozen=True, slots=True, eq=False)
class PlainEntries:
    """Columns of all standing articles, in the order of their log positions.

    ``words`` has a row for each word of the signature; ``ids`` are digests of the article ids; ``records``
    says which of the records with a standing article holds the entry.
    """

    positions: I64
    times: I64
    sources: I64
    offsets: I64
    checksums: U64
    statuses: U8
    words: U64
    groups: U64
    ids: U64
    records: I64

    def __len__(self) -> int:
        """Number of standing articles."""
        return len(self.positions)

    @property
    def fingerprints(self) -> U64:
        """First 64 bits of each signature."""
        return np.asarray(self.words[0], np.uint64)

    @property
    def log_offsets(self) -> I64:
        """Offset of each article's log record."""
        return self.positions >> ROW_BITS

    def apart(self, index: int, others: I64) -> I64:
        """Distance of signatures, in bits, of one article from others."""
        bits = np.bitwise_count(self.words[:, others] ^ self.words[:, index, None])
        return np.asarray(bits.sum(axis=0, dtype=np.int64), np.int64)


class PlainQuery(NamedTuple):
    """What decides at the article's log position.

    ``margins`` are its packed margins, empty in exact search. Entries at log offsets below ``cut`` are
    gone. ``same_id`` tells whether an entry has the article's own id.
    """

    rules: Rules
    margins: U8
    cut: int
    same_id: Callable[[int], bool]


class PlainMatch(NamedTuple):
    """The match, its distance, and whether the article is an update of it."""

    article: int
    distance: int
    update: bool


class PlainSearch:
    """Entries in the order of the log, compared one by one; how full each list is so far."""

    def __init__(self, entries: PlainEntries, tables: int) -> None:
        """Of a log whose scheme has so many tables (4 a word); nothing stands yet."""
        words = tables // WORD_BLOCKS
        factors = np.asarray(KEY_FACTORS, np.uint64)[:words, None]
        self._entries = entries
        self._signed = signed(entries.statuses)
        self._keys: U64 = entries.words[:words] ^ (entries.groups * factors)
        blocks = (self._keys[:, :, None] >> _BLOCK_SHIFTS).astype(np.uint16)
        self._blocks = blocks.transpose(1, 0, 2).reshape(len(entries), tables)
        self._lists = np.arange(tables)
        self._full = np.zeros((tables, _BLOCK_VALUES), np.int64)
        self._rank = np.zeros((len(entries), tables), np.uint32)
        """How many entries of its list stood before an entry, for each of its lists."""
        self._here = 0

    def count(self) -> None:
        """The next article stands; where it has a signature, in its lists."""
        if self._signed[self._here]:
            blocks = self._blocks[self._here]
            self._rank[self._here] = self._full[self._lists, blocks]
            self._full[self._lists, blocks] += 1
        self._here += 1

    def nearest(self, asking: PlainQuery) -> PlainMatch | None:
        """Match of the next article, which has a signature, among those before it."""
        hits, distances = self._within_reach(asking)
        if not len(hits):
            return None
        plan = self._plan(asking) if asking.rules.directed else None
        if asking.rules.recrawl == UPDATE:
            own = np.flatnonzero(self._entries.ids[hits] == self._entries.ids[self._here])
            first = self._first(hits[own], asking.rules, plan, asking.same_id)
            if first is not None:
                return PlainMatch(int(hits[own[first]]), int(distances[own[first]]), update=True)
        first = self._first(hits, asking.rules, plan, lambda _other: True)
        return None if first is None else PlainMatch(int(hits[first]), int(distances[first]), update=False)

    def _within_reach(self, asking: PlainQuery) -> tuple[I64, I64]:
        """Entries of the article's group within reach, and their distances: nearest first, then earliest."""
        entries, here, rules = self._entries, self._here, asking.rules
        reach = rules.reach(Status(int(entries.statuses[here])))
        low = int(np.searchsorted(entries.positions, log_position(asking.cut, 0)))
        # What is near must pass this in one word, whichever list it is found in; few others do.
        words = len(self._keys) if rules.directed else 1
        few = self._few_bits_apart(words, low, SIEVE_BITS if rules.directed else reach)
        few = few[self._signed[few] & (entries.groups[few] == entries.groups[here])]
        distances = entries.apart(here, few) if rules.directed else self._word_apart(few)
        near = np.flatnonzero(distances <= reach)
        near = near[np.argsort(distances[near], kind="stable")]
        return few[near], distances[near]

    def _few_bits_apart(self, words: int, low: int, bits: int) -> I64:
        """Entries from one on, before the article, that are within so many bits in one of the first words."""
        some = np.zeros(self._here - low, np.bool_)
        for word in self._entries.words[:words]:
            some |= np.bitwise_count(word[low : self._here] ^ word[self._here]) <= bits
        return np.flatnonzero(some) + low

    def _word_apart(self, others: I64) -> I64:
        """Distances of fingerprints."""
        prints = self._entries.words[0]
        return np.asarray(np.bitwise_count(prints[others] ^ prints[self._here]), np.int64)

    def _plan(self, asking: PlainQuery) -> I64:
        """What directed search looks up, each ``list << 16 | mask``."""
        margins = np.stack([asking.margins >> 4, asking.margins & 15], axis=1).reshape(-1, BLOCK_BITS)
        costs: I64 = np.asarray(COSTS, np.int64)[margins] @ _FLIPPED.T
        # All pairs are in the order of lists, then masks: a stable sort by cost is the order of the plan.
        cheapest = np.argsort(costs, axis=None, kind="stable")[: asking.rules.probes]
        lists, masks = np.divmod(cheapest, len(_MASKS))
        return np.asarray(lists << BLOCK_BITS | _MASKS[masks], np.int64)

    def _first(self, hits: I64, rules: Rules, plan: I64 | None, takes: Callable[[int], bool]) -> int | None:
        """The first that counts and is taken. In a flood it is among the first few, so not all are looked at."""
        start, size = 0, _FIRST_FEW
        while start < len(hits):
            for at in np.flatnonzero(self._counts(hits[start : start + size], rules, plan)).tolist():
                if takes(int(hits[start + at])):
                    return start + int(at)
            start, size = start + size, size * 4
        return None

    def _counts(self, hits: I64, rules: Rules, plan: I64 | None) -> Bools:
        """Which of these are another article, not expired, and among the newest of a list looked up."""
        entries, here = self._entries, self._here
        itself = (entries.sources[hits] == entries.sources[here]) & (entries.offsets[hits] == entries.offsets[here])
        later = self._full[self._lists, self._blocks[hits]] - self._rank[hits] - 1
        looked_up = self._exact_lists(hits, rules) if plan is None else self._directed_lists(hits, plan)
        counts = ~itself & (looked_up & (later < rules.bucket_limit)).any(axis=1)
        if rules.window_ms is not None:
            counts &= entries.times[here] - entries.times[hits] <= rules.window_ms
        return np.asarray(counts, np.bool_)

    def _exact_lists(self, hits: I64, rules: Rules) -> Bools:
        flips = np.bitwise_count(self._blocks[hits] ^ self._blocks[self._here])
        return np.asarray(flips <= (rules.distance or 0) // WORD_BLOCKS, np.bool_)

    def _directed_lists(self, hits: I64, plan: I64) -> Bools:
        flips = (self._blocks[hits] ^ self._blocks[self._here]).astype(np.int64)
        words = np.bitwise_count(self._keys[:, hits] ^ self._keys[:, self._here, None]) <= SIEVE_BITS
        sieved = np.repeat(words.T, WORD_BLOCKS, axis=1)
        return np.asarray(np.isin(self._lists << BLOCK_BITS | flips, plan) & sieved, np.bool_)
