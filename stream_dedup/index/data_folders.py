"""The data folders of an index: their names, the marks in them, and how they are made and removed.

    data-N/
      staged       this program made the folder; ``current`` has never named it
      committed    this program made the folder; ``current`` names it, or named it
      ...          RocksDB's files

A mark is an empty file. A data folder has one of the two marks from before its first other file is made until after its
last other file is removed. Early releases wrote no marks: a folder of RocksDB's files without a mark belongs to this
program only if ``current`` names it.

Only folders directly inside the index folder count, by their exact names. A folder of another name or without a mark,
and a symbolic link, is never removed.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from stream_dedup.index.small_files import is_file, is_folder, sync_folder

STAGED = "staged"
COMMITTED = "committed"

_NAME = re.compile(r"data-([1-9][0-9]{0,8})")
_KEPT = re.compile(r"kept-([1-9][0-9]{0,8})")


def is_data_name(name: str) -> bool:
    """Whether a data folder may have this name."""
    return _NAME.fullmatch(name) is not None


def kept_number(path: Path) -> int | None:
    """Return the number of an index that was kept aside; None for any other name, or for no folder."""
    match = _KEPT.fullmatch(path.name)
    return int(match[1]) if match and is_folder(path) else None


def is_kept(path: Path) -> bool:
    """Whether a folder has the name of an index that was kept aside."""
    return kept_number(path) is not None


def data_folders(index: Path) -> list[Path]:
    """Return the folders in an index folder that have the name of a data folder, whoever made them."""
    return sorted(each for each in index.iterdir() if is_data_name(each.name) and is_folder(each))


def holds_data(data: Path) -> bool:
    """Whether data must not be lost: they were committed, or are RocksDB files without a mark."""
    return is_file(data / COMMITTED) or (is_rocksdb(data) and not is_file(data / STAGED))


def is_rocksdb(data: Path) -> bool:
    """Whether RocksDB made files in this folder."""
    return is_file(data / "CURRENT")


def is_marked(data: Path) -> bool:
    """Whether this program made the folder."""
    return is_file(data / STAGED) or is_file(data / COMMITTED)


def is_staged(data: Path) -> bool:
    """Whether this program made the folder and ``current`` never named it, or a crash came before its mark."""
    return is_file(data / STAGED) and not is_file(data / COMMITTED)


def is_empty(data: Path) -> bool:
    """Whether a folder is empty: its process was killed before it made the mark, or after it removed it."""
    return not any(data.iterdir())


def make_data(index: Path) -> Path:
    """Make a data folder under an unused name, marked as staged."""
    data = index / _new_name({each.name for each in index.iterdir()})
    data.mkdir()
    (data / STAGED).touch(exist_ok=False)
    sync_folder(data)
    return data


def _new_name(taken: Collection[str]) -> str:
    """Return the name after the last one, or the first unused name where that would be too long."""
    last = max((int(match[1]) for name in taken if (match := _NAME.fullmatch(name))), default=0)
    names = (f"data-{number}" for number in itertools.chain([last + 1], itertools.count(1)))
    return next(name for name in names if name not in taken and is_data_name(name))


def mark_committed(data: Path) -> None:
    """Mark a data folder that ``current`` names; nothing where it is marked."""
    if is_file(data / STAGED):
        (data / STAGED).replace(data / COMMITTED)
    elif not is_file(data / COMMITTED):
        (data / COMMITTED).touch(exist_ok=False)
    else:
        return
    sync_folder(data)


def remove_data(data: Path) -> None:
    """Remove a data folder. Links in it are removed, not followed."""
    # 1. Everything but the mark: until then the mark shows that this program made the folder.
    for each in data.iterdir():
        if each.name not in {STAGED, COMMITTED}:
            shutil.rmtree(each) if is_folder(each) else each.unlink()
    # 2. The mark.
    for mark in (STAGED, COMMITTED):
        (data / mark).unlink(missing_ok=True)
    # 3. The empty folder.
    data.rmdir()


def take_copy(copy: Path) -> None:
    """Move the files of a finished copy inside of a data folder up into that folder."""
    for each in copy.iterdir():
        os.rename(each, copy.parent / each.name)  # noqa: PTH104 - within one folder
    copy.rmdir()
