"""Keeps the index of a folder aside, where it may be the last copy of the history of its log.

    INDEX/
      kept-N/      an index folder of its own, which every command that reads an index can read
        current      a copy of INDEX/current
        data-M/      the data folder, moved
      worker-id    stays

The folder stays where it is, because it may be a volume. The order makes a crash between any two steps harmless:

    1  ``kept-N`` is made, with copies of ``current`` and ``corrupt``
    2  the data folders are moved into it
    3  ``corrupt`` and ``current`` are removed

Before step 2 the index is as it was, and the next call uses the same ``kept-N``. Between steps 2 and 3 ``current``
names a data folder that is not there, which is damage: nothing is left to be lost.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from stream_dedup.errors import CorruptError, UnavailableError, reason_of
from stream_dedup.index.data_folders import data_folders, holds_data, kept_number
from stream_dedup.index.folder import CORRUPT, CURRENT
from stream_dedup.index.owner import Owner
from stream_dedup.index.small_files import read_text, replace_text, sync_folder


def keep_aside(path: Path) -> Path | None:
    """Move the index of a folder, damaged or not, into a folder inside of it; return that, None without an index.

    Raises:
        UserError: another process has the index open, or the folder cannot be written.
        UnavailableError: the disk is full or failing.
    """
    if not path.is_dir():
        return None
    owner = Owner.write(path)
    try:
        return _moved(path)
    except OSError as error:
        msg = f"index {path} cannot be kept aside: {reason_of(error)}; make room, or move it away by hand"
        raise UnavailableError(msg) from error
    finally:
        owner.release()


def _moved(path: Path) -> Path | None:
    data = [each for each in data_folders(path) if holds_data(each)]
    if not data:
        return None
    # 1
    kept = kept_folder(path)
    for name in (CURRENT, CORRUPT):
        copy_text(path / name, kept / name)
    # 2
    for each in data:
        each.rename(kept / each.name)
    sync_folder(kept)
    sync_folder(path)
    # 3
    for name in (CORRUPT, CURRENT):
        (path / name).unlink(missing_ok=True)
    sync_folder(path)
    return kept


def kept_folder(path: Path) -> Path:
    """Return a folder without data: the last one, if a crash came before its step 2, or a new one."""
    last = max((number for each in path.iterdir() if (number := kept_number(each))), default=0)
    kept = path / f"kept-{last}"
    if not last or data_folders(kept):
        names = (path / f"kept-{number}" for number in itertools.count(last + 1))
        kept = next(name for name in names if not os.path.lexists(name))  # a file may have the first of them
        kept.mkdir()
        sync_folder(path)
    return kept


def copy_text(file: Path, copy: Path) -> None:
    """Copy a small file, if it can be read."""
    try:
        text = read_text(file)
    except CorruptError:
        return  # it says nothing that could be read there either
    if text is not None:
        replace_text(copy, text)
