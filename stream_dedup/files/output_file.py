"""Output files: every write is complete or an error, and a file appears whole under its name or not at all.

Owns how bytes leave the process. A write to a descriptor may take fewer bytes than it is given, and a non-blocking
one may take none: ``write_all`` goes on until all are taken, and waits where there is no room.

A regular file, or one that does not exist yet, is replaced in four steps:

    1. A temporary file with a random name is made in the folder of the target, exclusively: a file that is there
       is never opened, a link is never followed. Its permissions are never wider than the target's.
    2. The content is written to it, and reaches the disk (fsync).
    3. It is renamed over the target, at once.
    4. The folder reaches the disk.

Where the target is a symbolic link, the file that it points to is replaced and the link stays. A process that is
killed (SIGKILL, power) before step 3 leaves the temporary file, named ``.stream-dedup-*.tmp``; any other end
removes it.

What is no regular file (a pipe, a device) is written to as it is.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import select
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from stream_dedup.errors import UnavailableError, UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = "-"
"""What the name of standard output is as an output."""
STANDARD_OUTPUT = "standard output"
"""What it is called in messages."""
BUFFER_BYTES = 1 << 16
"""Bytes gathered before they are handed to the system: a pipe's capacity."""
SIGNAL_S = 0.5
"""Seconds after which a signal that came just before a wait is seen."""
_TEMPORARY = ".stream-dedup-{}.tmp"


def write_all(descriptor: int, data: ReadableBuffer) -> int:
    """Write every byte, waiting where a non-blocking descriptor has no room; the number of bytes.

    Raises:
        BrokenPipeError: whoever read it has gone.
        OSError: it cannot be written. What part of it was written is unknown.
    """
    rest = memoryview(data).cast("B")
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _wait_for_room(descriptor)
    return memoryview(data).nbytes


def _wait_for_room(descriptor: int) -> None:
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    while not room.poll(SIGNAL_S * 1000):
        continue


class CompleteWriter(io.FileIO):
    """A descriptor open for writing whose ``write`` is complete or an error."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write every byte."""
        return write_all(self.fileno(), data)


class OutputTarget(Protocol):
    """Where lines go. Used as: ``open``, ``stream.write`` …, ``sync``, ``publish``; ``discard`` in any case."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def key(self) -> str:
        """The same for two names of one output."""

    @property
    def stream(self) -> BinaryIO:
        """Where to write, once it is open."""

    def open(self) -> None:
        """Make it ready to be written.

        Raises:
            UserError: it cannot be.
        """

    def sync(self) -> None:
        """Hand all that was written to the system, and of a regular file to the disk.

        Raises:
            OSError: it cannot be written.
        """

    def publish(self) -> None:
        """Give the content its name. Only after ``sync``."""

    def discard(self) -> None:
        """Remove what was not published. Idempotent; never raises for what is thrown away."""


def output_to(path: Path) -> OutputTarget:
    """The output that this path names. Nothing is opened yet.

    ``-`` is standard output, and so is whatever path names the file that standard output is: one file that two
    writers share would lose lines.
    """
    if str(path) == STDOUT or is_standard_output(path):
        return StandardOutput()
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        regular = True  # it does not exist yet, or `open` will say why it cannot be opened
    return ReplacedFile(path) if regular else Stream(path)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file with this content, or none (``-``: to standard output).

    Raises:
        UserError: it cannot be opened.
        UnavailableError: it cannot be written (a full disk).
        BrokenPipeError: whoever read it has gone.
    """
    output = output_to(path)
    try:
        output.open()
        output.stream.write(content)
        output.sync()
        output.publish()
    except OSError as error:
        raise unwritten(output.name, error) from error
    finally:
        output.discard()


def is_standard_output(path: Path) -> bool:
    """Whether a path names the file, pipe or device that standard output is; none does where it cannot be written.

    A standard output that the caller closed is a null device that can only be read: ``/dev/null`` is not that.
    """
    try:
        descriptor = sys.stdout.fileno()
        same = os.path.samestat(path.stat(), os.fstat(descriptor))
        return same and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):  # one of them is not there
        return False


class StandardOutput:
    """Standard output: nothing to be opened, and nothing that could be taken back."""

    name = key = STANDARD_OUTPUT

    def __init__(self) -> None:
        self.stream: BinaryIO = sys.stdout.buffer

    def open(self) -> None:
        """Nothing: it is open."""

    def sync(self) -> None:
        """Flush it; where it is a regular file, wait for the disk."""
        self.stream.flush()
        with suppress(io.UnsupportedOperation):  # a test's stream has no descriptor
            _sync_file(self.stream.fileno())

    def publish(self) -> None:
        """Nothing: it has its name."""

    def discard(self) -> None:
        """Nothing: what has left cannot be taken back."""


class _Opened:
    """What both kinds of named output have: a stream over a descriptor of their own."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.key = os.path.realpath(path)
        self._writer: io.BufferedWriter | None = None

    @property
    def stream(self) -> BinaryIO:
        """Where to write."""
        if self._writer is None:
            msg = f"output {self.name} is not open"
            raise ValueError(msg)
        return self._writer

    def _write_to(self, descriptor: int) -> None:
        self._writer = io.BufferedWriter(CompleteWriter(descriptor, "wb"), BUFFER_BYTES)

    def _abandon(self) -> None:
        """Close the descriptor; what is still gathered is thrown away."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.raw.close()


class Stream(_Opened):
    """A pipe or a device, written to as it is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def open(self) -> None:
        """Open it; a pipe waits for its reader."""
        try:
            self._write_to(os.open(self._path, os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            raise unopened(self.name, error) from error

    def sync(self) -> None:
        """Flush it."""
        self.stream.flush()

    def publish(self) -> None:
        """Close it: its reader comes to the end."""
        self.stream.close()

    def discard(self) -> None:
        """Close it, if it is open."""
        self._abandon()


class ReplacedFile(_Opened):
    """A regular file that is replaced as a whole (the module says how)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # The file that a symbolic link points to is replaced, the link stays.
        self._target = Path(self.key)
        self._folder = -1
        self._temporary: str | None = None

    def open(self) -> None:
        """Step 1."""
        try:
            self._folder = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._write_to(self._make(_regular(self._target.name, self._folder)))
        except (OSError, ValueError) as error:
            raise unopened(self.name, error) from error

    def _make(self, target: os.stat_result | None) -> int:
        """Make the temporary file, with the permissions of what it will replace."""
        name = _TEMPORARY.format(secrets.token_hex(8))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = 0o666 if target is None else 0o600 & target.st_mode
        # Its name is known before it is there: a signal that comes in between must not leave it behind.
        self._temporary = name
        try:
            descriptor = os.open(name, flags, mode, dir_fd=self._folder)
        except FileExistsError:
            self._temporary = None  # somebody else's
            raise
        if target is not None:
            _take_permissions(descriptor, target)
        return descriptor

    def sync(self) -> None:
        """Step 2."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def publish(self) -> None:
        """Steps 3 and 4."""
        if self._temporary is None:
            msg = f"output {self.name} is published twice, or before it is opened"
            raise ValueError(msg)
        self.stream.close()
        os.replace(self._temporary, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._temporary = None
        os.fsync(self._folder)

    def discard(self) -> None:
        """Remove the temporary file, if there is one, and close what is open."""
        self._abandon()
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._folder)
            self._temporary = None
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def unopened(name: str, error: OSError | ValueError) -> UserError:
    """The error of an output that cannot be opened."""
    reason = error.strerror if isinstance(error, OSError) else error
    return UserError(f"output {name}: cannot be written ({reason}); name a file in a folder that is there")


def unwritten(name: str, error: OSError) -> OSError | UnavailableError:
    """The error of an output that cannot be written any more; a reader that has gone is no fault of ours."""
    if isinstance(error, BrokenPipeError):
        return error
    return UnavailableError(f"output {name}: {error.strerror}; make room or name another file, and call again")


def _regular(name: str, folder: int) -> os.stat_result | None:
    """The regular file of this name in a folder, None where nothing is."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        msg = "it is no regular file"
        raise ValueError(msg)
    return found


def _take_permissions(descriptor: int, target: os.stat_result) -> None:
    """Give a file owner, group and mode of another. Where the group cannot be given, nobody's rights are widened."""
    mode = stat.S_IMODE(target.st_mode)
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (target.st_uid, target.st_gid):
        try:
            _take_owner(descriptor, target)
        except PermissionError:
            mode &= ~stat.S_IRWXG
    os.fchmod(descriptor, mode)


def _take_owner(descriptor: int, target: os.stat_result) -> None:
    with suppress(PermissionError):  # only root may give a file to somebody else
        os.fchown(descriptor, target.st_uid, -1)
    os.fchown(descriptor, -1, target.st_gid)


def _sync_file(descriptor: int) -> None:
    """Wait until a regular file is on the disk; nothing for a pipe or a device."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fsync(descriptor)
