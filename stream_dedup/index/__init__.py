"""The four block tables over RocksDB, and what a worker keeps of its log.

A cache of the log: everything in it can be built again. Only ``store`` knows RocksDB.
"""

from stream_dedup.index.folder import keep_aside, mark_corrupt, only_copy_in
from stream_dedup.index.log_index import (
    FORGOTTEN,
    UNLOGGED,
    IndexStats,
    LogIndex,
    Saved,
    save,
)
from stream_dedup.index.store import IndexSettings

__all__ = [
    "FORGOTTEN",
    "UNLOGGED",
    "IndexSettings",
    "IndexStats",
    "LogIndex",
    "Saved",
    "keep_aside",
    "mark_corrupt",
    "only_copy_in",
    "save",
]
