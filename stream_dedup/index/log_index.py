"""The index of one log: a cache that can be deleted and built again from the log.

Records are applied in log order, each in one atomic write: the record, its rows and source ranges, its changes of the
rules and trims, and the applied position. Batches of new articles that are applied together and follow each other share
one write. Their keys then join the entries in memory, which are merged into the stored
posting lists in steps. If the process is killed RocksDB keeps a prefix of these writes: every record up to the applied
position is there, and entries that were not merged are read into memory again.

One thread at a time uses an index (``calls`` sees to that for the Python API); one process owns its folder.

After any error that leaves a write in doubt, and after a panic of the native core, the index refuses every call: close
it and open it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, Trim
from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    MAX_ROWS,
    ROW_BITS,
    DocNumber,
    Judgement,
    LogOffset,
    LogPosition,
    SourceOffset,
    log_offset_of,
    log_position,
    row_of,
)
from stream_dedup.core.rules import Rules
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index.applying import Applied
from stream_dedup.index.data_folders import remove_data
from stream_dedup.index.folder import Folder
from stream_dedup.index.judge import CheckedArticle, Judge
from stream_dedup.index.layout import RowArray
from stream_dedup.index.open_data import open_data
from stream_dedup.index.query import Articles, Near, query_of
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.stats import IndexStats, stats_of
from stream_dedup.index.tables import Counters
from stream_dedup.index.verify import verify

LOG_KIND = "log"

UNLOGGED = -1
"""In place of a log position: the source offset is not in the log."""
FORGOTTEN = -2
"""In place of a log position: the source offset was logged once, and a trim has forgotten where."""


class LogIndex:
    """Block tables, log records and source ranges of one log. Use ``open``."""

    def __init__(self, folder: Folder, applied: Applied, staged: Path | None) -> None:
        self._folder = folder
        self._applied = applied
        self._staged = staged
        self._judge = Judge(applied)
        self._closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        scheme: Scheme | None,
        settings: IndexSettings | None = None,
        staged: bool = False,
        emptied: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LogIndex:
        """Open an index, or make one.

        With ``staged`` it works on a copy that ``commit`` makes current. With ``emptied`` a new index replaces the one
        in the folder, damaged or not. ``progress(done, whole)`` is called now and then while the newest rows are read.

        Raises:
            UserError: another process owns it, it holds another scheme, or the folder holds other files and no index.
            CorruptError: it is damaged or of an unknown format.
            UnavailableError: the disk is full or failing.
        """
        folder = Folder.write(path, LOG_KIND, emptied=emptied)
        return cls._in(folder, scheme, settings or IndexSettings(), staged=staged, progress=progress)

    @classmethod
    def read(cls, path: Path, *, scheme: Scheme | None, settings: IndexSettings | None = None) -> LogIndex:
        """Open an existing index to read it: nothing in its folder is made or changed.

        Other processes may read it at the same time. ``begin``, ``apply`` and ``merge_all`` must not be called.

        Raises:
            UserError: there is none, a process that writes owns it, or it holds another scheme.
            CorruptError: it is damaged or of an unknown format.
        """
        return cls._in(Folder.read(path, LOG_KIND), scheme, settings or IndexSettings())

    @classmethod
    def _in(
        cls,
        folder: Folder,
        scheme: Scheme | None,
        settings: IndexSettings,
        *,
        staged: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LogIndex:
        """Open the index in an open folder, which is released if this raises."""
        try:
            data, store = open_data(folder, settings, staged=staged)
        except BaseException:
            folder.release()
            raise
        try:
            applied = Applied(store, settings, scheme, progress, folder.refuse_replaced)
            return cls(folder, applied, data if staged else None)
        except BaseException:
            store.close()
            folder.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def log_id(self) -> str | None:
        """The log that this index belongs to; None before ``begin``."""
        return self._applied.state.log_id

    @property
    def next_offset(self) -> LogOffset:
        """Log offset after the last record applied."""
        return self._applied.state.next_offset

    @property
    def last_checksum(self) -> int | None:
        """XXH3 of the value of the last record applied; None before the first."""
        return self._applied.state.last_checksum

    @property
    def rules(self) -> Rules | None:
        """The rules in force after the last record applied."""
        return self._applied.history.current

    def rules_at(self, position: LogPosition) -> Rules:
        """Return the rules in force at a log position; RefusedError where it is before the log's first rules."""
        return self._rules_at_offset(log_offset_of(position))

    def begin(self, log_id: str) -> None:
        """Bind a new, empty index to a log; RefusedError where it belongs to one."""
        if self.log_id is not None:
            msg = f"index {self._folder.path} belongs to log {self.log_id}: rebuild it for another one"
            raise RefusedError(msg)
        self._applied.begin(log_id)

    def apply(self, records: Sequence[LogRecord]) -> None:
        """Apply records in log order. Each is applied whole, or it is not and this raises: a prefix of them is then.

        Not durable on return: see ``flush``.
        """
        self._applied.apply(records)

    def logged_positions(self, topic_id: bytes, partition: int, offsets: I64) -> I64:
        """Return the log position of each source offset; UNLOGGED where it is not covered, or FORGOTTEN.

        Raises:
            RefusedError: an offset is covered by a logged batch that has no entry for it.
        """
        before = self.forgotten_before(topic_id, partition)
        positions = np.full(len(offsets), UNLOGGED, np.int64)
        if not len(offsets):
            return positions
        if before:
            positions[offsets < before] = FORGOTTEN
        for segment in self._applied.coverage.overlapping(
            (topic_id, partition), SourceOffset(int(offsets.min())), SourceOffset(int(offsets.max()))
        ):
            inside = np.flatnonzero((offsets >= segment.first) & (offsets <= segment.last))
            if len(inside):
                logged = self._applied.rows.get(segment.log_offset).batch.offsets
                rows = np.searchsorted(logged, offsets[inside])
                _refuse_gaps(topic_id, partition, offsets[inside], logged, rows)
                positions[inside] = rows + log_position(segment.log_offset, 0)
        return positions

    def partitions(self) -> dict[tuple[bytes, int], SourceOffset]:
        """Source partitions that were logged, with the last offset of each that is covered or forgotten."""
        return self._applied.coverage.partitions

    def forgotten_before(self, topic_id: bytes, partition: int) -> SourceOffset:
        """Return the offset of a source partition below which everything is forgotten, 0 of none. Any thread."""
        return self._applied.coverage.forgotten.get((topic_id, partition), SourceOffset(0))

    def entry(self, position: LogPosition) -> tuple[LogRecord, int]:
        """Return the record and the row of an entry; RefusedError where it is not held."""
        return self._applied.rows.get(log_offset_of(position)).record, row_of(position)

    def id_of(self, position: LogPosition) -> str:
        """Return the article id of an entry that a search found; CorruptError where the log has none there."""
        return self._judge.listed(position).batch.id(row_of(position))

    def withdrawn_at(self, position: LogPosition) -> LogOffset | None:
        """Return the log offset of the withdrawal of an entry, None where it matches; raises as ``entry``."""
        record = self._applied.rows.get(log_offset_of(position))
        if not record.numbered[row_of(position)]:
            return None
        return self._applied.withdrawn.offset_of(DocNumber(int(record.doc_numbers[row_of(position)])))

    def entries(self, positions: I64) -> list[tuple[LogRecord, int]]:
        """Return the record and the row of each entry; entries of one record that follow each other read it once."""
        return [self.entry(position) for position in positions.tolist()]

    def logged(self, positions: I64) -> tuple[U64, U64]:
        """Return the checksums of the values and fingerprints of entries, as they were logged."""
        checksums, fingerprints = np.empty(len(positions), np.uint64), np.empty(len(positions), np.uint64)
        offsets = positions >> ROW_BITS
        for offset in np.unique(offsets).tolist():
            row, chosen = self._applied.rows.get(offset), offsets == offset
            within = positions[chosen] & (MAX_ROWS - 1)
            checksums[chosen], fingerprints[chosen] = row.batch.checksums[within], row.fingerprints[within]
        return checksums, fingerprints

    def judge(self, positions: I64) -> list[Judgement]:
        """Return the verdicts of logged originals, each as of its own log position."""
        return self._judge.judge(positions, self._rules_at_offset)

    def check(self, columns: Columns, time_ms: int, most: int = 1) -> list[CheckedArticle]:
        """Return the verdict that each article would have if it were logged next, at this log time.

        Changes nothing; raises as ``Judge.check``.
        """
        return self._judge.check(columns, time_ms, self.rules, most)

    @property
    def next_doc_number(self) -> DocNumber:
        """Document number of the next entry with a signature; without trims, the number of those applied."""
        return self._applied.state.next_doc_number

    def near(self, fingerprints: Fingerprints, groups: U64, rules: Rules) -> Near:
        """Return every near entry of texts with features, as of the end of the log; nothing expires."""
        before = np.full(len(groups), self.next_doc_number, np.int64)
        times = np.zeros(len(groups), np.int64)
        signatures, margins, statuses, sketches = fingerprints
        articles = Articles(statuses, groups, signatures, margins, sketches, before, times)
        tables, withdrawn = self._applied.tables, self._applied.withdrawn.entries
        with self._applied.naming_defects(lambda _: f"searching the index {self._folder.path}"):
            return tables.all_near(query_of(articles, rules, tables.low_watermark, withdrawn))

    def rows(self, doc_numbers: I64) -> RowArray:
        """Return the rows of these document numbers."""
        with self._applied.naming_defects(lambda _: f"reading rows of the index {self._folder.path}"):
            return self._applied.tables.rows_of(doc_numbers)

    def restated_trim(self, owed_time: int) -> Trim | None:
        """Return the trim that removes most, if no article owed or to come has a log time below ``owed_time`` (ms)."""
        return self._applied.trims.offered(owed_time)

    def owed_time(self, committed: Mapping[tuple[bytes, int], SourceOffset], latest: int) -> int:
        """Return the least log time, ms, of articles that are owed or to come.

        Those to come have a log time of ``latest`` or more. ``committed`` has the
        committed offset of each source partition that can still be read, 0 of none.
        """
        return self._applied.trims.owed_time(committed, latest)

    def merge_all(self) -> None:
        """Merge all runs of posting lists that are to be merged; not needed for safety."""
        self._applied.merge_all()

    def flush(self) -> None:
        """Make everything applied durable."""
        self._applied.in_doubt(self._applied.store.flush)

    def finish_trim(self) -> None:
        """Delete all trimmed entries from disk now, instead of with the next records; waits until it is done."""
        self._applied.remove_trimmed()
        self._applied.store.compact(wait=True)

    def commit(self) -> None:
        """Make a staged index current, atomically and durably. It stays open and is no longer staged."""
        self.flush()
        staged, self._staged = self._staged, None
        if staged is not None:
            # From now on `current` may name it, whatever ends this call, so `close` must not remove it.
            self._folder.make_current(staged)

    def close(self) -> None:
        """Make everything applied durable and close. A staged index that was not committed is removed.

        After an error that left a write in doubt, an error while closing is not raised: it has the same cause. In a
        forked child, and the second time, this does nothing.

        Raises:
            RefusedError: the folder was removed, moved or replaced. What was not durable is lost; the rest is where the
                folder is.
        """
        if self._closed or not self._folder.here:
            return
        self._closed = True
        if self._folder.is_replaced:
            # Closing would write and remove files by their names.
            self._applied.store.abandon()
            try:
                self._folder.refuse_replaced()
            finally:
                self._folder.release()
        try:
            self._applied.close()
        except StreamDedupError:
            if self._applied.doubt is None:
                raise
        finally:
            if self._staged is not None:
                # The next opening removes what cannot be removed now.
                with contextlib.suppress(OSError):
                    remove_data(self._staged)
            self._folder.release()

    def stats(self) -> IndexStats:
        """Return the figures of the index."""
        return stats_of(self._applied)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> list[str]:
        """Read the whole index and return the problems found; ``progress(done, whole)`` is called now and then."""
        with self._applied.naming_defects(lambda _: f"verifying the index {self._folder.path}"):
            return verify(self._applied, progress)

    @property
    def counters(self) -> Counters:
        """Look-ups, lists and candidates so far: for metrics."""
        return self._applied.tables.counters

    @property
    def low_watermark(self) -> LogOffset:
        """Log offset before which everything is trimmed."""
        return self._applied.state.low_watermark

    @property
    def newest_time(self) -> int | None:
        """Greatest log time of a batch, ms; None before the first."""
        return self._applied.state.newest

    @property
    def batches_since_rules(self) -> bool:
        """Whether batches follow the last rules record, so that restating the rules makes a new point to trim at."""
        return (
            bool(self._applied.history.marks) and self._applied.state.newest != self._applied.history.marks[-1].before
        )

    def owed_since(self, topic_id: bytes, partition: int, offset: SourceOffset) -> int | None:
        """Return the least log time, ms, of a source partition's covered offsets from ``offset`` on, None of none."""
        return self._applied.trims.owed_since((topic_id, partition), offset)

    @property
    def here(self) -> bool:
        """Whether this process opened the index; False in a child that was forked since."""
        return self._folder.here

    def refuse_stopped(self) -> None:
        """Raise RefusedError where an error stopped the index, or where this process is a fork of its owner."""
        if not self.here:
            msg = f"index {self._folder.path} was opened by a parent process: a forked child cannot use it"
            raise RefusedError(msg)
        self._applied.refuse_doubt()

    def mark_corrupt(self, reason: str) -> None:
        """Mark the folder as damaged: the next opening raises this reason."""
        self._folder.mark_corrupt(reason)

    def _rules_at_offset(self, log_offset: LogOffset) -> Rules:
        rules = self._applied.history.at(log_offset)
        if rules is None:
            msg = f"no rules are in force at log offset {log_offset}: it is before the log's first rules, or trimmed"
            raise RefusedError(msg)
        return rules


def _refuse_gaps(topic_id: bytes, partition: int, offsets: I64, logged: I64, rows: I64) -> None:
    known = np.minimum(rows, len(logged) - 1)
    missing = offsets[logged[known] != offsets]
    if len(missing):
        msg = (
            f"offset {int(missing[0])} of partition {partition} of topic {topic_id.hex()} lies in a logged batch "
            "that has no entry for it: the source had no readable record there when it was logged, and has one now; "
            "its records were replaced, so begin with a new group"
        )
        raise RefusedError(msg)
