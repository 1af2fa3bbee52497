"""The stored posting lists: reading them, appending to them, and deleting trimmed entries.

A stored list is its sealed pieces in order of number, then its tail in a page (see ``layout``). Appending rewrites
pages only; a tail that grows past CHUNK_ENTRIES is cut into sealed pieces, so a page stays bounded and a flood of equal
entries fills no page of its neighbours. Lists are changed a shard at a time, in one batch with the shard's state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import DocNumber
from stream_dedup.errors import CorruptError
from stream_dedup.index import layout, pages
from stream_dedup.index.layout import (
    BLOCKS,
    ENTRY_BYTES,
    SHARD_BLOCKS,
    SHARD_PAGES,
    Packed,
    Shard,
)
from stream_dedup.index.pages import Pages
from stream_dedup.index.runs import Run
from stream_dedup.index.settings import CHUNK_ENTRIES, PAGE_BLOCKS, RANGES
from stream_dedup.index.store import Store, WriteBatch


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a long list is read: the newest ``limit`` entries before ``least``, none from ``most`` on."""

    limit: int
    least: DocNumber
    most: DocNumber


@dataclass(frozen=True, slots=True, eq=False)
class ReadLists:
    """Posting lists that were read, one after the other."""

    counts: I64
    keys: U64
    doc_numbers: U32


class StoredLists:
    """The stored posting lists of all tables."""

    def __init__(self, store: Store, tables: int) -> None:
        self._store = store
        self.tables = tables
        keys = [layout.shard_key(shard) for shard in range(tables * RANGES)]
        empty = Shard.empty()
        self.shards = [self._shard(raw) if raw else empty for raw in store.get(keys)]

    @property
    def complete_to(self) -> DocNumber:
        """Document number before which every entry is stored in every shard."""
        return min(shard.stored_before for shard in self.shards)

    def stored_before(self, table: int) -> I64:
        """Return for each block of a table the document number before which its entries are stored."""
        shards = self.shards[table * RANGES : (table + 1) * RANGES]
        return np.repeat([shard.stored_before for shard in shards], SHARD_BLOCKS).astype(np.int64)

    def read(self, table: int, blocks: I64, reach: Reach | None = None) -> ReadLists:
        """Read the lists of distinct, rising blocks: whole, or as far back as a look-up reaches."""
        if not len(blocks):
            return ReadLists(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        numbers = blocks // PAGE_BLOCKS
        changes = np.diff(numbers, prepend=-1) > 0
        found = self._pages(table, numbers[changes])
        at = np.cumsum(changes) - 1
        counts, packed = found.counts[at, blocks % PAGE_BLOCKS], found.take(at, blocks % PAGE_BLOCKS)
        sealed = self._sealed(table, blocks)
        if sealed.any():
            counts, packed = self._with_pieces(table, blocks, sealed, counts, packed, reach)
        keys, doc_numbers = layout.unpack_entries(table, packed, np.repeat(blocks.astype(np.uint16), counts))
        return ReadLists(counts, keys, doc_numbers)

    def read_shard(self, shard: int) -> ReadLists:
        """Read every list of a shard, whole."""
        table, part = divmod(shard, RANGES)
        state = self.shards[shard]
        if not state.stored_before:
            return ReadLists(np.zeros(SHARD_BLOCKS, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        if state.after.any():
            return self.read(table, np.arange(part * SHARD_BLOCKS, (part + 1) * SHARD_BLOCKS))
        # Without sealed pieces the pages are the lists.
        _, found = self._shard_pages(shard)
        counts = found.counts.ravel()
        held = np.flatnonzero(counts)
        blocks = np.repeat(held + part * SHARD_BLOCKS, counts[held]).astype(np.uint16)
        return ReadLists(counts, *layout.unpack_entries(table, found.all(), blocks))

    def append(self, shard: int, rows: Run, before: DocNumber) -> None:
        """Append entries to the lists of a shard, which then stores every entry before this document number."""
        state = self.shards[shard]
        if not len(rows) and state.stored_before >= before:
            return
        after = state.after
        batch = self._store.batch()
        if len(rows):
            after = after.copy()
            self._append_rows(batch, shard, rows, after)
        # After a restart memory may be empty: stored entries stay stored.
        appended = Shard(max(state.stored_before, before), state.first, after)
        batch.put(layout.shard_key(shard), appended.encode())
        self._store.write(batch)
        self.shards[shard] = appended

    def purge(self, shard: int, low_watermark: DocNumber) -> None:
        """Delete the entries of a shard before a document number (a sealed piece once all its entries are)."""
        table, part = divmod(shard, RANGES)
        state = self.shards[shard]
        if not state.stored_before:
            return
        first = state.first.copy()
        batch = self._store.batch()
        for index in np.flatnonzero(state.after > state.first).tolist():
            first[index] = self._purge_pieces(batch, table, part * SHARD_BLOCKS + index, low_watermark)
        numbers, found = self._shard_pages(shard)
        packed = found.all()
        live = layout.unpack_doc_numbers(packed) >= low_watermark
        if not live.all():
            lists = np.repeat(np.arange(SHARD_BLOCKS), found.counts.ravel())
            counts = np.bincount(lists[live], minlength=SHARD_BLOCKS)
            self._put_pages(batch, table, numbers, counts, packed.take(np.flatnonzero(live), axis=0))
        purged = Shard(state.stored_before, first, state.after)
        batch.put(layout.shard_key(shard), purged.encode())
        self._store.write(batch)
        self.shards[shard] = purged

    @staticmethod
    def key_ranges() -> list[tuple[bytes, bytes]]:
        """Return the key ranges of the lists, for compaction."""
        return [(b"P", b"P\xff"), (b"C", b"C\xff")]

    def _shard(self, raw: bytes) -> Shard:
        try:
            return Shard.decode(raw)
        except CorruptError as error:
            raise self._store.corrupt(str(error)) from error

    def _pages(self, table: int, numbers: I64) -> Pages:
        try:
            return Pages.decode(self._store.get(layout.page_keys(table, numbers)))
        except CorruptError as error:
            reason = f"table {table}: {error}"
            raise self._store.corrupt(reason) from error

    def _shard_pages(self, shard: int) -> tuple[I64, Pages]:
        table, part = divmod(shard, RANGES)
        numbers = np.arange(part * SHARD_PAGES, (part + 1) * SHARD_PAGES)
        return numbers, self._pages(table, numbers)

    @staticmethod
    def _put_pages(batch: WriteBatch, table: int, numbers: I64, counts: I64, packed: Packed) -> None:
        encoded = pages.encode(counts.reshape(-1, PAGE_BLOCKS), packed)
        for key, raw in zip(layout.page_keys(table, numbers), encoded, strict=True):
            if raw:
                batch.put(key, raw)
            else:
                batch.delete(key)

    def _append_rows(self, batch: WriteBatch, shard: int, rows: Run, after: U32) -> None:
        """Rewrite the pages that get entries; ``after`` is changed where a list gets sealed pieces."""
        table = shard // RANGES
        numbers, at = np.unique(rows.blocks.astype(np.int64) // PAGE_BLOCKS, return_inverse=True)
        found = self._pages(table, numbers)
        old = found.counts.ravel()
        new = np.bincount(at * PAGE_BLOCKS + rows.blocks % PAGE_BLOCKS, minlength=len(old))
        packed = pages.merged(old, found.all(), new, layout.pack_entries(table, rows.keys, rows.doc_numbers))
        counts = old + new
        if counts.max() > CHUNK_ENTRIES:
            blocks = (numbers[:, np.newaxis] * PAGE_BLOCKS + np.arange(PAGE_BLOCKS)).ravel()
            counts, packed = self._seal(batch, table, blocks, counts, packed, after)
        self._put_pages(batch, table, numbers, counts, packed)

    @staticmethod
    def _seal(
        batch: WriteBatch, table: int, blocks: I64, counts: I64, packed: Packed, after: U32
    ) -> tuple[I64, Packed]:
        """Write sealed pieces until every tail has one piece or less; returns the tails."""
        starts = np.cumsum(counts) - counts
        counts = counts.copy()
        keep = np.ones(len(packed), bool)
        for index in np.flatnonzero(counts > CHUNK_ENTRIES).tolist():
            start, block = int(starts[index]), int(blocks[index])
            at = block % SHARD_BLOCKS
            while counts[index] > CHUNK_ENTRIES:
                end = start + CHUNK_ENTRIES
                batch.put(layout.piece_key(table, block, int(after[at])), packed[start:end].tobytes())
                keep[start:end] = False
                after[at] += 1
                counts[index] -= CHUNK_ENTRIES
                start = end
        return counts, packed.take(np.flatnonzero(keep), axis=0)

    def _sealed(self, table: int, blocks: I64) -> I64:
        """Return how many sealed pieces each list has."""
        pieces = np.zeros(len(blocks), np.int64)
        for part in range(RANGES):
            shard = self.shards[table * RANGES + part]
            if shard.after.any():
                here = slice(*np.searchsorted(blocks, (part * SHARD_BLOCKS, (part + 1) * SHARD_BLOCKS)))
                at = blocks[here] - part * SHARD_BLOCKS
                pieces[here] = shard.after[at].astype(np.int64) - shard.first[at]
        return pieces

    def _with_pieces(
        self, table: int, blocks: I64, sealed: I64, counts: I64, tails: Packed, reach: Reach | None
    ) -> tuple[I64, Packed]:
        """Return counts and entries of lists with their sealed pieces before their tails."""
        counts, ends = counts.copy(), np.cumsum(counts)
        parts, done = [], 0
        for index in np.flatnonzero(sealed).tolist():
            end = int(ends[index])
            start = end - int(counts[index])
            pieces = self._pieces_back(table, int(blocks[index]), tails[start:end], reach)
            parts += [tails[done:start], *reversed(pieces)]
            counts[index] += CHUNK_ENTRIES * len(pieces)
            done = start
        return counts, np.concatenate([*parts, tails[done:]])

    def _pieces_back(self, table: int, block: int, tail: Packed, reach: Reach | None) -> list[Packed]:
        """Read the sealed pieces of a list as far back as a look-up reaches, newest first."""
        first, after = self._numbers(table, block)
        if reach is None:
            return self._read_pieces(table, block, first, after)[::-1]
        found: list[Packed] = []
        held = int(np.searchsorted(layout.unpack_doc_numbers(tail), reach.least))
        while held < reach.limit and after > first:
            start = max(first, after - -(-(reach.limit - held) // CHUNK_ENTRIES))
            for piece in reversed(self._read_pieces(table, block, start, after)):
                doc_numbers = layout.unpack_doc_numbers(piece)
                held += int(np.searchsorted(doc_numbers, reach.least))
                if doc_numbers[0] < reach.most:
                    found.append(piece)
            after = start
        return found

    def _read_pieces(self, table: int, block: int, first: int, after: int) -> list[Packed]:
        found = self._store.get([layout.piece_key(table, block, number) for number in range(first, after)])
        for number, raw in enumerate(found, first):
            if len(raw) != CHUNK_ENTRIES * ENTRY_BYTES:
                reason = f"piece {number} of list {table}/{block} has {len(raw)} bytes"
                raise self._store.corrupt(reason)
        return [np.frombuffer(raw, "<u2").reshape(-1, ENTRY_BYTES // 2) for raw in found]

    def _numbers(self, table: int, block: int) -> tuple[int, int]:
        """Return the number of a list's first sealed piece, and the number after its last."""
        shard = self.shards[table * RANGES + block // SHARD_BLOCKS]
        at = block % SHARD_BLOCKS
        return int(shard.first[at]), int(shard.after[at])

    def _purge_pieces(self, batch: WriteBatch, table: int, block: int, low_watermark: DocNumber) -> int:
        number, after = self._numbers(table, block)
        while number < after:
            piece = self._read_pieces(table, block, number, number + 1)[0]
            if layout.unpack_doc_numbers(piece[-1:])[0] >= low_watermark:
                break
            batch.delete(layout.piece_key(table, block, number))
            number += 1
        return number


assert BLOCKS == RANGES * SHARD_BLOCKS  # noqa: S101 - shards cover the tables exactly
assert SHARD_BLOCKS == SHARD_PAGES * PAGE_BLOCKS  # noqa: S101
