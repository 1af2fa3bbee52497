"""The settings of an index, and its fixed limits.

None of them changes a verdict: they determine where entries are held and how much is read at once.
"""

from __future__ import annotations

from dataclasses import dataclass

FOLD_ENTRIES = 131_072
"""Entries of a table that are one run in memory before they are merged with others: 12 bytes each."""

FANOUT = 8
"""A run is merged into the one before it when it has this share of its entries. An entry is copied some FANOUT times
for each run of a table, and a look-up reads every run: 100 million entries are 4 or 5 runs."""

MERGE_PACE = 2 * (FANOUT + 1)
"""Entries that each merge takes for an entry that is appended. FANOUT + 1 would do for its entries; buckets are the
rest, and a batch may be late by a step."""

STEP_ENTRIES = 256
"""Entries after which merges go on: a step of each takes some microseconds, even if it is given nothing to do."""

FILE_FOLDS = 8
"""Runs of more than so many times ``fold_entries`` are files: a million entries. Smaller ones are made again when the
index opens, which takes half a second."""

IMAGE_MIB = 1_024
"""MiB of rows held in memory as arrays: 64 bytes an article, and its sketch."""

BLOCK_CACHE_MIB = 256
"""MiB of stored data held in memory."""

WRITE_BUFFER_MIB = 64
"""MiB of writes that RocksDB gathers before it writes a file (at most three of these at a time)."""

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

YOUNG_ENTRIES = 4_096
"""Newest entries, sorted anew when they are looked up; merged into the others in memory when there are more (2 ms)."""

RECENT_ENTRIES = 256
"""Newest of these that are sorted apart from the others: so a small batch has few to sort."""

ROW_CHUNK = 64
"""Rows of one stored chunk: 4 KiB; an unfinished one is written again with each write of rows."""

IMAGE_CHUNK_BITS = 16
"""Rows of one array in memory, as a power of two: 4 MiB without sketches."""

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
