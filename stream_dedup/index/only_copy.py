"""Tells whether an index is the only copy of its content, which must be known before it is emptied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.core.model import is_only_in_index
from stream_dedup.errors import CorruptError, StreamDedupError
from stream_dedup.index.data_folders import data_folders, holds_data
from stream_dedup.index.folder import ID_FILE
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.small_files import is_file
from stream_dedup.index.state import State
from stream_dedup.index.store import Store


def only_copy_in(path: Path) -> bool:
    """Return whether `filter` or the Python API keeps its articles in this folder, as far as it can be read.

    Changes nothing. A damaged index can usually still be recognised: its state is one value of thousands.
    """
    return any(map(is_only_in_index, _log_ids(path)))


def refuse_unknown(path: Path) -> None:
    """Refuse to replace data of which nothing can be read, unless a worker has used the folder.

    Raises:
        CorruptError: they may be the only copy of their content.
    """
    if is_file(path / ID_FILE) or not path.is_dir() or not any(map(holds_data, data_folders(path))):
        return
    if next(_log_ids(path), None) is None:
        msg = (
            f"index {path}: nothing of its data can be read, not even whose they are; nothing was changed. "
            "Of a worker: move the folder away, and it reads its log again. Of `filter` or `Index`: put the folder "
            "back from a backup; without one it cannot be saved, and another folder begins anew"
        )
        raise CorruptError(msg)


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
