"""Files that a process makes once and keeps for other processes: tables that take long to make.

Rules:

* A file is named by a digest of what it is made from, the program's source included. Where anything of that changes,
  the name changes, and the file is made anew; older ones of its kind are removed then.
* A file ends with the digest of its content. It is read in full and compared before it is used: a file that was cut
  short or changed counts as missing, and is made anew.
* A file is written under a temporary name and renamed. Processes that write it at once write the same: one wins. What
  a process that was killed leaves under a temporary name is removed by the first one that looks here an hour later.
* A process that has mapped a file keeps its content when the name is given to another one.

They are kept where numba keeps its own: in ``NUMBA_CACHE_DIR`` if it is set, else in ``__pycache__`` beside the source,
else in the user's cache folder. All of these are read, also where they cannot be written. Whoever can write there can
change what this program does, as for the bytecode of Python.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
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
COMPILING = (
    "stream-dedup compiles its inner loops, once: half a minute or so. The code is kept in {} and folders like it."
)
"""Written to standard error by a first start, with one of the folders; a second start finds the code."""
_FOLDER_VARIABLE = "NUMBA_CACHE_DIR"
_CHUNK_BYTES = 1 << 20
_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = ("text/*.py", "fingerprint/*.py", "kept_tables.py")
"""The files of the core by which tables are made."""
_TEMPORARY = re.compile(r"\w[\w.]*-[0-9a-f]{16}\.kept\.[0-9a-f]{12}\.tmp")


def keep_tables() -> None:
    """Register these files as the place where this process keeps its tables. Reads nothing yet."""
    keep_tables_in(KeptFiles())


class KeptFiles:
    """Tables as files. Without the program's source nothing is kept: nobody would know when to make it anew."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._has_looked = False
        self._left_s = float(TURN_S)
        self._has_noted = False
        self._noting = -1

    def find(self, kind: str, made_from: MadeFrom) -> memoryview | None:
        """Map a file; None if there is no whole one."""
        self._remove_left()
        name = _name(kind, made_from)
        found = (_mapped(folder / name) for folder in _folders()) if name else ()
        return next((content for content in found if content is not None), None)

    def keep(self, kind: str, made_from: MadeFrom, parts: Sequence[bytes]) -> memoryview | None:
        """Write a file in the first folder where that is possible, and map it; None if there is no such folder."""
        name, folders = _name(kind, made_from), list(_folders())
        for folder in (folders[:1] if os.environ.get(_FOLDER_VARIABLE) else folders) if name else ():
            with suppress(OSError):
                path = _write(folder, name, parts)
                _remove_others(path, kind)
                return _mapped(path)
        return None

    @contextmanager
    def alone(self, path: str) -> Iterator[None]:
        """Lock the file; the system unlocks it when this process ends, however it ends."""
        with ExitStack() as stack:
            with suppress(OSError):
                self._lock(stack.enter_context(Path(path).open("rb")))
            yield

    def note_compiling(self, folder: str) -> None:
        """Say so on standard error, at the first function; of several processes one does."""
        if self._has_noted:
            return
        self._has_noted = True
        if sys.stderr is not None and self._is_first_to_note():
            with suppress(OSError):
                print(COMPILING.format(visible(folder)), file=sys.stderr, flush=True)  # noqa: T201 - no line of a log

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
    """Return the name of a file; empty if the program is installed without its source."""
    sources = _sources()
    return f"{kind}-{digest_of((*sources, *made_from))}.kept" if sources else ""


@cache
def _sources() -> tuple[str, ...]:
    """Return the source by which tables are made; nothing if the program is installed without it."""
    files = sorted(path for pattern in _SOURCES for path in (_PACKAGE / "core").glob(pattern))
    return tuple(f"{path.name}\n{path.read_text('utf-8')}" for path in files)


def _folders() -> Iterator[Path]:
    """Yield the folders in which files may be kept, in the order in which they are tried."""
    named = os.environ.get(_FOLDER_VARIABLE)
    # Each copy of the program has a folder of its own: their sources may differ.
    own = f"{_PACKAGE.name}_{digest_of([os.fsencode(_PACKAGE)])[:8]}"
    if named:
        yield Path(named) / own
    yield _PACKAGE / "__pycache__"
    cached = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no home is no error
    if os.path.isabs(cached):  # noqa: PTH117
        yield Path(cached) / "stream-dedup" / own


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
