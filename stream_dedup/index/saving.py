"""Tells whether an index is the only copy of its content, and saves what can be read of one that is.

That is an index of ``filter`` or of ``stream_dedup.Index``: its log records are in the index alone. They are read one
by one and make a new index, which has the articles that could be read, in their order. The order makes a crash between
any two steps harmless:

    1  a new data folder is filled from the log records of the damaged one, and verified
    2  the damaged one is also given the name ``kept-N/data-M``, by hard links
    3  the new data become current, and the old name goes, by the steps of ``folder``

Before 3 the index is as it was, and the next call begins anew; one that fails in 1 leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stream_dedup.core.entry import Batch, LogRecord, encode
from stream_dedup.core.model import LogOffset, ReportProgress, is_only_in_index
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UserError
from stream_dedup.folders import Owner, is_file, writing
from stream_dedup.index.applying import read_state
from stream_dedup.index.folder import ID_FILE, data_folders, data_to_keep, holds_data, kept_folder, refuse_format
from stream_dedup.index.log_index import LogIndex
from stream_dedup.index.records import StoredRecords
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.store import Store
from stream_dedup.index.trims import History


def only_copy_in(path: Path) -> bool:
    """Return whether `filter` or the Python API keeps its articles in this folder, as far as it can be read.

    Changes nothing. A damaged index can usually still be recognised: its state is one value of thousands.
    """
    return any(map(is_only_in_index, _log_ids(path)))


def is_unknown(path: Path) -> bool:
    """Return whether nobody can tell whose the data of a folder are: nothing is readable, and no worker has used it."""
    if is_file(path / ID_FILE) or not path.is_dir() or not any(map(holds_data, data_folders(path))):
        return False
    return next(_log_ids(path), None) is None


def refuse_unknown(path: Path) -> None:
    """Refuse to replace such data.

    Raises:
        UserError: they are of another format.
        CorruptError: they may be the only copy of their content.
    """
    refuse_format(path)
    if is_unknown(path):
        msg = (
            f"index {path}: nothing of its data can be read, not even whose they are; nothing was changed. "
            "Of a worker: move the folder away, and it reads its log again. Of `filter` or `Index`: put the folder "
            "back from a backup; without one it cannot be saved, and another folder begins anew"
        )
        raise CorruptError(msg)


def _log_ids(path: Path) -> Iterator[str]:
    for data in filter(holds_data, data_folders(path) if path.is_dir() else ()):
        # Data that cannot be read do not count.
        with contextlib.suppress(StreamDedupError, OSError):
            with contextlib.closing(_store(data)) as store:
                log_id = read_state(store).log_id or ""
            yield log_id


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
    if dry_run:
        with contextlib.ExitStack() as stack:
            stack.callback(Owner.read(path).release)
            records = stack.enter_context(contextlib.closing(_Records(_data(path), progress)))
            articles = sum(len(record.payload) for record in records.read() if isinstance(record.payload, Batch))
            return Saved(articles, records.state.articles, records.lost, None)
    with LogIndex.open(path, scheme=None, staged=True, emptied=True) as index:
        data = _data(path)
        with contextlib.closing(_Records(data, progress)) as records:
            # 1
            index.begin(records.state.log_id or "")
            for record in records.read():
                index.apply([record])
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
            return Saved(index.stats().articles, records.state.articles, records.lost, kept)


class _Records:
    """The log records of a data folder, damaged or not, that can be read."""

    def __init__(self, data: Path, progress: ReportProgress) -> None:
        self._progress = progress
        self.lost: list[LogOffset] = []
        store = _store(data)
        self.close = store.close
        with contextlib.ExitStack() as undo:
            undo.callback(store.close)
            self._rows = StoredRecords(store)
            try:
                self.state = read_state(store)
                self._rules = {mark.offset: mark.rules for mark in History(store).marks}
                self._last = self._rows.last_offset()
            except CorruptError as error:
                msg = (
                    f"index {data.parent} cannot be saved, its state or its rules cannot be read; nothing was changed: "
                    "put the folder back from a backup; without one, begin anew with another folder"
                )
                raise CorruptError(msg) from error
            undo.pop_all()

    def read(self) -> Iterator[LogRecord]:
        """Yield what can be read, in order of the log."""
        # There may be records that the state does not count: damage, too.
        first, end = self.state.low_watermark, max(self.state.next_offset, self._last + 1)
        for offset in map(LogOffset, range(first, end)):
            try:
                rules = self._rules.get(offset)
                record = LogRecord(offset, 0, rules, encode(rules)) if rules else self._rows.get(offset).record
            except (CorruptError, RefusedError):
                self.lost.append(offset)
            else:
                yield record
            self._progress(offset + 1 - first, end - first)


def _store(data: Path) -> Store:
    return Store(data, IndexSettings(), create=False, on_corrupt=lambda _: None, read_only=True)


def _data(path: Path) -> Path:
    """Return the data folder: the one that ``current`` names, or the only one."""
    found = data_to_keep(path)
    if len(found) != 1:
        msg = f"index {path} has {len(found)} data folders, of which one can be saved: move the others away"
        raise UserError(msg)
    return found[0]


def _linked(path: Path, data: Path) -> Path:
    kept = kept_folder(path)
    copy = kept / data.name
    copy.mkdir()
    for each in data.iterdir():
        if is_file(each):
            os.link(each, copy / each.name)
    return kept
