"""Opening the RocksDB folder of an index: the current one, a copy of it, or a new one."""

from __future__ import annotations

from pathlib import Path

from stream_dedup.index.data_folders import take_copy
from stream_dedup.index.folder import Folder
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.state import State
from stream_dedup.index.store import Store


def open_data(folder: Folder, settings: IndexSettings, *, staged: bool) -> tuple[Path, Store]:
    """Open the current data folder, or with ``staged`` a copy of it; make an empty one where there is none."""
    current = folder.current
    if current is not None and not staged:
        read_only = not folder.writable
        return current, Store(current, settings, create=False, on_corrupt=folder.mark_corrupt, read_only=read_only)
    data = folder.make_data()
    if current is not None:
        _copy(current, data, settings, folder)
        return data, Store(data, settings, create=False, on_corrupt=folder.mark_corrupt)
    store = Store(data, settings, create=True, on_corrupt=folder.mark_corrupt)
    try:
        batch = store.batch()
        State().write(batch)
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
    kept = Store(current, settings, create=False, on_corrupt=folder.mark_corrupt)
    copy = data / "copy"
    try:
        kept.checkpoint(copy)
    finally:
        kept.close()
    take_copy(copy)
