"""Output files: every write is complete or an error, and a file appears under its name complete or not at all.

A write to a descriptor may accept fewer bytes than requested, and a write to a non-blocking descriptor none:
``write_all`` repeats the write until all bytes are accepted, and waits where there is no room.

A regular file, or one that does not exist yet, is replaced in four steps:

    1. Create a temporary file with a random name in the folder of the target, exclusively: an existing file is never
       opened, a link never followed. Its permissions are never wider than those of the target.
    2. Write the content, and sync it to the disk.
    3. Rename the temporary file to the target.
    4. Sync the folder to the disk.

Where the target is a symbolic link, the file that it points to is replaced and the link remains. A process that is
killed (SIGKILL, power) before step 3 leaves the temporary file, ``.stream-dedup-*.tmp``; otherwise it is removed.

A pipe or a device is written to directly.

An output that is an input of the same call is refused: writing it would destroy the input. A file is identified by
device and inode, so that its other names (a hard link, a symbolic link, ``/dev/stdin``, a redirection) are recognised.
Character devices, such as terminals, and sockets may be input and output at the same time.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.folders import sync_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = "-"
"""The name of standard output as an argument; among inputs, of standard input."""
STANDARD_OUTPUT = "standard output"
"""The name of standard output in messages."""
BUFFER_BYTES = 1 << 16
"""Bytes buffered before a write: the capacity of a pipe."""
SIGNAL_S = 0.5
"""Seconds after which a signal that arrived just before a wait is handled."""
_TEMPORARY = ".stream-dedup-{}.tmp"


def write_all(descriptor: int, data: ReadableBuffer) -> int:
    """Write every byte, waiting where a non-blocking descriptor has no room. Return the number of bytes.

    Raises:
        BrokenPipeError: the reader closed the pipe.
        OSError: the write failed; an unknown part of the data was written.
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


class OutputTarget:
    """A pipe or a device, written to as it is.

    Call ``open``, ``stream.write`` …, ``sync``, ``publish``; always ``discard``.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        """In messages."""
        self.key = os.path.realpath(path)
        """Equal for two names of one output."""
        self._writer: io.BufferedWriter | None = None

    @property
    def stream(self) -> BinaryIO:
        """The stream to write to, after ``open``."""
        if self._writer is None:
            raise ValueError(f"output {self.name} is not open")
        return self._writer

    def open(self) -> None:
        """Open the output. A pipe waits for its reader.

        Raises:
            UserError: the output cannot be opened.
        """
        try:
            self._writer = io.BufferedWriter(CompleteWriter(self._descriptor(), "wb"), BUFFER_BYTES)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(
                f"output {self.name}: cannot be written ({reason}); name a file in an existing folder"
            ) from error

    def _descriptor(self) -> int:
        return os.open(self.name, os.O_WRONLY | os.O_CLOEXEC)

    def sync(self) -> None:
        """Flush the stream, and sync a regular file to the disk; OSError where it cannot be written."""
        self.stream.flush()
        with suppress(io.UnsupportedOperation):  # a test's stream has no descriptor
            descriptor = self.stream.fileno()
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fsync(descriptor)

    def publish(self) -> None:
        """Give the content its name, after ``sync``; the reader of a pipe reads the end of the data."""
        self.stream.close()

    def discard(self) -> None:
        """Close the output without its buffer, and remove unpublished content. Idempotent; raises nothing."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.raw.close()


class StandardOutput(OutputTarget):
    """Standard output: always open; its content cannot be withdrawn."""

    def __init__(self) -> None:
        self.name = self.key = STANDARD_OUTPUT

    @property
    def stream(self) -> BinaryIO:
        """The stream of the process."""
        return sys.stdout.buffer

    def open(self) -> None:
        """Do nothing: standard output is open."""

    def publish(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""


class ReplacedFile(OutputTarget):
    """A regular file that is replaced in the four steps above."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # Replaces the file that a symbolic link points to, not the link.
        self._target = Path(self.key)
        self._temporary: Path | None = None

    def _descriptor(self) -> int:
        """Take step 1: create the temporary file, with the permissions of its target."""
        try:
            target = self._target.stat()
        except FileNotFoundError:
            target = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = 0o666 if target is None else 0o600 & target.st_mode
        # Sets the name before the file exists: a signal in between must not leave the file behind.
        self._temporary = self._target.with_name(_TEMPORARY.format(secrets.token_hex(8)))
        try:
            descriptor = os.open(self._temporary, flags, mode)
        except FileExistsError:
            self._temporary = None  # of another process
            raise
        if target is not None:
            _take_permissions(descriptor, target)
        return descriptor

    def publish(self) -> None:
        """Take steps 3 and 4."""
        if self._temporary is None:
            raise ValueError(f"output {self.name} is published twice, or before it is opened")
        self.stream.close()
        self._temporary.replace(self._target)
        self._temporary = None
        sync_folder(self._target.parent)

    def discard(self) -> None:
        """Close the stream, and remove the temporary file, if it exists."""
        super().discard()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()
            self._temporary = None


def output_to(path: Path) -> OutputTarget:
    """Return the output that a path names, not opened yet.

    ``-`` is standard output, and so is any path of the file that standard output is: two writers of one file would
    overwrite each other's lines.
    """
    if str(path) == STDOUT or is_standard_output(path):
        return StandardOutput()
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        regular = True  # it does not exist yet, or `open` will say why it cannot be opened
    return ReplacedFile(path) if regular else OutputTarget(path)


@contextmanager
def whole_output(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Open an output (``-``: standard output), and yield what writes its content: completely or not at all.

    Raises:
        UserError: the file cannot be opened.
        UnavailableError: the file cannot be written (a full disk).
        BrokenPipeError: the reader closed the pipe.
    """
    output = output_to(path)

    def write(content: bytes) -> None:
        with named_errors(output):
            output.stream.write(content)
            output.sync()
            output.publish()

    try:
        output.open()
        yield write
    finally:
        output.discard()


def is_standard_output(path: Path) -> bool:
    """Return whether a path names the file, pipe or device that standard output is.

    No path does where the caller closed standard output: it is then a null device opened for reading, and an output
    ``/dev/null`` is a different one.
    """
    try:
        descriptor = sys.stdout.fileno()
        same = os.path.samestat(path.stat(), os.fstat(descriptor))
        return same and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):  # one of them does not exist
        return False


@contextmanager
def named_errors(output: OutputTarget) -> Iterator[None]:
    """Raise an error of a write as one that names the output."""
    try:
        yield
    except OSError as error:
        raise unwritten(output.name, error) from error


def unwritten(name: str, error: OSError) -> OSError | UnavailableError:
    """Return the error for a failed write; a closed pipe is not an error of the output."""
    if isinstance(error, BrokenPipeError):
        return error
    return UnavailableError(f"output {name}: {error.strerror}; make room or name another file, and repeat the call")


def _take_permissions(descriptor: int, target: os.stat_result) -> None:
    """Copy owner, group and mode of a file. Where the group cannot be set, the group gets no permissions."""
    mode = stat.S_IMODE(target.st_mode)
    with suppress(OSError):  # only root can change the owner
        os.fchown(descriptor, target.st_uid, -1)
    try:
        os.fchown(descriptor, -1, target.st_gid)
    except OSError:
        mode &= ~stat.S_IRWXG
    os.fchmod(descriptor, mode)


def refuse_inputs_as_outputs(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Check that no output is an input.

    Args:
        outputs: paths, ``-`` for standard output.
        inputs: paths, ``-`` for standard input.

    Raises:
        UserError: an output is an input.
    """
    read = {_identity(name, 0): _shown(name, "standard input") for name in inputs}
    read.pop(None, None)
    for output in outputs:
        name = read.get(_identity(output, 1))
        if name is not None:
            raise UserError(
                f"output {_shown(output, STANDARD_OUTPUT)}: it is also an input ({name}); name another file"
            )


def refuse_outputs_inside(outputs: Iterable[str | Path], folder: Path) -> None:
    """Check that no output is this folder or inside it.

    Raises:
        UserError: an output is.
    """
    real = Path(os.path.realpath(folder))
    for output in outputs:
        at = Path(os.path.realpath("/dev/fd/1" if str(output) == STDOUT else output))
        if real == at or real in at.parents:
            raise UserError(
                f"output {_shown(output, STANDARD_OUTPUT)}: it is in the folder of the index; name a file elsewhere"
            )


def _identity(name: str | Path, stream: int) -> tuple[int, int] | None:
    """Return device and inode of a file; None where it does not exist, or may be input and output at the same time."""
    try:
        found = os.fstat(stream) if str(name) == STDOUT else Path(name).stat()
    except OSError:
        return None
    return None if stat.S_ISCHR(found.st_mode) or stat.S_ISSOCK(found.st_mode) else (found.st_dev, found.st_ino)


def _shown(name: str | Path, stream: str) -> str:
    return stream if str(name) == STDOUT else str(name)
