"""Small files of an index folder: read and replaced whole, and never through a symbolic link.

Every small file here is a few lines of text. A name that leads elsewhere, or to something that is no file, is
damage: what it leads to is neither read nor changed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_dedup.errors import CorruptError, StreamDedupError, UnavailableError, UserError

SMALL_BYTES = 1 << 16
"""Longest small file: one of these holds a line or two, the reason of a damage perhaps a page."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_FAILING = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""The disk fails, or the system has no more of something: another folder would not help."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_file(path: Path) -> bool:
    """Whether a regular file has this name; False for a link to one."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder has this name; False for a link to one."""
    return stat.S_ISDIR(_mode(path))


def open_file(path: Path, flags: int = _READ) -> int:
    """Descriptor of a regular file; a pipe or a device of this name is not waited for.

    Raises:
        CorruptError: the name is that of a link, or of no regular file.
        OSError: there is no such file, or it cannot be opened.
    """
    if not is_file(path) and os.path.lexists(path):
        raise _no_file(path)
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_file(path)
    return handle


def read_text(path: Path) -> str | None:
    """Text of a small file, None where there is none.

    Raises:
        CorruptError: it is no regular file, longer than ``SMALL_BYTES``, or not UTF-8.
    """
    try:
        handle = open_file(path)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        raw = file.read(SMALL_BYTES + 1)
    if len(raw) > SMALL_BYTES:
        msg = f"file {path}: longer than the {SMALL_BYTES} bytes of any file that this program writes there"
        raise CorruptError(msg)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        msg = f"file {path}: not UTF-8 at byte {error.start}"
        raise CorruptError(msg) from error


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


@contextmanager
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
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _no_file(path: Path) -> CorruptError:
    return CorruptError(f"{path} is a link or no regular file: move it away")
