"""The runs of one table, and how they are merged.

The newest entries are one run in memory. Every ``fold_entries`` entries it joins the others, and an empty one begins.
A run is merged into the one before it as soon as it has a ``FANOUT``-th of its entries: so the runs of a table are some
log(entries) many, each several times as long as the next one, and each entry is copied some FANOUT times for each of
them. Merges go on in steps, between appends, so none of them is waited for.

Merging changes where entries lie and never which there are; a run that is merged away is read until the new one is
done. Runs of more than ``FILE_FOLDS * fold_entries`` entries are files; the others are made of the rows again when the
index opens.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stream_dedup.core.arrays import U32, U64
from stream_dedup.core.model import DocNumber
from stream_dedup.errors import UnavailableError
from stream_dedup.index.posting_lists import Blocks, Run
from stream_dedup.index.run_files import KeptRun, RunDraft, RunHeader, map_run
from stream_dedup.index.run_folder import RunFolder
from stream_dedup.index.runs import Merging, RoomInMemory, RunRoom, merged_runs, sorted_run
from stream_dedup.index.settings import FANOUT, FILE_FOLDS

log = logging.getLogger(__name__)


MERGE_AHEAD = 1 << 22
"""Entries of each run that a merge asks for before it reads them, 48 MiB, a quarter of them at once: where files are
larger than memory, a page that is not there is 20 to 140 ms of waiting for a busy disk."""
_PHASES = 16
"""Tables fold one after the other: so many parts of ``fold_entries`` lie between the first and the last of 16."""


@dataclass(slots=True, eq=False)
class Merge:
    """Two neighbouring runs of a chain that become one; ``draft`` is the file that is made, None in memory."""

    older: KeptRun
    newer: KeptRun
    merging: Merging
    draft: RunDraft | None
    _asked: list[int] = field(default_factory=lambda: [0, 0])
    """Entry of each run up to which was asked for."""

    @property
    def left(self) -> int:
        """Entries that are still to be taken."""
        return self.merging.left

    def step(self, most: int) -> None:
        """Go on, so many entries at most."""
        for at, (kept, taken) in enumerate(zip((self.older, self.newer), self.merging.taken, strict=True)):
            if kept.mapped is not None and self._asked[at] < min(taken + MERGE_AHEAD * 3 // 4, len(kept)):
                kept.mapped.read_ahead(self._asked[at], taken + MERGE_AHEAD)
                self._asked[at] = taken + MERGE_AHEAD
        self.merging.step(most)

    def give_up(self) -> None:
        """Leave the two runs as they are."""
        if self.draft is not None:
            self.draft.remove()


class RunChain:
    """The runs of one table, oldest first."""

    def __init__(self, blocks: Blocks, files: RunFolder, fold_entries: int, first: DocNumber) -> None:
        self.blocks = blocks
        self._files = files
        self._fold_entries = fold_entries
        self._phase = blocks.table * fold_entries // _PHASES
        """By how many document numbers it folds earlier: beginning the files of all tables at once takes too long."""
        self._low_watermark = first
        self.kept: list[KeptRun] = []
        self.merges: list[Merge] = []
        self._end = first
        self.newest = _nothing(blocks)
        """Entries in memory from document number ``_end`` on."""

    @property
    def end(self) -> DocNumber:
        """Document number before which every entry is in a kept run."""
        return self._end

    @property
    def runs(self) -> list[Run]:
        """All runs that have entries, oldest first."""
        return [run for run in (*(kept.run for kept in self.kept), self.newest) if len(run)]

    @property
    def paths(self) -> list[Path]:
        """The files in use."""
        return [kept.path for kept in self.kept if kept.path is not None]

    def load(self, after: DocNumber) -> None:
        """After opening: take the files that fit, one after the other from the first entry on."""
        found = self._files.headers(self.blocks, self._low_watermark, after)
        while (kept := self._next(found)) is not None:
            self.kept.append(kept)
            self._end = kept.after

    def _next(self, found: list[tuple[Path, RunHeader]]) -> KeptRun | None:
        """Map the longest file that goes on where the chain ends. The first one may have trimmed entries."""
        while True:
            fitting = [
                (header.after, path, header)
                for path, header in found
                if header.first == self._end or (not self.kept and header.first < self._end)
            ]
            if not fitting:
                return None
            _, path, header = max(fitting, key=lambda each: each[0])
            try:
                return map_run(path, header)
            except (ValueError, OSError) as error:
                log.warning("run file %s: %s; its entries are read from the rows again", path, error)
                found.remove((path, header))

    def append(self, words: U64, doc_numbers: U32, after: DocNumber) -> None:
        """Append entries that follow the last ones; every entry before ``after`` is then in this chain."""
        self.newest = merged_runs(self.newest, sorted_run(self.blocks, words, doc_numbers))
        if self._folds_before(after) > self._folds_before(self._end):
            self.fold(after)

    def fold(self, after: DocNumber) -> None:
        """Let the run in memory, which has every entry up to ``after``, join the others."""
        if len(self.newest):
            self.kept.append(KeptRun(self.newest, self._end, after))
            self.newest = _nothing(self.blocks)
            self._end = after
        self._start_merges()

    def _folds_before(self, doc_number: DocNumber) -> int:
        return (doc_number + self._phase) // self._fold_entries

    def step(self, merge: Merge, most: int) -> None:
        """Go on with a merge; when it is done its runs are replaced."""
        try:
            merge.step(most)
            if merge.merging.done:
                self._finish(merge)
        except UnavailableError as error:
            self.merges.remove(merge)
            merge.give_up()
            self._files.warn_of_failure(self.blocks.table, error)

    def drop_entries_before(self, low_watermark: DocNumber) -> None:
        """Drop entries before a document number; runs are merged with nothing where more than half is gone."""
        self._low_watermark = low_watermark
        if self._end < low_watermark:
            self.newest = merged_runs(self.newest, _nothing(self.blocks), low_watermark)
            self._end = low_watermark
        for kept in list(self.kept):
            if kept.after <= low_watermark and not self._stays(kept):
                self._replace([kept], None)
        self._start_merges()

    def rewrite_trimmed(self) -> None:
        """Start the rewriting of every run that may have trimmed entries."""
        for kept in self.kept:
            if kept.first < self._low_watermark and not self._stays(kept):
                self._start(kept, KeptRun(_nothing(self.blocks), kept.after, kept.after))

    def close(self) -> None:
        """Give up the merges under way."""
        for merge in self.merges:
            merge.give_up()
        self.merges = []

    def _stays(self, kept: KeptRun) -> bool:
        """Whether a run must not be merged or dropped now: it is merged already, or is a file that a reader found."""
        if kept.path is not None and not self._files.writable:
            return True
        return any(kept is merge.older or kept is merge.newer for merge in self.merges)

    def _start_merges(self) -> None:
        """Start every merge whose turn it is, the newest runs first; where no file can be made, the next fold tries."""
        at = len(self.kept) - 1
        started = True
        while at >= 0 and started:
            newer = self.kept[at]
            older = self.kept[at - 1] if at else None
            if self._stays(newer):
                at -= 1
            elif older is not None and not self._stays(older) and len(newer) * FANOUT >= len(older):
                started = self._start(older, newer)
                at -= 2
            else:
                if self._is_mostly_trimmed(newer):
                    started = self._start(newer, KeptRun(_nothing(self.blocks), newer.after, newer.after))
                at -= 1

    def _is_mostly_trimmed(self, kept: KeptRun) -> bool:
        return 2 * (self._low_watermark - kept.first) > kept.after - kept.first

    def _start(self, older: KeptRun, newer: KeptRun) -> bool:
        """Start a merge; returns False where its file cannot be made."""
        draft: RunDraft | None = None

        def make_room(buckets: int, entries: int) -> RunRoom:
            nonlocal draft
            if not self._files.writable or entries <= FILE_FOLDS * self._fold_entries:
                return RoomInMemory(buckets, entries)
            first = DocNumber(max(older.first, self._low_watermark))
            draft = self._files.draft(self.blocks, first, newer.after, buckets, entries)
            return draft

        try:
            merging = Merging(older.run, newer.run, self._low_watermark, make_room)
        except UnavailableError as error:
            self._files.warn_of_failure(self.blocks.table, error)
            return False
        self.merges.append(Merge(older, newer, merging, draft))
        return True

    def _finish(self, merge: Merge) -> None:
        first, after = DocNumber(max(merge.older.first, merge.merging.low_watermark)), merge.newer.after
        kept: KeptRun | None = None
        if after <= self._low_watermark:
            merge.give_up()
        elif merge.draft is None:
            kept = KeptRun(merge.merging.merged(), first, after)
        else:
            kept = self._files.finish(merge.draft, self.blocks, first, after)
        self.merges.remove(merge)
        self._replace([merge.older, merge.newer], kept)
        self._start_merges()

    def _replace(self, gone: list[KeptRun], kept: KeptRun | None) -> None:
        """Put a run in the place of others, and remove their files."""
        at = next(at for at, each in enumerate(self.kept) if each is gone[0])
        self.kept = [each for each in self.kept if not any(each is one for one in gone)]
        if kept is not None:
            self.kept.insert(at, kept)
        for each in gone:
            self._files.remove(each, gone[-1].after)


def _nothing(blocks: Blocks) -> Run:
    return sorted_run(blocks, np.empty(0, np.uint64), np.empty(0, np.uint32))
