"""The definition of near: one article compared with every entry that was logged before it.

Part of the reference (``reference``). It shares no search code with the index: it uses no table and computes its own
plan, and it asks of every pair of entries whether they are near.

The **key words** of an entry are the four words (64 bits each) of its signature, each XORed with its scope hash times
the word's factor. Word t // 4 is the key word of table t. **Block** t has w bits of it (16, 20 or 24, as the scheme
says), the first is bit 16 (t mod 4), bit 0 the highest of the word; after its last bit follows its bit 0. The **posting
list** of table t and value v holds every signed entry whose block t is v, whatever its scope hash.

An earlier entry b is near the article a if

    1  both have one scope hash,
    2  b is at or above the low watermark, is inside the window of a's rules, has other coordinates than a, and is
       withdrawn by nothing from before a,
    3  their distance is at most the reach of the rules for a's kind of text, and either at most their ``certain`` bits,
       or the sketches have at least as many equal values as the rules ask of it, and beyond ``far`` bits at least
       ``far_min_equal``; where a is dominated, no distance is at most ``certain`` bits; where it is so strongly, every
       distance is beyond ``far``,
    4  their distance is at most the ``form_limit`` of the rules, if there is one and the forms of a and b have one
       frame and other numbers,
    5  b is a candidate of a.

A long text is **dominated** if at most ``dominated`` of the margins of its first 64 bits are below ``FIRM_MARGIN``, and
strongly so if at most half as many are; without that rule none is.

The **form** of an entry is the last ``FORM_BYTES`` of its sketch, in a scheme that has forms: the frame (a hash in the
first half; 0: the text has no form) and the numbers (in the second half). The bytes before it are the **values**.

Entry b is found by a look-up of a if the posting list that it reads has b among its newest N entries (N is the bucket
limit of the rules), and the key words of its table pass the sieve. Of the entries that are found and for which 1 and 2
hold, the first C are the **candidates** of a (all of them, where the rules do not bound them): in the order of the
look-ups, of one look-up the newest first, each entry once. An entry with the coordinates of a is no match, but may be a
candidate.

The **sieve** of exact search passes words that differ in at most as many bits as in 3; that of directed search, where
the scheme has no sketches, in at most ``WORD_SIEVE_BITS``. Where it has sketches, the 64 bits of the word are put in
order: the largest margin of a first, among equal margins the lower bit (bit 0 is the highest of the word). Each
differing bit among the first ``SURE_BITS`` counts 1, among the first ``SUREST_BITS`` 2; up to ``SURE_SIEVE_BITS`` pass.

Exact search: the distance is that of the fingerprints (word 0), and a looks up the posting lists whose value differs
from its own block in at most k // 4 bits, in four tables; of wider blocks than 16 bits in at most k // 2 bits in table
0, and (k - 1) // 2 in table 2. Table by table, in each the mask of fewest bits first, then the lower mask (its block
XOR the mask is the value). Directed search: the distance is that of the signatures, and a looks up the P pairs of table
and mask of least cost, of all masks of at most 3 bits, or 4 of wider blocks. The cost of a mask is the sum of ``COSTS``
of the margins of the bits that it flips; among equal costs the lower table goes first, then the lower mask. Bit i of a
block, from its highest, is 1 << (w - 1 - i) of the mask.

The match is the nearest entry, then the earliest. Where the rules make a re-crawl an update and any near entry has
the id of the article, only entries of that id are candidates for the match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I64, U8, U64, Bools
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    ROW_BITS,
    LogOffset,
    LogPosition,
    SourceOffset,
    Status,
    log_position,
    row_of,
    signed,
)
from stream_dedup.core.probes import (
    COSTS,
    FIRM_MARGIN,
    KEY_FACTORS,
    SURE_BITS,
    SURE_SIEVE_BITS,
    SUREST_BITS,
    WORD_SIEVE_BITS,
)
from stream_dedup.core.rules import COPIES_LIMIT, UPDATE, Rules

WORD_BLOCKS = 4
"""Blocks of a word."""
NARROW = 16
"""Bits of a block where the four blocks of a word share none."""
NOT_WITHDRAWN = 1 << 62
"""Greater than every log position."""
MOST_FLIPS, MOST_WIDE_FLIPS = 3, 4
"""Most bits that a mask flips: of a block of 16 bits, and of a wider one."""

_SURE_COUNTS = (SURE_BITS, SUREST_BITS)


@cache
def _masks(block_bits: int) -> tuple[I64, I64]:
    """Return all masks in rising order, and for each the bits of the block that it flips, the highest first."""
    most = MOST_FLIPS if block_bits == NARROW else MOST_WIDE_FLIPS
    flips = [positions for bits in range(most + 1) for positions in combinations(range(block_bits), bits)]
    values = np.array(
        [sum(1 << (block_bits - 1 - position) for position in positions) for positions in flips], np.int64
    )
    flipped = np.zeros((len(flips), block_bits), np.int64)
    for row, positions in enumerate(flips):
        flipped[row, list(positions)] = 1
    order = np.argsort(values)
    return values[order], flipped[order]


@dataclass(frozen=True, slots=True, eq=False)
class PlainEntries:
    """Columns of all logged articles, in the order of their log positions.

    ``words`` has a row for each word of the signature, ``sketches`` one for each byte of a sketch; ``ids`` are hashes
    of the article ids; ``records`` is the index of the log record that holds the entry, among those that hold any.
    ``withdrawn_at`` is the log position of what first withdraws an entry, ``NOT_WITHDRAWN`` where nothing does.
    """

    positions: I64
    times: I64
    sources: I64
    offsets: I64
    checksums: U64
    statuses: U8
    words: U64
    scope_hashes: U64
    sketches: U8
    ids: U64
    records: I64
    withdrawn_at: I64

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

    def equal_values(self, index: int, others: I64, form_bytes: int) -> I64:
        """Return how many of the values of one article's sketch, two in a byte, are equal to those of others."""
        values = self.sketches[: len(self.sketches) - form_bytes]
        one, other = values[:, index, None], values[:, others]
        high, low = one >> 4 == other >> 4, one & 15 == other & 15
        return np.asarray(high.sum(axis=0) + low.sum(axis=0), np.int64)

    def other_numbers(self, index: int, others: I64, form_bytes: int) -> Bools:
        """Return whether one article's form has the frame of others and not their numbers."""
        form = self.sketches[len(self.sketches) - form_bytes :]
        one, same = form[:, index], form[:, others] == form[:, index, None]
        half = form_bytes // 2
        return np.asarray(one[:half].any() & same[:half].all(axis=0) & ~same[half:].all(axis=0), np.bool_)


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
    """The match of an article, its distance, how many entries are near, and whether the article is an update of it."""

    entry: int
    distance: int
    copies: int
    update: bool


class PlainSearch:
    """Compares an article with every logged entry, and keeps the length of every posting list."""

    def __init__(self, entries: PlainEntries, scheme: Scheme | None) -> None:
        """Search these entries, none of which is logged yet; without a scheme there are none."""
        tables = WORD_BLOCKS if scheme is None else scheme.tables
        self._block_bits = NARROW if scheme is None else scheme.block_bits
        words = tables // WORD_BLOCKS
        factors = np.asarray(KEY_FACTORS, np.uint64)[:words, None]
        self._entries = entries
        self._signed = signed(entries.statuses)
        self._keys: U64 = entries.words[:words] ^ (entries.scope_hashes * factors)
        self._blocks = np.stack([self._block(table) for table in range(tables)], axis=1)
        # Of each table, the number of an entry's posting list among those that any entry has.
        self._lists = np.stack([np.unique(blocks, return_inverse=True)[1] for blocks in self._blocks.T], axis=1)
        self._tables = np.arange(tables)
        self._lengths = np.zeros((tables, len(entries)), np.int64)
        self._rank = np.zeros((len(entries), tables), np.uint32)
        """Length of each posting list of an entry when the entry was logged."""
        self.logged = 0
        """Entries that are logged: the first ones."""

    def _block(self, table: int) -> I64:
        """Return the block of each entry, bit by bit."""
        key = self._keys[table // WORD_BLOCKS]
        block = np.zeros(len(key), np.int64)
        for bit in _places(table, self._block_bits):
            block = block << 1 | (key >> np.uint64(63 - bit) & np.uint64(1)).astype(np.int64)
        return block

    def log_next(self) -> None:
        """Log the next entry; if it has a signature, append it to its posting lists."""
        if self._signed[self.logged]:
            lists = self._lists[self.logged]
            self._rank[self.logged] = self._lengths[self._tables, lists]
            self._lengths[self._tables, lists] += 1
        self.logged += 1

    def match(self, query: PlainQuery) -> PlainMatch | None:
        """Return the match among the logged entries, or None."""
        entries, (near, distances) = self._entries, self.near(query)
        if not len(near):
            return None
        copies = min(len(near), COPIES_LIMIT)
        if query.rules.recrawl == UPDATE:
            same_hash = np.flatnonzero(entries.ids[near] == entries.ids[query.article]).tolist()
            version = next((at for at in same_hash if query.has_same_id(int(near[at]))), None)
            if version is not None:
                return PlainMatch(int(near[version]), int(distances[version]), copies, update=True)
        return PlainMatch(int(near[0]), int(distances[0]), copies, update=False)

    def _status(self, query: PlainQuery) -> Status:
        return Status(int(self._entries.statuses[query.article]))

    def _reach(self, query: PlainQuery) -> int:
        return query.rules.reach(self._status(query))

    def _sieved(self, query: PlainQuery, others: I64) -> Bools:
        """Return which entries pass the sieve, a row for each word that has tables."""
        differing = self._keys[:, others] ^ self._keys[:, query.article, None]
        if query.rules.sieves_sure_bits:
            masks = _sure_masks(query.margins)
            counts = np.bitwise_count(differing & masks[0]) + np.bitwise_count(differing & masks[1])
            return np.asarray(counts <= SURE_SIEVE_BITS, np.bool_)
        most = WORD_SIEVE_BITS if query.rules.directed else self._reach(query)
        return np.asarray(np.bitwise_count(differing) <= most, np.bool_)

    def near(self, query: PlainQuery) -> tuple[I64, I64]:
        """Return the near entries and their distances: nearest first, then earliest."""
        entries, article, rules = self._entries, query.article, query.rules
        some = self._candidates(query)
        same_source = entries.sources[some] == entries.sources[article]
        some = some[~(same_source & (entries.offsets[some] == entries.offsets[article]))]
        distances = (
            entries.signature_distances(article, some) if rules.directed else self._word_distances(article, some)
        )
        within = np.flatnonzero((distances <= self._reach(query)) & self._confirmed(query, some, distances))
        within = within[np.argsort(distances[within], kind="stable")]
        return some[within], distances[within]

    def _confirmed(self, query: PlainQuery, some: I64, distances: I64) -> Bools:
        """Return which entries the sketches allow to be near: their values, and their forms."""
        entries, article, rules = self._entries, query.article, query.rules
        form_bytes = rules.scheme.form_bytes
        equal = entries.equal_values(article, some, form_bytes)
        dominated, strongly = self._dominated(query)
        enough = equal >= rules.least_equal(self._status(query))
        if rules.far is not None and rules.far_min_equal is not None:
            enough &= (distances <= rules.far) & (not strongly) | (equal >= rules.far_min_equal)
        confirmed = (distances <= rules.certain_bits) & (not dominated) | enough
        if rules.form_limit is not None:
            confirmed &= (distances <= rules.form_limit) | ~entries.other_numbers(article, some, form_bytes)
        return np.asarray(confirmed, np.bool_)

    def _dominated(self, query: PlainQuery) -> tuple[bool, bool]:
        """Return whether the article is dominated, and whether it is so strongly."""
        most = query.rules.dominated
        if most is None or self._status(query) is not Status.LONG:
            return False, False
        small = int(np.sum(_unpacked(query.margins)[:64] < FIRM_MARGIN))
        return small <= most, 2 * small <= most

    def _candidates(self, query: PlainQuery) -> I64:
        """Return the candidates of the article, in the order of the log."""
        alike = self._alike_in_a_word(query)
        alike = alike[self._may_match(query, alike)]
        numbers = self._numbers(query, alike)
        found, table = np.nonzero(numbers)
        in_turn = np.lexsort((-alike[found], numbers[found, table]))
        _, firsts = np.unique(found[in_turn], return_index=True)
        first = found[in_turn][np.sort(firsts)][: query.rules.candidates]
        return np.sort(alike[first])

    def _alike_in_a_word(self, query: PlainQuery) -> I64:
        """Return the logged entries that are not trimmed and pass the sieve in some word."""
        low = int(np.searchsorted(self._entries.positions, log_position(query.low_watermark, 0)))
        logged = np.arange(low, max(self.logged, low))
        some = self._sieved(query, logged).any(axis=0) & self._signed[logged]
        return logged[some]

    def _numbers(self, query: PlainQuery, alike: I64) -> I64:
        """Return the number, from 1, of the look-up that finds each entry in each table; 0 where none does."""
        plan = self._plan(query) if query.rules.directed else _exact_plan(query.rules.distance or 0, self._block_bits)
        number_of = np.argsort(plan)
        ascending = plan[number_of]
        flips = self._tables << self._block_bits | self._blocks[alike] ^ self._blocks[query.article]
        at = np.minimum(np.searchsorted(ascending, flips), len(plan) - 1)
        sieved = np.repeat(self._sieved(query, alike).T, WORD_BLOCKS, axis=1)
        later = self._lengths[self._tables, self._lists[alike]] - self._rank[alike] - 1
        found = sieved & (later < query.rules.bucket_limit) & (ascending[at] == flips)
        return np.where(found, number_of[at] + 1, 0)

    def _word_distances(self, article: int, others: I64) -> I64:
        """Return the distances of the article's fingerprint from others."""
        fingerprints = self._entries.words[0]
        return np.asarray(np.bitwise_count(fingerprints[others] ^ fingerprints[article]), np.int64)

    def _plan(self, query: PlainQuery) -> I64:
        """Return the look-ups of directed search, each ``table << w | mask``."""
        masks, flipped = _masks(self._block_bits)
        words = np.asarray(COSTS, np.int64)[_unpacked(query.margins).reshape(-1, 64)]
        of_tables = [words[table // WORD_BLOCKS][_places(table, self._block_bits)] for table in self._tables.tolist()]
        costs = np.array(of_tables) @ flipped.T
        # All pairs are in the order of tables, then masks: a stable sort by cost is the order of the plan.
        cheapest = np.argsort(costs, axis=None, kind="stable")[: query.rules.probes]
        tables, which = np.divmod(cheapest, len(masks))
        return np.asarray(tables << self._block_bits | masks[which], np.int64)

    def _may_match(self, query: PlainQuery, some: I64) -> Bools:
        """Return which entries have the article's scope hash, are not withdrawn, and inside the window."""
        entries, article, rules = self._entries, query.article, query.rules
        may = entries.scope_hashes[some] == entries.scope_hashes[article]
        may &= entries.withdrawn_at[some] > entries.positions[article]
        if rules.window_ms is not None:
            may &= entries.times[article] - entries.times[some] <= rules.window_ms
        return np.asarray(may, np.bool_)


def _unpacked(margins: U8) -> U8:
    """Return the margin of each bit."""
    return np.stack([margins >> 4, margins & 15], axis=1).reshape(-1)


def _sure_masks(margins: U8) -> U64:
    """Return the sure bits of each word, and the surest of them; shape (2, words, 1)."""
    words = [list(enumerate(word)) for word in _unpacked(margins).reshape(-1, 64).tolist()]
    surest_first = [sorted(word, key=lambda bit: (-bit[1], bit[0])) for word in words]
    masks = [[[sum(1 << (63 - bit) for bit, _ in word[:count])] for word in surest_first] for count in _SURE_COUNTS]
    return np.array(masks, np.uint64)


def _places(table: int, block_bits: int) -> list[int]:
    """Return the bits of its word that a block has, 0 for the highest of the word."""
    return [(table % WORD_BLOCKS * 16 + bit) % 64 for bit in range(block_bits)]


@cache
def _exact_plan(k: int, block_bits: int) -> I64:
    """Return the look-ups of exact search, each ``table << w | mask``."""
    most = {0: k // 2, 2: (k - 1) // 2} if block_bits > NARROW else dict.fromkeys(range(WORD_BLOCKS), k // WORD_BLOCKS)
    masks, _ = _masks(block_bits)
    few_first = masks[np.argsort(np.bitwise_count(masks), kind="stable")]
    plans = [table << block_bits | few_first[np.bitwise_count(few_first) <= bits] for table, bits in most.items()]
    return np.concatenate(plans)
