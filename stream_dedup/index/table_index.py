"""The block tables without a log: signatures with labels, added in order. Behind the public ``Index``.

Positions are counted from 0 by this index, and are document numbers. What is added is durable after ``flush`` or
``close``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.model import SIGNATURE_BYTES, TABLE_COUNTS
from stream_dedup.core.probes import words
from stream_dedup.core.rules import Rules
from stream_dedup.errors import UserError
from stream_dedup.index.folder import Folder
from stream_dedup.index.layout import ROW, offset_key
from stream_dedup.index.query import BEST, Articles, Near, query_of
from stream_dedup.index.row_column import RowColumn
from stream_dedup.index.rows import id_hash
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.state import State
from stream_dedup.index.store import Store
from stream_dedup.index.tables import Tables
from stream_dedup.index.temporary import TemporaryFolder

_KIND = "tables"


class TableIndex:
    """Signatures with labels on a path, or in a temporary folder that goes when it is closed."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        scheme: str = "any",
        tables: int = TABLE_COUNTS[0],
        settings: IndexSettings | None = None,
    ) -> None:
        settings = settings or IndexSettings()
        self._temporary = None
        if path is None:
            self._temporary = TemporaryFolder()
            path = self._temporary.path
        self._state = State(log_id=scheme)
        try:
            self._folder = Folder.write(path, _KIND)
            self._open(scheme, tables, settings)
        except BaseException:
            self._remove_temporary()
            raise

    def __len__(self) -> int:
        """Entries held."""
        return self._state.next_ordinal

    def add(self, signatures: U8, groups: U64, labels: Sequence[str]) -> I64:
        """Add entries in this order; returns their log positions."""
        positions = np.arange(len(self), len(self) + len(labels))
        rows = np.zeros(len(labels), ROW)
        rows["signature"], rows["group"] = words(signatures), groups
        rows["id_hash"] = [id_hash(label) for label in labels]
        rows["position"] = positions
        count = len(self) + len(labels)
        state = replace(self._state, next_ordinal=count, articles=count)
        batch = self._store.batch()
        for position, label in zip(positions.tolist(), labels, strict=True):
            batch.put(offset_key(b"I", position), label.encode("utf-8", "surrogatepass"))
        self._tables.rows.put(batch, rows)
        state.put(batch)
        self._store.write(batch)
        # What could not be written was not added: the next ones take its positions.
        self._state = state
        self._tables.add(rows)
        return positions

    def near(self, rules: Rules, statuses: U8, signatures: U8, groups: U64, margins: U8) -> Near:
        """Every near entry of each article, as many as there are: nearest first, then earliest."""
        now, times = np.full(len(groups), len(self)), np.zeros(len(groups), np.int64)
        query = query_of(Articles(statuses, groups, signatures, margins, now, times), rules, 0)
        near = self._tables.near(query)
        while np.bincount(near.queries, minlength=1).max() == query.best:
            query = replace(query, best=query.best * BEST)
            near = self._tables.near(query)
        return near

    def signatures(self, positions: I64) -> U64:
        """Signatures of entries, as words."""
        found: U64 = self._tables.rows.take(positions)["signature"]
        return found

    def labels(self, positions: I64) -> list[str]:
        """Labels of entries."""
        found = self._store.get([offset_key(b"I", position) for position in positions.tolist()])
        return [raw.decode("utf-8", "surrogatepass") for raw in found]

    @property
    def tables(self) -> Tables:
        """The tables themselves, for figures."""
        return self._tables

    def flush(self) -> None:
        """Make everything added durable."""
        self._store.flush(wait=True)

    def close(self) -> None:
        """Make durable and let go; a temporary folder goes. In a forked child nothing: the index is the parent's."""
        if not self.here:
            return
        try:
            self._close_store()
        finally:
            self._folder.release()
            self._remove_temporary()

    @property
    def here(self) -> bool:
        """Whether this process opened it; False in a child that was forked since."""
        return self._folder.here

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()

    def _open(self, scheme: str, tables: int, settings: IndexSettings) -> None:
        try:
            self._store = self._open_store(scheme, settings)
        except BaseException:
            self._folder.release()
            raise
        try:
            self._tables = Tables(self._store, RowColumn(self._store, 0, self._state.next_ordinal), tables, settings)
            self._tables.load()
        except BaseException:
            self._store.close()
            self._folder.release()
            raise

    def _close_store(self) -> None:
        try:
            self._store.flush(wait=True)
        finally:
            self._store.close()

    def _open_store(self, scheme: str, settings: IndexSettings) -> Store:
        data = self._folder.current
        if data is None:
            return self._new_store(settings)
        store = Store(data, settings, create=False, on_corrupt=self._folder.mark_corrupt)
        try:
            self._state = State.read(store)
            self._refuse_scheme(scheme)
        except BaseException:
            store.close()
            raise
        return store

    def _new_store(self, settings: IndexSettings) -> Store:
        data = self._folder.make_data()
        store = Store(data, settings, create=True, on_corrupt=self._folder.mark_corrupt)
        try:
            batch = store.batch()
            self._state.put(batch)
            store.write(batch)
            store.flush(wait=True)
            self._folder.make_current(data)
        except BaseException:
            store.close()
            raise
        return store

    def _refuse_scheme(self, scheme: str) -> None:
        held = self._state.log_id
        if held != scheme:
            msg = f"index {self._folder.path} holds fingerprints of scheme {held}, not {scheme}: name another folder"
            raise UserError(msg)


def signatures_of(fingerprints: U64) -> U8:
    """Signatures of which only the fingerprint is known: for exact search."""
    signatures = np.zeros((len(fingerprints), SIGNATURE_BYTES), np.uint8)
    signatures[:, :8] = fingerprints.astype(">u8").view(np.uint8).reshape(-1, 8)
    return signatures
