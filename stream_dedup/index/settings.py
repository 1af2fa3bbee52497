"""The settings of an index, and its fixed limits.

None of them changes a verdict: they determine where entries are held and how much is read at once.
"""

from __future__ import annotations

from dataclasses import dataclass

FOLD_ENTRIES = 131_072
"""Entries of a table that are in memory before they are stored as a run: 12 bytes each. They are read from the rows
again when the index opens."""

MEMORY_MIB = 4096
"""MiB of chunks, rows, and RocksDB's own cache and buffers: an index of 28 million articles."""

WRITE_BUFFERS = 3
"""Buffers of writes that may wait to be written to files."""
MOST_BUFFER_MIB, MOST_BLOCK_CACHE_MIB = 64, 128
"""MiB of writes that RocksDB gathers before it writes a file, and of its cache, of a large budget."""
_SHARE = 32
"""The share of the budget that each of these has, of a smaller one."""

FLUSH_ENTRIES = 32_768
"""Entries after which what was applied is made durable: a worker that was killed reads at most this much of
the log again (about a second). While the flush before is still being written, the next one is put off, so that no
batch waits for it (0.15 to 0.23 s): an index that is filled at full speed has some 200,000 entries a buffer."""

FLUSH_RECORD_ENTRIES = 32
"""Entries that a log record counts for at least: a slow stream has few in each, and a record of one entry takes
0.3 ms to apply again, as much as some 100 entries of a large one."""

JOINT_ENTRIES = 4_096
"""Most entries of log batches that share a write: half a MB of log. From some hundred entries on the write is a small
part of the cost."""

ROW_CHUNK = 64
"""Rows of one stored chunk: 4 KiB and their sketches; an unfinished one is written again with each write of rows."""

CHUNK_ENTRIES = 1024
"""Entries of a table in one stored chunk: 12 KiB."""

RECENT_BYTES = 32 << 20
"""Bytes of log records kept decoded, for matches and for entries that are read soon after."""

FETCH_RECORDS = 32
"""Log records read from disk at once: about 2 MB at 500 entries a record."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where entries are held; see the constants of this file for each unit and reason."""

    memory_mib: int = MEMORY_MIB
    fold_entries: int = FOLD_ENTRIES
    flush_entries: int = FLUSH_ENTRIES

    @property
    def write_buffer_bytes(self) -> int:
        """Bytes of one buffer of writes."""
        return min(max(self.memory_mib // _SHARE, 4), MOST_BUFFER_MIB) << 20

    @property
    def block_cache_bytes(self) -> int:
        """Bytes of RocksDB's cache."""
        return min(max(self.memory_mib // _SHARE, 4), MOST_BLOCK_CACHE_MIB) << 20

    @property
    def cache_bytes(self) -> int:
        """Bytes of chunks and rows."""
        return max((self.memory_mib << 20) - WRITE_BUFFERS * self.write_buffer_bytes - self.block_cache_bytes, 0)
