"""Saves what can be read of an index that is the only copy of its content: of ``filter`` or of ``stream_dedup.Index``.

Its log records are in the index alone. They are read one by one and make a new index, which has the articles that could
be read, in their order. The order makes a crash between any two steps harmless:

    1  a new data folder is filled from the log records of the damaged one, and verified
    2  the damaged one is also given the name ``kept-N/data-M``, by hard links
    3  the new data become current, and the old name goes, by the steps of ``folder``

Before 3 the index is as it was, and the next call begins anew; one that fails in 1 leaves nothing.

The articles of ``Index`` get new source offsets: where the numbers of two records overlap, both hold articles. Records
of ``filter`` are applied as they are, and so count what they repeat as copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from stream_dedup.core.entry import Batch, LogRecord, Payload, decode, encode
from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.model import LIBRARY_LOG_PREFIX, LogOffset
from stream_dedup.core.progress import ReportProgress
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index.data_folders import data_folders, holds_data
from stream_dedup.index.folder import CORRUPT, CURRENT, data_of, refuse_format
from stream_dedup.index.history import History
from stream_dedup.index.kept import copy_text, kept_folder
from stream_dedup.index.layout import Head, offset_key
from stream_dedup.index.library import append_articles, read_id
from stream_dedup.index.log_index import LOG_KIND, LogIndex
from stream_dedup.index.owner import Owner
from stream_dedup.index.records import StoredRecords
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.small_files import is_file, writing
from stream_dedup.index.state import State
from stream_dedup.index.store import Store


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
        UserError: another process has it open, or several data folders may be the one.
        CorruptError: its state or its rules cannot be read, so nothing is known of its records.
        UnavailableError: the disk is full or failing.
    """
    refuse_format(path, LOG_KIND)
    if dry_run:
        with _shared(path), closing(_Records(_data(path), progress)) as records:
            articles = sum(len(record.payload) for record in records.read() if isinstance(record.payload, Batch))
            return Saved(articles, records.articles, records.lost, None)
    with LogIndex.open(path, scheme=None, staged=True, emptied=True) as index:
        data = _data(path)
        with closing(_Records(data, progress)) as records:
            # 1
            index.begin(records.log_id)
            for record in records.read():
                _apply(index, record, anew=records.log_id.startswith(LIBRARY_LOG_PREFIX))
            problems = index.verify()
            if problems:
                msg = f"index {path}: what was saved is not intact ({problems[0]}); nothing was changed"
                raise CorruptError(msg)
            index.flush()
            # 2
            with writing(path):
                kept = _linked(path, data)
            # 3
            index.commit()
            return Saved(index.stats().articles, records.articles, records.lost, kept)


class _Records:
    """The log records of a data folder, damaged or not, that can be read."""

    def __init__(self, data: Path, progress: ReportProgress) -> None:
        self._store = Store(data, IndexSettings(), create=False, on_corrupt=lambda _: None, read_only=True)
        self._progress = progress
        self.lost: list[LogOffset] = []
        try:
            self._state = State.read(self._store)
            self._rules: dict[int, Payload] = {mark.offset: mark.rules for mark in History(self._store).marks}
            self._last = StoredRecords(self._store).last_offset()
        except CorruptError as error:
            self.close()
            msg = (
                f"index {data.parent} cannot be saved, its state or its rules cannot be read; nothing was changed: put "
                "the folder back from a backup; without one, begin anew with another folder"
            )
            raise CorruptError(msg) from error
        except BaseException:
            self.close()
            raise

    @property
    def log_id(self) -> str:
        """The id of the log."""
        return self._state.log_id or ""

    @property
    def articles(self) -> int:
        """Articles that the state counts."""
        return self._state.articles

    def close(self) -> None:
        """Close the data."""
        self._store.close()

    def read(self) -> Iterator[LogRecord]:
        """Yield what can be read, in order of the log."""
        # There may be records that the state does not count: damage, too.
        first, end = self._state.low_watermark, max(self._state.next_offset, self._last + 1)
        for offset in map(LogOffset, range(first, end)):
            try:
                record = self._record(offset)
            except CorruptError:
                record = None
            if record is None:
                self.lost.append(offset)
            else:
                yield record
            self._progress(offset + 1 - first, end - first)

    def _record(self, offset: LogOffset) -> LogRecord | None:
        if offset in self._rules:
            rules = self._rules[offset]
            return LogRecord(offset, 0, rules, encode(rules))
        raw, head = self._store.get([offset_key(b"E", offset), offset_key(b"R", offset)])
        if not raw or not head:
            return None
        try:
            payload = decode(raw)
        except UnicodeDecodeError:
            return None
        times = Head.decode(head).times
        fits = isinstance(payload, Batch) and (isinstance(times, int) or len(times) == len(payload))
        return LogRecord(offset, times, payload, raw) if fits else None


def _apply(index: LogIndex, record: LogRecord, *, anew: bool) -> None:
    batch = record.payload
    if not (anew and isinstance(batch, Batch)):
        index.apply([record])
        return
    made = Fingerprints(batch.signatures, batch.margins, batch.statuses, batch.sketches)
    append_articles(index, made, batch.groups, [read_id(batch.id(row)) for row in range(len(batch))])


@contextmanager
def _shared(path: Path) -> Iterator[None]:
    owner = Owner.read(path)
    try:
        yield
    finally:
        owner.release()


def _data(path: Path) -> Path:
    """Return the data folder: the one that ``current`` names, or the only one."""
    found = [each for each in data_folders(path) if holds_data(each)]
    found = [each for each in found if each.name == data_of(path)] or found
    if len(found) != 1:
        msg = f"index {path} has {len(found)} data folders, of which one can be saved: move the others away"
        raise UserError(msg)
    return found[0]


def _linked(path: Path, data: Path) -> Path:
    kept = kept_folder(path)
    for name in (CURRENT, CORRUPT):
        copy_text(path / name, kept / name)
    copy = kept / data.name
    copy.mkdir()
    for each in data.iterdir():
        if is_file(each):
            os.link(each, copy / each.name)
    return kept
