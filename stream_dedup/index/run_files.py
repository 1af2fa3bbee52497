"""Run files: runs kept on disk as they lie in memory, and mapped when the index opens.

    data-N/runs/
      TABLE-FIRST-AFTER      the run of a table that has the entries of the document numbers FIRST to before AFTER
      TABLE-FIRST-AFTER.new  the same, while it is made
      TABLE-FIRST-AFTER.old  the same, while it is removed

A run file is made of the rows alone, and can be made of them again. So nothing waits until it is on disk, and no other
file says which run files there are: at opening each is checked, and one that does not fit is left aside and removed.
A file fits if

1. its name, its size and its header say the same, and header and arrays have the checksums that the header has;
2. it belongs to these rows: the header has the identity of the data folder, and a checksum of its last row;
3. it has no later document numbers than the rows have. (The end of the rows was lost in a crash, and is written again.)

A run without the entries that were trimmed begins at the first one that was not: where the trim is lost in a crash, the
file does not have the entries that are there again, and they are read from the rows.

    header    HEADER_BYTES: JSON on one line, filled up with spaces; the last field is a checksum of the others
    starts    u32[buckets + 1], to a multiple of 8 bytes
    keys      u64[room]
    numbers   u32[entries]

``room`` is the number of entries that were merged, ``entries`` of those that were not trimmed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import mmap
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber
from stream_dedup.errors import CorruptError
from stream_dedup.index.posting_lists import Blocks, Run, load_run_kernel
from stream_dedup.index.runs import RunArrays
from stream_dedup.index.small_files import is_file, is_folder, open_file, writing

log = logging.getLogger(__name__)

FOLDER = "runs"
HEADER_BYTES = 1024
RUN_FORMAT = 1

_NAME = re.compile(r"(\d{1,2})-(\d{1,10})-(\d{1,10})(\.new|\.old)?")
_ALIGNED = 8
_STAGED = 1 << 16
"""Entries and starts of a draft that are in memory before they are written: 1 MiB."""
_HASHED_BYTES = 1 << 24
"""Bytes that are hashed at once: the map of a file does not have to be in memory whole."""


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What a run file says of itself; see the drawing."""

    identity: str
    table: int
    block_bits: int
    first: int
    after: int
    buckets: int
    room: int
    entries: int
    last_row: str
    starts: str
    keys: str
    numbers: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return run_name(self.table, self.first, self.after)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return _offsets(self.buckets, self.room)[2] + 4 * self.entries

    def encode(self) -> bytes:
        """Bytes of the header."""
        fields = {"format": RUN_FORMAT} | asdict(self)
        fields["checksum"] = _checksum_of(fields)
        return (json.dumps(fields) + "\n").encode().rjust(HEADER_BYTES)

    @classmethod
    def decode(cls, raw: bytes) -> RunHeader:
        """Read a header.

        Raises:
            ValueError: it is damaged, or of another format.
        """
        try:
            fields = json.loads(raw)
        except (ValueError, RecursionError) as error:
            msg = "its header is damaged"
            raise ValueError(msg) from error
        if not isinstance(fields, dict) or fields.get("format") != RUN_FORMAT:
            msg = "its header is of another format"
            raise ValueError(msg)
        checksum = fields.pop("checksum", None)
        if checksum != _checksum_of(fields):
            msg = "its header is damaged"
            raise ValueError(msg)
        del fields["format"]
        return cls(**fields)


@dataclass(frozen=True, slots=True, eq=False)
class KeptRun:
    """A run, and the document numbers whose entries it has; ``path`` is its file, None of a run in memory."""

    run: Run
    first: DocNumber
    after: DocNumber
    path: Path | None = None
    mapped: MappedRun | None = None

    def __len__(self) -> int:
        return len(self.run)


class MappedRun:
    """The map of a run file."""

    def __init__(self, handle: int, header: RunHeader) -> None:
        self._map = mmap.mmap(handle, header.size, prot=mmap.PROT_READ)
        starts, self._keys, self._numbers = _offsets(header.buckets, header.room)
        self.arrays = RunArrays(
            np.frombuffer(self._map, np.uint32, header.buckets + 1, starts),
            np.frombuffer(self._map, np.uint64, header.entries, self._keys),
            np.frombuffer(self._map, np.uint32, header.entries, self._numbers),
        )

    def read_ahead(self, first: int, after: int) -> None:
        """Ask the system to have these entries in memory soon; nothing is waited for."""
        after = min(after, len(self.arrays.keys))
        if first < after:
            for offset, size in ((self._keys, 8), (self._numbers, 4)):
                start, end = (offset + size * first) & -mmap.PAGESIZE, offset + size * after
                self._map.madvise(mmap.MADV_WILLNEED, start, end - start)


class RunDraft:
    """A run file while it is made. It is written, not mapped: the first write to a mapped page took up to 30 ms."""

    def __init__(self, path: Path, buckets: int, room: int) -> None:
        self._path = path
        self._buckets = buckets
        self._room = room
        self.arrays = RunArrays(
            np.empty(min(buckets + 1, _STAGED), np.uint32), np.empty(_STAGED, np.uint64), np.empty(_STAGED, np.uint32)
        )
        offsets = _offsets(buckets, room)
        with writing(path.parent):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o644)
            try:
                # Room on the disk is taken now, so that a merge does not end halfway.
                _take_room(self._handle, offsets[2] + 4 * room)
            except BaseException:
                self.remove()
                raise
        self._starts, self._keys, self._numbers = (_Section(self._handle, offset) for offset in offsets)
        self.entries = 0

    def take(self, cursor: I64) -> None:
        """Write what is staged, if it is half of the room or the end: ``merge_some`` says what the cursor holds."""
        kernel = load_run_kernel()
        written, closed = int(cursor[kernel.WRITTEN]), int(cursor[kernel.CLOSED])
        entries, starts = written - int(cursor[kernel.FIRST_ENTRY]), closed + 1 - int(cursor[kernel.FIRST_START])
        if 2 * max(entries, starts) < _STAGED and closed < self._buckets:
            return
        with writing(self._path.parent):
            self._starts.append(self.arrays.starts[:starts])
            self._keys.append(self.arrays.keys[:entries])
            self._numbers.append(self.arrays.doc_numbers[:entries])
        cursor[kernel.FIRST_ENTRY], cursor[kernel.FIRST_START] = written, closed + 1
        self.entries = written

    def finish(self, identity: bytes, blocks: Blocks, first: DocNumber, after: DocNumber, last_row: str) -> KeptRun:
        """Write the header, give the file its name, and map it."""
        header = RunHeader(
            identity.hex(),
            blocks.table,
            blocks.bits,
            first,
            after,
            self._buckets,
            self._room,
            self.entries,
            last_row,
            self._starts.checksum,
            self._keys.checksum,
            self._numbers.checksum,
        )
        path = self._path.with_name(header.name)
        with writing(path.parent):
            os.pwrite(self._handle, header.encode(), 0)
            if self.entries < self._room:
                os.ftruncate(self._handle, header.size)
            mapped = MappedRun(self._handle, header)
            self._close()
            self._path.replace(path)
        return KeptRun(Run(blocks, *mapped.arrays), first, after, path, mapped)

    def remove(self) -> None:
        """Remove the file; where it cannot be removed, the next opening does."""
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class _Section:
    """One array of a run file, written from its beginning on."""

    def __init__(self, handle: int, offset: int) -> None:
        self._handle = handle
        self._offset = offset
        self._hash = xxhash.xxh3_64()

    def append(self, array: NDArray[Any]) -> None:
        """Write what comes next."""
        raw = array.view(np.uint8).data
        self._hash.update(raw)
        while raw:
            count = os.pwrite(self._handle, raw, self._offset)
            raw, self._offset = raw[count:], self._offset + count

    @property
    def checksum(self) -> str:
        """Of what was written."""
        return self._hash.hexdigest()


def run_name(table: int, first: int, after: int) -> str:
    """Return the name of a run file."""
    return f"{table}-{first}-{after}"


def run_files(folder: Path) -> list[Path]:
    """Return the files of a folder that have the names of run files, drafts and old ones included; no links.

    Raises:
        CorruptError: a link, or something else than a folder, has the folder's name.
    """
    return [each for each in named_as_runs(folder) if is_file(each)]


def named_as_runs(folder: Path) -> list[Path]:
    """Return what is in a folder, if there is one, under the names of run files: links and folders, too."""
    if is_folder(folder):
        return [each for each in folder.iterdir() if _NAME.fullmatch(each.name)]
    if os.path.lexists(folder):
        msg = f"{folder} is a link or no folder: move it away"
        raise CorruptError(msg)
    return []


def link_runs(data: Path, copy: Path) -> None:
    """Give a copy of a data folder its run files, by hard links; what cannot be linked is made again of the rows."""
    for path in run_files(data / FOLDER):
        if not path.suffix:
            with contextlib.suppress(OSError):
                (copy / FOLDER).mkdir(exist_ok=True)
                os.link(path, copy / FOLDER / path.name, follow_symlinks=False)


def read_header(path: Path) -> RunHeader:
    """Read the header of a run file.

    Raises:
        ValueError: it is none, or says something else than the file's name and size.
        OSError: it cannot be read.
    """
    with os.fdopen(open_file(path), "rb") as file:
        raw, size = file.read(HEADER_BYTES), os.fstat(file.fileno()).st_size
    try:
        header = RunHeader.decode(raw)
    except TypeError as error:
        msg = f"its header cannot be read: {error}"
        raise ValueError(msg) from error
    if (header.name, header.size) != (path.name, size):
        msg = f"its header says {header.name} of {header.size} bytes, and the file has {size}"
        raise ValueError(msg)
    return header


def map_run(path: Path, header: RunHeader) -> KeptRun:
    """Map a run file, and read it whole for its checksums.

    Raises:
        ValueError: an array is damaged.
        OSError: it cannot be read.
    """
    handle = open_file(path)
    try:
        mapped = MappedRun(handle, header)
    finally:
        os.close(handle)
    if tuple(_checksum(array) for array in mapped.arrays) != (header.starts, header.keys, header.numbers):
        msg = "its arrays are damaged"
        raise ValueError(msg)
    run = Run(Blocks(header.table, header.block_bits), *mapped.arrays)
    return KeptRun(run, DocNumber(header.first), DocNumber(header.after), path, mapped)


def _take_room(handle: int, size: int) -> None:
    """Take room on the disk for an empty file; where the file system cannot set it aside, zeros are written."""
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:
            raise
        zeros, left = bytes(min(size, _HASHED_BYTES)), size
        while left:
            left -= os.write(handle, zeros[:left])


def _offsets(buckets: int, room: int) -> tuple[int, int, int]:
    """Return where starts, keys and document numbers begin."""
    keys = HEADER_BYTES + 4 * (buckets + 1)
    keys += -keys % _ALIGNED
    return HEADER_BYTES, keys, keys + 8 * room


def _checksum_of(fields: dict[str, object]) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(fields).encode())


def _checksum(array: NDArray[Any]) -> str:
    digest = xxhash.xxh3_64()
    raw = array.view(np.uint8)
    for start in range(0, len(raw), _HASHED_BYTES):
        digest.update(raw[start : start + _HASHED_BYTES].data)
    return digest.hexdigest()
