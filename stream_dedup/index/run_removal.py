"""Removing old run files: on a thread, since cutting a piece off a file waits up to 0.2 s where the disk is busy.

The thread is a daemon that lives while files wait. The interpreter does not wait for it: a program may end without
closing the index, or go on with it in other threads after the main thread, or in what runs at the exit. What is left of
the files is removed at the next opening.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from pathlib import Path

from stream_dedup.index.run_files import KeptRun

REMOVED_BYTES = 8 << 20
"""Bytes of an old file that are given back at once: what others write waits while the file system does it."""


class RunRemoval:
    """Removes the files of runs that nobody reads, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Path, KeptRun]] = deque()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def begin(self, path: Path, kept: KeptRun) -> None:
        """Begin to remove a file; its run is unmapped by the thread, too."""
        if sys.is_finalizing():
            return  # a thread that is started now never runs, and its start would be waited for
        with self._lock:
            self._waiting.append((path, kept))
            if self._thread is None:
                self._start()

    def wait(self) -> None:
        """Wait until no file waits."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Remove what waits, at once; what is cut now is not cut further."""
        self._closing.set()
        self.wait()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="run-files", daemon=True)
        # Later releases of Python start no thread at the interpreter's exit.
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while (each := self._next()) is not None:
            self._remove(each[0])
            del each  # unmaps the run

    def _next(self) -> tuple[Path, KeptRun] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    def _remove(self, path: Path) -> None:
        """Remove a file piece by piece."""
        # One that cannot be removed holds up no other: the next opening removes it.
        with contextlib.suppress(OSError):
            facts = path.stat()
            # Where another data folder has the same file, by a hard link, only this name of it goes.
            left = facts.st_size if facts.st_nlink == 1 else 0
            while (left := left - REMOVED_BYTES) > 0 and not self._closing.is_set():
                os.truncate(path, left)
            path.unlink()
