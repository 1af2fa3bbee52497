"""A program that ends while an index is open, and its runs are stored, merged and warmed.

    python -m tests.index.ending FOLDER WAY

``thread``: another thread goes on with the index after the main thread. ``atexit``: what runs at the exit does, and
closes it. ``leave``: nobody closes it. It prints what was done after the main thread's last line.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Index, api
from stream_dedup.api import open_library
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.index import tables
from stream_dedup.index.log_index import LogIndex
from stream_dedup.index.store import IndexSettings, Store
from tests.index.small import small_runs

BEFORE, AFTER = 4_000, 8_000
PAUSE_S = 0.1
"""How long the disk holds up a chunk that warms the cache: all of them would take minutes."""
FINGERPRINTS = np.random.default_rng(3).integers(0, 1 << 64, AFTER, np.uint64)


def main(folder: str, way: str) -> None:
    """Use an index of small runs, and end."""
    small_runs()
    patch, get, pause = pytest.MonkeyPatch(), Store.get, threading.Event()

    def open_small(path: Path, scheme: Scheme) -> LogIndex:
        return open_library(path, scheme, IndexSettings(fold_entries=64, most_buffer_bytes=64 << 10))

    def get_slowly(store: Store, keys: Sequence[bytes]) -> list[bytes]:
        if threading.current_thread().name == "index-warming":
            pause.wait(PAUSE_S)
        return get(store, keys)

    patch.setattr(api, "open_library", open_small)
    patch.setattr(Store, "get", get_slowly)
    patch.setattr(tables, "FETCH_CHUNKS", 1)
    ways = {"thread": _in_thread, "atexit": _at_exit, "leave": _leave}
    ways[way](folder)


def _in_thread(folder: str) -> None:
    index = _begun(folder)
    threading.Thread(target=_go_on, args=(index, threading.main_thread())).start()


def _at_exit(folder: str) -> None:
    atexit.register(_go_on, _begun(folder), threading.main_thread(), waits=False)


def _leave(folder: str) -> None:
    global _left  # noqa: PLW0603 - it lives until the interpreter lets go of it
    _left = _begun(folder)


_left: Index


def _begun(folder: str) -> Index:
    with Index(folder) as index:
        _add(index, range(BEFORE))
    return Index(folder)


def _add(index: Index, numbers: range) -> None:
    for number in numbers:
        index.add(str(number), FINGERPRINTS[number])


def _go_on(index: Index, main_thread: threading.Thread, *, waits: bool = True) -> None:
    if waits:
        main_thread.join()
    _add(index, range(BEFORE, AFTER))
    index.close()
    print("went on, closed", flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
