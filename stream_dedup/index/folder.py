"""The index folder: who owns it, which data are current, and what is left over.

    INDEX/
      owner      locked while a process has the index open; holds that process's id
      current    JSON: format version, kind (``log`` or ``tables``), name of the current data folder
      data-N/    RocksDB
      corrupt    present after damage was found: why

``current`` is replaced by an atomic rename, so a staged index becomes current at
once or not at all. Every ``data-*`` that ``current`` does not name is left over from a killed process and
is removed at the next opening.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

from stream_dedup.errors import CorruptError, UnavailableError, UserError
from stream_dedup.index.layout import FORMAT_VERSION

_REBUILD = "delete the folder or run `stream-dedup index rebuild`"
_OTHER_FORMAT = (
    "open it with the release that wrote it. An index kept by `filter` is the only place of what it holds; "
    f"a worker's is a cache of its log: {_REBUILD}"
)


class Folder:
    """An index folder owned by this process until ``release``."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._kind = kind
        self._owner = _own(path)
        try:
            self._refuse_corrupt()
            self._current = self._read_current()
            self._remove_leftovers()
        except BaseException:
            self.release()
            raise

    @property
    def current(self) -> Path | None:
        """The current data folder; None in a new index."""
        return None if self._current is None else self.path / self._current

    def next_data(self) -> Path:
        """Path of a data folder that does not exist yet."""
        number = int(self._current.removeprefix("data-")) + 1 if self._current else 1
        return self.path / f"data-{number}"

    def make_current(self, data: Path) -> None:
        """Let ``current`` name this data folder, atomically and durably; then remove the one before."""
        text = json.dumps({"format": FORMAT_VERSION, "kind": self._kind, "data": data.name})
        # 1. The new pointer is whole on disk before it gets its name.
        draft = self.path / "current.new"
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # 2. The name changes at once.
        draft.replace(self.path / "current")
        _sync_folder(self.path)
        # 3. What was current is left over.
        self._current = data.name
        self._remove_leftovers()

    def mark_corrupt(self, reason: str) -> None:
        """Leave a mark; the next opening refuses with this reason."""
        mark_corrupt(self.path, reason)

    def release(self) -> None:
        """Let another process own the folder."""
        os.close(self._owner)

    def _refuse_corrupt(self) -> None:
        mark = self.path / "corrupt"
        if mark.exists():
            msg = f"index {self.path} is damaged ({mark.read_text().strip()}): {_REBUILD}"
            raise CorruptError(msg)

    def _read_current(self) -> str | None:
        pointer = self.path / "current"
        if not pointer.exists():
            return None
        try:
            content = json.loads(pointer.read_text())
            version, kind, data = content["format"], content["kind"], str(content["data"])
        except (ValueError, TypeError, KeyError) as error:
            msg = f"index {self.path}: its file `current` cannot be read ({error}): {_REBUILD}"
            raise CorruptError(msg) from error
        if version != FORMAT_VERSION:
            msg = (
                f"index {self.path} has format version {version}, this program knows {FORMAT_VERSION}: {_OTHER_FORMAT}"
            )
            raise CorruptError(msg)
        if kind != self._kind:
            msg = f"index {self.path} is of kind {kind!r}, not {self._kind!r}: name another folder"
            raise UserError(msg)
        if not (self.path / data).is_dir():
            msg = f"index {self.path}: its data folder {data} is missing: {_REBUILD}"
            raise CorruptError(msg)
        return data

    def _remove_leftovers(self) -> None:
        for data in self.path.glob("data-*"):
            if data.name != self._current:
                shutil.rmtree(data)


def mark_corrupt(path: Path, reason: str = "damage was found") -> None:
    """Leave a mark in an index folder; the next opening refuses with this reason."""
    (path / "corrupt").write_text(reason + "\n")


def destroy(path: Path) -> None:
    """Remove the index in a folder, damaged or not, unless another process owns it; other files stay."""
    if not path.exists():
        return
    owner = _own(path)
    try:
        (path / "current").unlink(missing_ok=True)
        (path / "current.new").unlink(missing_ok=True)
        for data in path.glob("data-*"):
            shutil.rmtree(data)
        (path / "corrupt").unlink(missing_ok=True)
    finally:
        os.close(owner)


def _own(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True)
        owner = os.open(path / "owner", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        msg = f"index folder {path} cannot be made or written: {error}; name another with --index"
        raise UserError(msg) from error
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.read(owner, 20).decode("ascii", "replace").strip()
        os.close(owner)
        msg = f"index {path} is in use by process {pid or '?'}: stop that process or name another folder"
        raise UserError(msg) from error
    except OSError as error:
        os.close(owner)
        msg = f"index {path} cannot be locked: {error}; put it on a local file system"
        raise UnavailableError(msg) from error
    os.ftruncate(owner, 0)
    os.pwrite(owner, f"{os.getpid()}\n".encode(), 0)
    return owner


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
