"""Who has an index folder open: one process that writes, or any number that only read.

The lock is on the file ``owner``. A writer makes that file and leaves its process id in it; a reader locks the file
that is there and changes nothing. A copied folder may be without it: a reader then locks the folder, and a writer locks
both. It cuts files that a reader has mapped, which would kill the reader.

A lock is on a file, not on a name: where the folder is removed or replaced while it is open, another process can own
what has its name then. RocksDB goes on to make files by their names, so the owner asks before each effect whether the
folder is still its own (``refuse_replaced``).

A forked child closes its copies of the locks: a child that outlives an owner that was killed must not keep the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import weakref
from pathlib import Path

from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.index.small_files import open_file, writing

FILE = "owner"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PID_BYTES = 20
_ELSEWHERE = " of another container or machine"
"""It has the process id of this process."""
_PID = re.compile(rb"[0-9]{0,19}\n?")
"""What this program writes into the file; empty while it was only just made."""


_held: dict[int, list[int]] = {}
"""The handles of each owner of this process; not the owners, which may be let go of."""


class Owner:
    """A lock on an index folder, or on another folder of this program, held until ``release`` or until it is let go."""

    def __init__(self, path: Path, handle: int, kind: str = "index") -> None:
        self._path = path
        self._handles = [handle]
        self._name = f"{kind} {path}"
        self._pid = os.getpid()
        self._release = weakref.finalize(self, _release, self._handles)
        self._release.atexit = False
        _held[id(self._handles)] = self._handles

    @classmethod
    def write(cls, path: Path, kind: str = "index") -> Owner:
        """Own an existing folder alone; ``kind`` is what an error calls it.

        Raises:
            UserError: another process has it open, or the folder cannot be written.
            CorruptError: ``owner`` is not a file that this program wrote; it is left as it is.
            UnavailableError: the file system has no locks, or no space.
        """
        with writing(path):
            handle = open_file(path / FILE, os.O_RDWR | os.O_CREAT)
        owner = cls(path, handle, kind)
        try:
            owner._lock(handle, fcntl.LOCK_EX)
            owner._lock_folder()
            with writing(path):
                owner._put_pid(handle)
        except BaseException:
            owner.release()
            raise
        return owner

    @classmethod
    def read(cls, path: Path) -> Owner:
        """Share an existing folder with others that read.

        Raises:
            UserError: a writer has it open, or ``owner`` cannot be read.
            CorruptError: ``owner`` is no file.
            UnavailableError: the file system has no locks.
        """
        try:
            handle = _open_to_read(path)
        except OSError as error:
            msg = f"index folder {path} cannot be read: {error.strerror}; name another with --index"
            raise UserError(msg) from error
        owner = cls(path, handle)
        try:
            owner._lock(handle, fcntl.LOCK_SH)
        except BaseException:
            owner.release()
            raise
        return owner

    @property
    def here(self) -> bool:
        """Whether this process took the lock; False in a child that was forked since."""
        return os.getpid() == self._pid

    @property
    def is_replaced(self) -> bool:
        """Whether a folder that this process writes to was removed, moved or replaced since."""
        return bool(self._handles) and not _is_of(self._handles[-1], self._path)

    def refuse_replaced(self) -> None:
        """Raise RefusedError where it was."""
        if self.is_replaced:
            msg = (
                f"{self._name} was removed, moved or replaced while this process had it open: nothing more is written "
                "to it; end this process, then open the folder that holds your data"
            )
            raise RefusedError(msg)

    def release(self) -> None:
        """Let others open the folder. In a forked child the parent keeps its lock."""
        self._release()

    def _lock_folder(self) -> None:
        """Lock the folder too, against readers that found no file to lock."""
        with writing(self._path):
            handle = os.open(self._path, _FOLDER)
        self._handles.append(handle)
        self._lock(handle, fcntl.LOCK_EX)

    def _lock(self, handle: int, kind: int) -> None:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._in_use(handle, kind) from error
        except OSError as error:
            msg = f"{self._name} cannot be locked: {error.strerror}; put it on a local file system"
            raise UnavailableError(msg) from error

    def _in_use(self, handle: int, kind: int) -> StreamDedupError:
        if kind == fcntl.LOCK_EX and _is_only_read(handle):
            return UserError(f"{self._name} is in use by a process that reads it: wait for it to end")
        # Not by the process id: in each of two containers it may be 1.
        others = [one for handles in list(_held.values()) if handles is not self._handles for one in handles]
        if any(_is_of(one, self._path) or _is_of(one, self._path / FILE) for one in others):
            return UserError(
                f"{self._name} is open in this process already: share it between the threads, or close it first"
            )
        pid = _pid_in(self._path)
        whose = _ELSEWHERE if pid == str(os.getpid()) else ""
        return UserError(
            f"{self._name} is in use by process {pid if pid.isdigit() else '?'}{whose}: "
            "stop that process or name another folder"
        )

    def _put_pid(self, handle: int) -> None:
        if not _is_pid(handle):
            msg = f"{self._path / FILE} is not a file that this program wrote: move it away, or name another folder"
            raise CorruptError(msg)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _is_of(handle: int, path: Path) -> bool:
    """Whether a handle is of the folder, or of the file, that has this name now."""
    held = os.fstat(handle)
    try:
        there = path.stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _release(handles: list[int]) -> None:
    _held.pop(id(handles), None)
    while handles:
        # Closing is not enough: a child that was forked in another way than by Python has the same lock open.
        fcntl.flock(handles[-1], fcntl.LOCK_UN)
        os.close(handles.pop())


def _let_go_in_child() -> None:
    """Close a forked child's copies of the locks. That leaves the parent its own."""
    while _held:
        _, handles = _held.popitem()
        while handles:
            os.close(handles.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


def _open_to_read(path: Path) -> int:
    """Open what a reader locks."""
    with contextlib.suppress(FileNotFoundError):
        return open_file(path / FILE)
    return os.open(path, _FOLDER)


def _pid_in(path: Path) -> str:
    """Return what the file has, "" where none can be read."""
    with contextlib.suppress(OSError, CorruptError), os.fdopen(open_file(path / FILE), "rb") as file:
        return file.read(_PID_BYTES).decode("ascii", "replace").strip()
    return ""


def is_others_file(path: Path) -> bool:
    """Whether a folder has a file of the lock's name that this program did not write."""
    try:
        handle = open_file(path / FILE)
    except FileNotFoundError:
        return False
    except (OSError, CorruptError):
        return True
    try:
        return not _is_pid(handle)
    finally:
        os.close(handle)


def _is_pid(handle: int) -> bool:
    return _PID.fullmatch(os.pread(handle, _PID_BYTES + 1, 0)) is not None


def _is_only_read(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
