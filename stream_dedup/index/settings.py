"""The settings of an index, and its fixed limits.

None of them changes a verdict: they determine where entries are held and how much is read at once.
"""

from __future__ import annotations

from dataclasses import dataclass

FOLD_ENTRIES = 131_072
"""Entries kept in memory before they are merged into the stored lists: twice as many as there
are lists in a table, so that one rewriting of a page carries 128 entries; 14 bytes for each table."""

IMAGE_MIB = 1_024
"""MiB of rows and lists held in memory as arrays: 112 bytes an article with four tables."""

BLOCK_CACHE_MIB = 256
"""MiB of table data held in memory: rows and lists of 2 million articles."""

WRITE_BUFFER_MIB = 64
"""MiB of writes that RocksDB gathers before it writes a file (at most three of these at a time)."""

FLUSH_ENTRIES = 32_768
"""Entries after which what was applied is made durable: a worker that was killed reads at most this much of
the log again (about a second)."""

FLUSH_RECORD_ENTRIES = 32
"""Entries that a log record counts for at least: a slow stream has few in each, and a record of one entry takes
0.3 ms to apply again, as much as some 100 entries of a large one."""

YOUNG_ENTRIES = 4_096
"""Newest entries, sorted anew when they are looked up; merged into the older ones when there are more (8 ms)."""

RANGES = 16
"""Shards of one table. Entries are merged into one shard at a time; the image holds whole shards."""

PAGE_BLOCKS = 64
"""Neighbouring lists of one stored page: of 64 look-ups of 500 articles nearly every page has some."""

CHUNK_ENTRIES = 256
"""Entries of one stored piece of a list: a page is at most 160 KiB."""

ROW_CHUNK = 64
"""Rows of one stored chunk: 4 KiB; an unfinished one is written again with each batch."""

IMAGE_CHUNK_BITS = 14
"""Rows of one array of the image, as a power of two: 1 MiB."""

RECENT_BYTES = 32 << 20
"""Bytes of log records kept decoded, for matches and for entries that are read soon after."""

FETCH_RECORDS = 32
"""Log records read from disk at once: about 2 MB at 500 entries a record."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where entries are held; see the constants of this file for each unit and reason."""

    fold_entries: int = FOLD_ENTRIES
    block_cache_mib: int = BLOCK_CACHE_MIB
    write_buffer_mib: int = WRITE_BUFFER_MIB
    flush_entries: int = FLUSH_ENTRIES
    image_mib: int = IMAGE_MIB
