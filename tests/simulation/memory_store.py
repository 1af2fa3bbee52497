"""The store of an index in memory: what RocksDB keeps of the writes of a killed process, at no cost.

Stands in for ``stream_dedup.index.store.Store``. A disk outlives the processes: a killed process leaves on it a prefix
of the batches that were written after its last flush, cut between two of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from stream_dedup.errors import CorruptError
from stream_dedup.index.layout import family_of
from stream_dedup.index.store import IndexSettings, Store

_BUFFERED = 200
"""Batches of writes that a full buffer has: then they are written out."""


class Until(bytes):
    """The end of a range of keys that is deleted."""


Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes it, ``Until`` every key from it to an end."""


@dataclass(slots=True)
class MemoryDisk:
    """The folders of all stores, by path."""

    folders: dict[Path, dict[bytes, bytes]] = field(default_factory=dict)
    stores: list[MemoryStore] = field(default_factory=list)
    """Those that are open."""

    def kill(self, folder: Path, rng: Random) -> None:
        """Let the process die that has opened a store below this folder."""
        for store in [store for store in self.stores if folder in store.path.parents]:
            store.die(rng)

    def remove(self, folder: Path) -> None:
        """Remove every store below this folder."""
        self.folders = {path: data for path, data in self.folders.items() if folder not in path.parents}


class MemoryBatch:
    """Writes that are made together."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.changes.append((key, value))

    def delete(self, key: bytes) -> None:
        self.changes.append((key, None))

    def delete_range(self, start: bytes, end: bytes) -> None:
        self.changes.append((start, Until(end)))


class MemoryStore:
    """An open store."""

    disk: ClassVar[MemoryDisk] = MemoryDisk()

    def __init__(
        self,
        path: Path,
        _settings: IndexSettings,
        *,
        create: bool,
        on_corrupt: Callable[[str], None],
        read_only: bool = False,
    ) -> None:
        self.read_only = read_only
        if create:
            self.disk.folders[path] = {}
        self.path = path
        self._on_corrupt = on_corrupt
        self._data = dict(self.disk.folders[path])
        self._keys = sorted(self._data)
        self._unflushed: list[list[Change]] = []
        self._is_open = True
        self.disk.stores.append(self)

    @property
    def name(self) -> str:
        return str(self.path.parent)

    def get(self, keys: Sequence[bytes]) -> list[bytes]:
        return [self._data.get(key, b"") for key in keys]

    def batch(self) -> MemoryBatch:
        return MemoryBatch()

    def write(self, batch: MemoryBatch) -> None:
        assert not self.read_only
        for change in batch.changes:
            self._change(*change)
        self._unflushed.append(batch.changes)
        if len(self._unflushed) == _BUFFERED:
            self.flush()

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        found = [(key, self._data[key]) for key in keys if family_of(key) == family_of(start)]
        yield from found

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        index = bisect_right(self._keys, end) - 1
        if index < 0 or self._keys[index] < start:
            return None
        return self._keys[index], self._data[self._keys[index]]

    def flush(self) -> None:
        if self._is_open and not self.read_only:
            self.disk.folders[self.path] = dict(self._data)
            self._unflushed.clear()

    def compact(self) -> None:
        """Deleted entries take no space."""

    bytes_on_disk = bytes_unwritten = bytes_cached = 0

    def decoding(self, what: str) -> AbstractContextManager[None]:
        store: Any = self
        return Store.decoding(store, what)

    def corrupt(self, reason: str) -> CorruptError:
        self._on_corrupt(reason)
        return CorruptError(f"index {self.name}: {reason}")

    def close(self) -> None:
        self.flush()
        self._end()

    def die(self, rng: Random) -> None:
        """Keep a prefix of what was not flushed, as a killed process does."""
        self._data = self.disk.folders[self.path]
        self._keys = sorted(self._data)
        for changes in self._kept(rng):
            for change in changes:
                self._change(*change)
        self._end()

    def _kept(self, rng: Random) -> list[list[Change]]:
        """Return the batches of writes that a killed process leaves of those that it has not flushed."""
        return self._unflushed[: rng.randint(0, len(self._unflushed))]

    def _change(self, key: bytes, value: bytes | None) -> None:
        if isinstance(value, Until):
            first, last = bisect_left(self._keys, key), bisect_left(self._keys, value)
            for deleted in self._keys[first:last]:
                del self._data[deleted]
            del self._keys[first:last]
        elif value is None:
            if self._data.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self._data:
                insort(self._keys, key)
            self._data[key] = value

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self.disk.stores.remove(self)
