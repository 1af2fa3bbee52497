"""The block tables: table t maps the value of block t to the posting list of the entries that have it.

The native core owns what the tables hold, what of it is in memory, and when runs are folded and merged (``native/src``,
``postings/tables.rs``, which has the order of what is written); RocksDB is all that is on the disk, and ``RunStore`` is
the way there. RocksDB keeps a prefix of the writes: what is named is whole, and its entries have rows. Chunks that no
named run has are left of a run that was never named; they are removed at opening.

A thread of low priority fills the budget of the cache after opening.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stream_dedup import _native
from stream_dedup.core.arrays import I64
from stream_dedup.core.model import DocNumber
from stream_dedup.core.near import limits_of
from stream_dedup.core.query import BEST, Near, Query
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index.layout import (
    LAST_ROWS,
    MAX_DOC_NUMBERS,
    RUN_FAMILIES,
    RUNS,
    RowArray,
    RowType,
    chunk_key,
    directory_key,
    list_chunk_key,
    number_of,
)
from stream_dedup.index.store import IndexSettings, Store, WriteBatch

FETCH_CHUNKS = 64
"""Chunks that are fetched at once while the cache is warmed: the longest time for which a look-up waits for it."""
WARM_CHUNKS = 4096
"""Chunks that are chosen at once to be warmed."""
WARMING_NICENESS = 10
ENTRY_BYTES = 12
"""Bytes of an entry of a table: its key and its document number."""
CHUNK_ENTRIES = 1024
"""Entries of a table in one stored chunk: 12 KiB."""
ROW_CHUNK_BYTES = 12_800
"""Bytes of the rows of one stored chunk, at most: what a chunk of entries takes in memory, so both fill a frame of the
cache. An unfinished chunk is written again with each write of rows."""


@dataclass(slots=True)
class Counters:
    """Counts since the start."""

    lookups: int = 0
    lists: int = 0
    candidates: int = 0
    fetched: int = 0
    """Chunks that were read, for look-ups, merges and verification."""


class Run(NamedTuple):
    """A run of a table; or what is in no run yet."""

    table: int
    number: int | None
    """None of entries that are in no run yet."""
    entries: int
    before: int
    """Its document numbers are lower."""


class RowColumn:
    """Rows of the document numbers from ``first`` to before ``after``, of all that are not trimmed.

    What a verdict needs of each signed original: 64 bytes and a sketch.

    On disk they are in chunks (see ``layout``), written in the same batch as their log record; those after the last
    whole chunk have a key of their own, and are written again with each write of rows.
    """

    def __init__(self, store: Store, first: DocNumber, after: DocNumber, kind: RowType) -> None:
        self._store = store
        self.kind = kind
        self.of_chunk = max(1, ROW_CHUNK_BYTES // kind.itemsize)
        """Rows of one stored chunk."""
        self.first = first
        self.after = after
        self.tail = self._read_tail()

    @property
    def numbers_left(self) -> int:
        """Number of document numbers that no row has."""
        return MAX_DOC_NUMBERS - self.after

    def write_rows(self, writes: WriteBatch, rows: RowArray) -> None:
        """Add the next rows to a batch of writes; call ``rows_written`` once it is written.

        Raises:
            RefusedError: there are no more document numbers.
        """
        if len(rows) > self.numbers_left:
            raise RefusedError(
                f"the index {self._store.name} has numbered {self.after} articles, and numbers at most "
                f"{MAX_DOC_NUMBERS}. Where match.window has trimmed the log, rebuild it: stream-dedup index rebuild "
                "numbers the articles that are left from 0 on. Without a window, begin a new log with another --group; "
                "for an index of filter or of the Python API, name another folder"
            )
        chunk = self.after // self.of_chunk
        raw = self.tail.tobytes() + rows.tobytes()
        whole = len(raw) - len(raw) % self._chunk_bytes
        for at in range(0, whole, self._chunk_bytes):
            writes.put(chunk_key(chunk), raw[at : at + self._chunk_bytes])
            chunk += 1
        writes.put(LAST_ROWS, raw[whole:])

    def write_drop(self, writes: WriteBatch, first: DocNumber) -> None:
        """Add to a batch of writes that the rows before a document number are gone, as far as they fill chunks."""
        writes.delete_range(chunk_key(0), chunk_key(first // self.of_chunk))

    def rows_written(self, rows: RowArray) -> None:
        """Count rows that were written."""
        unfinished = (self.after + len(rows)) % self.of_chunk
        # NumPy joins arrays of records slowly, however few they are: only where the chunk goes on.
        tail = np.concatenate((self.tail, rows)) if unfinished > len(rows) else rows[len(rows) - unfinished :].copy()
        self.tail = tail
        self.after = DocNumber(self.after + len(rows))

    def read(self, first: DocNumber, end: DocNumber) -> RowArray:
        """Read the rows of the document numbers from ``first`` to before ``end`` from disk."""
        whole = self.after // self.of_chunk
        begin, after = first // self.of_chunk, -(-end // self.of_chunk)
        found = self._store.get([chunk_key(chunk) for chunk in range(begin, min(after, whole))])
        for chunk, raw in enumerate(found, begin):
            if len(raw) != self._chunk_bytes:
                reason = f"rows {chunk * self.of_chunk} and on: {len(raw)} bytes do not hold them"
                raise self._store.corrupt(reason)
        if after > whole:
            found.append(self.tail.tobytes())
        rows = np.frombuffer(b"".join(found), self.kind)
        return rows[first - begin * self.of_chunk : end - begin * self.of_chunk]

    def _read_tail(self) -> RowArray:
        (tail,) = self._store.get([LAST_ROWS])
        if len(tail) != self.after % self.of_chunk * self.kind.itemsize:
            reason = f"its rows do not end at {self.after}, as its state says"
            raise self._store.corrupt(reason)
        return np.frombuffer(tail, self.kind)

    @property
    def _chunk_bytes(self) -> int:
        return self.of_chunk * self.kind.itemsize


class RunStore:
    """Where the native core stores chunks and runs. It calls these methods while it has the tables."""

    def __init__(self, store: Store, counters: Counters) -> None:
        self._store = store
        self._counters = counters

    def read(self, keys: list[bytes]) -> list[bytes]:
        """Return the values of some keys."""
        self._counters.fetched += len(keys)
        return self._store.get(keys)

    def write(self, chunks: list[tuple[bytes, bytes]]) -> None:
        """Store chunks."""
        writes = self._store.batch()
        for key, value in chunks:
            writes.put(key, value)
        self._store.write(writes)

    def name(self, named: tuple[int, bytes] | None, removed: list[int], runs: list[int]) -> None:
        """Name a run, with its directory, and remove others, in one write; ``runs`` are those that are named then."""
        writes = self._store.batch()
        if named is not None:
            writes.put(directory_key(named[0]), named[1])
        self._remove(writes, removed)
        writes.put(RUNS, json.dumps(runs).encode())
        self._store.write(writes)

    def open(self) -> tuple[dict[int, bytes], int]:
        """Return the directory of each run that is named, and a number that no run has; remove what is not named."""
        (raw,) = self._store.get([RUNS])
        with self._store.decoding("the names of its runs"):
            numbers = json.loads(raw) if raw else []
        stored = list(self.stored())
        missing = set(numbers) - set(stored)
        if missing:
            reason = f"the chunks of its runs {sorted(missing)} are missing"
            raise self._store.corrupt(reason)
        left = [number for number in stored if number not in numbers]
        if left and not self._store.read_only:
            writes = self._store.batch()
            self._remove(writes, left)
            self._store.write(writes)
        directories = self._store.get([directory_key(number) for number in numbers])
        return dict(zip(numbers, directories, strict=True)), max(stored, default=-1) + 1

    def stored(self) -> Iterator[int]:
        """Yield the number of every run that has a chunk."""
        end = list_chunk_key((1 << 32) - 1, 0)
        for number in range(RUN_FAMILIES):
            while (found := next(self._store.scan(list_chunk_key(number, 0), end), None)) is not None:
                number = number_of(found[0])  # noqa: PLW2901 - the next one of its family
                yield number
                number += RUN_FAMILIES  # noqa: PLW2901

    @staticmethod
    def _remove(writes: WriteBatch, runs: Sequence[int]) -> None:
        for number in runs:
            writes.delete(directory_key(number))
            writes.delete_range(list_chunk_key(number, 0), list_chunk_key(number + 1, 0))


class Tables:
    """Block tables over rows. Document numbers are added in rising order."""

    def __init__(self, store: Store, rows: RowColumn, count: int, block_bits: int, settings: IndexSettings) -> None:
        self.rows = rows
        self.count = count
        self.counters = Counters()
        self._store = store
        runs = RunStore(store, self.counters)
        named, next_run = runs.open()
        self.native = _native.BlockTables(
            runs,
            tables=count,
            block_bits=block_bits,
            row_words=rows.kind.itemsize // 8,
            chunk_rows=rows.of_chunk,
            first=rows.first,
            after=rows.after,
            tail=rows.tail.tobytes(),
            memory_bytes=settings.cache_bytes,
            fold_entries=settings.fold_entries,
            chunk_entries=CHUNK_ENTRIES,
            next_run=next_run,
            run_families=RUN_FAMILIES,
        )
        with self._naming_damage():
            for number, directory in named.items():
                self.native.open_run(number, directory)
            self.native.append_missing()
        if not store.read_only:
            # A process may have been killed after the trim of all that a run has.
            self.native.drop_before(rows.first)
        self._warming = _Warming(store, self.native) if self.native.cold(1) else None

    @property
    def runs(self) -> list[Run]:
        """Every run, of each table the oldest first; behind them its entries that are in no run yet, if there are."""
        return [Run(*run) for run in self.native.runs]

    def append_entries(self, rows: RowArray) -> None:
        """Append entries whose rows were just written, and go on with merges."""
        self.rows.rows_written(rows)
        with self._naming_damage():
            self.native.append(rows.tobytes())

    def drop_entries_before(self, first: DocNumber) -> None:
        """Drop entries before a document number. In runs they are hidden until these are merged."""
        self.rows.first = first
        self.native.drop_before(first)

    def close(self) -> None:
        """Stop warming. What is in no stored run is read from the rows again."""
        if self._warming is not None:
            self._warming.stop()

    def __del__(self) -> None:
        # Of an index that nobody closes: the thread would keep the store, and the lock of its folder.
        if hasattr(self, "_warming"):
            self.close()

    def near(self, query: Query) -> Near:
        """Return the near entries of every article of a query, whose rules are of the scheme of the tables."""
        with self._naming_damage():
            articles, doc_numbers, distances, compared = self.native.near(
                limits_of(query.rules),
                query.articles,
                query.plan,
                query.plan.shape[1],
                best=query.best,
                withdrawn=query.withdrawn,
                own_ids=query.own_ids,
            )
        self.counters.lookups += len(query)
        self.counters.lists += len(query) * query.plan.shape[1]
        self.counters.candidates += compared
        return Near(
            np.frombuffer(articles, np.int64),
            np.frombuffer(doc_numbers, np.int64),
            np.frombuffer(distances, np.uint16),
            compared,
        )

    def all_near(self, query: Query) -> Near:
        """Return every near entry of each article, however many there are."""
        near = self.near(query)
        while np.bincount(near.queries, minlength=1).max() == query.best:
            query = replace(query, best=query.best * BEST)
            near = self.near(query)
        return near

    def rows_of(self, doc_numbers: I64) -> RowArray:
        """Return the rows of any document numbers that are not trimmed."""
        with self._naming_damage():
            return np.frombuffer(self.native.rows_of(np.ascontiguousarray(doc_numbers)), self.rows.kind)

    def sum(self, table: int) -> tuple[int, int]:
        """Return the number of entries of a table, and their sum modulo 2**64, as ``verify`` makes it of the log.

        Raises:
            CorruptError: a run is not what its directory says.
        """
        with self._naming_damage():
            return self.native.sum(table)

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except _native.DamageError as error:
            reason = f"block tables cannot be read: {error}"
            raise self._store.corrupt(reason) from error


class _Warming:
    """Fills the cache up to its budget, in a thread of low priority."""

    def __init__(self, store: Store, native: _native.BlockTables) -> None:
        self._store, self._native = store, native
        self._is_stopped = threading.Event()
        # Not a daemon: RocksDB must not be read while the interpreter ends. It stops when the main thread has ended.
        self._thread = threading.Thread(target=self._run, name="index-warming")
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until it has; the thread itself does not wait, where it collects an index as garbage."""
        self._is_stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):  # where it is not allowed, it only takes its turns as every thread does
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), WARMING_NICENESS)
        # Whoever looks up what cannot be read says so, or what the native core stopped at.
        with suppress(StreamDedupError, _native.DamageError, _native.PanicError):
            while keys := self._native.cold(WARM_CHUNKS):
                fetched = 0
                for at in range(0, len(keys), FETCH_CHUNKS):
                    if self._is_stopped.is_set() or not threading.main_thread().is_alive():
                        return
                    some = keys[at : at + FETCH_CHUNKS]
                    # A run that was removed meanwhile has none.
                    found = [(key, value) for key, value in zip(some, self._store.get(some), strict=True) if value]
                    self._native.supply([key for key, _ in found], [value for _, value in found])
                    fetched += len(found)
                if not fetched:
                    return
