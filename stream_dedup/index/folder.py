"""The index folder: its data folders, which of them is current, and how one is kept aside. The lock is on the folder.

    INDEX/
      current    JSON: format version, name of the current data folder
      data-N/    a mark, RocksDB's files
        staged     this program made the folder; ``current`` has never named it
        committed  this program made the folder; ``current`` names it, or named it
        only-copy  `filter` or the Python API keeps its articles here: they are in no log of Kafka
      corrupt    present after damage was found: why
      worker-id  a worker's transactional id
      kept-N/    an index that was kept aside: a folder like this one, which can be read

Rules:

* A new index is made in a folder that is missing, empty, or holds only what a killed process left of a new index
  (and indexes that were kept aside, and ``lost+found``, where the folder is a volume).
* A data folder lies directly in the index folder and has exactly such a name. It has one of the two marks, which are
  empty files, from before its first other file is made until after its last other file is removed.
* A writer removes only data folders that are not current and have a mark. What has another name or no mark, and a
  symbolic link, is never removed.
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

An index is kept aside (``keep_aside``) inside of its folder, because that may be a volume:

    1  ``kept-N`` is made, with copies of ``current`` and ``corrupt``
    2  the data folders are moved into it
    3  ``corrupt`` and ``current`` are removed

Before step 2 the index is as it was, and the next call uses the same ``kept-N``. Between steps 2 and 3 ``current``
names a data folder that is not there, which is damage: nothing is left to be lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import reprlib
import shutil
from pathlib import Path

from stream_dedup.errors import CorruptError, UnavailableError, UserError, reason_of
from stream_dedup.folders import (
    Owner,
    is_file,
    is_folder,
    read_text,
    replace_text,
    sync_folder,
    writing,
)
from stream_dedup.index.layout import INDEX_FORMAT_VERSION, REBUILD

ID_FILE = "worker-id"
"""File of a worker's transactional id in its index folder; it stays when the index is emptied."""

_CURRENT, _CORRUPT = "current", "corrupt"
_OWN_FILES = {_CORRUPT, ID_FILE} | {f"{name}.new" for name in (_CURRENT, _CORRUPT, ID_FILE)}
_LOST_AND_FOUND = "lost+found"
_STAGED, _COMMITTED = "staged", "committed"
_ONLY_COPY = "only-copy"
_DATA = re.compile(r"data-([1-9][0-9]{0,8})")
_KEPT = re.compile(r"kept-([1-9][0-9]{0,8})")

_SHOWN = 3
"""Most names of other files in the error message of a refused folder."""
_REASON_CHARACTERS = 500
"""Characters of a mark of damage that are shown."""

_UNREADABLE = (ValueError, TypeError, KeyError, RecursionError, CorruptError)
"""Errors raised where the content of ``current`` is not what this program wrote."""

_OTHER_FORMAT = (
    "name a folder that is missing or empty (--index, of the service --data-dir): a worker and the service read their "
    "log into it, `filter` and `Index` begin anew"
)
_MISSING = (
    "put it back from a backup; without one, a worker's index is read from its log again by "
    "`stream-dedup index rebuild`, and of one that `filter` or `Index` keeps nothing is left: name another folder"
)


class Folder:
    """An open index folder. Use ``write`` or ``read``; after that release its lock."""

    def __init__(self, path: Path, lock: Owner) -> None:
        self.path = path
        self.lock = lock
        self.current: Path | None = None
        """The current data folder; None in a new index, which only a writer has."""

    @classmethod
    def write(cls, path: Path, *, emptied: bool = False) -> Folder:
        """Open an index folder for writing, alone; make the folder where it is missing.

        With ``emptied`` the current data, damaged or not, are removed as soon as other data become current.

        Raises:
            UserError: another process has it open, or the folder holds something else or an index of another format.
            CorruptError: it is damaged.
            UnavailableError: the disk is full.
        """
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        _refuse_others_folder(path)
        refuse_format(path)
        folder = cls(path, Owner.write(path))
        try:
            with writing(path):
                folder._take(emptied=emptied)
        except BaseException:
            folder.lock.release()
            raise
        return folder

    @classmethod
    def read(cls, path: Path) -> Folder:
        """Open an index folder for reading, together with other readers; nothing in it is made or changed.

        Raises:
            UserError: there is no index, it is of another format, or a writer has it open.
            CorruptError: it is damaged.
        """
        if not _holds_index(path):
            raise UserError(f"index {path}: there is none; name its folder with --index")
        refuse_format(path)
        folder = cls(path, Owner.read(path))
        try:
            folder._read_current()
        except BaseException:
            folder.lock.release()
            raise
        return folder

    def make_data(self) -> Path:
        """Make an empty data folder; the next opening removes it unless ``make_current`` was called."""
        with writing(self.path):
            taken = {each.name for each in self.path.iterdir()}
            last = max((int(match[1]) for name in taken if (match := _DATA.fullmatch(name))), default=0)
            # A stranger may have the greatest number.
            names = (f"data-{number}" for number in itertools.chain([last + 1], itertools.count(1)))
            data = self.path / next(name for name in names if name not in taken and _DATA.fullmatch(name))
            data.mkdir()
            (data / _STAGED).touch(exist_ok=False)
            sync_folder(data)
        return data

    def make_current(self, data: Path) -> None:
        """Make a data folder current, atomically and durably; then remove the other ones.

        The data in it must be durable: steps 1 and 2 of the module are done.
        """
        with writing(self.path):
            sync_folder(data)
            # 3
            replace_text(self.path / _CURRENT, json.dumps({"format": INDEX_FORMAT_VERSION, "data": data.name}))
        self.current = data
        # 4
        (self.path / _CORRUPT).unlink(missing_ok=True)
        self._finish()

    def mark_corrupt(self, reason: str) -> None:
        """Write the file ``corrupt``; the next opening raises its reason. A reader writes none."""
        if self.lock.writes and self.lock.here and not self.lock.is_replaced:
            mark_corrupt(self.path, reason)

    def _take(self, *, emptied: bool) -> None:
        if not emptied:
            self._read_current()
            self._finish()
        elif (named := _data_named(self.path)) is not None:
            # What killed calls left makes room. Without a readable ``current`` it may be what that named.
            with contextlib.suppress(OSError):
                for data in data_folders(self.path):
                    if data.name != named and is_file(data / _STAGED):
                        remove_data(data)

    def _finish(self) -> None:
        """Do step 5, and of step 4 the mark. What cannot be removed takes space and does no other harm."""
        with contextlib.suppress(OSError):
            if self.current is not None and is_file(self.current / _STAGED):
                (self.current / _STAGED).replace(self.current / _COMMITTED)
                sync_folder(self.current)
            for data in data_folders(self.path):
                if data != self.current and _is_marked(data):
                    remove_data(data)

    def _read_current(self) -> None:
        """Set the current data folder; raise CorruptError where the folder is damaged."""
        try:
            reason = read_text(self.path / _CORRUPT)
        except CorruptError as error:
            reason = str(error)
        if reason is not None:
            raise CorruptError(f"index {self.path} is damaged ({_shown(reason)}): {REBUILD}")
        try:
            pointer = _read_pointer(self.path)
        except _UNREADABLE as error:
            raise CorruptError(f"index {self.path}: its file `current` cannot be read ({error}): {REBUILD}") from error
        if pointer is None:
            for data in filter(holds_data, data_folders(self.path)):
                raise CorruptError(
                    f"index {self.path}: {data.name} is there and the file `current` that names it is not: put it "
                    f"back from a copy. If there is none: {REBUILD}"
                )
            return
        _, name = pointer
        if not _DATA.fullmatch(name) or not is_folder(self.path / name):
            raise CorruptError(
                f"index {self.path}: its data folder {reprlib.repr(name)} is missing, or is none of its own: {_MISSING}"
            )
        self.current = self.path / name


def data_folders(index: Path) -> list[Path]:
    """Return the folders in an index folder that have the name of a data folder, whoever made them."""
    return sorted(each for each in index.iterdir() if _DATA.fullmatch(each.name) and is_folder(each))


def holds_data(data: Path) -> bool:
    """Whether a data folder was committed, so that its data must not be lost."""
    return is_file(data / _COMMITTED)


def mark_only_copy(data: Path) -> None:
    """Note, durably, that the articles of a data folder are nowhere else."""
    (data / _ONLY_COPY).touch()
    sync_folder(data)


def is_only_copy(data: Path) -> bool:
    """Whether a data folder has that mark."""
    return is_file(data / _ONLY_COPY)


def only_copy_in(path: Path) -> bool:
    """Return whether an index folder has data, damaged or not, that are the only copy of their articles."""
    return path.is_dir() and any(is_only_copy(data) for data in data_folders(path) if _is_marked(data))


def data_to_save(path: Path) -> Path:
    """Return the committed data folder: the one that ``current`` names, or the only one.

    Raises:
        UserError: there are several, or none.
    """
    held = [each for each in data_folders(path) if holds_data(each)]
    held = [each for each in held if each.name == _data_named(path)] or held
    if len(held) != 1:
        raise UserError(f"index {path} has {len(held)} data folders, of which one can be saved: move the others away")
    return held[0]


def remove_data(data: Path) -> None:
    """Remove a data folder. Links in it are removed, not followed."""
    # 1. Everything but the mark: until then the mark shows that this program made the folder.
    for each in data.iterdir():
        if each.name not in {_STAGED, _COMMITTED}:
            shutil.rmtree(each) if is_folder(each) else each.unlink()
    # 2. The mark.
    for mark in (_STAGED, _COMMITTED):
        (data / mark).unlink(missing_ok=True)
    # 3. The empty folder.
    data.rmdir()


def mark_corrupt(path: Path, reason: str = "damage was found") -> None:
    """Write the file ``corrupt`` into an index folder; the next opening raises its reason.

    Where it cannot be written nothing is lost: the next opening finds the damage itself.
    """
    with contextlib.suppress(OSError):
        replace_text(path / _CORRUPT, reason + "\n")


def refuse_format(path: Path) -> None:
    """Raise UserError where a folder holds an index of another format; nothing where ``current`` cannot be read.

    Nothing of such an index is read, changed or removed, not even where it would be emptied.
    """
    pointer = None
    with contextlib.suppress(*_UNREADABLE, OSError):
        pointer = _read_pointer(path)
    if pointer is not None and pointer[0] != INDEX_FORMAT_VERSION:
        raise UserError(
            f"index {path} has format {reprlib.repr(pointer[0])}, and this program reads format "
            f"{INDEX_FORMAT_VERSION}: {_OTHER_FORMAT}"
        )


def keep_aside(path: Path) -> Path | None:
    """Move the index of a folder, damaged or not, into a folder inside of it; return that, None without an index.

    Raises:
        UserError: another process has the index open, or the folder cannot be written.
        UnavailableError: the disk is full or failing.
    """
    if not path.is_dir():
        return None
    lock = Owner.write(path)
    try:
        return _moved(path)
    except OSError as error:
        raise UnavailableError(
            f"index {path} cannot be kept aside: {reason_of(error)}; make room, or move it away by hand"
        ) from error
    finally:
        lock.release()


def _moved(path: Path) -> Path | None:
    data = [each for each in data_folders(path) if holds_data(each)]
    if not data:
        return None
    # 1
    kept = kept_folder(path)
    # 2
    for each in data:
        each.rename(kept / each.name)
    sync_folder(kept)
    sync_folder(path)
    # 3
    for name in (_CORRUPT, _CURRENT):
        (path / name).unlink(missing_ok=True)
    sync_folder(path)
    return kept


def kept_folder(path: Path) -> Path:
    """Return a folder for data that are kept aside, with copies of ``current`` and ``corrupt``.

    It is the last one, if a crash came before data were there, or a new one.
    """
    last = max((number for each in path.iterdir() if (number := _kept_number(each))), default=0)
    kept = path / f"kept-{last}"
    if not last or data_folders(kept):
        names = (path / f"kept-{number}" for number in itertools.count(last + 1))
        kept = next(name for name in names if not os.path.lexists(name))  # a file may have the first of them
        kept.mkdir()
        sync_folder(path)
    for name in (_CURRENT, _CORRUPT):
        # What cannot be read says nothing there either.
        with contextlib.suppress(CorruptError):
            text = read_text(path / name)
            if text is not None:
                replace_text(kept / name, text)
    return kept


def _kept_number(path: Path) -> int | None:
    """Return the number of an index that was kept aside; None for any other name, or for no folder."""
    match = _KEPT.fullmatch(path.name)
    return int(match[1]) if match and is_folder(path) else None


def _is_marked(data: Path) -> bool:
    return is_file(data / _STAGED) or is_file(data / _COMMITTED)


def _refuse_others_folder(path: Path) -> None:
    """Refuse a folder that holds other files and no index, so that no file of another program is ever removed."""
    if _holds_index(path):
        return
    # An empty one: its process was killed before it made the mark, or after it removed it.
    left = {data.name for data in data_folders(path) if _is_marked(data) or not any(data.iterdir())}
    left |= {each.name for each in path.iterdir() if _kept_number(each)}
    # The file system makes this folder, so an index folder that is a volume is never empty.
    left |= {_LOST_AND_FOUND} if is_folder(path / _LOST_AND_FOUND) else set()
    others = sorted({each.name for each in path.iterdir()} - left - _OWN_FILES)
    if others:
        shown = ", ".join(map(repr, others[:_SHOWN])) + (", ..." if len(others) > _SHOWN else "")
        raise UserError(
            f"index folder {path} holds other files ({shown}) and no index: name a folder that is missing or empty "
            "with --index"
        )


def _holds_index(path: Path) -> bool:
    """Whether a folder holds an index, whole or damaged."""
    try:
        return _data_named(path) is not None or any(map(holds_data, data_folders(path)))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(f"index folder {path} cannot be read: {error.strerror}; name another with --index") from error


def _data_named(path: Path) -> str | None:
    """Return the name of the data folder in ``current``, whether it exists or not; None where that cannot be read."""
    try:
        pointer = _read_pointer(path)
    except _UNREADABLE:
        return None
    return pointer and pointer[1]


def _read_pointer(path: Path) -> tuple[object, str] | None:
    """Return the format version and the name of the data folder in ``current``; None where there is none."""
    text = read_text(path / _CURRENT)
    if text is None:
        return None
    content = json.loads(text)
    return content["format"], str(content["data"])


def _shown(reason: str) -> str:
    """Return the content of ``corrupt`` as one printable line: any program may have written it."""
    line = " ".join(reason[:_REASON_CHARACTERS].split())
    return "".join(character if character.isprintable() else "?" for character in line)
