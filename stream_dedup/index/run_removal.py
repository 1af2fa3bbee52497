"""Removing old run files: on a thread, since each step waits up to 0.2 s where the disk is busy.

1. The file gets the end ``.old``: what is left of it after a crash is not taken for a run.
2. It is cut off piece by piece, and removed.

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

OLD = ".old"
REMOVED_BYTES = 8 << 20
"""Bytes of an old file that are given back at once: what others write waits while the file system does it."""


class RunRemoval:
    """Removes the files of runs that nobody reads, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._naming = threading.Lock()
        """Held from the choice of a file to its new name. Beginning a removal does not wait for it."""
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

    def clear_name(self, path: Path) -> None:
        """Rename a file now if it waits, so that another one can have its name."""
        with self._naming:
            with self._lock:
                found = next((each for each in self._waiting if each[0] == path), None)
            if found is None:
                return
            old = _renamed(path)
            with self._lock:
                at = self._waiting.index(found)
                del self._waiting[at]
                if old is not None:
                    self._waiting.insert(at, (old, found[1]))

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
        while True:
            with self._naming:
                each = self._next()
                old = None if each is None else _renamed(each[0])
            if each is None:
                return
            if old is not None:
                self._remove(old)
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


def _renamed(path: Path) -> Path | None:
    """Give a file its end; None where it cannot be renamed. It then takes space and does no other harm."""
    if path.suffix:
        return path
    old = path.with_name(f"{path.name}{OLD}")
    try:
        path.replace(old)
    except OSError:
        return None  # the next opening takes the longer run
    return old
