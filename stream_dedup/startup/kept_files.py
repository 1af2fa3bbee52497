"""Files that a process makes once and keeps for other processes: machine code, and tables that take long to make.

Rules:

* A file is named by a digest of what it is made from, the program's source included. Where anything of that changes,
  the name changes, and the file is made anew; older ones of its kind are removed then. Machine code for another
  processor is another kind.
* A file ends with the digest of its content. It is read in full and compared before it is used: a file that was cut
  short or changed counts as missing, and is made anew.
* A file is written under a temporary name and renamed. Processes that write it at once write the same: one wins. What
  a process that was killed leaves under a temporary name is removed by the first one that looks here an hour later.
* A process that has mapped a file keeps its content when the name is given to another one.

They are kept in ``NUMBA_CACHE_DIR`` if it is set, else in the folder ``kept`` of the package, which an image or a wheel
brings along, else in the user's cache folder. All of these are read, also where they cannot be written. Whoever can
write there can change what this program does, as for the bytecode of Python.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import xxhash

from stream_dedup.core.table_store import MadeFrom, keep_tables_in
from stream_dedup.terminal import visible

CHECK_BYTES = 16
"""Bytes of the digest at the end of a file."""
LEFT_S = 3600
"""Age in seconds from which on a temporary file is one that was left: writing one takes less than a second."""
TURN_S = 60
"""Longest wait of a process for others that compile, in all: one function takes seconds, all of them half a minute."""
_TURN_STEP_S = 0.02
COMPILING = "stream-dedup compiles its inner loops, once: half a minute of one core or so. The code is kept in {}."
"""Written to standard error by a first start, with the folder; a second start finds the code."""
_FOLDER_VARIABLE = "NUMBA_CACHE_DIR"
_WITHOUT_COLOURS = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"
_CHUNK_BYTES = 1 << 20
_PACKAGE = Path(__file__).resolve().parent.parent
DELIVERED = _PACKAGE / "kept"
"""The folder that is part of the package."""
_TEMPORARY = re.compile(r"\w[\w.]*-[0-9a-f]{16}\.kept\.[0-9a-f]{12}\.tmp")


def keep_tables(help_compiling: Callable[[], None] | None = None) -> None:
    """Register these files as the place where this process keeps what it makes. Reads nothing yet.

    ``help_compiling``: starts processes that compile, too; called if this one is the first that has to compile, and the
    code can be kept.

    numba is told to leave its messages without colours: where the package for them is installed, it colours each one of
    thousands that nobody reads, a fifteenth of the time that compiling takes.
    """
    os.environ.setdefault(_WITHOUT_COLOURS, "1")
    keep_tables_in(KeptFiles(help_compiling))


class KeptFiles:
    """Tables and machine code as files."""

    def __init__(self, help_compiling: Callable[[], None] | None = None) -> None:
        """Read nothing yet. ``help_compiling``: see ``keep_tables``."""
        self._help_compiling = help_compiling
        self._has_looked = False
        self._left_s = float(TURN_S)
        self._has_noted = False
        self._noting = -1

    def find(self, kind: str, made_from: MadeFrom) -> memoryview | None:
        """Map a file; None if there is no whole one."""
        self._remove_left()
        name = _name(kind, made_from)
        found = (_mapped(folder / name) for folder in _folders())
        return next((content for content in found if content is not None), None)

    def keep(self, kind: str, made_from: MadeFrom, parts: Sequence[bytes]) -> None:
        """Write a file in the first folder where that is possible.

        Raises:
            OSError: there is no such folder; that of the first one.
        """
        errors = []
        for folder in _written():
            try:
                _remove_others(_write(folder, _name(kind, made_from), parts), kind)
            except OSError as error:
                errors.append(error)
            else:
                return
        raise errors[0]

    @contextmanager
    def alone(self, path: str) -> Iterator[None]:
        """Lock the file; the system unlocks it when this process ends, however it ends."""
        with ExitStack() as stack:
            with suppress(OSError):
                if _writable() is not None:  # else each process compiles for itself
                    self._lock(stack.enter_context(Path(path).open("rb")))
            yield

    def note_compiling(self) -> None:
        """Say so on standard error and call for help, at the first function; of several processes one does."""
        if self._has_noted:
            return
        self._has_noted = True
        if not self._is_first_to_note():
            return
        folder = _writable()
        if sys.stderr is not None:
            with suppress(OSError):
                print(COMPILING.format(visible(str(folder)) if folder else "no folder"), file=sys.stderr, flush=True)  # noqa: T201 - no line of a log
        if folder is not None and self._help_compiling is not None:
            self._help_compiling()

    def _is_first_to_note(self) -> bool:
        """Lock the folder of all code until the process ends; False if another process has locked it."""
        try:
            self._noting = os.open(os.environ.get(_FOLDER_VARIABLE) or _PACKAGE, os.O_RDONLY)
            fcntl.flock(self._noting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return not isinstance(error, BlockingIOError)
        return True

    def _lock(self, file: IO[bytes]) -> None:
        """Lock a file, or give up after ``TURN_S``: whoever holds it may be stopped."""
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._left_s <= 0:
                    return
                time.sleep(_TURN_STEP_S)
                self._left_s -= _TURN_STEP_S
            else:
                return

    def _remove_left(self) -> None:
        """Remove temporary files of processes that were killed, once for each process."""
        if self._has_looked:
            return
        self._has_looked = True
        for folder in _folders():
            with suppress(OSError):
                for entry in os.scandir(folder):
                    if _TEMPORARY.fullmatch(entry.name) and entry.stat().st_mtime < time.time() - LEFT_S:
                        Path(entry.path).unlink(missing_ok=True)


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a digest of all parts and their bounds, in 16 hex digits."""
    made = xxhash.xxh3_64()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(raw).to_bytes(8, "little") + raw)
    return made.hexdigest()


def _name(kind: str, made_from: MadeFrom) -> str:
    """Return the name of a file."""
    return f"{kind}-{digest_of(made_from)}.kept"


def _folders() -> Iterator[Path]:
    """Yield the folders in which files may be kept, in the order in which they are tried."""
    named = os.environ.get(_FOLDER_VARIABLE)
    # Each copy of the program has a folder of its own: their sources may differ.
    own = f"{_PACKAGE.name}_{digest_of([os.fsencode(_PACKAGE)])[:8]}"
    if named:
        yield Path(named) / own
    yield DELIVERED
    cached = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no home is no error
    if os.path.isabs(cached):  # noqa: PTH117
        yield Path(cached) / "stream-dedup" / own


def _written() -> list[Path]:
    """Return those in which this process may write."""
    folders = list(_folders())
    return folders[:1] if os.environ.get(_FOLDER_VARIABLE) else folders


def _writable() -> Path | None:
    """Return the first folder that can be written, as far as the system says so; None if there is none."""
    for folder in _written():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


def _mapped(path: Path) -> memoryview | None:
    """Map a file without the digest at its end; None if it cannot be read or is not whole."""
    try:
        with path.open("rb", 0) as file:
            size = os.fstat(file.fileno()).st_size - CHECK_BYTES
            # Read, not mapped, to be compared: a process has in its memory only what it uses of a table.
            return (
                memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)) if _is_whole(file, size) else None
            )
    except OSError:
        return None


def _is_whole(file: io.FileIO, left: int) -> bool:
    if left <= 0:
        return False
    made = xxhash.xxh3_128()
    while left > 0:
        chunk = file.read(min(left, _CHUNK_BYTES))
        if not chunk:
            return False
        made.update(chunk)
        left -= len(chunk)
    return file.read() == made.digest()


def _write(folder: Path, name: str, parts: Iterable[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made, path, temporary = xxhash.xxh3_128(), folder / name, folder / f"{name}.{os.urandom(6).hex()}.tmp"
    try:
        with temporary.open("wb") as file:
            for part in parts:
                made.update(part)
                file.write(part)
            file.write(made.digest())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    return path


def _remove_others(path: Path, kind: str) -> None:
    """Remove files of the same kind with another digest. What cannot be removed stays."""
    with suppress(OSError):
        for other in path.parent.glob(f"{kind}-*.kept"):
            if other != path:
                other.unlink(missing_ok=True)
