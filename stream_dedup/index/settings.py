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

WRITE_BUFFER_BYTES, _BLOCK_CACHE_BYTES = 64 << 20, 64 << 20
"""Bytes of writes that RocksDB gathers before it writes files, and of its cache, of a large budget. After a kill
what was gathered is read from the log again: some 100,000 entries, two seconds."""
_LEAST_BYTES = 4 << 20
"""Bytes of each of these, of the smallest budget."""
_SHARE = 32
"""The share of the budget that each of these has, of a smaller one."""
_BUFFERS = 2
"""Buffers of writes: one is filled while the other is written to files."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where entries are held; see the constants of this file for each unit and reason."""

    memory_mib: int = MEMORY_MIB
    fold_entries: int = FOLD_ENTRIES
    buffer_bytes: int = WRITE_BUFFER_BYTES

    @property
    def write_buffer_bytes(self) -> int:
        """Bytes of writes that RocksDB gathers."""
        return min(self._share, self.buffer_bytes)

    @property
    def block_cache_bytes(self) -> int:
        """Bytes of RocksDB's cache."""
        return min(self._share, _BLOCK_CACHE_BYTES)

    @property
    def _share(self) -> int:
        return max((self.memory_mib << 20) // _SHARE, _LEAST_BYTES)

    @property
    def cache_bytes(self) -> int:
        """Bytes of chunks and rows."""
        return max((self.memory_mib << 20) - _BUFFERS * self.write_buffer_bytes - self.block_cache_bytes, 0)
