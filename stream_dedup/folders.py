"""Folders of this program: small files in them, which process has one open, and those that are temporary.

**Small files** are a few lines of text, read and replaced whole, and never through a symbolic link. A name that leads
elsewhere, or to something that is no file, is damage: what it leads to is neither read nor changed.

**Owners.** A folder is open in one process that writes, or in any number that only read. The lock is on the folder
itself, so it needs no file.

A lock is on a folder, not on a name: where the folder is removed or replaced while it is open, another process can own
what has its name then. RocksDB goes on to make files by their names, so the owner asks before each effect whether the
folder is still its own (``refuse_replaced``).

A forked child closes its copies of the locks: a child that outlives an owner that was killed must not keep the folder.

**Temporary folders** belong to one process. ``tempfile.TemporaryDirectory`` also removes its folder at the end of a
forked child, under its parent's feet.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError, UserError

SMALL_BYTES = 1 << 16
"""Longest small file: one of these holds a line or two, the reason of a damage perhaps a page."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_FAILING = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""The disk fails, or the system has no more of something: another folder would not help."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_held: set[int] = set()
"""The locks of this process; not their owners, which may be let go of."""


def is_file(path: Path) -> bool:
    """Whether a regular file has this name; False for a link to one."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder has this name; False for a link to one."""
    return stat.S_ISDIR(_mode(path))


def read_text(path: Path) -> str | None:
    """Text of a small file, None where there is none; a pipe or a device of this name is not waited for.

    Raises:
        CorruptError: it is a link or no regular file, longer than ``SMALL_BYTES``, or not UTF-8.
        OSError: it cannot be opened.
    """
    if not is_file(path):
        if os.path.lexists(path):
            raise _no_file(path)
        return None
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_file(path)
    with os.fdopen(handle, "rb") as file:
        raw = file.read(SMALL_BYTES + 1)
    if len(raw) > SMALL_BYTES:
        raise CorruptError(
            f"file {path}: longer than the {SMALL_BYTES} bytes of any file that this program writes there"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise CorruptError(f"file {path}: not UTF-8 at byte {error.start}") from error


def replace_text(path: Path, text: str) -> None:
    """Replace a small file, atomically and durably; a link of its name is replaced, not followed."""
    # 1. The new content is whole on disk before it gets its name. A draft left by a killed process goes.
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, _DRAFT, 0o644), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
    # 2. The name changes at once.
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise what the file system says of an index folder as an error of the program.

    Raises:
        UnavailableError: the disk, or the user's share of it, is full; or it fails.
        UserError: the folder cannot be written for another reason.
    """
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> StreamDedupError:
    if error.errno in _NO_SPACE | _FAILING:
        remedy = "make room" if error.errno in _NO_SPACE else "look for the cause"
        return UnavailableError(
            f"index folder {folder} cannot be written: {error.strerror}; {remedy}, then start again"
        )
    return UserError(f"index folder {folder} cannot be made or written: {error.strerror}; name another with --index")


def _mode(path: Path) -> int:
    """Return the type and rights of what has this name, 0 of nothing; raises OSError where that cannot be known."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _no_file(path: Path) -> CorruptError:
    return CorruptError(f"{path} is a link or no regular file: move it away")


class Owner:
    """A lock on an index folder, or on another folder of this program, held until ``release`` or until it is let go."""

    def __init__(self, path: Path, kind: str, *, writes: bool) -> None:
        self._path = path
        self._name = f"{kind} {path}"
        self.writes = writes
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pid = os.getpid()
        _held.add(self._lock)
        self._release = weakref.finalize(self, _release, self._lock, self._pid)
        self._release.atexit = False
        try:
            self._take(fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
        except BaseException:
            self.release()
            raise

    @classmethod
    def write(cls, path: Path, kind: str = "index") -> Owner:
        """Own an existing folder alone; ``kind`` is what an error calls it.

        Raises:
            UserError: another process has it open, or the folder cannot be written.
            UnavailableError: the file system has no locks.
        """
        with writing(path):
            with tempfile.TemporaryFile(dir=path):  # says why not, where it cannot be written
                pass
            return cls(path, kind, writes=True)

    @classmethod
    def read(cls, path: Path) -> Owner:
        """Share an existing index folder with others that read.

        Raises:
            UserError: a writer has it open, or the folder cannot be read.
            UnavailableError: the file system has no locks.
        """
        try:
            return cls(path, "index", writes=False)
        except OSError as error:
            raise UserError(
                f"index folder {path} cannot be read: {error.strerror}; name another with --index"
            ) from error

    @property
    def here(self) -> bool:
        """Whether this process took the lock; False in a child that was forked since."""
        return os.getpid() == self._pid

    @property
    def is_replaced(self) -> bool:
        """Whether a folder that this process writes to was removed, moved or replaced since."""
        return self.writes and self.here and self._release.alive and not _is_of(self._lock, self._path)

    def refuse_replaced(self) -> None:
        """Raise RefusedError where it was."""
        if self.is_replaced:
            raise RefusedError(
                f"{self._name} was removed, moved or replaced while this process had it open: nothing more is written "
                "to it; end this process, then open the folder that holds your data"
            )

    def release(self) -> None:
        """Let others open the folder. In a forked child the parent keeps its lock."""
        self._release()

    def _take(self, kind: int) -> None:
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._in_use(kind) from error
        except OSError as error:
            raise UnavailableError(
                f"{self._name} cannot be locked: {error.strerror}; put it on a local file system"
            ) from error

    def _in_use(self, kind: int) -> StreamDedupError:
        if kind == fcntl.LOCK_EX:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return UserError(f"{self._name} is in use by a process that reads it: wait for it to end")
        if any(_is_of(lock, self._path) for lock in list(_held) if lock != self._lock):
            return UserError(
                f"{self._name} is open in this process already: share it between the threads, or close it first"
            )
        return UserError(
            f"{self._name} is in use by another process, which `fuser {self._path}` names: "
            "stop that process or name another folder"
        )


def _is_of(handle: int, path: Path) -> bool:
    """Whether a handle is of the folder that has this name now."""
    held = os.fstat(handle)
    try:
        there = path.stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _release(lock: int, pid: int) -> None:
    if os.getpid() == pid:  # a child has closed its copy, and may have another file of this number
        _held.discard(lock)
        # Closing is not enough: a child that was forked in another way than by Python has the same lock open.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _let_go_in_child() -> None:
    """Close a forked child's copies of the locks. That leaves the parent its own."""
    while _held:
        os.close(_held.pop())


class TemporaryFolder:
    """A folder that goes with ``remove``, or at the end of the process that made it; a forked child leaves it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="stream-dedup-"))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder; nothing the second time, nor in a forked child."""
        self._finalizer()


def _remove(path: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)


os.register_at_fork(after_in_child=_let_go_in_child)
