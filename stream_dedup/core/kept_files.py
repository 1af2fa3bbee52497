"""Files that a process makes once and keeps for later processes: tables that take long to make.

Rules:

* A file is named by a digest of what it is made from. Where anything of that changes, the name changes, and the file is
  made anew; older ones of its kind are removed then.
* A file ends with the digest of its content. It is read in full and compared before it is used: a file that was cut
  short or changed counts as missing, and is made anew.
* A file is written under a temporary name and renamed. Processes that write it at once write the same: one wins.
* A process that has mapped a file keeps its content when the name is given to another one.

They are kept where numba keeps its own: in ``NUMBA_CACHE_DIR`` if it is set, else in ``__pycache__`` beside the source,
else in the user's cache folder. All of these are read, also where they cannot be written. Whoever can write there can
change what this program does, as for the bytecode of Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import xxhash

CHECK_BYTES = 16
"""Bytes of the digest at the end of a file."""
_FOLDER_VARIABLE = "NUMBA_CACHE_DIR"
_CHUNK_BYTES = 1 << 20
_PACKAGE = Path(__file__).resolve().parent.parent


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a digest of all parts and their bounds, in 16 hex digits."""
    made = xxhash.xxh3_64()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(raw).to_bytes(8, "little") + raw)
    return made.hexdigest()


def kept_file(kind: str, digest: str) -> Path | None:
    """Return the path of a whole file, or None if there is none."""
    for folder in _folders():
        path = folder / _name(kind, digest)
        if _is_whole(path):
            return path
    return None


def keep(kind: str, digest: str, content: Iterable[bytes | memoryview]) -> Path:
    """Write a file, and remove those of its kind that were made from something else.

    Raises:
        OSError: no folder can be written; the reason is that of the first one.
    """
    first: OSError | None = None
    parts = list(content)
    folders = list(_folders())
    for folder in folders[:1] if os.environ.get(_FOLDER_VARIABLE) else folders:
        try:
            path = _write(folder, _name(kind, digest), parts)
        except OSError as error:
            first = first or error
        else:
            _remove_others(path, kind)
            return path
    raise first or FileNotFoundError(_FOLDER_VARIABLE)


def _name(kind: str, digest: str) -> str:
    return f"{kind}-{digest}.kept"


def _folders() -> Iterator[Path]:
    """Yield the folders in which files may be kept, in the order in which they are tried."""
    named = os.environ.get(_FOLDER_VARIABLE)
    # Each copy of the program has a folder of its own: their sources may differ.
    own = f"{_PACKAGE.name}_{digest_of([os.fsencode(_PACKAGE)])[:8]}"
    if named:
        yield Path(named) / own
    yield _PACKAGE / "__pycache__"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no home is no error
    if os.path.isabs(cache):  # noqa: PTH117
        yield Path(cache) / "stream-dedup" / own


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb", 0) as file:
            left = os.fstat(file.fileno()).st_size - CHECK_BYTES
            made = xxhash.xxh3_128()
            while left > 0:
                chunk = file.read(min(left, _CHUNK_BYTES))
                if not chunk:
                    return False
                made.update(chunk)
                left -= len(chunk)
            return file.read() == made.digest()
    except OSError:
        return False


def _write(folder: Path, name: str, parts: Iterable[bytes | memoryview]) -> Path:
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
