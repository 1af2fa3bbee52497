"""The block tables: table t maps the value of block t to the posting list of the entries that have it.

Wherever its entries lie, a posting list is, in order of document number and each entry once:

    list = its parts in the runs of the table, oldest first (``chains``) + young entries, sorted when they are looked up

A look-up compares the newest N entries of a list as of the log position of the query (``scan``).

RocksDB has what the tables are made of: the rows, which their owner writes before it appends their entries here. Runs
are an image of them: in memory, or in files that are mapped. What a file does not have when the index opens is read
from the rows again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stream_dedup.core.arrays import U32, U64
from stream_dedup.core.model import BLOCKS_PER_WORD, DocNumber
from stream_dedup.core.probes import KEY_FACTORS
from stream_dedup.core.progress import ReportProgress
from stream_dedup.index.chains import Merge, RunChain
from stream_dedup.index.layout import RowArray
from stream_dedup.index.posting_lists import Blocks, PostingLists, Run
from stream_dedup.index.query import BEST, Near, Query
from stream_dedup.index.row_column import HeldRows, RowColumn
from stream_dedup.index.run_folder import RunFolder
from stream_dedup.index.runs import sorted_run
from stream_dedup.index.scan import scan
from stream_dedup.index.settings import MERGE_PACE, RECENT_ENTRIES, STEP_ENTRIES, YOUNG_ENTRIES, IndexSettings
from stream_dedup.index.store import WRITE_BUFFERS

MIB = 1 << 20


@dataclass(slots=True)
class Counters:
    """Counts since the start."""

    lookups: int = 0
    lists: int = 0
    candidates: int = 0
    folds: int = 0
    """Merges of two runs of a table that are done."""


class Tables:
    """Block tables over rows. Document numbers are added in rising order."""

    def __init__(self, rows: RowColumn, files: RunFolder, tables: list[Blocks], settings: IndexSettings) -> None:
        self.rows = rows
        self.counters = Counters()
        self._files = files
        self._budget = settings.image_mib * MIB
        fold_entries = max(settings.fold_entries, 1)
        self.chains = [RunChain(blocks, files, fold_entries, rows.first) for blocks in tables]
        self._young_limit = min(YOUNG_ENTRIES, fold_entries)
        self._young = _Young(tables)
        self._owed = 0
        """Entries appended since merges went on."""
        self._flushed: deque[DocNumber] = deque()
        self._durable_to = rows.after
        """Document number before which the rows are on disk."""

    @property
    def count(self) -> int:
        """Number of tables."""
        return len(self.chains)

    @property
    def low_watermark(self) -> DocNumber:
        """Document number of the first entry that is not trimmed."""
        return self.rows.first

    @property
    def run_bytes(self) -> int:
        """Bytes of all runs, in memory and in files."""
        return sum(run.bytes for chain in self.chains for run in chain.runs)

    @property
    def file_bytes(self) -> int:
        """Bytes of the runs that are files."""
        return sum(kept.run.bytes for chain in self.chains for kept in chain.kept if kept.path is not None)

    @property
    def entries_in_memory(self) -> int:
        """Entries over all tables that are in no file."""
        kept = sum(len(kept) for chain in self.chains for kept in chain.kept if kept.path is None)
        return kept + sum(len(chain.newest) for chain in self.chains) + self.count * len(self._young)

    @property
    def most_runs(self) -> int:
        """Runs of the table that has most."""
        return max(len(chain.runs) for chain in self.chains)

    def load(self, progress: ReportProgress | None = None) -> None:
        """After opening: map the run files that fit, hold the rows, and make runs of what no file has."""
        for chain in self.chains:
            chain.load(self.rows.after)
        self._files.remove_others([path for chain in self.chains for path in chain.paths])
        missing = min(chain.end for chain in self.chains)
        held = HeldRows(self.rows.first, self.rows.kind) if self._has_room_for_rows() else None
        start = missing if held is None else self.rows.first
        for first, rows in self.rows.scan(start):
            if held is not None:
                held.set_rows(first, rows)
            after = DocNumber(first + len(rows))
            if after > missing:
                self._append_missing(first, rows, after)
            if progress is not None:
                progress(after - start, self.rows.after - start)
        self.rows.held = held
        if progress is not None:
            progress(1, 1)

    def append_entries(self, rows: RowArray) -> None:
        """Append entries whose rows were just written, and go on with merges."""
        first = self.rows.after
        self.rows.rows_written(rows)
        if self.rows.held_bytes > self._budget:
            self.rows.held = None
        self._young.add(keys_of(rows), _doc_numbers(first, rows))
        if len(self._young) > self._young_limit:
            self._merge_young()
        self._merge(len(rows))

    def note_flush(self, *, durable: bool) -> None:
        """Note that the rows so far are flushed, with ``durable`` that they are on disk already."""
        self._flushed.append(self.rows.after)
        while len(self._flushed) > (0 if durable else WRITE_BUFFERS):
            self._durable_to = self._flushed.popleft()

    def merge_all(self) -> None:
        """Merge all that is to be merged."""
        self._merge_young()
        for chain in self.chains:
            chain.fold(self.rows.after)
        self._finish_merges()

    def drop_entries_before(self, low_watermark: DocNumber) -> None:
        """Drop entries before a document number. In runs they are hidden until these are merged."""
        self.rows.drop_rows_before(low_watermark)
        self._merge_young()
        for chain in self.chains:
            chain.drop_entries_before(low_watermark)

    def remove_trimmed(self) -> None:
        """Rewrite every run that has trimmed entries."""
        self._finish_merges()
        for chain in self.chains:
            chain.rewrite_trimmed()
        self._finish_merges()

    def close(self) -> None:
        """Give up the merges under way: their entries are merged again later."""
        for chain in self.chains:
            chain.close()
        self._files.close(self._durable_to)

    def near(self, query: Query) -> Near:
        """Return the near entries of every article of a query."""
        young = self._young.runs()
        lists = PostingLists([[*chain.runs, *newest] for chain, newest in zip(self.chains, young, strict=True)])
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

    def runs_of(self, table: int) -> Iterator[Run]:
        """Yield every run of a table, oldest first."""
        yield from self.chains[table].runs
        yield from self._young.runs()[table]

    def _has_room_for_rows(self) -> bool:
        return HeldRows.size(self.rows.first, self.rows.after, self.rows.kind) <= self._budget

    def _append_missing(self, first: DocNumber, rows: RowArray, after: DocNumber) -> None:
        """Append the entries of rows to the tables that have no file with them."""
        keys, doc_numbers = keys_of(rows), _doc_numbers(first, rows)
        for chain in self.chains:
            there = max(chain.end - first, 0)
            if there < len(rows):
                chain.append(np.ascontiguousarray(keys[there:, chain.blocks.word]), doc_numbers[there:], after)
        self._merge(len(rows))

    def _merge_young(self) -> None:
        if len(self._young):
            keys, doc_numbers = self._young.take()
            for chain in self.chains:
                chain.append(np.ascontiguousarray(keys[:, chain.blocks.word]), doc_numbers, self.rows.after)

    def _merge(self, appended: int) -> None:
        """Go on with every merge, at a pace that ends it before its next one is due.

        That is when as many entries were appended as its newer run has; its older one has at most FANOUT times as many.
        """
        self._owed += appended
        if self._owed >= STEP_ENTRIES:
            for chain, merge in self._merges():
                self._step(chain, merge, self._owed * MERGE_PACE)
            self._owed = 0
        self._files.remove_durable(self._durable_to)

    def _finish_merges(self) -> None:
        while merges := self._merges():
            chain, merge = merges[0]
            self._step(chain, merge, merge.left)

    def _step(self, chain: RunChain, merge: Merge, most: int) -> None:
        chain.step(merge, most)
        self.counters.folds += merge.merging.done

    def _merges(self) -> list[tuple[RunChain, Merge]]:
        return [(chain, merge) for chain in self.chains for merge in chain.merges]


class _Young:
    """The newest entries, in the order of the log; sorted when they are looked up.

    The last ``RECENT_ENTRIES`` of them at most are runs of their own, so that not all are sorted after each batch.
    """

    def __init__(self, tables: list[Blocks]) -> None:
        self._tables = tables
        self._parts: list[tuple[U64, U32]] = []
        self._count = 0
        self._older: list[Run] = []
        """A run of each table with the entries of ``_older_parts`` parts; none of no part."""
        self._older_parts = 0
        self._sorted: list[list[Run]] | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, keys: U64, doc_numbers: U32) -> None:
        """Append keys (shape (n, 4)) of the next document numbers."""
        self._parts.append((keys, doc_numbers))
        self._count += len(doc_numbers)
        self._sorted = None

    def runs(self) -> list[list[Run]]:
        """Return the entries as one or two runs of each table, the older one first; none of no entry."""
        if self._sorted is None:
            recent = self._count - (len(self._older[0]) if self._older else 0)
            if recent > RECENT_ENTRIES:
                self._parts, self._older_parts = [self._whole(0)], 1
                self._older, recent = self._runs_from(0), 0
            newer = self._runs_from(self._older_parts) if recent else []
            self._sorted = [list(runs) for runs in zip(*filter(None, (self._older, newer)), strict=True)]
        return self._sorted or [[] for _ in self._tables]

    def take(self) -> tuple[U64, U32]:
        """Return keys and document numbers of all entries, and forget them."""
        whole = self._whole(0)
        self._parts, self._count, self._older, self._older_parts, self._sorted = [], 0, [], 0, None
        return whole

    def _runs_from(self, first: int) -> list[Run]:
        """Sort the entries from a part on."""
        keys, doc_numbers = self._whole(first)
        words = [np.ascontiguousarray(keys[:, word]) for word in range(len(self._tables) // BLOCKS_PER_WORD)]
        return [sorted_run(blocks, words[blocks.word], doc_numbers) for blocks in self._tables]

    def _whole(self, first: int) -> tuple[U64, U32]:
        """Return the entries from a part on."""
        keys, doc_numbers = zip(*self._parts[first:], strict=True)
        return np.concatenate(keys), np.concatenate(doc_numbers)


def keys_of(rows: RowArray) -> U64:
    """Return the keys of rows, shape (n, 4)."""
    keys: U64 = rows["signature"] ^ (rows["group"][:, np.newaxis] * KEY_FACTORS)
    return keys


def _doc_numbers(first: DocNumber, rows: RowArray) -> U32:
    return np.arange(first, first + len(rows)).astype(np.uint32)
