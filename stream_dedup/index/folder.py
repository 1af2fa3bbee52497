"""The index folder: its lock, its current data folder, and the removal of left-over data folders.

    INDEX/
      owner      locked while a process has the index open; holds the writer's process id
      current    JSON: format version, kind (``log``), name of the current data folder
      data-N/    a mark, RocksDB's files (see ``data_folders``)
      corrupt    present after damage was found: why
      worker-id  a worker's transactional id
      kept-N/    an index that was kept aside (see ``kept``)

Rules:

* A new index is made in a folder that is missing, empty, or holds only what a killed process left of a new index
  (and indexes that were kept aside, and ``lost+found``, where the folder is a volume).
* A writer removes only data folders that are not current and that this program made.
* A reader changes nothing, and needs no permission to.
* Committed data without a file ``current`` are damage; they are not removed.

The order in which a data folder becomes current makes a crash between any two steps harmless:

    1  ``data-N`` is made and marked ``staged``
    2  its data are written and durable
    3  ``current`` names it, by an atomic rename
    4  ``corrupt`` is removed, and its mark becomes ``committed``
    5  the data folders before it are removed

Before step 3 the index has its old data, and the next opening removes ``data-N``. After step 3 it has ``data-N``, and
the next opening does the missing steps. Errors in the mark or in step 5 are not raised: the data are current.
"""

from __future__ import annotations

import contextlib
import json
import reprlib
from pathlib import Path
from typing import NamedTuple

from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import owner
from stream_dedup.index.data_folders import (
    data_folders,
    holds_data,
    is_data_name,
    is_empty,
    is_kept,
    is_marked,
    is_rocksdb,
    is_staged,
    make_data,
    mark_committed,
    remove_data,
)
from stream_dedup.index.layout import INDEX_FORMAT_VERSION, REBUILD
from stream_dedup.index.small_files import is_folder, read_text, replace_text, sync_folder, writing

ID_FILE = "worker-id"
"""File of a worker's transactional id in its index folder; it stays when the index is emptied."""

CURRENT = "current"
CORRUPT = "corrupt"
_OWN_FILES = frozenset({owner.FILE, CORRUPT, ID_FILE} | {f"{name}.new" for name in (CURRENT, CORRUPT, ID_FILE)})
_LOST_AND_FOUND = "lost+found"
_SHOWN = 3
"""Most names of other files in the error message of a refused folder."""
_REASON_CHARACTERS = 500
"""Characters of a mark of damage that are shown."""

_UNREADABLE = (ValueError, TypeError, KeyError, RecursionError, CorruptError)
"""Errors raised where the content of ``current`` is not what this program wrote."""

_OTHER_FORMAT = (
    "open it with the release that wrote it; a worker's index is read from its log again by "
    "`stream-dedup index rebuild`"
)
_MISSING = (
    "put it back from a backup; without one, a worker's index is read from its log again by "
    "`stream-dedup index rebuild`, and of one that `filter` or `Index` keeps nothing is left: name another folder"
)


class _Pointer(NamedTuple):
    """Content of ``current``."""

    version: object
    kind: object
    data: str


class Folder:
    """An open index folder. Use ``write`` or ``read``; after that ``release``."""

    def __init__(self, path: Path, kind: str, lock: owner.Owner, *, writable: bool) -> None:
        self.path = path
        self._kind = kind
        self._lock = lock
        self.writable = writable
        self._current: str | None = None
        self._replaced: str | None = None

    @classmethod
    def write(cls, path: Path, kind: str, *, emptied: bool = False) -> Folder:
        """Open an index folder for writing, alone; make the folder where it is missing.

        With ``emptied`` the current data, damaged or not, are removed as soon as other data become current.

        Raises:
            UserError: another process has it open, it is of another kind, or the folder holds something else.
            CorruptError: it is damaged or of an unknown format.
            UnavailableError: the disk is full.
        """
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        _refuse_others_folder(path)
        folder = cls(path, kind, owner.Owner.write(path), writable=True)
        try:
            with writing(path):
                folder._take(emptied=emptied)
        except BaseException:
            folder.release()
            raise
        return folder

    @classmethod
    def read(cls, path: Path, kind: str) -> Folder:
        """Open an index folder for reading, together with other readers; nothing in it is made or changed.

        Raises:
            UserError: there is no index, a writer has it open, or it is of another kind.
            CorruptError: it is damaged or of an unknown format.
        """
        if not _holds_index(path):
            msg = f"index {path}: there is none; name its folder with --index"
            raise UserError(msg)
        folder = cls(path, kind, owner.Owner.read(path), writable=False)
        try:
            folder._refuse_corrupt()
            folder._current = folder._read_current()
            folder._refuse_data_without_current()
        except BaseException:
            folder.release()
            raise
        return folder

    @property
    def current(self) -> Path | None:
        """The current data folder; None in a new index, which only a writer has."""
        return None if self._current is None else self.path / self._current

    @property
    def here(self) -> bool:
        """Whether this process opened it; False in a child that was forked since."""
        return self._lock.here

    @property
    def is_replaced(self) -> bool:
        """Whether this process writes to the folder, and it was removed, moved or replaced since."""
        return self.writable and self._lock.is_replaced

    def refuse_replaced(self) -> None:
        """Raise RefusedError where it was."""
        if self.writable:
            self._lock.refuse_replaced()

    def make_data(self) -> Path:
        """Make an empty data folder; the next opening removes it unless ``make_current`` was called."""
        with writing(self.path):
            return make_data(self.path)

    def make_current(self, data: Path) -> None:
        """Make a data folder current, atomically and durably; then remove the other ones.

        The data in it must be durable: steps 1 and 2 of the module are done.
        """
        text = json.dumps({"format": INDEX_FORMAT_VERSION, "kind": self._kind, "data": data.name})
        with writing(self.path):
            sync_folder(data)
            # 3
            replace_text(self.path / CURRENT, text)
        self._current = data.name
        # 4
        (self.path / CORRUPT).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            mark_committed(data)
            # 5
            self._remove_leftovers()

    def mark_corrupt(self, reason: str) -> None:
        """Write the file ``corrupt``; the next opening raises its reason. A reader writes none."""
        if self.writable and self.here and not self.is_replaced:
            mark_corrupt(self.path, reason)

    def release(self) -> None:
        """Let another process open the folder."""
        self._lock.release()

    def _take(self, *, emptied: bool) -> None:
        if emptied:
            self._replaced = data_of(self.path)
            # What cannot be marked or removed takes space and does no other harm.
            with contextlib.suppress(OSError):
                self._prepare_replacing()
            return
        self._refuse_corrupt()
        self._current = self._read_current()
        self._refuse_data_without_current()
        if self._current is not None and is_rocksdb(self.path / self._current):
            # A crash between steps 3 and 4, or an index made before there were marks.
            mark_committed(self.path / self._current)
        # As in step 5: what cannot be removed takes space and does no other harm.
        with contextlib.suppress(OSError):
            self._remove_leftovers()

    def _prepare_replacing(self) -> None:
        """Mark the data that ``current`` names, so that a crash after step 3 leaves them removable; remove staged ones.

        Without a readable ``current`` nothing is known of any data folder.
        """
        for data in data_folders(self.path) if self._replaced is not None else ():
            if data.name == self._replaced and is_rocksdb(data):
                mark_committed(data)
            elif data.name != self._replaced and is_staged(data):
                remove_data(data)

    def _refuse_corrupt(self) -> None:
        try:
            reason = read_text(self.path / CORRUPT)
        except CorruptError as error:
            reason = str(error)
        if reason is not None:
            msg = f"index {self.path} is damaged ({_shown(reason)}): {REBUILD}"
            raise CorruptError(msg)

    def _read_current(self) -> str | None:
        try:
            pointer = _read_pointer(self.path)
        except _UNREADABLE as error:
            msg = f"index {self.path}: its file `current` cannot be read ({error}): {REBUILD}"
            raise CorruptError(msg) from error
        if pointer is None:
            return None
        _refuse_format(self.path, pointer, self._kind)
        if not is_data_name(pointer.data) or not is_folder(self.path / pointer.data):
            data = reprlib.repr(pointer.data)
            msg = f"index {self.path}: its data folder {data} is missing, or is none of its own: {_MISSING}"
            raise CorruptError(msg)
        return pointer.data

    def _refuse_data_without_current(self) -> None:
        for data in data_folders(self.path):
            if self._current is None and holds_data(data):
                msg = (
                    f"index {self.path}: {data.name} is there and the file `current` that names it is not: put it "
                    f"back from a copy. If there is none: {REBUILD}"
                )
                raise CorruptError(msg)

    def _remove_leftovers(self) -> None:
        """Remove the data folders that this program made and that are not current."""
        for data in data_folders(self.path):
            replaced = data.name == self._replaced and is_rocksdb(data)
            if data.name != self._current and (replaced or is_marked(data)):
                remove_data(data)


def mark_corrupt(path: Path, reason: str = "damage was found") -> None:
    """Write the file ``corrupt`` into an index folder; the next opening raises its reason.

    Where it cannot be written nothing is lost: the next opening finds the damage itself.
    """
    with contextlib.suppress(OSError):
        replace_text(path / CORRUPT, reason + "\n")


def refuse_format(path: Path, kind: str) -> None:
    """Raise the error of an index of another kind or of another format version; none where ``current`` cannot be read.

    Raises:
        UserError, CorruptError: as ``Folder.read``.
    """
    pointer = None
    with contextlib.suppress(*_UNREADABLE):
        pointer = _read_pointer(path)
    if pointer is not None:
        _refuse_format(path, pointer, kind)


def _refuse_format(path: Path, pointer: _Pointer, kind: str) -> None:
    if pointer.version != INDEX_FORMAT_VERSION:
        version = reprlib.repr(pointer.version)
        msg = f"index {path} has format version {version}, this program knows {INDEX_FORMAT_VERSION}: {_OTHER_FORMAT}"
        raise CorruptError(msg)
    if pointer.kind != kind:
        msg = f"index {path} is of kind {reprlib.repr(pointer.kind)}, not {kind!r}: name another folder"
        raise UserError(msg)


def _refuse_others_folder(path: Path) -> None:
    """Refuse a folder that holds other files and no index, so that no file of another program is ever removed."""
    if _holds_index(path):
        return
    leftovers = {data.name for data in data_folders(path) if is_marked(data) or is_empty(data)}
    leftovers |= {each.name for each in path.iterdir() if is_kept(each)}
    # The file system makes this folder, so an index folder that is a volume is never empty.
    leftovers |= {_LOST_AND_FOUND} if is_folder(path / _LOST_AND_FOUND) else set()
    expected = leftovers | (_OWN_FILES - {owner.FILE} if owner.is_others_file(path) else _OWN_FILES)
    others = sorted({each.name for each in path.iterdir()} - expected)
    if others:
        shown = ", ".join(map(repr, others[:_SHOWN])) + (", ..." if len(others) > _SHOWN else "")
        msg = (
            f"index folder {path} holds other files ({shown}) and no index: name a folder that is missing or empty "
            "with --index"
        )
        raise UserError(msg)


def _holds_index(path: Path) -> bool:
    """Whether a folder holds an index, whole or damaged."""
    try:
        return data_of(path) is not None or any(holds_data(data) for data in data_folders(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        msg = f"index folder {path} cannot be read: {error.strerror}; name another with --index"
        raise UserError(msg) from error


def data_of(path: Path) -> str | None:
    """Return the name of the data folder in ``current``, whether it exists or not; None where that cannot be read."""
    try:
        pointer = _read_pointer(path)
    except _UNREADABLE:
        return None
    return pointer.data if pointer is not None else None


def _read_pointer(path: Path) -> _Pointer | None:
    text = read_text(path / CURRENT)
    if text is None:
        return None
    content = json.loads(text)
    return _Pointer(content["format"], content["kind"], str(content["data"]))


def _shown(reason: str) -> str:
    """Return the content of ``corrupt`` as one printable line: any program may have written it."""
    line = " ".join(reason[:_REASON_CHARACTERS].split())
    return "".join(character if character.isprintable() else "?" for character in line)
