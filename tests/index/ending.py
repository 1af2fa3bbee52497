"""A program that ends while an index is open, and files of runs wait to be removed.

    python -m tests.index.ending FOLDER WAY

``thread``: another thread goes on with the index after the main thread. ``atexit``: what runs at the exit does, and
closes it. ``leave``: nobody closes it. It prints what was done after the main thread's last line.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Index, api
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.index.library import open_library
from stream_dedup.index.log_index import LogIndex
from stream_dedup.index.settings import IndexSettings
from tests.index.run_cases import set_small_runs

BEFORE, AFTER = 4_000, 8_000
PAUSES_S = {"thread": 0.002, "atexit": 0.002, "leave": 600}
"""How long the disk holds up a piece that is cut off a file."""
FINGERPRINTS = np.random.default_rng(3).integers(0, 1 << 64, AFTER, np.uint64)


def main(folder: str, way: str) -> None:
    """Use an index of small runs, and end."""
    set_small_runs()
    patch, truncate, pause = pytest.MonkeyPatch(), os.truncate, threading.Event()

    def open_small(path: Path, scheme: Scheme) -> LogIndex:
        return open_library(path, scheme, IndexSettings(fold_entries=64, flush_entries=256))

    def cut_slowly(path: Path, length: int) -> None:
        pause.wait(PAUSES_S[way])
        truncate(path, length)

    patch.setattr(api, "open_library", open_small)
    patch.setattr(os, "truncate", cut_slowly)
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
    index = Index(folder)
    _add(index, range(BEFORE))
    index.flush()
    return index


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
