"""RocksDB: the only file that imports rocksdict.

Rules:

* One column family, write-ahead log off: the fingerprint log is the write-ahead log. RocksDB
  writes its memory tables out in order, so what a killed process leaves behind is a prefix of its writes,
  cut between two batches.
* Every error leaves here as one of ``errors``: damaged bytes as CorruptError (and reported to ``on_corrupt``, so that
  the folder is marked), a full or failing disk as UnavailableError.
* Reads release the GIL.

It must never interpret a key or a value.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from rocksdict import (
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

from stream_dedup.errors import CorruptError, StreamDedupError, UnavailableError
from stream_dedup.index.settings import IndexSettings

__all__ = ["Store", "WriteBatch"]

_BLOCK_BYTES = 16 << 10
"""Bytes of one stored block: measured 2.0 us a look-up against 2.4 with 4 KiB."""
_BLOOM_BITS = 10
"""Bits a key that say which files do not hold it: 1 % wrong guesses."""
_LOG_BYTES = 1 << 20
"""RocksDB's own diary, two files of this size at most."""
_BACKGROUND_JOBS = 2
"""Threads that write and merge files."""
_OPEN_FILES = -1
"""Every file stays open: sizes and indexes of all files are checked at opening."""

_DAMAGE = ("Corruption", "checksum mismatch", "Not implemented", "does not exist", "No such file")


class Store:
    """An open RocksDB folder. Not thread-safe, apart from the compaction that it runs itself."""

    def __init__(self, path: Path, settings: IndexSettings, *, create: bool, on_corrupt: Callable[[str], None]) -> None:
        self._path = path
        self._on_corrupt = on_corrupt
        self._compaction: threading.Thread | None = None
        with self._translated("open"):
            options = _options(settings, create=create)
            # Without naming the column family an existing folder is opened with the options that it was closed with.
            self._db = Rdict(str(path), options, column_families={"default": options})
        no_wal = WriteOptions()
        # A property, which rocksdict's stubs draw as a method.
        no_wal.disable_wal = True  # type: ignore[method-assign, assignment]
        self._db.set_write_options(no_wal)

    @property
    def name(self) -> str:
        """The index folder, for messages."""
        return str(self._path.parent)

    def get(self, keys: Sequence[bytes]) -> list[bytes]:
        """Values of many keys at once, ``b""`` where there is none."""
        with self._translated("read"):
            found = self._db.get(list(keys), default=b"")
        return cast("list[bytes]", found)

    def batch(self) -> WriteBatch:
        """Begin an empty batch of writes."""
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch) -> None:
        """All or nothing; durable after ``flush`` or when RocksDB flushes."""
        with self._translated("write"):
            self._db.write(batch)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with start <= key < end in order, as of now."""
        with self._translated("read"):
            cursor = self._db.iter()
            cursor.seek(start)
            while cursor.valid():
                key: bytes = cursor.key()
                if key >= end:
                    return
                yield key, cursor.value()
                cursor.next()
            # An iterator also ends at damaged bytes: only its status tells.
            cursor.status()

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Last pair with start <= key <= end."""
        with self._translated("read"):
            cursor = self._db.iter()
            cursor.seek_for_prev(end)
            if cursor.valid() and cursor.key() >= start:
                return cursor.key(), cursor.value()
            cursor.status()
        return None

    def flush(self, *, wait: bool) -> None:
        """Write what is in memory to files; with ``wait`` it is durable on return."""
        with self._translated("flush"):
            self._db.flush(wait)

    def checkpoint(self, path: Path) -> None:
        """Make a copy by hard links, cheap while both are on one file system."""
        with self._translated("copy"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def compact(self, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Give back the space of what was deleted in these key ranges, in a thread of its own."""
        self.finish_compaction()
        self._compaction = threading.Thread(target=self._compact, args=(ranges,), name="index-compaction", daemon=True)
        self._compaction.start()

    def finish_compaction(self) -> None:
        """Wait until a compaction that was begun has ended."""
        if self._compaction is not None:
            self._compaction.join()
            self._compaction = None

    def number(self, name: str) -> int:
        """RocksDB's property of this name, 0 where it has none."""
        return self._db.property_int_value(name) or 0

    def corrupt(self, reason: str) -> CorruptError:
        """Report damage that was found in a value, and give the error to raise."""
        self._on_corrupt(reason)
        return CorruptError(f"index {self.name}: {reason}; delete the folder or run `stream-dedup index rebuild`")

    def close(self) -> None:
        """Close without flushing more than RocksDB does itself; closed too where this raises."""
        self.finish_compaction()
        db = self._db
        # RocksDB writes out what it holds; where the disk is full only letting go of the object closes it.
        del self._db
        with self._translated("close"):
            db.close()

    def _compact(self, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        # A failure shows itself at the next read or write; verdicts do not depend on space.
        with contextlib.suppress(StreamDedupError), self._translated("compact"):
            for start, end in ranges:
                self._db.compact_range(start, end, options)

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # rocksdict raises plain exceptions that carry RocksDB's status as text.
            if isinstance(error, StreamDedupError) or type(error) is not Exception:
                raise
            raise self._error(doing, str(error)) from error

    def _error(self, doing: str, text: str) -> StreamDedupError:
        if any(sign in text for sign in _DAMAGE):
            return self.corrupt(f"RocksDB could not {doing}: {text}")
        msg = (
            f"index {self.name}: RocksDB could not {doing}: {text}; "
            "see that the disk has space and can be written, then start again"
        )
        return UnavailableError(msg)


def _options(settings: IndexSettings, *, create: bool) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(settings.block_cache_mib << 20))
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
    options.set_write_buffer_size(settings.write_buffer_mib << 20)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(_BACKGROUND_JOBS)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_LOG_BYTES)
    return options
