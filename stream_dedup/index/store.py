"""RocksDB: the only file that imports rocksdict.

Rules:

* One column family, write-ahead log off: the fingerprint log is the write-ahead log. RocksDB
  writes its memory tables out in order, so what a killed process leaves behind is a prefix of its writes,
  cut between two batches.
* Every error leaves here as one of ``errors``: damaged bytes as CorruptError (and reported to ``on_corrupt``, so that
  the folder is marked), a full or failing disk as UnavailableError.
* Reads release the GIL.
* A store opened to read changes nothing in its folder and needs no permission to: RocksDB is given a temporary folder
  of links to the files, for it and its binding write small files wherever they open.
* A forked child has no store: RocksDB's threads and locks are not forked with it. The child's copy of an open store
  refuses every call, and is released without closing, which would write to the parent's files. A child whose parent
  has ever opened a store cannot open one of its own: RocksDB would wait for threads that are not there. For the same
  reason it ends without the exit handlers of C; those of Python run.

It must not interpret a key or a value.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    CompactOptions,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError
from stream_dedup.index.layout import REBUILD
from stream_dedup.index.settings import WRITE_BUFFERS, IndexSettings
from stream_dedup.index.small_files import is_file
from stream_dedup.index.temporary import TemporaryFolder

__all__ = ["Store", "WriteBatch"]

_BLOCK_BYTES = 16 << 10
"""Bytes of one stored block: measured 2.0 us a look-up against 2.4 with 4 KiB."""
_BLOOM_BITS = 10
"""Bits a key that say which files do not hold it: 1 % wrong guesses."""
_LOG_BYTES = 1 << 20
"""Bytes of RocksDB's own log file; it keeps two."""
_BLOB_BYTES = 8 << 10
"""Least bytes of a value that has a file of its own kind: chunks of runs are written once, and no compaction copies
them."""
_MOST_NEW_FILES = 16
"""Files of flushes that are not merged yet: from 20 on RocksDB lets writes wait."""
_BACKGROUND_JOBS = 2
"""Threads that write and merge files."""
_OPEN_FILES = -1
"""Every file stays open: sizes and indexes of all files are checked at opening."""

_NOT_READ = frozenset({"LOCK", "LOG", "rocksdict-config.json"})
"""Files that are written wherever a store is opened, and that no reader needs."""

_DAMAGE = ("Corruption", "checksum mismatch", "Not implemented", "does not exist", "No such file")

_HELD = "lock hold by current process"
"""What RocksDB says of a path where a store was abandoned; ``owner`` has refused every other one."""


_rocksdb_pid: int | None = None
"""The first process, among this one and those it was forked from, that opened a store: RocksDB's threads are there."""


class Store:
    """An open RocksDB folder. Not thread-safe, apart from the compaction that it runs itself."""

    def __init__(
        self,
        path: Path,
        settings: IndexSettings,
        *,
        create: bool,
        on_corrupt: Callable[[str], None],
        read_only: bool = False,
    ) -> None:
        self._path = path
        self._on_corrupt = on_corrupt
        self._compaction: threading.Thread | None = None
        self._pid = os.getpid()
        self._claim_rocksdb()
        self._view = TemporaryFolder() if read_only else None
        try:
            self._db = self._open(_options(settings, create=create))
        except BaseException:
            self._remove_view()
            raise
        no_wal = WriteOptions()
        # A property, which rocksdict's stubs draw as a method.
        no_wal.disable_wal = True  # type: ignore[method-assign, assignment]
        self._db.set_write_options(no_wal)

    def __del__(self) -> None:
        if os.getpid() != self._pid and hasattr(self, "_db"):
            # On release RocksDB would flush, and wait for its threads.
            self.abandon()

    def abandon(self) -> None:
        """Never release RocksDB's object: closing it would write files."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))

    def _claim_rocksdb(self) -> None:
        """Note that RocksDB's threads belong to this process.

        Raises:
            RefusedError: they belong to a process that this one was forked from.
        """
        global _rocksdb_pid  # noqa: PLW0603 - RocksDB's threads are of the process, too
        if _rocksdb_pid not in {None, self._pid}:
            msg = (
                f"index {self.name}: this process was forked from one that had opened an index (process "
                f"{_rocksdb_pid}), and RocksDB cannot be used in both; start a new process instead "
                "(multiprocessing: the start method spawn)"
            )
            raise RefusedError(msg)
        if _rocksdb_pid is None:
            os.register_at_fork(after_in_child=_end_without_rocksdb)
        _rocksdb_pid = self._pid

    @property
    def path(self) -> Path:
        """The data folder."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether nothing in the folder may change."""
        return self._view is not None

    @property
    def name(self) -> str:
        """The index folder, for messages."""
        return str(self._path.parent)

    def get(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the values of many keys, ``b""`` for a missing key."""
        with self._translated("read"):
            found = self._db.get(list(keys), default=b"")
        return cast("list[bytes]", found)

    def batch(self) -> WriteBatch:
        """Begin an empty batch of writes."""
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch atomically; durable after ``flush``, or when RocksDB flushes."""
        with self._translated("write"):
            self._db.write(batch)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs with start <= key < end in order, as of the call."""
        with self._translated("read"):
            cursor = self._db.iter()
            cursor.seek(start)
            while cursor.valid():
                key: bytes = cursor.key()
                if key >= end:
                    return
                yield key, cursor.value()
                cursor.next()
            # An iterator also ends at damaged bytes; its status then raises.
            cursor.status()

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Return the last pair with start <= key <= end, or None."""
        with self._translated("read"):
            cursor = self._db.iter()
            cursor.seek_for_prev(end)
            if cursor.valid() and cursor.key() >= start:
                return cursor.key(), cursor.value()
            cursor.status()
        return None

    def flush(self, *, wait: bool) -> None:
        """Write what is in memory to files; with ``wait`` it is durable on return. Nothing where it is read only."""
        if self._view is not None:
            return
        with self._translated("flush"):
            self._db.flush(wait)

    @property
    def is_flushing(self) -> bool:
        """Whether the next ``flush`` would wait: for the one before it, or for files that are to be merged."""
        with self._translated("read"):
            new_files = int(self._db.property_value("rocksdb.num-files-at-level0") or 0)
        return self.number("rocksdb.num-immutable-mem-table") > 0 or new_files >= _MOST_NEW_FILES

    def checkpoint(self, path: Path) -> None:
        """Make a copy by hard links, cheap while both are on one file system."""
        with self._translated("copy"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def compact(self, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Compact these key ranges, so that deleted entries leave the disk, in a background thread."""
        self.finish_compaction()
        self._compaction = threading.Thread(target=self._compact, args=(ranges,), name="index-compaction", daemon=True)
        self._compaction.start()

    def finish_compaction(self) -> None:
        """Wait until the running compaction has ended."""
        if self._compaction is not None:
            self._compaction.join()
            self._compaction = None

    def number(self, name: str) -> int:
        """Return RocksDB's property of this name, 0 where it has none."""
        with self._translated("read"):
            return self._db.property_int_value(name) or 0

    def corrupt(self, reason: str) -> CorruptError:
        """Report damage found in a value; returns the error to raise."""
        self._on_corrupt(reason)
        return CorruptError(f"index {self.name}: {reason}; {REBUILD}")

    def close(self) -> None:
        """Close without flushing more than RocksDB does itself; the store is closed even if this raises.

        In a forked child it does nothing.
        """
        if os.getpid() != self._pid:
            return
        self.finish_compaction()
        db = self._db
        # RocksDB writes out what it holds; where the disk is full only letting go of the object closes it.
        del self._db
        try:
            with self._translated("close"):
                db.close()
        finally:
            self._remove_view()

    def _open(self, options: Options) -> Rdict:
        path, access = self._path, AccessType.read_write()
        if self._view is not None:
            path, access = self._view.path, AccessType.read_only(error_if_log_file_exist=False)
            for file in self._path.iterdir():
                if is_file(file) and file.name not in _NOT_READ:
                    (path / file.name).symlink_to(file.absolute())
        with self._translated("open"):
            # Without naming the column family an existing folder is opened with the options that it was closed with.
            return Rdict(str(path), options, column_families={"default": options}, access_type=access)

    def _remove_view(self) -> None:
        if self._view is not None:
            self._view.remove()

    def _compact(self, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        # A failure shows itself at the next read or write; verdicts do not depend on space.
        with contextlib.suppress(StreamDedupError), self._translated("compact"):
            for start, end in ranges:
                self._db.compact_range(start, end, options)

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        if os.getpid() != self._pid:
            msg = f"index {self.name} was opened by process {self._pid}: a forked child cannot use it"
            raise RefusedError(msg)
        try:
            yield
        except Exception as error:
            # rocksdict raises plain exceptions that carry RocksDB's status as text.
            if isinstance(error, StreamDedupError) or type(error) is not Exception:
                raise
            text = str(error) if self._view is None else str(error).replace(str(self._view.path), str(self._path))
            raise self._error(doing, text) from error

    def _error(self, doing: str, text: str) -> StreamDedupError:
        if _HELD in text:
            return RefusedError(
                f"index {self.name}: this process had a folder of this name open that was removed, moved or replaced; "
                "end the process, then open this one"
            )
        if any(sign in text for sign in _DAMAGE):
            return self.corrupt(f"RocksDB could not {doing}: {text}")
        msg = (
            f"index {self.name}: RocksDB could not {doing}: {text}; "
            "see that the disk has space and can be written, then start again"
        )
        return UnavailableError(msg)


def _end_without_rocksdb() -> None:
    """Let a forked child end without the exit handlers of C: RocksDB's would join threads that were not forked.

    That crashes where memory of their stacks was given back, as it is in a program of many threads.
    """
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)  # noqa: SLF001 - its name in C; registered last, it runs first, and with the exit code


def _options(settings: IndexSettings, *, create: bool) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(settings.block_cache_bytes))
    blocks.set_block_size(_BLOCK_BYTES)
    blocks.set_bloom_filter(_BLOOM_BITS, False)  # noqa: FBT003 - rocksdict takes no keywords
    blocks.set_data_block_index_type(DataBlockIndexType.binary_search())
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.set_error_if_exists(create)
    options.set_paranoid_checks(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(_BLOB_BYTES)
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(1.0)
    options.set_max_background_jobs(_BACKGROUND_JOBS)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_LOG_BYTES)
    return options
