"""RocksDB: the only file that imports rocksdict.

Rules:

* Write-ahead log off: the fingerprint log is the write-ahead log. RocksDB writes the buffers of all column families
  out in one atomic step, so what a killed process leaves behind is a prefix of its writes, cut between two batches.
* Keys that are written in order have column families of their own (``layout.family_of``): RocksDB never merges their
  files with others, and what is deleted there leaves the disk with whole files.
* Every error leaves here as one of ``errors``: damaged bytes as CorruptError (and reported to ``on_corrupt``, so that
  the folder is marked), a full or failing disk as UnavailableError.
* No write waits for the disk with the GIL held, and none waits for ever: RocksDB would, on a full disk. ``get`` lets go
  of the GIL, too; ``scan``, ``last`` and ``checkpoint`` do not.
* After an error of the disk nothing is written any more, until a new process opens the folder.
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
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    Checkpoint,
    ColumnFamily,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    WriteBufferManager,
    WriteOptions,
)
from rocksdict import WriteBatch as RocksBatch

from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError
from stream_dedup.folders import TemporaryFolder, is_file
from stream_dedup.index.layout import DEFAULT_FAMILY, FAMILIES, ORDERED_FAMILIES, REBUILD, family_of

FOLD_ENTRIES = 131_072
"""Entries of a table that are in memory before they are stored as a run, some 30 bytes each. They are read from rows
again when the index opens."""

MEMORY_MIB = 4096
"""MiB of chunks, rows, and RocksDB's own cache and buffers: an index of 28 million articles."""

WRITE_BUFFER_BYTES = 64 << 20
"""Bytes of writes that RocksDB gathers before it writes files, and of its cache, of a large budget. After a kill
what was gathered is read from the log again: some 100,000 entries, two seconds."""
_LEAST_BYTES = 4 << 20
"""Bytes of each of these, of the smallest budget."""
_SHARE = 32
"""The share of the budget that each of these has, of a smaller one."""
_BUFFERS = 3
"""One buffer is filled while another one is written to files; and the cache."""
_BLOCK_BYTES = 16 << 10
"""Bytes of one stored block: measured 2.0 us a look-up against 2.4 with 4 KiB."""
_BLOOM_BITS = 10
"""Bits a key that say which files do not hold it: 1 % wrong guesses."""
_LOG_BYTES = 1 << 20
"""Bytes of RocksDB's own log file; it keeps two."""
_STATE_BUFFER_BYTES = 4 << 20
"""Bytes of the buffer of small values. A stream of single articles fills it with 1,000 of them: after a crash that many
log records are read again, which takes half a second."""
_FLUSHES = "flushes"
"""The column family of one key that is written to have all buffers written out."""
_FILE_BYTES = 256 << 20
"""Bytes of a file that RocksDB makes of smaller ones: an index of 100 million articles has some hundred."""
_COMPACT_FILES = 16
"""Files of flushes of one column family that are merged when a store is opened: a call may end before it has written
much."""
_COMPACT_BUFFERS = 8
"""Buffers of writes after which files of flushes are merged into larger ones."""
_BACKGROUND_JOBS = 4
"""Threads that write and merge files, and those that open the files of a column family.

RocksDB would start 16 for each of 20 families, which takes longer than opening the files of a small index.
"""
_WAITS_AT = 2
"""Times the bytes of writes that RocksDB gathers: with so many that are not in files yet, the next write waits."""
_MOST_BUFFERS = 64
"""Buffers of one column family that wait to be written to files, before RocksDB makes writes wait: more than there are
small values in all that may wait."""
_NEVER = 1 << 30
"""Files of flushes at which RocksDB makes writes wait."""
_BUFFER_PARTS = 128
"""Parts in which the bytes of the buffers are taken from the system: each column family has one that is not full."""
_POLL_S = 0.001
_WRITE_LIMIT_S = 120
"""Seconds in which RocksDB writes out what it has gathered, on a disk that works."""
_JOIN_LIMIT_S = 10
"""Seconds that closing waits for what RocksDB does in the background, on a disk that fails."""

_NOT_READ = frozenset({"LOCK", "LOG", "rocksdict-config.json"})
"""Files that are written wherever a store is opened, and that no reader needs."""

_DAMAGE = ("Corruption", "checksum mismatch", "Not implemented", "does not exist", "No such file")

_HELD = "lock hold by current process"
"""What RocksDB says of a path where a store was abandoned; ``owner`` has refused every other one."""


_rocksdb_pid: int | None = None
"""The first process, among this one and those it was forked from, that opened a store: RocksDB's threads are there."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The settings of an index: where entries are held, and how much is read at once. None changes a verdict.

    The constants of this file have each unit and reason.
    """

    memory_mib: int = MEMORY_MIB
    fold_entries: int = FOLD_ENTRIES
    most_buffer_bytes: int = WRITE_BUFFER_BYTES

    @property
    def buffer_bytes(self) -> int:
        """Bytes of writes that RocksDB gathers, and of its cache."""
        return min(max((self.memory_mib << 20) // _SHARE, _LEAST_BYTES), self.most_buffer_bytes)

    @property
    def cache_bytes(self) -> int:
        """Bytes of chunks and rows."""
        return max((self.memory_mib << 20) - _BUFFERS * self.buffer_bytes, 0)


class WriteBatch:
    """Writes that take effect together."""

    def __init__(self, families: Mapping[str, ColumnFamily]) -> None:
        self.raw = RocksBatch(raw_mode=True)
        self._families = families
        self.deleted: list[tuple[bytes, bytes]] = []
        """Ranges of keys that are deleted."""

    def put(self, key: bytes, value: bytes) -> None:
        """Add a pair, or another value of a key."""
        self.raw.put(key, value, self._families[family_of(key)])

    def delete(self, key: bytes) -> None:
        """Delete a key."""
        self.raw.delete(key, self._families[family_of(key)])

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete the keys with start <= key < end, which have one column family."""
        self.deleted.append((start, end))
        self.raw.delete_range(start, end, self._families[family_of(start)])


class Store:
    """An open RocksDB folder. Not thread-safe, apart from the compaction that it runs itself.

    Attributes:
        path: the data folder.
        read_only: whether nothing in the folder may change.
    """

    def __init__(
        self,
        path: Path,
        settings: IndexSettings,
        *,
        create: bool,
        on_corrupt: Callable[[str], None],
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self._on_corrupt = on_corrupt
        self._compaction: threading.Thread | None = None
        self._flushing: list[threading.Thread] = []
        self._is_closing = threading.Event()
        self._is_open = False
        self._compact_bytes = _COMPACT_BUFFERS * settings.buffer_bytes
        self._uncompacted = 0
        self._deleted: list[tuple[bytes, bytes]] = []
        self._pid = os.getpid()
        self._claim_rocksdb()
        self._buffers = WriteBufferManager(settings.buffer_bytes, allow_stall=False)
        self._most_unwritten = _WAITS_AT * settings.buffer_bytes
        self._view = TemporaryFolder() if read_only else None
        self._db = self._open(settings, create=create)
        no_wal = WriteOptions()
        # A property, which rocksdict's stubs draw as a method.
        no_wal.disable_wal = True  # type: ignore[method-assign, assignment]
        self._db.set_write_options(no_wal)
        names = (*FAMILIES, _FLUSHES)
        self._families = {name: self._db.get_column_family(name) for name in names}
        self._handles = {name: self._db.get_column_family_handle(name) for name in names}
        self._is_open = True
        if not read_only and max(map(self._new_files, ORDERED_FAMILIES)) >= _COMPACT_FILES:
            self.compact()

    def __del__(self) -> None:
        # On release each Rdict writes out its own column family, and in a forked child waits for threads of the parent.
        if not self._is_open:
            return
        if os.getpid() != self._pid:
            self.abandon()
        elif sys.is_finalizing():  # no thread can be started any more
            with contextlib.suppress(StreamDedupError):
                self._flush_here()
            self.abandon()
        else:
            with contextlib.suppress(StreamDedupError):
                self.close()

    def abandon(self) -> None:
        """Never release RocksDB's objects: closing them would write files."""
        self._is_open = False
        for each in (self._db, self._families, self._handles):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    def _claim_rocksdb(self) -> None:
        """Note that RocksDB's threads belong to this process.

        Raises:
            RefusedError: they belong to a process that this one was forked from.
        """
        global _rocksdb_pid  # noqa: PLW0603 - RocksDB's threads are of the process, too
        if _rocksdb_pid not in {None, self._pid}:
            raise RefusedError(
                f"index {self.name}: this process was forked from one that had opened an index (process "
                f"{_rocksdb_pid}), and RocksDB cannot be used in both; start a new process instead "
                "(multiprocessing: the start method spawn)"
            )
        if _rocksdb_pid is None:
            os.register_at_fork(after_in_child=_end_without_rocksdb)
        _rocksdb_pid = self._pid

    @property
    def name(self) -> str:
        """The index folder, for messages."""
        return str(self.path.parent)

    def get(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the values of many keys, ``b""`` for a missing key."""
        places: dict[str, list[int]] = {}
        for at, key in enumerate(keys):
            places.setdefault(family_of(key), []).append(at)
        values = [b""] * len(keys)
        with self._translated("read"):
            for family, of_family in places.items():
                found = self._families[family].get([keys[at] for at in of_family], default=b"")
                for at, value in zip(of_family, cast("list[bytes]", found), strict=True):
                    values[at] = value
        return values

    def batch(self) -> WriteBatch:
        """Begin an empty batch of writes."""
        return WriteBatch(self._handles)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch atomically; durable after ``flush``, or when RocksDB flushes."""
        self._wait(self._has_room, "write")
        with self._translated("write"):
            size = batch.raw.size_in_bytes()
            self._db.write(batch.raw)
        self._deleted += batch.deleted
        self._uncompacted += size
        if self._uncompacted >= self._compact_bytes:
            self.compact()

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs of one column family, that of ``start``, with start <= key < end in order, as of the call."""
        with self._translated("read"):
            cursor = self._families[family_of(start)].iter()
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
        """Return the last pair of one column family, that of ``start``, with start <= key <= end, or None."""
        with self._translated("read"):
            cursor = self._families[family_of(start)].iter()
            cursor.seek_for_prev(end)
            if cursor.valid() and cursor.key() >= start:
                return cursor.key(), cursor.value()
            cursor.status()
        return None

    def flush(self) -> None:
        """Make everything written durable. Nothing where it is read only."""
        if self.read_only:
            return
        # The thread may have to wait for a compaction behind that.
        flushing = threading.Thread(target=self._flush, name="index-flush")
        self._flushing = [thread for thread in self._flushing if thread.is_alive()] + [flushing]
        flushing.start()
        self._wait(self._is_written, "flush")

    def _flush_here(self) -> None:
        """Make everything written durable in this thread: where none can be started, or after an interruption."""
        self._flush()
        self._wait(self._is_written, "flush")

    def _is_written(self) -> bool:
        """Whether nothing is left in memory."""
        counts = ("rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables")
        return not any(any(self._numbers(count)) for count in counts)

    def _flush(self) -> None:
        """Write out all column families in one step.

        ``Rdict.flush`` writes out one: it must never be called while another one has something to write, because a kill
        could come in between. A compaction first writes out all of them, if its range has a key in memory; here it has
        one key, and nothing else to do.
        """
        if self.read_only:
            return
        with contextlib.suppress(StreamDedupError), self._translated("flush"):
            self._families[_FLUSHES].put(b"", b"")
            self._families[_FLUSHES].compact_range(b"", b"\0")

    def _wait(self, is_done: Callable[[], bool], doing: str) -> None:
        """Wait until something is done.

        Raises:
            UnavailableError: RocksDB cannot write its files, and it will not be.
        """
        give_up = time.monotonic() + _WRITE_LIMIT_S
        with self._translated(doing):
            while True:
                if self._db.property_int_value("rocksdb.background-errors") or time.monotonic() > give_up:
                    raise self._error(doing, self._failure)
                if is_done():
                    return
                time.sleep(_POLL_S)

    @property
    def _failure(self) -> str:
        """Why RocksDB cannot write its files."""
        try:
            is_full = shutil.disk_usage(self.path).free < self._most_unwritten
        except OSError as error:  # the folder was removed
            return str(error)
        if is_full:
            return self._refusal or "No space left on device"
        return self._refusal or f"the last lines of {self.path / 'LOG'} say why"

    @property
    def _refusal(self) -> str:
        """What RocksDB says to a write, after an error of the disk; empty where it would take it."""
        try:
            self._families[_FLUSHES].put(b"", b"")
        except Exception as error:  # noqa: BLE001 - as rocksdict raises them
            return str(error)
        return ""

    def _has_room(self) -> bool:
        """Whether little waits to be written to files, or nothing does: RocksDB begins that with a write."""
        if self._buffers.get_usage() < self._most_unwritten:
            return True
        return not self._db.property_int_value("rocksdb.num-running-flushes")

    def checkpoint(self, path: Path) -> None:
        """Make a copy by hard links, cheap while both are on one file system."""
        self.flush()
        with self._translated("copy"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def compact(self) -> None:
        """Let what is deleted leave the disk, and merge small files; in a thread of its own, unless one is at it."""
        if self._compaction is None or not self._compaction.is_alive():
            # Not a daemon: a thread that comes back from RocksDB while the interpreter ends would end the process.
            self._compaction = threading.Thread(target=self._compact, args=(self._deleted,), name="index-compaction")
            self._uncompacted, self._deleted = 0, []
            self._compaction.start()

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of all files of keys and values."""
        return sum(self._numbers("rocksdb.total-sst-files-size"))

    @property
    def bytes_unwritten(self) -> int:
        """Bytes of the buffers of writes."""
        return sum(self._numbers("rocksdb.cur-size-all-mem-tables"))

    @property
    def bytes_cached(self) -> int:
        """Bytes of RocksDB's cache."""
        return self._numbers("rocksdb.block-cache-usage")[0]  # of all families

    def _numbers(self, name: str) -> list[int]:
        with self._translated("read"):
            return [self._families[family].property_int_value(name) or 0 for family in FAMILIES]

    def _join(self, limit_s: float | None = None) -> bool:
        """Wait until the threads of this store have ended, so many seconds for each; whether they have."""
        threads = [*self._flushing] if self._compaction is None else [self._compaction, *self._flushing]
        # The thread itself may be the last that has the store.
        others = [thread for thread in threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(limit_s)
        return not any(thread.is_alive() for thread in others)

    @contextlib.contextmanager
    def decoding(self, what: str) -> Iterator[None]:
        """Report a value that cannot be decoded as damage; ``what`` says of what it is."""
        try:
            yield
        except (CorruptError, ValueError) as error:
            reason = f"{what} cannot be read: {error}"
            raise self.corrupt(reason) from error

    def corrupt(self, reason: str) -> CorruptError:
        """Report damage found in a value; returns the error to raise."""
        self._on_corrupt(reason)
        return CorruptError(f"index {self.name}: {reason}; {REBUILD}")

    def close(self) -> None:
        """Make everything written durable and close.

        Where that fails, and RocksDB does not refuse every write since, its object stays as it is until the process
        ends: letting go of it could wait for the disk, and write out one column family without the others. In a forked
        child this does nothing.
        """
        if os.getpid() != self._pid or not self._is_open:
            return
        self._is_closing.set()
        try:
            self.flush()
        except StreamDedupError:
            if self._join(_JOIN_LIMIT_S) and self._refusal:
                with contextlib.suppress(StreamDedupError):
                    self._release()
            else:
                self.abandon()
            raise
        except BaseException:  # an interruption
            self._flush_here()
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        self._join()
        self._is_open = False
        self._families.clear()
        self._handles.clear()
        db = self._db
        del self._db
        try:
            with self._translated("close"):
                db.close()
        finally:
            if self._view is not None:
                self._view.remove()

    def _open(self, settings: IndexSettings, *, create: bool) -> Rdict:
        path, access = self.path, AccessType.read_write()
        if self._view is not None:
            path, access = self._view.path, AccessType.read_only(error_if_log_file_exist=False)
            for file in self.path.iterdir():
                if is_file(file) and file.name not in _NOT_READ:
                    (path / file.name).symlink_to(file.absolute())
        with self._translated("open"):
            options = _options(settings, self._buffers, create=create)
            return Rdict(str(path), options[DEFAULT_FAMILY], column_families=options, access_type=access)

    def _compact(self, deleted: list[tuple[bytes, bytes]]) -> None:
        # A failure shows itself at the next read or write; verdicts do not depend on space.
        with contextlib.suppress(StreamDedupError):
            self._flush()
            while deleted:
                # Of what was deleted before it reached the disk a file that says so would stay.
                if self._is_ending:
                    break
                start, end = deleted[-1]
                self._compact_range(family_of(start), start, end, BottommostLevelCompaction.force())
                deleted.pop()
            for name in (DEFAULT_FAMILY, *ORDERED_FAMILIES):
                # Whoever closes soon after opening, each time, waits for it now and then.
                if self._new_files(name) >= (_COMPACT_FILES if self._is_ending else 1):
                    self._compact_range(name, None, None, BottommostLevelCompaction.skip())
        self._deleted += deleted

    def _new_files(self, name: str) -> int:
        """Files of flushes of a column family."""
        with self._translated("read"):
            return int(self._families[name].property_value("rocksdb.num-files-at-level0") or 0)

    @property
    def _is_ending(self) -> bool:
        """Whether the store is being closed, or the program is at its end."""
        return self._is_closing.is_set() or not threading.main_thread().is_alive()

    def _compact_range(
        self, name: str, start: bytes | None, end: bytes | None, again: BottommostLevelCompaction
    ) -> None:
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        options.set_bottommost_level_compaction(again)
        with self._translated("compact"):
            self._families[name].compact_range(start, end, options)

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        if os.getpid() != self._pid:
            raise RefusedError(f"index {self.name} was opened by process {self._pid}: a forked child cannot use it")
        try:
            yield
        except Exception as error:
            # rocksdict raises plain exceptions that carry RocksDB's status as text.
            if isinstance(error, StreamDedupError) or type(error) is not Exception:
                raise
            text = str(error) if self._view is None else str(error).replace(str(self._view.path), str(self.path))
            raise self._error(doing, text) from error

    def _error(self, doing: str, text: str) -> StreamDedupError:
        if _HELD in text:
            return RefusedError(
                f"index {self.name}: this process has a folder of this name open that it could not close, or that was "
                "removed, moved or replaced; end the process, then open this one"
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


def _options(settings: IndexSettings, buffers: WriteBufferManager, *, create: bool) -> dict[str, Options]:
    """Return the options of each column family; the default one's are the store's too."""
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(settings.buffer_bytes))
    blocks.set_block_size(_BLOCK_BYTES)
    blocks.set_bloom_filter(_BLOOM_BITS, False)  # noqa: FBT003 - rocksdict takes no keywords
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    names = (*FAMILIES, _FLUSHES)
    return {name: _family_options(name, blocks, buffers, settings, create=create) for name in names}


def _family_options(
    name: str, blocks: BlockBasedOptions, buffers: WriteBufferManager, settings: IndexSettings, *, create: bool
) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    options.set_error_if_exists(create)
    options.set_atomic_flush(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_manager(buffers)
    options.set_max_write_buffer_number(_MOST_BUFFERS)
    options.set_arena_block_size(settings.buffer_bytes // _BUFFER_PARTS)
    options.set_write_buffer_size(
        min(_STATE_BUFFER_BYTES, settings.buffer_bytes) if name == DEFAULT_FAMILY else settings.buffer_bytes
    )
    options.set_level_zero_slowdown_writes_trigger(_NEVER)
    options.set_level_zero_stop_writes_trigger(_NEVER)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_hard_pending_compaction_bytes_limit(0)
    options.set_max_background_jobs(_BACKGROUND_JOBS)
    options.set_max_file_opening_threads(_BACKGROUND_JOBS)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_LOG_BYTES)
    if name == DEFAULT_FAMILY:
        options.set_compression_type(DBCompressionType.lz4())
        return options
    # Files of flushes, and those that are made of them. They do not overlap.
    options.set_num_levels(2)
    options.set_target_file_size_base(_FILE_BYTES)
    if name in ORDERED_FAMILIES:
        # So RocksDB would move each file as it is, and there would be thousands: ``compact`` merges them. It can,
        # because they are compressed in another way.
        options.set_disable_auto_compactions(True)
        options.set_compression_per_level([DBCompressionType.lz4(), DBCompressionType.zstd()])
    else:
        options.set_level_zero_file_num_compaction_trigger(1)
        options.set_compression_type(DBCompressionType.none())
    return options
