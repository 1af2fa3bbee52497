"""The run files of a data folder: making, finding and removing them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import xxhash

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber
from stream_dedup.errors import CorruptError, UnavailableError
from stream_dedup.index.layout import RowArray
from stream_dedup.index.posting_lists import Blocks
from stream_dedup.index.run_files import (
    FOLDER,
    KeptRun,
    RunDraft,
    RunHeader,
    named_as_runs,
    read_header,
    run_files,
    run_name,
)
from stream_dedup.index.run_removal import RunRemoval
from stream_dedup.index.small_files import writing

log = logging.getLogger(__name__)


class RunFolder:
    """The run files of a data folder. ``rows`` reads the rows of any document numbers."""

    def __init__(self, data: Path, identity: bytes, rows: Callable[[I64], RowArray], *, writable: bool) -> None:
        self.path = data / FOLDER
        self.identity = identity
        self.writable = writable
        self._rows = rows
        self._leaving: list[tuple[DocNumber, KeptRun]] = []
        """Runs that others replace, each with the document number before which rows must be durable."""
        self._removal = RunRemoval()
        self._has_failed = False
        """Whether no file was finished since one could not be made."""

    def draft(self, blocks: Blocks, first: DocNumber, after: DocNumber, buckets: int, room: int) -> RunDraft:
        """Begin a run file.

        Raises:
            UnavailableError: the disk is full.
        """
        path = self.path / f"{run_name(blocks.table, first, after)}.new"
        with writing(self.path):
            self.path.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
        return RunDraft(path, buckets, room)

    def finish(self, draft: RunDraft, blocks: Blocks, first: DocNumber, after: DocNumber) -> KeptRun:
        """Finish a run file; returns the run that is mapped from it.

        Raises:
            UnavailableError: the disk is full.
        """
        # A trim can leave a run the document numbers of one that it was merged from, whose file still waits. The name
        # is then the new file's, which must not be removed in the place of the other.
        path = self.path / run_name(blocks.table, first, after)
        self._begin_removals(lambda _, kept: kept.path == path)
        self._removal.clear_name(path)
        kept = draft.finish(self.identity, blocks, first, after, self._last_row(after))
        self._has_failed = False
        return kept

    def warn_of_failure(self, table: int, error: UnavailableError) -> None:
        """Warn that a file could not be made: more runs are slower and as right. Once, until one is finished again."""
        if not self._has_failed:
            log.warning("table %d: its runs are not merged now, and tried again later: %s", table, error)
        self._has_failed = True

    def remove(self, kept: KeptRun, after: DocNumber) -> None:
        """Remove the file of a run that is not read any more, when the rows before ``after`` are durable.

        Until then a crash could lose the end of the rows, and with it the run that has the entries now.
        """
        if kept.path is not None:
            self._leaving.append((after, kept))

    def remove_durable(self, durable_to: DocNumber) -> None:
        """Begin to remove the files that no crash needs any more, now that these rows are durable."""
        self._begin_removals(lambda after, _: after <= durable_to)

    def close(self, durable_to: DocNumber) -> None:
        """Remove what can be removed, at once; the rest goes at the next opening."""
        self.remove_durable(durable_to)
        self._removal.close()

    def _begin_removals(self, goes: Callable[[DocNumber, KeptRun], bool]) -> None:
        ready = [kept for after, kept in self._leaving if goes(after, kept)]
        if ready:
            self._leaving = [(after, kept) for after, kept in self._leaving if not goes(after, kept)]
        for kept in ready:
            assert kept.path is not None  # noqa: S101 - for the type checker
            self._removal.begin(kept.path, kept)

    def headers(self, table: Blocks, first: DocNumber, after: DocNumber) -> list[tuple[Path, RunHeader]]:
        """Return the run files of a table that can be of these rows; arrays are not read."""
        found = []
        for path in named_as_runs(self.path):
            if path.name.partition("-")[0] == str(table.table) and not path.suffix:
                try:
                    header = read_header(path)
                    self._refuse_misfit(header, table, first, after)
                except (ValueError, OSError, CorruptError) as error:
                    log.warning("run file %s: %s; its entries are read from the rows again", path, error)
                else:
                    if first < header.after <= after:
                        found.append((path, header))
        return found

    def remove_others(self, kept: Collection[Path]) -> None:
        """Remove every run file but these; what cannot be removed takes space and does no other harm."""
        if self.writable:
            for path in set(run_files(self.path)) - set(kept):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _refuse_misfit(self, header: RunHeader, blocks: Blocks, first: DocNumber, after: DocNumber) -> None:
        """Refuse a file of other rows; nothing is known where the row of its last entry is lost or trimmed.

        Raises:
            ValueError: it is of another index, or of other blocks or rows.
        """
        if header.identity != self.identity.hex():
            msg = "it is of another index"
            raise ValueError(msg)
        if header.block_bits != blocks.bits:
            msg = f"its blocks have {header.block_bits} bits, those of the table {blocks.bits}"
            raise ValueError(msg)
        if first < header.after <= after and header.last_row != self._last_row(DocNumber(header.after)):
            msg = "its last entry is another than that of the rows"
            raise ValueError(msg)

    def _last_row(self, after: DocNumber) -> str:
        return xxhash.xxh3_64_hexdigest(self._rows(np.array([after - 1])).tobytes())
