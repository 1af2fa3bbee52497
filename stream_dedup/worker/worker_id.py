"""The transactional id of a worker: a file in its index folder, so that it stays the same over restarts.

    worker-id 1     the format
    GROUP-UUID      the id
    PLACE           where the file was written: a hash of machine, file system and folder

A copy of an index folder is an index like any other, but two workers with one id would fence each other. So a worker
that finds itself in another place than the id takes a new one. That does no harm where the folder was only moved: what
the worker left open under its former id is ended by the first worker of the group that joins (``abort_hanging``).

The place is a hint. Of a copy that looks like its original (a cloned machine) the broker tells: see
``committer.MOST_FENCINGS``.
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

import xxhash

from stream_dedup.errors import CorruptError
from stream_dedup.folders import read_text, replace_text, writing
from stream_dedup.index.folder import ID_FILE

log = logging.getLogger(__name__)

MACHINE_FILE = Path("/etc/machine-id")
"""Names the machine; missing in most containers."""

_FORMAT = "worker-id 1"
_CONTENT = re.compile(_FORMAT + r"\n(?P<id>\S[^\n]*)\n(?P<place>[0-9a-f]{16})\n")


def worker_id(folder: Path, group: str) -> str:
    """Return the transactional id of the worker in an index folder; make one for a new folder, or for a copy.

    Raises:
        CorruptError: its file cannot be read, or holds no id.
        UserError, UnavailableError: it cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        text = read_text(folder / ID_FILE)
        kept = None if text is None else _parsed(folder / ID_FILE, text)
        if kept is not None and kept["place"] == _place_of(folder):
            return str(kept["id"])
        fresh = f"{group}-{uuid.uuid4()}"
        write_worker_id(folder, fresh)
    if kept is not None:
        log.info("index %s was copied or moved here: this worker takes a new transactional id, %s", folder, fresh)
    return fresh


def write_worker_id(folder: Path, transactional_id: str) -> None:
    """Give the worker in an index folder this transactional id.

    Raises:
        OSError: its file cannot be written.
    """
    replace_text(folder / ID_FILE, f"{_FORMAT}\n{transactional_id}\n{_place_of(folder)}\n")


def _place_of(folder: Path) -> str:
    machine = ""
    with suppress(OSError, UnicodeDecodeError):
        machine = MACHINE_FILE.read_text("ascii").strip()
    # The id of the file system, for the number of its device changes when a volume is attached again.
    file_system, inode = os.statvfs(folder).f_fsid, folder.stat().st_ino
    return xxhash.xxh3_64_hexdigest(f"{machine} {file_system} {inode}".encode())


def _parsed(file: Path, text: str) -> re.Match[str]:
    found = _CONTENT.fullmatch(text)
    if found is None or not found["id"].isprintable():
        msg = (
            f"{file} holds no transactional id: put it back from a copy, or delete it once no worker has had this "
            "index folder for the transaction time-out"
        )
        raise CorruptError(msg)
    return found
