"""The block tables: table t maps the value of block t to the posting list of the entries that have it.

A posting list is, wherever its entries are held:

    list = shard in the image, or sealed pieces and tail on disk + older entries in memory + young ones

in order of document number, and each entry once. A look-up compares the newest N entries of this union as
of the log position of the query (``scan``). Entries in memory are merged into the stored lists a shard (a sixteenth of
one table) at a time: each shard knows before which document number its entries are stored, so the parts never overlap.

The owner of these tables writes rows before it appends their entries here; after a restart entries that are not stored
in every shard are read from the rows again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import BLOCKS_PER_WORD, DocNumber
from stream_dedup.core.probes import KEY_FACTORS
from stream_dedup.core.probes import blocks as blocks_of
from stream_dedup.core.progress import ReportProgress
from stream_dedup.index.image import Image, starts_of
from stream_dedup.index.layout import BLOCKS, SHARD_BLOCKS, RowArray
from stream_dedup.index.posting_lists import NO_LISTS, Level, PostingLists, Source
from stream_dedup.index.query import BEST, Near, Query
from stream_dedup.index.row_column import HeldRows, RowColumn
from stream_dedup.index.runs import Memory
from stream_dedup.index.scan import scan
from stream_dedup.index.settings import RANGES, YOUNG_ENTRIES, IndexSettings
from stream_dedup.index.store import Store
from stream_dedup.index.stored_lists import Reach, StoredLists


@dataclass(slots=True)
class Counters:
    """Counts since the start."""

    lookups: int = 0
    lists: int = 0
    candidates: int = 0
    folds: int = 0
    shards_read: int = 0
    """Shards that look-ups read from disk."""


class Tables:
    """Block tables over a store. Document numbers are added in rising order."""

    def __init__(self, store: Store, rows: RowColumn, count: int, settings: IndexSettings) -> None:
        self.count = count
        self.rows = rows
        self.stored = StoredLists(store, count)
        self.memory = Memory(count)
        self.image = Image(rows, count, settings.image_mib)
        self.counters = Counters()
        self._merge_entries = max(settings.fold_entries, 1)
        self._young_limit = min(YOUNG_ENTRIES, self._merge_entries)
        self._next_shard = 0
        self._owed = 0.0

    @property
    def shards(self) -> int:
        """Shards of all tables."""
        return self.count * RANGES

    @property
    def low_watermark(self) -> DocNumber:
        """Document number of the first entry that is not trimmed."""
        return self.rows.first

    def load(self, progress: ReportProgress | None = None) -> None:
        """After opening: read the entries that are not stored into memory, and fill the image."""
        for first, rows in self.rows.scan(self.stored.complete_to):
            self.memory.add_entries(keys_of(rows), _doc_numbers(first, rows))
            self.memory.merge_young()
        older = self.memory.older
        for table in range(self.count):
            run = older[table]
            older[table] = run.not_before(self.stored.stored_before(table)[run.blocks])
        self.memory.older_end = self.rows.after
        self._load_image(progress)

    def append_entries(self, rows: RowArray) -> None:
        """Append entries whose rows were just written, and merge some shards when their turn has come."""
        first = self.rows.after
        self.rows.rows_written(rows)
        self.memory.add_entries(keys_of(rows), _doc_numbers(first, rows))
        if self.memory.young_count > self._young_limit:
            self.memory.merge_young()
        self._owed += len(rows) * self.shards / self._merge_entries
        steps = min(int(self._owed), self.shards)
        if steps:
            self._owed = 0.0 if steps == self.shards else self._owed - steps
            for _ in range(steps):
                self._merge_next()
        self.image.shrink()

    def merge_all(self) -> None:
        """Merge all entries in memory into the stored lists."""
        self.memory.merge_young()
        for _ in range(self.shards):
            self._merge_next()

    def drop_entries_before(self, low_watermark: DocNumber) -> None:
        """Drop entries before a document number; ``purge`` deletes them from disk."""
        self.rows.drop_rows_before(low_watermark)
        self.memory.drop_entries_before(low_watermark)

    def purge(self, shard: int) -> None:
        """Delete the trimmed entries of one shard from disk."""
        self.stored.purge(shard, self.low_watermark)
        self.image.drop_entries_before(shard, self.low_watermark)

    def near(self, query: Query) -> Near:
        """Return the near entries of every article of a query."""
        stored = self._stored(query)
        young = self.memory.young()
        lists = PostingLists(
            [
                [self.image.level(table), stored[table], self.memory.older[table].level, young[table].level]
                for table in range(self.count)
            ]
        )
        held = self.rows.held
        near = scan(query, lists, self.rows.fetch if held is None else held.rows)
        self.counters.lookups += len(query)
        self.counters.lists += near.lists
        self.counters.candidates += near.candidates
        return near

    def all_near(self, query: Query) -> Near:
        """Return every near entry of each article, however many there are."""
        near = self.near(query)
        while np.bincount(near.queries, minlength=1).max() == query.best:
            query = replace(query, best=query.best * BEST)
            near = self.near(query)
        return near

    def _stored(self, query: Query) -> list[Level]:
        """Read the lists of the query that are not in the image."""
        if self.image.shards == self.shards:
            return [NO_LISTS] * self.count
        absent = [
            state.stored_before > 0 and not self.image.holds(shard) for shard, state in enumerate(self.stored.shards)
        ]
        if not any(absent):
            return [NO_LISTS] * self.count
        wanted = _wanted(query, self.count)
        wanted &= np.repeat(np.array(absent).reshape(self.count, RANGES), SHARD_BLOCKS, axis=1)
        reach = Reach(query.bucket_limit, *query.past)
        return [self._stored_in(table, np.flatnonzero(wanted[table]), reach) for table in range(self.count)]

    def _stored_in(self, table: int, blocks: I64, reach: Reach) -> Level:
        if not len(blocks):
            return NO_LISTS
        stored = self.stored.read(table, blocks, reach)
        counts = np.zeros(BLOCKS, np.int64)
        counts[blocks] = stored.counts
        starts = starts_of(counts)
        sources = []
        for part in np.unique(blocks // SHARD_BLOCKS).tolist():
            first = part * SHARD_BLOCKS
            sources.append(Source(first, starts[first : first + SHARD_BLOCKS + 1], stored.keys, stored.doc_numbers))
        self.counters.shards_read += len(sources)
        return Level(tuple(sources))

    def _merge_next(self) -> None:
        shard = self._next_shard
        self._next_shard = (shard + 1) % self.shards
        table, part = divmod(shard, RANGES)
        run = self.memory.older[table]
        rows = run.part(part * SHARD_BLOCKS, (part + 1) * SHARD_BLOCKS)
        merged = run.take(rows)
        self.stored.append(shard, merged, self.memory.older_end)
        if len(merged):
            self.memory.older[table] = run.without(rows)
        if self.image.holds(shard):
            self.image.merge(shard, merged)
        else:
            self.image.hold_shard(shard, lambda: self.source(shard), spare=2)
        self.counters.folds += 1

    def source(self, shard: int) -> Source:
        """Read a whole stored shard."""
        stored = self.stored.read_shard(shard)
        return Source(shard % RANGES * SHARD_BLOCKS, starts_of(stored.counts), stored.keys, stored.doc_numbers)

    def _load_image(self, progress: ReportProgress | None) -> None:
        """Load rows, then shards; progress counts a step for each shard, and as many in all for the rows."""
        whole = 2 * self.shards
        if self.image.has_room_for_rows():
            held = HeldRows(self.rows.first, self.rows.kind)
            for first, rows in self.rows.scan(self.rows.first):
                held.set_rows(first, rows)
                if progress is not None:
                    done = first + len(rows) - self.rows.first
                    progress(self.shards * done // (self.rows.after - self.rows.first), whole)
            self.rows.held = held
        for shard in range(self.shards):
            if not self.image.hold_shard(shard, lambda shard=shard: self.source(shard)):  # type: ignore[misc]
                break
            if progress is not None:
                progress(self.shards + shard + 1, whole)
        if progress is not None:
            progress(whole, whole)


def keys_of(rows: RowArray) -> U64:
    """Return the keys of rows, shape (n, 4)."""
    keys: U64 = rows["signature"] ^ (rows["group"][:, np.newaxis] * KEY_FACTORS)
    return keys


def _doc_numbers(first: DocNumber, rows: RowArray) -> U32:
    return np.arange(first, first + len(rows)).astype(np.uint32)


def _wanted(query: Query, tables: int) -> NDArray[np.bool_]:
    """Return which posting lists are looked up, shape (tables, blocks)."""
    wanted = np.zeros((tables, BLOCKS), bool)
    own = np.concatenate([blocks_of(query.keys[:, word]) for word in range(tables // BLOCKS_PER_WORD)], axis=1)
    number = (query.plan >> np.uint32(16)).astype(np.intp)
    masks = query.plan.astype(np.uint16)
    queries = np.arange(len(query))[:, np.newaxis]
    wanted[np.broadcast_to(number, (len(query), number.shape[1])), own[queries, number] ^ masks] = True
    return wanted
