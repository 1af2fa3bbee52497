"""Tells whether an index is the only copy of its content, which must be known before it is emptied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.core.model import is_only_in_index
from stream_dedup.errors import StreamDedupError
from stream_dedup.index.data_folders import data_folders, holds_data
from stream_dedup.index.folder import TABLES_KIND, kind_of
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.state import State
from stream_dedup.index.store import Store


def only_copy_in(path: Path) -> bool:
    """Return whether `filter` or the Python API keeps its articles in this folder, as far as it can be read.

    Changes nothing. A damaged index can usually still be recognised: its state is one value of thousands.
    """
    return kind_of(path) == TABLES_KIND or any(map(is_only_in_index, _log_ids(path)))


def _log_ids(path: Path) -> Iterator[str]:
    if not path.is_dir():
        return
    for data in data_folders(path):
        if holds_data(data):
            # Data that cannot be read do not count.
            with contextlib.suppress(StreamDedupError, OSError):
                yield _log_id(data) or ""


def _log_id(data: Path) -> str | None:
    store = Store(data, IndexSettings(), create=False, on_corrupt=lambda _: None, read_only=True)
    try:
        return State.read(store).log_id
    finally:
        store.close()
