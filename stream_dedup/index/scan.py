"""Looking up: the near entries of a batch of articles in the lists of the block tables.

Owns what a look-up means wherever the lists are held, and the choice between two implementations that
give the same answer: ``scan_compiled`` (by numba, where that is installed) and ``scan_numpy``.

Entries are known here by their **ordinal**: standing signed entries numbered in order of place. A list is what
one table holds of one block value, in rising order of ordinal. Its parts lie in **levels**, oldest first;
within a level each block has at most one **source**, an array that holds the lists of a range of blocks.

What counts for a query, in this order:

1. Of each list of its plan the entries from before its own place, of all levels together, the newest
   ``bucket_limit`` of them. Nothing else is ever compared.
2. An entry that is not trimmed (``floor``), whose group is the query's, which has not expired, and has the article id
   asked for, if one is.
3. Exact search: the fingerprints are within ``reach`` bits, and that is the distance. Directed search: the key words of
   the table are within ``SIEVE_BITS`` (a sieve, before the row is fetched), and the signatures within ``reach``.

Of these each query gets its ``best`` nearest, among equals the earliest, each entry once.

Scratch memory is bounded whatever the lists hold: a flood of equal entries costs time, up to the bucket limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import compiled, probes
from stream_dedup.core.probes import BLOCK_BITS, KEY_FACTORS

U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_COMPILED, _NUMPY = "stream_dedup.index.scan_compiled", "stream_dedup.index.scan_numpy"
"""The implementations; imported late, for both import the types of this file."""

LISTS = 1 << BLOCK_BITS
"""Lists of one table."""
PART_LISTS = 4096
"""A source holds one or more whole parts of this many lists: sixteen of them are a table."""
PARTS = LISTS // PART_LISTS

ROW_WORDS = 8
"""Words of a row: one cache line, 64 bytes."""
ROW_GROUP, ROW_ID, ROW_PLACE, ROW_TIME = 4, 5, 6, 7
"""Words of a row after the four of the signature."""

NEVER = -(1 << 62)
"""Log time before every other: nothing has expired."""
BEST = 8
"""Near entries kept of each query: the first is nearly always the match."""
FETCH_ROWS = 1 << 14
"""Rows fetched at once where they are not held in memory: 1 MiB."""

DISTANCE_SHIFT = 32
"""Near entries are ranked by ``distance << 32 | ordinal``: nearest, then earliest."""
ORDINAL = (1 << DISTANCE_SHIFT) - 1
"""The ordinal in a rank."""
NO_RANK = (1 << 63) - 1
"""Stands where nothing was found: behind every rank."""


@dataclass(frozen=True, eq=False)
class Source:
    """The lists of blocks ``first`` to ``first + len(starts) - 2`` of one table, one after the other.

    ``starts`` uint32[blocks + 1]: the list of block ``first + i`` stands at ``starts[i]:starts[i + 1]``. ``keys``
    uint64[m]: the word of the entry's key to which the table belongs. ``ordinals`` uint32[m], rising in each list.
    ``first`` and the number of blocks are multiples of ``PART_LISTS``. The arrays must not change afterwards.

    Raises:
        ValueError: arrays of another type, or that do not fit together.
    """

    first: int
    starts: U32
    keys: U64
    ordinals: U32

    def __post_init__(self) -> None:
        if self.first % PART_LISTS or self.blocks % PART_LISTS or not 0 <= self.first <= LISTS - self.blocks:
            msg = f"source of {self.blocks} blocks from {self.first} on: not whole parts of {PART_LISTS}"
            raise ValueError(msg)
        typed = ((self.starts, np.uint32), (self.keys, np.uint64), (self.ordinals, np.uint32))
        if any(array.dtype != kind or not array.flags.c_contiguous for array, kind in typed):
            msg = "source: starts and ordinals must be uint32, keys uint64, all contiguous"
            raise ValueError(msg)
        if not int(self.starts[-1]) <= len(self.keys) == len(self.ordinals):
            msg = f"source: lists end at {self.starts[-1]}, {len(self.keys)} keys, {len(self.ordinals)} ordinals"
            raise ValueError(msg)

    @property
    def blocks(self) -> int:
        """Lists in this source."""
        return len(self.starts) - 1

    @cached_property
    def addresses(self) -> tuple[int, int, int]:
        """Where block 0's start would stand, the keys, the ordinals; good as long as this source lives."""
        starts, keys, ordinals = (
            array.__array_interface__["data"][0] for array in (self.starts, self.keys, self.ordinals)
        )
        return starts - self.first * self.starts.itemsize, keys, ordinals


@dataclass(frozen=True, eq=False)
class Level:
    """Sources of one table that do not overlap; blocks that none of them covers have no entry in this level.

    Raises:
        ValueError: two sources hold lists of the same block.
    """

    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        covered = [part for source in self.sources for part in _parts(source)]
        if len(set(covered)) < len(covered):
            msg = "level: two sources hold lists of the same block"
            raise ValueError(msg)

    @cached_property
    def directory(self) -> I64:
        """Addresses of the source of each part, shape (PARTS, 3); 0 where there is none."""
        directory = np.zeros((PARTS, 3), np.int64)
        for source in self.sources:
            directory[_parts(source)] = source.addresses
        return directory


@dataclass(frozen=True, eq=False)
class Lists:
    """All lists: of each table its levels, oldest first. Ordinals of a later level are greater, list by list.

    Raises:
        ValueError: tables with different numbers of levels (an empty ``Level`` fills up).
    """

    tables: Sequence[Sequence[Level]]

    def __post_init__(self) -> None:
        if len({len(levels) for levels in self.tables}) > 1:
            msg = f"lists: tables of {[len(levels) for levels in self.tables]} levels, must all have as many"
            raise ValueError(msg)

    @cached_property
    def directory(self) -> I64:
        """Shape (tables, levels, PARTS, 3)."""
        return np.array([[level.directory for level in levels] for levels in self.tables], np.int64).reshape(
            len(self.tables), -1, PARTS, 3
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows held in memory, in chunks of ``2**chunk_bits`` rows each but the last, which may be shorter or longer.

    A row is 8 words of uint64: signature (4, not XORed with the group), group, hash of the article id, place, log time.
    ``base`` is the ordinal of the first row; entries before it must be trimmed, that is below the floor.

    Raises:
        ValueError: a chunk of another type or size.
    """

    chunks: Sequence[U64]
    chunk_bits: int = 62
    base: int = 0

    def __post_init__(self) -> None:
        for chunk in self.chunks:
            if chunk.dtype != np.uint64 or chunk.shape[1:] != (ROW_WORDS,) or not chunk.flags.c_contiguous:
                msg = f"rows: chunks must be contiguous arrays of {ROW_WORDS} words of uint64"
                raise ValueError(msg)
        if any(len(chunk) != 1 << self.chunk_bits for chunk in self.chunks[:-1]):
            msg = f"rows: chunks of {[len(chunk) for chunk in self.chunks]} rows, must have {1 << self.chunk_bits}"
            raise ValueError(msg)

    @classmethod
    def of(cls, rows: U64) -> Rows:
        """All rows in one array."""
        return cls((rows,))

    @property
    def end(self) -> int:
        """First ordinal that has no row."""
        if not self.chunks:
            return self.base
        return self.base + ((len(self.chunks) - 1) << self.chunk_bits) + len(self.chunks[-1])

    @cached_property
    def addresses(self) -> I64:
        """Of the chunks; good as long as these rows live."""
        return np.array([chunk.__array_interface__["data"][0] for chunk in self.chunks], np.int64)

    def take(self, ordinals: I64) -> U64:
        """Rows of these ordinals."""
        if len(self.chunks) == 1:
            return self.chunks[0][ordinals - self.base]
        taken = np.empty((len(ordinals), ROW_WORDS), np.uint64)
        numbers = np.minimum((ordinals - self.base) >> self.chunk_bits, len(self.chunks) - 1)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            taken[here] = self.chunks[number][ordinals[here] - self.base - (number << self.chunk_bits)]
        return taken


Fetch = Callable[[I64], U64]
"""Rows of distinct ordinals in rising order, at most ``FETCH_ROWS`` of them, as an array of shape (n, 8)."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of n queries.

    Attributes:
        keys: shape (n, 4), as ``core.probes.keys`` gives them.
        groups: of each query.
        before: first ordinal that does not exist for the query (as of its place; its own, if it has one).
        plan: look-ups ``table << 16 | mask``, shape (n, probes), or (1, probes) for the same in every query.
        directed: directed search, else exact.
        reach: of each query, greatest distance in bits.
        bucket_limit: newest entries of each list that are compared.
        floor: entries with a lower ordinal are trimmed.
        oldest: log time of each query before which entries have expired; None: nothing expires.
        own_ids: of each query, the hash of the article id that an entry must have; None: any.
        best: near entries given of each query.
    """

    keys: U64
    groups: U64
    before: I64
    plan: U32
    directed: bool
    reach: I64
    bucket_limit: int
    floor: int = 0
    oldest: I64 | None = None
    own_ids: U64 | None = None
    best: int = BEST

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def words(self) -> U64:
        """Words of the queries' signatures, shape (n, 4)."""
        return self.keys ^ (self.groups[:, np.newaxis] * KEY_FACTORS)


class Near(NamedTuple):
    """Near entries by query, then nearest, then earliest; and what was looked at."""

    queries: I64
    ordinals: I64
    distances: U16
    lists: int
    """Lists looked up."""
    candidates: int
    """Entries of these lists that were compared, those that turned out not to count included."""


@dataclass(slots=True)
class Tally:
    """What was looked at so far."""

    lists: int = 0
    candidates: int = 0


@dataclass(slots=True, eq=False)
class Best:
    """Of each query the ``best`` near entries found so far, as ranks, least first."""

    ranks: I64
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def of(cls, asked: Asked) -> Best:
        """None found yet."""
        return cls(np.full((len(asked), asked.best), NO_RANK, np.int64))

    def near(self) -> Near:
        """Everything found."""
        queries, at = np.nonzero(self.ranks != NO_RANK)
        ranks = self.ranks[queries, at]
        ordinals, distances = ranks & ORDINAL, (ranks >> DISTANCE_SHIFT).astype(np.uint16)
        return Near(queries, ordinals, distances, self.tally.lists, self.tally.candidates)


def scan(asked: Asked, lists: Lists, rows: Rows | U64 | Fetch) -> Near:
    """The near entries of each query.

    Args:
        asked: the queries.
        lists: where entries are looked up.
        rows: of every entry; or a function that fetches them in bulk, called as rarely as memory allows.

    Raises:
        ValueError: rows are missing of ordinals that exist for a query.
    """
    if isinstance(rows, np.ndarray):
        rows = Rows.of(rows)
    if isinstance(rows, Rows) and len(asked) and not rows.base <= asked.floor <= int(asked.before.max()) <= rows.end:
        msg = f"rows of {rows.base} to {rows.end}: asked for {asked.floor} to {int(asked.before.max())}"
        raise ValueError(msg)
    chosen = compiled.load(_COMPILED) or import_module(_NUMPY)
    near: Near = chosen.scan(asked, lists, rows)
    return near


def compiled_available() -> bool:
    """Whether the compiled implementation serves. Loads it."""
    return compiled.load(_COMPILED) is not None


def warm() -> None:
    """Compile now, or load what was compiled, so that no article waits for it: seconds the first time."""
    compiled.load(_COMPILED)
    probes.warm()


def _parts(source: Source) -> range:
    return range(source.first // PART_LISTS, (source.first + source.blocks) // PART_LISTS)
