"""Making runs: sorting new entries, and merging two runs in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from stream_dedup.core.arrays import I64, U32, U64
from stream_dedup.core.model import DocNumber
from stream_dedup.index.posting_lists import Blocks, Run, load_run_kernel


class RunArrays(NamedTuple):
    """Arrays of a run, or parts of them: ``Run`` says what they hold."""

    starts: U32
    keys: U64
    doc_numbers: U32


class RunRoom(Protocol):
    """Where a merged run is written."""

    arrays: RunArrays
    """What the next step writes into."""

    def take(self, cursor: I64) -> None:
        """Take what the steps so far have written; the cursor's first entry and start are then moved on."""


MakeRoom = Callable[[int, int], RunRoom]
"""Makes room for so many buckets and entries."""


class RoomInMemory:
    """Room for a whole run in memory."""

    def __init__(self, buckets: int, entries: int) -> None:
        starts = np.zeros(buckets + 1, np.uint32)
        self.arrays = RunArrays(starts, np.empty(entries, np.uint64), np.empty(entries, np.uint32))

    def take(self, cursor: I64) -> None:
        """Do nothing: what is written stays where it is."""


def blocks_in(blocks: Blocks, words: U64) -> I64:
    """Return the block of each key word."""
    numbers = np.empty(len(words), np.int64)
    load_run_kernel().number_blocks(np.ascontiguousarray(words), blocks.rotation, blocks.bits, numbers)
    return numbers


def sorted_run(blocks: Blocks, words: U64, doc_numbers: U32) -> Run:
    """Sort entries that come in order of document number; ``words`` are the key words that have their blocks."""
    kernel, entries = load_run_kernel(), len(words)
    bits = blocks.directory_bits(entries)
    starts = np.empty((1 << bits) + 1, np.uint32)
    run = RunArrays(starts, np.empty(entries, np.uint64), np.empty(entries, np.uint32))
    room = (np.empty((2, entries), np.uint32), np.empty((1 << kernel.DIGIT_BITS) + 1, np.uint32))
    given = (np.ascontiguousarray(words), np.ascontiguousarray(doc_numbers))
    kernel.sort_entries(given, blocks.rotation, blocks.bits, blocks.bits - bits, tuple(run), room)
    return Run(blocks, *run)


def merged_runs(older: Run, newer: Run, low_watermark: DocNumber = DocNumber(0)) -> Run:
    """Merge two runs at once, in memory."""
    if not len(older) and not low_watermark:
        return newer
    merging = Merging(older, newer, low_watermark, RoomInMemory)
    merging.step(merging.left)
    return merging.merged()


class Merging:
    """Two runs of a table that become one, in steps. Document numbers of the newer one are all greater."""

    def __init__(self, older: Run, newer: Run, low_watermark: DocNumber, make_room: MakeRoom) -> None:
        self.older, self.newer = older, newer
        self.low_watermark = low_watermark
        self.blocks = older.blocks
        self._kernel = load_run_kernel()
        self._bits = self.blocks.directory_bits(len(older) + len(newer))
        self.room = make_room(1 << self._bits, len(older) + len(newer))
        self.room.arrays.starts[0] = 0
        self._cursor: I64 = np.zeros(self._kernel.CURSOR_FIELDS, np.int64)
        self.done = False

    @property
    def left(self) -> int:
        """Entries that are still to be taken, with what closing buckets costs; 1 at least."""
        closing = (1 << self._bits) - int(self._cursor[self._kernel.CLOSED])
        return len(self.older) + len(self.newer) - sum(self.taken) + closing // int(self._kernel.STARTS_OF_A_STEP) + 1

    def step(self, most: int) -> None:
        """Take so many more entries, at most."""
        until = self.left - most
        while not self.done and self.left > until:
            self._fill_room(self.left - until)
            self.room.take(self._cursor)

    def merged(self) -> Run:
        """Return the new run, when it is done; of a room in memory."""
        starts, keys, doc_numbers = self.room.arrays
        written = int(self._cursor[self._kernel.WRITTEN])
        return Run(self.blocks, starts, keys[:written], doc_numbers[:written])

    @property
    def taken(self) -> tuple[int, int]:
        """Entries taken of the older and of the newer run."""
        return int(self._cursor[self._kernel.OLDER_AT]), int(self._cursor[self._kernel.NEWER_AT])

    def _fill_room(self, most: int) -> None:
        older, newer = (self.older.keys, self.older.doc_numbers), (self.newer.keys, self.newer.doc_numbers)
        blocks = self.blocks
        self.done = self._kernel.merge_some(
            older,
            newer,
            tuple(self.room.arrays),
            self._cursor,
            self.low_watermark,
            blocks.rotation,
            blocks.bits,
            blocks.bits - self._bits,
            most,
        )
