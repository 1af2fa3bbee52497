"""Temporary folders that belong to one process.

``tempfile.TemporaryDirectory`` also removes its folder at the end of a forked child, under its parent's feet.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType


class TemporaryFolder:
    """A folder that goes with ``remove``, or at the end of the process that made it; a forked child leaves it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="stream-dedup-"))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder; nothing the second time, nor in a forked child."""
        self._finalizer()


def _remove(path: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)
