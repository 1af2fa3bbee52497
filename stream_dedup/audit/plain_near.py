"""The definition of near: one article compared with every entry that was logged before it.

Part of the reference (``reference``). It shares no search code with the index: it uses no table and computes its own
plan, and it asks of every pair of entries whether they are near.

The **key words** of an entry are the four words (64 bits each) of its signature, each XORed with its group times
the word's factor. **Block** t is bits 16t to 16t + 15 of the key words; word t // 4 is its key word. The **posting
list** of table t and value v holds every signed entry whose block t is v, of whatever group.

An earlier entry b is near the article a if

    1  both are of one group,
    2  b is at or above the low watermark, is inside the window of a's rules, has other coordinates than a, and is
       listed in no withdrawal from before a,
    3  their distance is at most the reach of the rules for a's kind of text,
    4  and in some posting list of b that a looks up, b is among the newest N entries (N is the bucket limit of the
       rules); in directed search the key words of that table must also differ in at most ``SIEVE_BITS`` bits.

Exact search: the distance is that of the fingerprints (word 0), and a looks up the posting lists of four tables whose
value differs from its own block in at most k // 4 bits. Directed search: the distance is that of the signatures, and a
looks up the P pairs of table and mask of least cost, of all masks of at most 3 bits (its block XOR the mask is the
value). The cost of a mask is the sum of ``COSTS`` of the margins of the bits that it flips; among equal
costs the lower table goes first, then the lower mask. Bit i of a block, from its highest, is 1 << (15 - i) of the mask.

The match is the nearest entry, then the earliest. Where the rules make a re-crawl an update and any near entry has
the id of the article, only entries of that id are candidates for the match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.costs import COSTS
from stream_dedup.core.model import (
    BLOCK_BITS,
    ROW_BITS,
    LogOffset,
    LogPosition,
    SourceOffset,
    Status,
    log_position,
    row_of,
    signed,
)
from stream_dedup.core.probes import KEY_FACTORS, SIEVE_BITS
from stream_dedup.core.rules import UPDATE, Rules

WORD_BLOCKS = 4
"""Blocks of a word."""
NOT_WITHDRAWN = 1 << 62
"""Greater than every log offset."""
MOST_FLIPS = 3
"""Most bits that a mask flips."""

_BLOCK_SHIFTS = np.array([48, 32, 16, 0], np.uint64)
_BLOCK_VALUES = 1 << BLOCK_BITS
_FIRST_FEW = 64
"""Entries checked in the first step of a search; each further step checks four times as many."""

Bools = NDArray[np.bool_]


def _masks() -> tuple[I64, I64]:
    """Return all masks in rising order, and for each the bits of the block that it flips, the highest first."""
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
    """Columns of all logged articles, in the order of their log positions.

    ``words`` has a row for each word of the signature; ``ids`` are hashes of the article ids; ``records``
    is the index of the log record that holds the entry, among those that hold any. ``withdrawn_at`` is the log offset
    of the first withdrawal that lists an entry, ``NOT_WITHDRAWN`` where none does; without it none does.
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
    withdrawn_at: I64 | None = None

    def __len__(self) -> int:
        """Return the number of logged articles."""
        return len(self.positions)

    @property
    def fingerprints(self) -> U64:
        """First 64 bits of each signature."""
        return np.asarray(self.words[0], np.uint64)

    def position(self, index: int) -> LogPosition:
        """Return the log position of an article."""
        return LogPosition(int(self.positions[index]))

    def row(self, index: int) -> int:
        """Return the row of an article in its log record."""
        return row_of(self.position(index))

    def offset(self, index: int) -> SourceOffset:
        """Return the source offset of an article."""
        return SourceOffset(int(self.offsets[index]))

    @property
    def log_offsets(self) -> I64:
        """Offset of each article's log record."""
        return self.positions >> ROW_BITS

    def signature_distances(self, index: int, others: I64) -> I64:
        """Return the distances, in bits, of one article's signature from others."""
        bits = np.bitwise_count(self.words[:, others] ^ self.words[:, index, None])
        return np.asarray(bits.sum(axis=0, dtype=np.int64), np.int64)


class PlainQuery(NamedTuple):
    """An article with a signature, and what decides at its log position.

    ``article`` is its index among the entries. ``margins`` are packed as in a log entry, and empty in exact search.
    Entries at log offsets below ``low_watermark`` are trimmed. ``has_same_id`` says whether an entry has the article's
    id.
    """

    article: int
    rules: Rules
    margins: U8
    low_watermark: LogOffset
    has_same_id: Callable[[int], bool]


class PlainMatch(NamedTuple):
    """The match of an article, its distance, and whether the article is an update of it."""

    entry: int
    distance: int
    update: bool


class PlainSearch:
    """Compares an article with every logged entry, and keeps the length of every posting list."""

    def __init__(self, entries: PlainEntries, tables: int) -> None:
        """Search these entries, none of which is logged yet; the scheme has so many tables (4 for each word)."""
        words = tables // WORD_BLOCKS
        factors = np.asarray(KEY_FACTORS, np.uint64)[:words, None]
        self._entries = entries
        self._signed = signed(entries.statuses)
        self._keys: U64 = entries.words[:words] ^ (entries.groups * factors)
        blocks = (self._keys[:, :, None] >> _BLOCK_SHIFTS).astype(np.uint16)
        self._blocks = blocks.transpose(1, 0, 2).reshape(len(entries), tables)
        self._tables = np.arange(tables)
        self._lengths = np.zeros((tables, _BLOCK_VALUES), np.int64)
        self._rank = np.zeros((len(entries), tables), np.uint32)
        """Length of each posting list of an entry when the entry was logged."""
        self.logged = 0
        """Entries that are logged: the first ones."""

    def log_next(self) -> None:
        """Log the next entry; if it has a signature, append it to its posting lists."""
        if self._signed[self.logged]:
            blocks = self._blocks[self.logged]
            self._rank[self.logged] = self._lengths[self._tables, blocks]
            self._lengths[self._tables, blocks] += 1
        self.logged += 1

    def match(self, query: PlainQuery) -> PlainMatch | None:
        """Return the match among the logged entries, or None."""
        entries, within = self._entries, self._within_reach(query)
        if query.rules.recrawl == UPDATE:
            same_hash = entries.ids[within[0]] == entries.ids[query.article]
            versions = self._near(query, within[0][same_hash], within[1][same_hash])
            version = next((found for found in versions if query.has_same_id(found[0])), None)
            if version is not None:
                return PlainMatch(*version, update=True)
        nearest = next(self._near(query, *within), None)
        return None if nearest is None else PlainMatch(*nearest, update=False)

    def near(self, query: PlainQuery) -> Iterator[tuple[int, int]]:
        """Yield every near entry with its distance: the nearest first, then the earliest."""
        yield from self._near(query, *self._within_reach(query))

    def _near(self, query: PlainQuery, hits: I64, distances: I64) -> Iterator[tuple[int, int]]:
        """Yield those of the entries within reach that are near, in their order.

        The first near entry of a flood is among the first few, so the entries are checked in growing steps.
        """
        if not len(hits):
            return
        plan = self._plan(query) if query.rules.directed else None
        start, size = 0, _FIRST_FEW
        while start < len(hits):
            step = slice(start, start + size)
            near = self._are_near(query, hits[step], plan)
            yield from zip(hits[step][near].tolist(), distances[step][near].tolist(), strict=True)
            start, size = start + size, size * 4

    def _within_reach(self, query: PlainQuery) -> tuple[I64, I64]:
        """Return the entries of the article's group within reach, and their distances: nearest first, then earliest."""
        entries, article, rules = self._entries, query.article, query.rules
        reach = rules.reach(Status(int(entries.statuses[article])))
        low = int(np.searchsorted(entries.positions, log_position(query.low_watermark, 0)))
        # A near entry differs this little in at least one word, whichever table finds it; few others do.
        words = len(self._keys) if rules.directed else 1
        few = self._alike_in_a_word(article, words, low, SIEVE_BITS if rules.directed else reach)
        few = few[self._signed[few] & (entries.groups[few] == entries.groups[article])]
        distances = entries.signature_distances(article, few) if rules.directed else self._word_distances(article, few)
        within = np.flatnonzero(distances <= reach)
        within = within[np.argsort(distances[within], kind="stable")]
        return few[within], distances[within]

    def _alike_in_a_word(self, article: int, words: int, low: int, bits: int) -> I64:
        """Return the logged entries from ``low`` on that differ from the article in at most ``bits`` of some word."""
        some = np.zeros(max(self.logged - low, 0), np.bool_)
        for word in self._entries.words[:words]:
            some |= np.bitwise_count(word[low : self.logged] ^ word[article]) <= bits
        return np.flatnonzero(some) + low

    def _word_distances(self, article: int, others: I64) -> I64:
        """Return the distances of the article's fingerprint from others."""
        fingerprints = self._entries.words[0]
        return np.asarray(np.bitwise_count(fingerprints[others] ^ fingerprints[article]), np.int64)

    def _plan(self, query: PlainQuery) -> I64:
        """Return the look-ups of directed search, each ``table << 16 | mask``."""
        margins = np.stack([query.margins >> 4, query.margins & 15], axis=1).reshape(-1, BLOCK_BITS)
        costs: I64 = np.asarray(COSTS, np.int64)[margins] @ _FLIPPED.T
        # All pairs are in the order of tables, then masks: a stable sort by cost is the order of the plan.
        cheapest = np.argsort(costs, axis=None, kind="stable")[: query.rules.probes]
        tables, masks = np.divmod(cheapest, len(_MASKS))
        return np.asarray(tables << BLOCK_BITS | _MASKS[masks], np.int64)

    def _are_near(self, query: PlainQuery, hits: I64, plan: I64 | None) -> Bools:
        """Return which entries within reach are other articles, inside the window, and found by a look-up."""
        entries, article, rules = self._entries, query.article, query.rules
        same_source = entries.sources[hits] == entries.sources[article]
        itself = same_source & (entries.offsets[hits] == entries.offsets[article])
        later = self._lengths[self._tables, self._blocks[hits]] - self._rank[hits] - 1
        looked_up = self._exact_tables(query, hits) if plan is None else self._directed_tables(query, hits, plan)
        near = ~itself & (looked_up & (later < rules.bucket_limit)).any(axis=1)
        if entries.withdrawn_at is not None:
            near &= entries.withdrawn_at[hits] > entries.log_offsets[article]
        if rules.window_ms is not None:
            near &= entries.times[article] - entries.times[hits] <= rules.window_ms
        return np.asarray(near, np.bool_)

    def _exact_tables(self, query: PlainQuery, hits: I64) -> Bools:
        """Return in which tables exact search looks up the posting list of each entry."""
        flips = np.bitwise_count(self._blocks[hits] ^ self._blocks[query.article])
        return np.asarray(flips <= (query.rules.distance or 0) // WORD_BLOCKS, np.bool_)

    def _directed_tables(self, query: PlainQuery, hits: I64, plan: I64) -> Bools:
        """Return in which tables the plan looks up the posting list of each entry, and the sieve passes it."""
        flips = (self._blocks[hits] ^ self._blocks[query.article]).astype(np.int64)
        words = np.bitwise_count(self._keys[:, hits] ^ self._keys[:, query.article, None]) <= SIEVE_BITS
        sieved = np.repeat(words.T, WORD_BLOCKS, axis=1)
        return np.asarray(np.isin(self._tables << BLOCK_BITS | flips, plan) & sieved, np.bool_)
