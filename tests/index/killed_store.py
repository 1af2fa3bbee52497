"""Run as a process that is killed: writes one number under keys of several column families, always the same in all."""

import sys
from pathlib import Path

from stream_dedup.errors import CorruptError
from stream_dedup.index import IndexSettings
from stream_dedup.index.layout import STATE, directory_key, list_chunk_key
from stream_dedup.index.store import Store

SETTINGS = IndexSettings(most_buffer_bytes=2 << 20)
KEYS = (STATE, list_chunk_key(3, 1), list_chunk_key(4, 1), list_chunk_key(5, 1), directory_key(3))
SIZES = (10, 8_000, 8_000, 8_000, 50)
"""Bytes of each value behind the number."""


def refuse(reason: str) -> None:
    raise CorruptError(reason)


def opened(path: Path, *, create: bool = False) -> Store:
    return Store(path, SETTINGS, create=create, on_corrupt=refuse)


def main(path: str) -> int:
    """Called in a forked process; says each number that it has written. Compactions run beside the writes."""
    store = opened(Path(path), create=True)
    number = 0
    while True:
        number += 1
        batch = store.batch()
        for key, size in zip(KEYS, SIZES, strict=True):
            batch.put(key, number.to_bytes(4, "big") + bytes(size))
        store.write(batch)
        if number % 20 == 0:
            store.compact()
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
