"""The index of one log: a cache that can be deleted and built again from the log.

Records are applied in log order, each whole, in atomic writes (``applying``). If the process is killed RocksDB keeps a
prefix of these writes: every record up to the applied position is there, and the entries that were in memory and in no
stored run are read again from their rows.

One thread at a time uses an index; one process owns its folder.

After any error that leaves a write in doubt, and after a panic of the native core, the index refuses every call: close
it and open it again.

An index of ``filter`` or of ``stream_dedup.Index`` is the only copy of its content: its log records are in the index
alone. ``save`` reads those that can be read, one by one, and makes a new index of them, in their order. The order makes
a crash between any two steps harmless:

    1  a new data folder is filled from the log records of the damaged one, and verified
    2  the damaged one is also given the name ``kept-N/data-M``, by hard links
    3  the new data become current, and the old name goes, by the steps of ``folder``

Before 3 the index is as it was, and the next call begins anew; one that fails in 1 leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from stream_dedup.core.arrays import I64, U64, Bools
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import Batch, LogRecord, encode
from stream_dedup.core.fingerprinter import Fingerprints
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    DocNumber,
    Judgement,
    LogOffset,
    LogPosition,
    ReportProgress,
    SourceOffset,
    Status,
    is_only_in_index,
    log_offset_of,
    log_position,
    row_of,
)
from stream_dedup.core.query import Articles, Near, query_of
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError
from stream_dedup.folders import Owner, is_file, writing
from stream_dedup.index import layout
from stream_dedup.index.applying import Applied, read_state
from stream_dedup.index.folder import (
    Folder,
    data_to_save,
    is_only_copy,
    kept_folder,
    mark_only_copy,
    refuse_format,
    remove_data,
)
from stream_dedup.index.judge import CheckedArticle, Judge
from stream_dedup.index.layout import STATE, RowArray, SourceKey, State
from stream_dedup.index.records import StoredRecords, by_record
from stream_dedup.index.store import IndexSettings, Store
from stream_dedup.index.tables import ENTRY_BYTES, Counters
from stream_dedup.index.trims import History
from stream_dedup.index.verify import verify

UNLOGGED = -1
"""In place of a log position: the source offset is not in the log."""
FORGOTTEN = -2
"""In place of a log position: the source offset was logged once, and a trim has forgotten where."""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Figures of an index at one moment. The names are those of `stream-dedup index stats --json`."""

    log_id: str | None
    next_offset: LogOffset
    articles: int
    trimmed_before: LogOffset
    log_span_ms: int
    """Log time from the oldest entries that are not trimmed to the newest, to 1/16 of the window."""
    numbers_used: float
    partitions: int
    withdrawn: int
    tables: int
    entries_in_memory: int
    runs: int
    list_bytes: int
    memory_bytes: int
    bytes_on_disk: int
    bytes_unwritten: int
    bytes_block_cache: int


class LogIndex:
    """Block tables, log records and source ranges of one log. Use ``open`` or ``read``.

    Attributes:
        state: what was applied; only ``apply`` changes it.
        trims: the trims that may be appended to the log.
    """

    def __init__(self, folder: Folder, applied: Applied, staged: Path | None) -> None:
        self._folder = folder
        self._applied = applied
        self._staged = staged
        self._judge = Judge(applied)
        self._closed = False
        self.state = applied.state
        self.trims = applied.trims

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        scheme: Scheme | None,
        settings: IndexSettings | None = None,
        staged: bool = False,
        emptied: bool = False,
    ) -> LogIndex:
        """Open an index, or make one.

        With ``staged`` it works on a copy that ``commit`` makes current. With ``emptied`` a new index replaces the one
        in the folder, damaged or not.

        Raises:
            UserError: another process owns it, it is of another format or scheme, or the folder holds other files.
            CorruptError: it is damaged.
            UnavailableError: the disk is full or failing.
        """
        return cls._in(Folder.write(path, emptied=emptied), scheme, settings, staged=staged)

    @classmethod
    def read(cls, path: Path, *, scheme: Scheme | None, settings: IndexSettings | None = None) -> LogIndex:
        """Open an existing index to read it: nothing in its folder is made or changed.

        Other processes may read it at the same time. ``begin`` and ``apply`` must not be called.

        Raises:
            UserError: there is none, a process that writes owns it, or it is of another format or scheme.
            CorruptError: it is damaged.
        """
        return cls._in(Folder.read(path), scheme, settings)

    @classmethod
    def _in(
        cls, folder: Folder, scheme: Scheme | None, settings: IndexSettings | None, *, staged: bool = False
    ) -> LogIndex:
        """Open the index in an open folder, which is released if this raises."""
        settings = settings or IndexSettings()
        with contextlib.ExitStack() as undo:
            undo.callback(folder.lock.release)
            data, store = _open_data(folder, settings, staged=staged)
            undo.callback(store.close)
            applied = Applied(store, settings, scheme, folder.lock.refuse_replaced)
            index = cls(folder, applied, data if staged else None)
            undo.pop_all()
            return index

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def log_id(self) -> str | None:
        """The log that this index belongs to; None before ``begin``."""
        return self.state.log_id

    @property
    def next_offset(self) -> LogOffset:
        """Log offset after the last record applied."""
        return self.state.next_offset

    @property
    def low_watermark(self) -> LogOffset:
        """Log offset before which everything is trimmed."""
        return self.state.low_watermark

    @property
    def rules(self) -> Rules | None:
        """The rules in force after the last record applied."""
        return self._applied.history.current

    @property
    def batches_since_rules(self) -> bool:
        """Whether batches follow the last rules record, so that restating the rules makes a new point to trim at."""
        marks = self._applied.history.marks
        return bool(marks) and self.state.newest != marks[-1].before

    @property
    def counters(self) -> Counters:
        """Look-ups, lists and candidates so far: for metrics."""
        return self._applied.tables.counters

    @property
    def here(self) -> bool:
        """Whether this process opened the index; False in a child that was forked since."""
        return self._folder.lock.here

    def begin(self, log_id: str) -> None:
        """Bind a new, empty index to a log; RefusedError where it belongs to one."""
        if self.log_id is not None:
            raise RefusedError(f"index {self._folder.path} belongs to log {self.log_id}: rebuild it for another one")
        if is_only_in_index(log_id):
            with writing(self._folder.path):
                mark_only_copy(self._applied.store.path)
        self._applied.begin(log_id)

    def apply(self, records: Sequence[LogRecord]) -> None:
        """Apply records in log order. Each is applied whole, or it is not and this raises: a prefix of them is then.

        Not durable on return: see ``flush``.
        """
        self._applied.apply(records)

    def partitions(self) -> dict[SourceKey, SourceOffset]:
        """Return the source partitions that were logged, with the last offset of each that is covered or forgotten."""
        return self._applied.coverage.partitions

    def logged_positions(self, topic_id: bytes, partition: int, offsets: I64) -> I64:
        """Return the log position of each source offset; UNLOGGED where it is not covered, or FORGOTTEN.

        Raises:
            RefusedError: an offset is covered by a logged batch that has no entry for it.
        """
        forgotten = self.forgotten_before(topic_id, partition)
        positions = np.where(offsets < forgotten, FORGOTTEN, UNLOGGED)
        if not len(offsets):
            return positions
        first, last = SourceOffset(int(offsets.min())), SourceOffset(int(offsets.max()))
        for segment in self._applied.coverage.overlapping((topic_id, partition), first, last):
            inside = np.flatnonzero((offsets >= segment.first) & (offsets <= segment.last))
            if len(inside):
                logged = self._applied.rows.get(segment.log_offset).batch.offsets
                rows = np.searchsorted(logged, offsets[inside])
                missing = offsets[inside][logged[np.minimum(rows, len(logged) - 1)] != offsets[inside]]
                if len(missing):
                    raise RefusedError(
                        f"offset {missing[0]} of partition {partition} of topic {topic_id.hex()} lies in a logged "
                        "batch that has no entry for it: the source had no readable record there when it was logged, "
                        "and has one now; its records were replaced, so begin with a new group"
                    )
                positions[inside] = rows + log_position(segment.log_offset, 0)
        return positions

    def has_accepted(self, topic_id: bytes) -> bool:
        """Return whether an article of a topic is logged and not rejected; also where a trim has forgotten some."""
        for where, last in self.partitions().items():
            if where[0] != topic_id:
                continue
            segments = self._applied.coverage.overlapping(where, SourceOffset(0), last)
            batches = (self._applied.rows.get(segment.log_offset).batch for segment in segments)
            if self.forgotten_before(*where) or any((one.statuses != Status.REJECTED).any() for one in batches):
                return True
        return False

    def forgotten_before(self, topic_id: bytes, partition: int) -> SourceOffset:
        """Return the offset of a source partition below which everything is forgotten, 0 of none. Any thread."""
        return self._applied.coverage.forgotten.get((topic_id, partition), SourceOffset(0))

    def rules_at(self, log_offset: LogOffset) -> Rules:
        """Return the rules in force at a log offset; RefusedError where it is before the log's first rules."""
        rules = self._applied.history.at(log_offset)
        if rules is None:
            raise RefusedError(
                f"no rules are in force at log offset {log_offset}: it is before the log's first rules, or trimmed"
            )
        return rules

    def entry(self, position: LogPosition) -> tuple[LogRecord, int]:
        """Return the record and the row of an entry; RefusedError where it is not held."""
        return self._applied.rows.get(log_offset_of(position)).record, row_of(position)

    def numbered(self, offset: LogOffset) -> Bools:
        """Return which entries of a log record are signed originals; raises as ``entry``."""
        return self._applied.rows.get(offset).numbered

    def id_of(self, position: LogPosition) -> str:
        """Return the article id of an entry that a search found; CorruptError where the log has none there."""
        record, row = self._judge.entry(position)
        return record.batch.id(row)

    def withdrawn_at(self, position: LogPosition) -> LogOffset | None:
        """Return the log offset of the withdrawal of an entry, None where it matches; raises as ``entry``."""
        record = self._applied.rows.get(log_offset_of(position))
        if not record.numbered[row_of(position)]:
            return None
        return self._applied.withdrawn.offset_of(DocNumber(int(record.doc_numbers[row_of(position)])))

    def logged(self, positions: I64) -> tuple[U64, U64]:
        """Return the checksums of the values and fingerprints of entries, as they were logged."""
        checksums, fingerprints = np.empty(len(positions), np.uint64), np.empty(len(positions), np.uint64)
        for offset, numbers, rows in by_record(positions):
            batch = self._applied.rows.get(offset).batch
            checksums[numbers], fingerprints[numbers] = batch.checksums[rows], batch.fingerprints[rows]
        return checksums, fingerprints

    def judge(self, positions: I64) -> list[Judgement]:
        """Return the verdicts of logged originals, each as of its own log position."""
        return self._judge.judge(positions, self.rules_at)

    def check(self, columns: Columns, time_ms: int, most: int = 1) -> list[CheckedArticle]:
        """Return the verdict that each article would have if it were logged next, at this log time.

        Changes nothing; raises as ``Judge.check``.
        """
        return self._judge.check(columns, time_ms, self.rules, most)

    def near(self, fingerprints: Fingerprints, scope_hashes: U64, rules: Rules) -> Near:
        """Return every near entry of texts with features, as of the end of the log; nothing expires."""
        before = np.full(len(scope_hashes), self.state.next_doc_number, np.int64)
        times = np.zeros(len(scope_hashes), np.int64)
        signatures, margins, statuses, sketches = fingerprints
        articles = Articles(statuses, scope_hashes, signatures, margins, sketches, before, times)
        with self._applied.naming_defects(lambda _: f"searching the index {self._folder.path}"):
            return self._applied.tables.all_near(query_of(articles, rules, self._applied.withdrawn.hidden))

    def rows(self, doc_numbers: I64) -> RowArray:
        """Return the rows of these document numbers."""
        with self._applied.naming_defects(lambda _: f"reading rows of the index {self._folder.path}"):
            return self._applied.tables.rows_of(doc_numbers)

    def flush(self) -> None:
        """Make everything applied durable."""
        self._applied.in_doubt(self._applied.store.flush)

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
        if self._closed or not self._folder.lock.here:
            return
        self._closed = True
        if self._folder.lock.is_replaced:
            # Closing would write and remove files by their names.
            self._applied.store.abandon()
            try:
                self._folder.lock.refuse_replaced()
            finally:
                self._folder.lock.release()
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
            self._folder.lock.release()

    def refuse_stopped(self) -> None:
        """Raise RefusedError where an error stopped the index, or where this process is a fork of its owner."""
        if not self.here:
            raise RefusedError(
                f"index {self._folder.path} was opened by a parent process: a forked child cannot use it"
            )
        self._applied.refuse_doubt()

    def verify(self, progress: ReportProgress | None = None) -> list[str]:
        """Read the whole index and return the problems found; ``progress`` is called now and then."""
        with self._applied.naming_defects(lambda _: f"verifying the index {self._folder.path}"):
            return verify(self._applied, progress)

    def stats(self) -> IndexStats:
        """Return the figures of the index."""
        applied = self._applied
        state, tables, store, runs = self.state, applied.tables, applied.store, applied.tables.runs
        # The first rules record that has entries before it.
        before = next((mark.before for mark in applied.history.marks if mark.before is not None), None)
        return IndexStats(
            log_id=state.log_id,
            next_offset=state.next_offset,
            articles=state.articles,
            trimmed_before=state.low_watermark,
            log_span_ms=0 if state.newest is None or before is None else max(0, state.newest - before),
            numbers_used=state.next_doc_number / layout.MAX_DOC_NUMBERS,
            partitions=len(applied.coverage.partitions),
            withdrawn=state.withdrawn,
            tables=tables.count,
            entries_in_memory=sum(run.entries for run in runs if run.number is None),
            runs=max(sum(run.table == table for run in runs) for table in range(tables.count)),
            list_bytes=sum(ENTRY_BYTES * run.entries for run in runs if run.number is not None),
            memory_bytes=tables.native.memory,
            bytes_on_disk=store.bytes_on_disk,
            bytes_unwritten=store.bytes_unwritten,
            bytes_block_cache=store.bytes_cached,
        )


def _open_data(folder: Folder, settings: IndexSettings, *, staged: bool) -> tuple[Path, Store]:
    """Open the current data folder, or with ``staged`` a copy of it; make an empty one where there is none."""
    current = folder.current
    if current is not None and not staged:
        read_only = not folder.lock.writes
        return current, Store(current, settings, create=False, on_corrupt=folder.mark_corrupt, read_only=read_only)
    data = folder.make_data()
    if current is not None:
        _copy(current, data, settings, folder)
        return data, Store(data, settings, create=False, on_corrupt=folder.mark_corrupt)
    store = Store(data, settings, create=True, on_corrupt=folder.mark_corrupt)
    try:
        batch = store.batch()
        batch.put(STATE, State().encode())
        store.write(batch)
        store.flush()
        if not staged:
            folder.make_current(data)
    except BaseException:
        store.close()
        raise
    return data, store


def _copy(current: Path, data: Path, settings: IndexSettings, folder: Folder) -> None:
    """Copy the current data into an empty data folder, by hard links."""
    copy = data / "copy"
    with contextlib.closing(Store(current, settings, create=False, on_corrupt=folder.mark_corrupt)) as store:
        store.checkpoint(copy)
    for each in copy.iterdir():
        each.rename(data / each.name)
    copy.rmdir()
    if is_only_copy(current):
        mark_only_copy(data)


class Saved(NamedTuple):
    """What was read, or would be, of an index that is the only copy of its content."""

    articles: int
    counted: int
    """Articles that the damaged index counted."""
    lost: list[LogOffset]
    """Log records that could not be read."""
    kept: Path | None
    """Where the data are that were read; None: nothing was changed."""


def save(path: Path, progress: ReportProgress, *, dry_run: bool = False) -> Saved:
    """Make a new index of the log records that can be read; with ``dry_run`` only read them.

    Raises:
        UserError: another process has it open, it is of another format, or several data folders may be the one.
        CorruptError: its state or its rules cannot be read, so nothing is known of its records.
        UnavailableError: the disk is full or failing.
    """
    refuse_format(path)
    lost: list[LogOffset] = []
    if dry_run:
        with contextlib.ExitStack() as stack:
            stack.callback(Owner.read(path).release)
            state, records = stack.enter_context(_readable(data_to_save(path), lost, progress))
            articles = sum(len(record.payload) for record in records if isinstance(record.payload, Batch))
            return Saved(articles, state.articles, lost, None)
    with LogIndex.open(path, scheme=None, staged=True, emptied=True) as index:
        data = data_to_save(path)
        with _readable(data, lost, progress) as (state, records):
            # 1
            index.begin(state.log_id or "")
            for record in records:
                index.apply([record])
            problems = index.verify()
            if problems:
                raise CorruptError(f"index {path}: what was saved is not intact ({problems[0]}); nothing was changed")
            index.flush()
            # 2
            with writing(path):
                kept = _linked(path, data)
            # 3
            index.commit()
            return Saved(index.stats().articles, state.articles, lost, kept)


@contextlib.contextmanager
def _readable(
    data: Path, lost: list[LogOffset], progress: ReportProgress
) -> Iterator[tuple[State, Iterator[LogRecord]]]:
    """Yield the state of damaged data, and what can be read of their log records; the others are added to ``lost``."""
    with contextlib.ExitStack() as stack:
        try:
            store = Store(data, IndexSettings(), create=False, on_corrupt=lambda _: None, read_only=True)
            rows = StoredRecords(stack.enter_context(contextlib.closing(store)))
            state, rules = read_state(store), {mark.offset: mark.rules for mark in History(store).marks}
            # There may be records that the state does not count: damage, too.
            end = max(state.next_offset, rows.last_offset() + 1)
        except CorruptError as error:
            raise CorruptError(
                f"index {data.parent} cannot be saved, its state or its rules cannot be read; nothing was changed: "
                "put the folder back from a backup; without one, begin anew with another folder"
            ) from error

        def records() -> Iterator[LogRecord]:
            first = state.low_watermark
            for offset in map(LogOffset, range(first, end)):
                try:
                    own = rules.get(offset)
                    yield LogRecord(offset, 0, own, encode(own)) if own else rows.get(offset).record
                except (CorruptError, RefusedError):
                    lost.append(offset)
                progress(offset + 1 - first, end - first)

        yield state, records()


def _linked(path: Path, data: Path) -> Path:
    kept = kept_folder(path)
    copy = kept / data.name
    copy.mkdir()
    for each in data.iterdir():
        if is_file(each):
            os.link(each, copy / each.name)
    return kept
